"""Long part files spread over workers: the same ledger as by one process, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from finops import embedded
from finops.celery import app
from finops.ledger.models import Charge, Document, RejectedRow, Snapshot
from finops.ledger.operations import documents, part_reading, parts, spool
from finops.ledger.operations.part_reading import Job, NobodyWaits, Rows, TableRows, Terms
from finops.ledger.tasks import read_part
from finops.sources.records import Refused
from tests.house.product import environment
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours
from tests.ledger.workers import Worker, started
from tests.paths import REPOSITORY, SAMPLES
from tests.settings import TEMPORARY

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
OTHER_ACCOUNT = {"BillingAccountId": "099", "BillingAccountName": "Other"}
NATIVE = (
    "aws_cur-legacy_anonymised_first699rows.csv",
    "azure_ea-export_anonymised.csv",
    "focus-1.0_anonymised_aws-azure-oci_1000rows.csv",
)


@pytest.fixture(autouse=True)
def _long_documents(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SUM_LINES_ABOVE = 0
    settings.BULK_PROCESSES = 2
    monkeypatch.setattr(parts, "PATIENCE_SECONDS", 0.0)


@pytest.fixture
def worker(broker: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker of two children for the queue of parts, for which the caller waits long."""
    app.control.purge()
    with _working() as found:
        monkeypatch.setattr(parts, "PATIENCE_SECONDS", 120.0)
        yield found


