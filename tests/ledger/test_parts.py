"""Long part files read by several processes: the same ledger as by one, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from finops.ledger.models import Charge, Document, RejectedRow, Snapshot
from finops.ledger.operations import part_reading, parts
from finops.ledger.operations.part_reading import Job, Rows
from finops.sources.records import Refused
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
OTHER_ACCOUNT = {"BillingAccountId": "099", "BillingAccountName": "Other"}


@pytest.fixture(autouse=True)
def _long_documents(settings: Any) -> None:
    settings.SUM_LINES_ABOVE = 0
    settings.BULK_PROCESSES = 2


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that were started."""
    found: list[subprocess.Popen[bytes]] = []
    start = parts._start

    def noting(job: Job) -> subprocess.Popen[bytes]:
        found.append(start(job))
        return found[-1]

    monkeypatch.setattr(parts, "_start", noting)
    return found


def _rows(part: int) -> list[dict[str, str]]:
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
        for i in range(60)
    ]
    rows[5] |= OTHER_ACCOUNT
    rows[17] |= OTHER_ACCOUNT | {"ChargeDescription": "4 H100 GPUs"}
    return [*rows, {"BilledCost": "NaN"}, {"ChargeCategory": "Gift", "BilledCost": str(part)}]


def _files(folder: Path) -> list[Path]:
    return [focus_file(folder / f"part-{n}.csv", *_rows(n)) for n in range(4)]


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


def test_the_ledger_is_that_of_one_process(
    tmp_path: Path, settings: Any, started: list[subprocess.Popen[bytes]]
) -> None:
    files = _files(tmp_path)
    documents = ingested(*files)
    assert [one["rows_read"] for one in documents] == [62] * 4
    assert [one["rows_rejected"] for one in documents] == [2] * 4
    assert [one.returncode for one in started] == [0] * 4
    _is_as_by_one_process(files, settings)
    assert len(started) == 4  # one process starts no other


@pytest.mark.parametrize("kills", [1, 3, 100])
def test_killed_processes_lose_nothing(
    kills: int, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, killed = parts._start, list[int]()

    def killing(job: Job) -> subprocess.Popen[bytes]:
        process = start(job)
        if len(killed) < kills:
            while not job.spool.exists() and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            killed.append(process.wait(30))
        return process

    monkeypatch.setattr(parts, "_start", killing)
    files = _files(tmp_path)
    ingested(*files)
    assert killed == [-signal.SIGKILL] * min(kills, 4 * parts.ATTEMPTS)
    _is_as_by_one_process(files, settings)


def test_a_refused_part_leaves_nothing_of_its_set(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
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
    assert len(started) >= 2
    assert not Charge.objects.exists() and not Snapshot.objects.exists()
    (taken,) = ingested(good)
    assert taken["status"] == "posted"


def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    pipe = tmp_path / "waits"
    os.mkfifo(pipe)
    job = Job(pipe, "waits", "0" * 64, "focus", (), (), 1, tmp_path / "spool")
    process = parts._start(job)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 1


def test_the_key_of_a_snapshot_comes_before_every_row() -> None:
    assert Rows(1, b"\ta\t1\n\tb\t2\n").of(305) == b"305\ta\t1\n305\tb\t2\n"
    assert Rows(1, b"\ta\t\\n\n").of(7) == b"7\ta\t\\n\n"


@pytest.mark.parametrize("text", ["US\0n", "\0t", "\0"])
def test_a_text_that_cannot_be_stored_is_refused(text: str) -> None:
    assert part_reading._line(["a\t\\", None, 7]) == b"\ta\\t\\\\\t\\N\t7\n"
    with pytest.raises(Refused, match="NUL"):
        part_reading._line(["a", text, None])
