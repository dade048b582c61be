"""Preparing a database server of the customer's own."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from finops.embedded.places import find
from finops.embedded.postgres import Postgres
from tests.house.product import connect, manage


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A PostgreSQL that Headroom has not started; to it, an external one."""
    folder = Path(tempfile.mkdtemp(prefix="headroom-external-"))
    folder.chmod(0o711)
    (folder / "server").mkdir(mode=0o711)
    server = Postgres(find(folder / "server", make=True), durable=False)
    server.use()
    with connect(server.url()) as connection:
        connection.execute("create database theirs")
        connection.execute("create role small login")
        connection.execute("create database small owner small")
    yield server
    server.release()
    shutil.rmtree(folder, ignore_errors=True)


def test_both_databases_get_their_tables_and_commands_work(server: Postgres) -> None:
    data, url = server.place.base.parent / "data", server.url("theirs")
    before = manage(data, "doctor", "--json", DATABASE_URL=url)
    assert before.returncode == 1
    for _ in range(2):  # a second time does no harm
        done = manage(data, "prepare", DATABASE_URL=url)
        assert (done.returncode, done.stderr) == (0, "")
    checks = json.loads(manage(data, "doctor", "--json", DATABASE_URL=url).stdout)["checks"]
    found = {check["name"]: check for check in checks}
    assert found["tables"]["ok"]
    assert found["database"]["found"].startswith("external, PostgreSQL")
    with connect(server.url("theirs_sample")) as connection:
        assert connection.execute("select to_regclass('auth_user')").fetchone() == (None,)
    assert not (data / "pg").exists()


def test_a_user_who_may_not_make_the_second_database_is_told_what_to_type(
    server: Postgres, tmp_path: Path
) -> None:
    rules = server.place.base / "etc"
    rules.joinpath("pg_hba.conf").write_text(
        "local all small trust\nlocal all all peer map=headroom\n"
    )
    with connect(server.url()) as connection:
        connection.execute("select pg_reload_conf()")
    url = f"postgresql://small@/small?host={quote(str(server.place.sockets), safe='')}"
    done = manage(tmp_path / "data", "prepare", DATABASE_URL=url)
    assert done.returncode == 2
    assert 'create database "small_sample"' in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["data"]