def _working() -> Any:
    variables = environment(TEMPORARY, HEADROOM_TEST="1", SECRET_KEY="x" * 60)
    return started(TEMPORARY / "parts.log", "parts", variables, "--max-tasks-per-child", "1")


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of parts that the caller read itself."""
    found: list[str] = []

    def noting(job: Job) -> None:
        found.append(job.kept.name)
        part_reading.read_part(job)

    monkeypatch.setattr(parts, "read_part", noting)
    return found


def _rows(part: int, times: int = 1) -> list[dict[str, str]]:
    """Lines of one part: sums, GPU time, another account, signs that COPY escapes, faults."""
    rows = [
        hours(
            f"2026-10-{i % 28 + 1:02d}T{part:02d}",
            f"2026-10-{i % 28 + 1:02d}T{part + 1:02d}",
            BilledCost=f"{i}.{part}00000000{i}",
            SubAccountId=f"team\\{i % 3}",
            ResourceId=f"i-{part}-{i}",
            ChargeDescription="8 H100\tGPUs \\N\nü" if i % 7 == 3 else "hours",
            Tags='{"team": "a\\\\b\\tc"}' if i % 2 else "",
        )
        for i in range(60 * times)
    ]
    rows[5] |= OTHER_ACCOUNT
    rows[17] |= OTHER_ACCOUNT | {"ChargeDescription": "4 H100 GPUs"}
    return [*rows, {"BilledCost": "NaN"}, {"ChargeCategory": "Gift", "BilledCost": str(part)}]


def _files(folder: Path, times: int = 1) -> list[Path]:
    return [focus_file(folder / f"part-{n}.csv", *_rows(n, times)) for n in range(4)]


def _held(ledger: str) -> list[Any]:
    """All that a ledger holds of charges, without its own keys."""
    columns = sorted(
        {field.attname for field in Charge._meta.concrete_fields} - {"id", "snapshot_id"}
    )
    scope = [f"snapshot__{name}" for name in ("issuer", "billing_account", "billing_period")]
    rejected = ("document_id", "line", "column", "value", "reason")
    shown = ("sha256", "rows_read", "charges", "rows_rejected", "account", "format", "version")
    return [
        sorted(map(repr, Charge.objects.using(ledger).values_list(*scope, *columns))),
        list(RejectedRow.objects.using(ledger).order_by(*rejected).values_list(*rejected)),
        list(Document.objects.using(ledger).order_by("pk").values_list(*shown)),
        list(
            Snapshot.objects.using(ledger)
            .order_by("billing_account")
            .values_list("billing_account", "charges", "charge_start", "charge_end")
        ),
    ]


def _is_as_by_one_process(files: list[Path], settings: Any) -> None:
    settings.BULK_PROCESSES = 1
    command("ingest", *files, "--by", "Ada", "--sample")
    assert _held("default") == _held("sample")
    assert Charge.objects.using("default").exists()
    assert command("check-ledger")["ok"]
    assert _left() == []


def _left() -> list[str]:
    """The folders of deliveries that are in the spool."""
    return [one.name for one in spool.spool().iterdir() if one.is_dir()]


@pytest.mark.slow
def test_the_ledger_is_that_of_one_process(
    tmp_path: Path, settings: Any, worker: Worker, read_here: list[str]
) -> None:
    files = _files(tmp_path)
    documents = ingested(*files)
    assert [one["rows_read"] for one in documents] == [62] * 4
    assert [one["rows_rejected"] for one in documents] == [2] * 4
    assert read_here == []
    _is_as_by_one_process(files, settings)
    assert read_here == []  # one process spools nothing


@pytest.mark.slow
@pytest.mark.skipif(not (SAMPLES / "invoices").is_dir(), reason="needs the invoice samples")
def test_files_of_every_format_are_spread(
    settings: Any, worker: Worker, read_here: list[str]
) -> None:
    files = [SAMPLES / "invoices" / name for name in NATIVE]
    assert {one["status"] for one in ingested(*files)} == {"posted"}
    assert read_here == []
    _is_as_by_one_process(files, settings)


def test_without_workers_the_caller_reads_all(
    tmp_path: Path, settings: Any, read_here: list[str]
) -> None:
    files = _files(tmp_path)
    ingested(*files)
    assert read_here == [one.name for one in files]
    _is_as_by_one_process(files, settings)


def test_with_a_broker_but_no_worker_the_caller_waits_no_longer_than_it_says(
    tmp_path: Path, broker: str, settings: Any, read_here: list[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(parts, "PATIENCE_SECONDS", 0.2)
    files = _files(tmp_path)
    ingested(*files)
    assert read_here == [one.name for one in files]
    _is_as_by_one_process(files, settings)
    app.control.purge()


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["its children", "the whole worker"])
def test_a_worker_killed_midway_loses_nothing(
    whole: bool, tmp_path: Path, settings: Any, worker: Worker, read_here: list[str]
) -> None:
    if whole:
        parts.PATIENCE_SECONDS = 20.0  # put back by the fixture that set it
    cut_off = list[str]()
    watching = threading.Thread(target=_kill_midway, args=(worker, whole, cut_off))
    watching.start()
    files = _files(tmp_path, times=40)
    ingested(*files)
    watching.join(60)
    assert cut_off  # a part was taken, and had not been read to its end
    assert read_here
    _is_as_by_one_process(files, settings)


def _kill_midway(worker: Worker, whole: bool, cut_off: list[str]) -> None:
    """Kills readers at an instant when one of them holds a part that it has not finished."""
    _until(lambda: any(spool.spool().glob("*/*.taken")))
    worker.signal_children(signal.SIGSTOP)  # so that what is seen here holds when they are killed
    for taken in spool.spool().glob("*/*.taken"):
        if not taken.with_suffix(".answer").exists():
            cut_off.append(taken.stem)
    if whole:
        worker.kill()
    else:
        worker.kill_children()


def _until(fine: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not fine():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.001)


def test_a_refused_part_leaves_nothing_of_its_set(tmp_path: Path, read_here: list[str]) -> None:
    month = tmp_path / "export" / "data" / "BILLING_PERIOD=2026-10"
    month.mkdir(parents=True)
    good, bad = (focus_file(month / f"{n}.csv", *_rows(n)) for n in (1, 2))
    bad.write_text(bad.read_text() + '"an open quote\n')
    named = tmp_path / "export" / "metadata" / "BILLING_PERIOD=2026-10" / "export-Manifest.json"
    named.parent.mkdir(parents=True)
    keys = [str(one.relative_to(tmp_path)) for one in (good, bad)]
    named.write_text(json.dumps({"dataFiles": keys}))
    documents = ingested(tmp_path)
    assert [one["status"] for one in documents] == ["rejected"] * 2
    assert "names 2.csv too, which was refused" in str(documents)
    assert read_here == ["1.csv", "2.csv"]
    assert not Charge.objects.exists() and not Snapshot.objects.exists() and _left() == []
    (taken,) = ingested(good)
    assert taken["status"] == "posted"


@pytest.mark.slow
def test_a_killed_caller_leaves_nothing(tmp_path: Path, broker: str) -> None:
    files = _files(tmp_path, times=40)
    variables = environment(
        TEMPORARY,
        HEADROOM_TEST="1",
        SECRET_KEY="x" * 60,
        HEADROOM_BULK_PROCESSES="2",
        HEADROOM_SUM_LINES_ABOVE="0",
    )
    words = [sys.executable, "manage.py", "ingest", *map(str, files), "--by", "Ada", "--json"]
    url = embedded.ensure_database(TEMPORARY)  # not the one of Django's own tests
    app.control.purge()
    with _working():
        caller = subprocess.Popen(
            words, cwd=REPOSITORY, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _until(lambda: any(spool.spool().glob("*/*.answer")))
        caller.kill()
        caller.communicate(timeout=60)
        assert _rows_of(url, files) == 0
        assert len(_left()) == 1
        done = subprocess.run(
            words, cwd=REPOSITORY, env=variables, capture_output=True, check=False
        )
    assert done.returncode == 1, done.stderr  # some rows were rejected
    found = json.loads(done.stdout)["documents"]
    assert [one["status"] for one in found] == ["posted"] * 4
    assert _rows_of(url, files) == 4
    assert _left() == []


def _rows_of(url: str, files: list[Path]) -> int:
    digests = [documents.digest_of(path) for path in files]
    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regclass('ledger_document')").fetchone() == (None,):
            return 0
        query = "SELECT count(*) FROM ledger_document WHERE sha256 = ANY(%s)"
        row = connection.execute(query, [digests]).fetchone()
        return int(row[0]) if row else 0


def _job(folder: Path, source: Path) -> Job:
    kept = documents.keep(source, source.name, str(source))
    return Job(kept, "focus", Terms("default", (), (), frozenset(), 1), folder)


def test_a_part_that_nobody_waits_for_is_not_read(tmp_path: Path) -> None:
    (source,) = _files(tmp_path)[:1]
    with spool.own_folder() as folder:
        job = _job(folder, source)
        part_reading.leave(job)
        left = tmp_path / folder.name
        os.rename(folder, left)  # as if its caller had been killed: nobody holds the lock
        (left / "caller").unlink()
        (left / "caller").touch()
        os.rename(left, folder)
        assert not spool.is_awaited(folder)
        with pytest.raises(NobodyWaits):
            part_reading.read_part(job)
        assert not part_reading.read_left(folder, job.kept.sha256)
        assert not job.answer.exists()
        spool.sweep()
        assert not folder.exists()
        assert not part_reading.read_left(folder, job.kept.sha256)


def test_a_part_that_another_reads_is_left_to_it(tmp_path: Path) -> None:
    (source,) = _files(tmp_path)[:1]
    with spool.own_folder() as folder:
        job = _job(folder, source)
        part_reading.leave(job)
        with spool.held(job.taken):
            assert not read_part(delivery=folder.name, part=job.kept.sha256)
        assert not job.answer.exists()
        assert read_part(delivery=folder.name, part=job.kept.sha256)
        assert part_reading.answer_of(job).sums.rejected == 2
        spool.sweep()
        assert folder.exists()  # its caller is here
    assert not folder.exists()
    assert not read_part(delivery=folder.name, part=job.kept.sha256)


@pytest.mark.parametrize("key", ["../../etc", "", "a" * 31, "A" * 32, "a" * 32 + "\n"])
def test_a_message_names_no_other_folder(key: str) -> None:
    with pytest.raises(ValueError, match="not the key"):
        read_part(delivery=key, part="0" * 64)
    with spool.own_folder() as folder, pytest.raises(ValueError, match="not the digest"):
        read_part(delivery=folder.name, part=key)


def test_files_in_the_making_that_killed_processes_left_are_swept() -> None:
    old, new = documents.store() / ".new-old", documents.store() / ".new-new"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    documents.sweep(time.time())
    assert not old.exists() and new.exists()
    new.unlink()


def test_the_key_of_a_snapshot_comes_before_every_row() -> None:
    assert Rows(1, b"\ta\t1\n\tb\t2\n").of(305) == b"305\ta\t1\n305\tb\t2\n"
    assert Rows(1, b"\ta\t\\n\n").of(7) == b"7\ta\t\\n\n"


def test_keys_of_kept_sums_change_where_their_digest_follows_and_nowhere_else() -> None:
    digest = "d" * 64
    lines = f"5\t-1\tx\t-1\t{digest}\ty\n6\t-2\t\\N\t-2\t{digest}\t-1\n"
    told = f"5\t-1\tx\t12\t{digest}\ty\n6\t-2\t\\N\t7\t{digest}\t-1\n"
    assert TableRows(("line",), lines).of({-1: 12, -2: 7}, digest) == told


@pytest.mark.parametrize("text", ["US\0n", "\0t", "\0"])
def test_a_text_that_cannot_be_stored_is_refused(text: str) -> None:
    assert part_reading._line(["a\t\\", None, 7]) == b"\ta\\t\\\\\t\\N\t7\n"
    with pytest.raises(Refused, match="NUL"):
        part_reading._line(["a", text, None])
