"""Deliveries that are really committed, several at the same time (method §3.1, §3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connections

from finops.ledger.models import Charge, Delivery, Document, Snapshot, Source
from finops.ledger.operations import charge_lines, charges
from finops.ledger.operations.charge_rows import COLUMNS
from finops.ledger.operations.ingest import ingest
from finops.ledger.operations.snapshots import settle
from finops.ledger.queries.snapshots import with_verdict
from finops.sources.records import ChargeRecord
from finops.trail.models import Entry
from finops.trail.operations import verify
from tests.ledger.focus_files import focus_file, hours
from tests.paths import RECORDED

pytestmark = pytest.mark.django_db(databases=["default", "sample"], transaction=True)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def at_once(work: Callable[[int], Any], count: int = 4) -> list[Any]:
    """The results of the same work, done in several connections at the same time."""

    def one(number: int) -> Any:
        try:
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_the_same_invoice_at_once_counts_once(tmp_path: Path) -> None:
    path = focus_file(tmp_path / "a.csv", *({"ResourceId": f"i-{i}"} for i in range(500)))
    answers = at_once(lambda _: ingest([str(path)], by="Ada", at=NOW))
    assert Counter(one[0]["status"] for one in answers) == {"posted": 1, "unchanged": 3}
    assert (Document.objects.count(), Charge.objects.count(), Delivery.objects.count()) == (
        1,
        500,
        1,
    )
    assert verify() == []


def test_the_same_readings_at_once_count_once() -> None:
    path = RECORDED / "ground_truth.jsonl.gz"
    answers = at_once(lambda _: ingest([str(path)], by="Ada", at=NOW))
    assert Counter(one[0]["status"] for one in answers) == {"posted": 1, "unchanged": 3}
    assert (Document.objects.count(), Source.objects.count()) == (1, 1)


def test_exports_of_one_scope_at_once_leave_one_current(tmp_path: Path) -> None:
    paths = [
        focus_file(tmp_path / f"{n}.csv", hours("2026-10-01T00", f"2026-10-1{n}T00"))
        for n in range(4)
    ]
    answers = at_once(lambda n: ingest([str(paths[n])], by="Ada", at=NOW))
    assert [one[0]["status"] for one in answers] == ["posted"] * 4
    verdicts = Counter(with_verdict().values_list("verdict", flat=True))
    assert verdicts == {"current": 1, "superseded": 3}
    assert verify() == []
    assert Entry.objects.count() == 4


def test_an_export_that_was_numbered_first_and_comes_second_replaces(tmp_path: Path) -> None:
    """Numbers are given before a scope's lock is held; one export of a scope counts all the same."""
    for n in (1, 2):
        path = focus_file(tmp_path / f"{n}.csv", hours("2026-10-01T00", f"2026-10-1{n}T00"))
        ingest([str(path)], by="Ada", at=NOW)
    overtaken, newest = Snapshot.objects.order_by("pk")
    settle([overtaken], by="Ada", at=NOW)
    assert with_verdict().get(pk=overtaken.pk).verdict == "current"
    assert with_verdict().get(pk=newest.pk).verdict == "superseded"


def test_a_delivery_that_breaks_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = focus_file(tmp_path / "a.csv", *({"ResourceId": f"i-{i}"} for i in range(20)))

    def power_cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(charges, "settle", power_cut)
    with pytest.raises(KeyboardInterrupt):
        ingest([str(path)], by="Ada", at=NOW)
    monkeypatch.undo()
    assert not Document.objects.exists()
    assert not Charge.objects.exists()
    assert not Snapshot.objects.exists()
    assert not Entry.objects.exists()
    assert ingest([str(path)], by="Ada", at=NOW)[0]["status"] == "posted"
    assert Charge.objects.count() == 20


def test_a_row_refused_while_the_next_are_read_refuses_its_document_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (
        focus_file(tmp_path / name, *({"ResourceId": f"{name}-{i}"} for i in range(20)))
        for name in ("bad.csv", "good.csv")
    )
    digest = sha256(bad.read_bytes()).hexdigest()
    row_of, line = charges.row_of, COLUMNS.index("line")

    def twice(record: ChargeRecord, snapshot: int, document: str) -> tuple[Any, ...]:
        """Of the bad document the ninth row says that it is the fourth."""
        row = list(row_of(record, snapshot, document))
        row[line] = 5 if document == digest and record.line == 10 else record.line
        return tuple(row)

    monkeypatch.setattr(charges, "row_of", twice)
    monkeypatch.setattr(charge_lines, "BATCH_ROWS", 2)
    refused, posted = ingest([str(bad), str(good)], by="Ada", at=NOW)
    assert (refused["status"], posted["status"]) == ("rejected", "posted")
    assert "charge_once" in refused["rejections"][0]["reason"]
    assert set(Charge.objects.values_list("document_id", flat=True)) == {posted["sha256"]}
    assert Charge.objects.count() == 20 and Document.objects.count() == 1


def test_charges_without_their_document_are_never_committed(tmp_path: Path) -> None:
    ingest([str(focus_file(tmp_path / "a.csv", {}))], by="Ada", at=NOW)
    stray = Charge.objects.get()
    stray.pk, stray.document_id, stray.line = None, "f" * 64, 99
    stray._state.adding = True
    with pytest.raises(IntegrityError):
        stray.save()
