"""The running service: started, signed in to, hurt in every part, and stopped."""

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.house.product import Up, connect, manage, named, processes, up, wait_until

pytestmark = pytest.mark.slow

PARTS = ("gunicorn", "worker --loglevel", "beat --loglevel", "bin/postgres", "valkey-server")


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """A data folder with a blank in its path."""
    outer = Path(tempfile.mkdtemp(prefix="headroom up "))
    outer.chmod(0o711)
    yield outer / "data"
    for pid in processes(str(outer)):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(outer, ignore_errors=True)


@pytest.fixture(scope="module")
def service(data: Path) -> Iterator[Up]:
    with up(data, "--port", "18431") as running:
        yield running


def test_it_listens_on_this_machine_only(service: Up) -> None:
    assert service.address.startswith("http://127.0.0.1:")
    assert service.healthy()


def test_a_stranger_is_asked_to_sign_in(service: Up) -> None:
    page = requests.get(f"{service.address}/welcome/password/", allow_redirects=False, timeout=10)
    assert page.status_code == 302
    assert page.headers["Location"].startswith("/login/")


def test_pages_carry_the_security_headers(service: Up) -> None:
    headers = requests.get(f"{service.address}/login/", timeout=10).headers
    assert headers["X-Frame-Options"] == "DENY"
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_second_start_says_where_the_first_one_runs(service: Up) -> None:
    second = manage(service.data, "up", "--no-sample")
    assert second.returncode == 2
    assert service.address in second.stderr
    assert "Traceback" not in second.stderr


def test_a_command_works_beside_it_and_does_not_stop_the_database(service: Up) -> None:
    assert manage(service.data, "migrate_all").returncode == 0
    assert service.healthy()


def test_the_first_login_link_works_once_and_asks_for_a_password(service: Up) -> None:
    link = service.first_login
    browser, other = requests.Session(), requests.Session()
    for session in (browser, other):
        page = session.get(link, timeout=10)  # looking at it uses nothing up
        assert page.status_code == 200
    done = browser.post(link, data=_token(browser), headers={"Referer": link}, timeout=10)
    assert done.url.endswith("/welcome/password/")
    late = other.post(link, data=_token(other), headers={"Referer": link}, timeout=10)
    assert late.status_code == 410
    assert "sessionid" not in other.cookies
    words = {"new_password1": "a long enough one", "new_password2": "a long enough one"}
    browser.post(done.url, data=_token(browser) | words, headers={"Referer": link}, timeout=10)
    assert requests.get(link, timeout=10).status_code == 410
    login = f"{service.address}/login/"
    other.get(login, timeout=10)
    words = {"username": "owner", "password": "a long enough one"}
    answer = other.post(
        login,
        data=_token(other) | words,
        headers={"Referer": login},
        allow_redirects=False,
        timeout=10,
    )
    assert answer.status_code == 302
    assert "sessionid" in other.cookies


def _token(session: requests.Session) -> dict[str, str]:
    return {"csrfmiddlewaretoken": session.cookies["csrftoken"]}


@pytest.mark.parametrize("part", PARTS)
def test_a_killed_part_comes_back(service: Up, part: str) -> None:
    before = set(named(part, service.data))
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: set(named(part, service.data)) - before)
    wait_until(service.healthy)


def test_the_schedule_is_in_the_database(service: Up) -> None:
    from finops.embedded import database_url

    with connect(database_url(service.data)) as connection:
        tasks = connection.execute("select task from django_celery_beat_periodictask").fetchall()
    assert {
        "finops.ledger.tasks.collect_all",
        "finops.ledger.tasks.look_into_invoice_folder",
        "reports.tasks.close_week",
    } <= {task for (task,) in tasks}


def test_sigterm_stops_everything(data: Path, service: Up) -> None:
    assert service.stop() == 0
    assert processes(str(data)) == {}


def test_a_taken_port_is_passed_over_and_ctrl_c_stops_everything(data: Path, service: Up) -> None:
    service.stop()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 18451))
        other.listen()
        with up(data, "--port", "18451") as running:
            assert running.address == "http://127.0.0.1:18452"
            assert "Port 18451 is taken; using 18452." in "".join(running.output)
            assert running.stop(signal.SIGINT) == 0
    assert processes(str(data)) == {}


def test_kill_9_of_the_supervisor_and_a_new_start(data: Path, service: Up) -> None:
    service.stop()
    with up(data, "--port", "18471") as running:
        running.process.kill()
        running.process.wait()
        wait_until(lambda: not named("gunicorn", data) and not named("celery", data))
        with up(data, "--port", "18471") as again:
            assert again.address == "http://127.0.0.1:18471"
            assert again.healthy()
            assert again.stop() == 0
    assert processes(str(data)) == {}
