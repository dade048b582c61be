"""The database itself refuses to rewrite history, and rows that cannot be true."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import DataError, IntegrityError, connection, transaction
from django.db.models import Model

from finops.ledger import models as ledger
from finops.trail.models import Entry

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

GROWING = [
    "Baseline",
    "BaselineDecision",
    "CacheHour",
    "ChangeDecision",
    "Charge",
    "CsvMapping",
    "Delivery",
    "DeviceHour",
    "Document",
    "EngineStart",
    "EvidenceLink",
    "Fetch",
    "FetchedPart",
    "FxRate",
    "GpuHour",
    "InvoiceAmount",
    "ModelConfig",
    "Origin",
    "PeriodConfirmation",
    "PeriodStatus",
    "QuietHour",
    "RateCard",
    "ReadingBlock",
    "RejectedRow",
    "Reread",
    "Rule",
    "ServiceObjective",
    "Snapshot",
    "SnapshotDecision",
    "SnapshotDocument",
    "TokenHour",
    "TrainingBudget",
    "UsageHour",
]
TABLES = [apps.get_model("ledger", name)._meta.db_table for name in GROWING] + ["trail_entry"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {} CASCADE"]
)
def test_what_is_recorded_cannot_be_changed(table: str, statement: str) -> None:
    model = next(m for m in apps.get_models() if m._meta.db_table == table)
    column = model._meta.pk.column
    with (
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format(table, column, column))


def document(**changes: Any) -> ledger.Document:
    values = {"sha256": "a" * 64, "size_bytes": 1, "name": "n", "origin": "o", "format": "focus"}
    return ledger.Document(**values | {"received_at": NOW, "received_by": "Ada"} | changes)


def saved(one: Model) -> Any:
    one.save(force_insert=True)
    return one


def source(**changes: Any) -> ledger.Source:
    values = {"name": "s", "kind": "files", "created_at": NOW, "created_by": "Ada"}
    return ledger.Source(**values | changes)


def fetch(**changes: Any) -> ledger.Fetch:
    values = {"window_start": NOW, "window_end": NOW + HOUR, "at": NOW, "complete": False}
    return ledger.Fetch(source=saved(source()), **values | changes)


def fetched_part(**changes: Any) -> ledger.FetchedPart:
    values = {"window_start": NOW, "window_end": NOW + HOUR, "part": 1, "parts": 2, "at": NOW}
    told = {"source": saved(source()), "document": saved(document()), "series": 0, "readings": 0}
    return ledger.FetchedPart(**values | told | changes)


def quiet_hour(**changes: Any) -> ledger.QuietHour:
    values = {"start": NOW, "end": NOW + HOUR, "witness": "up", "witness_readings": 60}
    return ledger.QuietHour(fetch=saved(fetch()), **values | changes)


def snapshot(**changes: Any) -> ledger.Snapshot:
    delivery = ledger.Delivery.objects.create(at=NOW, by="Ada", origin="x")
    values = {
        "delivery": delivery,
        "issuer": "i",
        "billing_account": "a",
        "billing_period": "2026-11",
        "arrived_at": NOW,
        "charge_start": NOW,
        "charge_end": NOW + HOUR,
        "charges": 1,
    }
    return ledger.Snapshot(**values | changes)


def charge(**changes: Any) -> ledger.Charge:
    values = {
        "line": 2,
        "charge_start": NOW,
        "charge_end": NOW + HOUR,
        "billing_period_start": NOW,
        "billing_period_end": NOW + HOUR,
        "category": "Usage",
        "currency": "USD",
    }
    return ledger.Charge(snapshot=saved(snapshot()), document=saved(document()), **values | changes)


def series() -> ledger.Series:
    target = ledger.Target.objects.create(source=saved(source()), job="j", instance="i")
    return ledger.Series.objects.create(
        target=target, metric="m", role="prompt", labels={}, labels_digest="0" * 64
    )


def block(**changes: Any) -> ledger.ReadingBlock:
    values = {"hour": NOW, "first_ms": 1, "last_ms": 2, "readings": 2, "payload": b"x"}
    return ledger.ReadingBlock(series=series(), document=saved(document()), **values | changes)


def token_hour(**changes: Any) -> ledger.TokenHour:
    values = {"hour": NOW, "revision": 1, "tokens": 1, "readings": 1, "first_ms": 1, "last_ms": 2}
    return ledger.TokenHour(series=series(), posted_at=NOW, **values | changes)


def usage_hour(**changes: Any) -> ledger.UsageHour:
    values = {
        "hour": NOW,
        "labels": {},
        "labels_digest": "0" * 64,
        "prompt_tokens": 1,
        "engine_prompt_tokens": 1,
        "generation_tokens": 1,
        "requests": 1,
        "quality": "measured",
    }
    return ledger.UsageHour(document=saved(document()), source=saved(source()), **values | changes)


def copy_of(one: Model) -> Any:
    """The same row once more, under a new key."""
    saved(one)
    one.pk = None
    one._state.adding = True
    return one


BROKEN: dict[str, Callable[[], Model]] = {
    "document_digest_is_sha256": lambda: document(sha256="A" * 64),
    "document_size_not_negative": lambda: document(size_bytes=-1),
    "source_prometheus_has_url": lambda: source(kind="prometheus"),
    "fetch_window_not_empty": lambda: fetch(window_end=NOW),
    "fetch_complete_has_document": lambda: fetch(complete=True),
    "fetched_part_window_not_empty": lambda: fetched_part(window_end=NOW),
    "fetched_part_of_several": lambda: fetched_part(part=1, parts=1),
    "fetched_part_once": lambda: copy_of(fetched_part()),
    "quiet_hour_once": lambda: copy_of(quiet_hour()),
    "quiet_hour_not_empty": lambda: quiet_hour(end=NOW),
    "quiet_hour_witness_was_read": lambda: quiet_hour(witness_readings=0),
    "snapshot_once_a_delivery": lambda: copy_of(snapshot()),
    "snapshot_billing_period_is_a_month": lambda: snapshot(billing_period="2026-13"),
    "charge_once": lambda: copy_of(charge()),
    "charge_category": lambda: charge(category="Gift"),
    "charge_period_in_order": lambda: charge(charge_end=NOW - HOUR),
    "charge_has_currency": lambda: charge(currency=""),
    "charge_counts_its_lines": lambda: charge(line_count=2),
    "reading_block_once": lambda: copy_of(block()),
    "reading_block_not_empty": lambda: block(readings=0),
    "reading_block_in_order": lambda: block(first_ms=3),
    "reading_block_within_half_day": lambda: block(last_ms=12 * 3_600_000),
    "token_hour_once": lambda: copy_of(token_hour()),
    "token_hour_not_negative": lambda: token_hour(tokens=-1),
    "token_hour_opening_not_negative": lambda: token_hour(opening_tokens=-1),
    "token_hour_rate_over_time": lambda: token_hour(rate_ms=0),
    "usage_hour_once": lambda: copy_of(usage_hour()),
    "usage_hour_not_negative": lambda: usage_hour(generation_tokens=-1),
    "trail_numbers_from_one": lambda: Entry(
        number=0, at=NOW, actor="a", action="b", subject="c", previous_digest="", digest="d"
    ),
}


@pytest.mark.parametrize("constraint", BROKEN)
def test_rows_that_cannot_be_true_are_refused(constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        BROKEN[constraint]().save(force_insert=True)


def test_a_snapshot_holds_a_document_once() -> None:
    one = saved(snapshot())
    part = ledger.SnapshotDocument(snapshot=one, document=saved(document()))
    with pytest.raises(IntegrityError, match="snapshot_document_once"), transaction.atomic():
        copy_of(part).save(force_insert=True)


def test_a_binary_float_never_enters_an_exact_column() -> None:
    with pytest.raises(TypeError, match="binary float"):
        charge(billed_cost=0.1).save()


def test_a_name_longer_than_its_column_is_refused() -> None:
    with pytest.raises(DataError), transaction.atomic():
        charge(currency="X" * 41).save()


@pytest.mark.parametrize("missing", ["snapshot_id", "document_id"])
def test_a_charge_of_nothing_is_refused_at_the_end_of_its_transaction(missing: str) -> None:
    """The database itself keeps the pair of a charge's snapshot and document, and checks it."""
    one = copy_of(charge())
    pair = ledger.SnapshotDocument.objects.get()
    assert (pair.snapshot_id, pair.document_id) == (one.snapshot_id, one.document_id)
    one.line = 3
    one.save(force_insert=True)
    assert ledger.SnapshotDocument.objects.count() == 1
    connection.check_constraints()
    one.pk, one.line = None, 4
    setattr(one, missing, {"snapshot_id": 10**9, "document_id": "b" * 64}[missing])
    with pytest.raises(IntegrityError, match=missing), transaction.atomic():
        one.save(force_insert=True)
        connection.check_constraints()
    assert ledger.Charge.objects.count() == 2
