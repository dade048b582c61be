"""`doctor` finds what is wrong and says what to do."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from finops import checkup
from tests.house.product import manage, processes


@pytest.fixture
def data() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="headroom-doctor-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_new_installation_lacks_its_tables_and_then_is_well(data: Path) -> None:
    first = manage(data, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(first.stdout)["checks"]}
    assert first.returncode == 1
    assert checks["database"]["ok"]
    assert not checks["tables"]["ok"]
    assert "migrate_all" in checks["tables"]["advice"]
    assert manage(data, "migrate_all").returncode == 0
    second = manage(data, "doctor", "--json")
    well = {check["name"]: check["ok"] for check in json.loads(second.stdout)["checks"]}
    well.pop("pango")  # the machine's own affair
    assert all(well.values())
    assert processes(str(data)) == {}


def test_a_secret_key_that_others_can_read_is_found(data: Path) -> None:
    manage(data, "help")
    manage(data, "doctor")
    (data / "secret-key").chmod(0o644)
    done = manage(data, "doctor", "--json")
    assert done.returncode == 1
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}["secret key"]
    assert not found["ok"]
    assert "chmod 600" in found["advice"]


def test_a_database_that_is_away_is_named_without_a_traceback(data: Path) -> None:
    url = "postgresql://nobody:secretword@127.0.0.1:1/none"
    done = manage(data, "doctor", "--json", DATABASE_URL=url)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "secretword" not in done.stdout + done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert not found["database"]["ok"]
    assert "tables" not in found


def test_a_check_that_breaks_is_a_finding() -> None:
    def broken() -> checkup.Finding:
        raise RuntimeError("no answer")

    finding = checkup.attempt("thing", broken, "Mend it.")
    assert (finding.ok, finding.found, finding.advice) == (
        False,
        "RuntimeError: no answer",
        "Mend it.",
    )
