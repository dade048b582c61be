"""Each kind of row that a week's figures are made of is noticed when it arrives (method §11)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db.models import Model

from finops.core.period import Period
from finops.ledger import models as ledger
from finops.ledger.queries.arrivals import arrived_since
from tests.ledger import test_append_only as rows
from tests.ledger import test_constraints as more
from tests.ledger.test_append_only import GROWING, HOUR, NOW, saved

pytestmark = pytest.mark.django_db

WEEK = Period(datetime(2026, 11, 23, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC))
YEAR_BEFORE = Period(datetime(2025, 11, 24, tzinfo=UTC), datetime(2025, 12, 1, tzinfo=UTC))
BEFORE = NOW - timedelta(microseconds=1)
OLD = NOW - timedelta(days=30)
MONTH = {"issuer": "i", "billing_period": "2026-11", "at": NOW, "by": "Bo"}


def decided() -> Model:
    """A decision on a snapshot that arrived long before."""
    one = saved(rows.snapshot(arrived_at=OLD))
    return ledger.SnapshotDecision(snapshot=one, verdict="current", at=NOW, by="Bo")


def approved() -> Model:
    return more.decision(baseline=saved(more.baseline(at=OLD)))


def model_config() -> Model:
    return ledger.ModelConfig(document=saved(rows.document()), config={}, posted_at=NOW)


OF_A_TIME: dict[str, Callable[[], Model]] = {
    "Snapshot": rows.snapshot,
    "SnapshotDecision": decided,
    "InvoiceAmount": lambda: ledger.InvoiceAmount(
        invoice="1", currency="USD", amount=Decimal(1), **MONTH
    ),
    "PeriodConfirmation": lambda: ledger.PeriodConfirmation(
        billing_account="a", reason="r", **MONTH
    ),
    "PeriodStatus": lambda: more.period_status(billing_period="2026-11"),
    "FxRate": more.fx_rate,
    "RateCard": more.rate_card,
    "Rule": lambda: more.rule(valid_from=NOW),
    "ServiceObjective": more.slo,
    "EngineStart": lambda: more.engine_start(started_at=NOW),
    "TokenHour": rows.token_hour,
    "CacheHour": more.cache_hour,
    "GpuHour": more.gpu_hour,
    "DeviceHour": more.device_hour,
    "UsageHour": rows.usage_hour,
    "QuietHour": rows.quiet_hour,
}
OF_ANY_TIME: dict[str, Callable[[], Model]] = {
    "Baseline": more.baseline,
    "BaselineDecision": approved,
    "TrainingBudget": more.budget,
    "ChangeDecision": more.verdict,
    "EvidenceLink": more.link,
    "ModelConfig": model_config,
}
TOLD_BY_OTHERS = {
    "Charge",  # its snapshot
    "Delivery",
    "Document",  # what was read in it
    "SnapshotDocument",
    "Reread",  # the snapshot of the later delivery
    "ReadingBlock",  # the hours derived of it
    "Fetch",
    "FetchedPart",
    "RejectedRow",  # counts nowhere
    "Origin",
    "CsvMapping",  # what is read with it
}


@pytest.mark.parametrize("kind", OF_A_TIME | OF_ANY_TIME)
def test_what_arrives_is_noticed_from_its_instant_on(kind: str) -> None:
    one = (OF_A_TIME | OF_ANY_TIME)[kind]()
    assert one._meta.object_name == kind
    assert not arrived_since(WEEK, BEFORE)
    saved(one)
    assert arrived_since(WEEK, BEFORE)
    assert not arrived_since(WEEK, NOW)


@pytest.mark.parametrize("kind", OF_A_TIME)
def test_what_is_of_another_time_touches_no_week_before_it(kind: str) -> None:
    saved(OF_A_TIME[kind]())
    assert not arrived_since(YEAR_BEFORE, BEFORE)


@pytest.mark.parametrize("kind", OF_ANY_TIME)
def test_what_holds_at_any_time_touches_every_week(kind: str) -> None:
    saved(OF_ANY_TIME[kind]())
    assert arrived_since(YEAR_BEFORE, BEFORE)


def test_charges_of_other_days_of_the_month_touch_its_invoices() -> None:
    start = datetime(2026, 11, 2, tzinfo=UTC)
    saved(rows.snapshot(charge_start=start, charge_end=start + HOUR))
    assert arrived_since(WEEK, BEFORE)


def test_every_kind_of_row_that_grows_is_asked_for_or_told_by_another() -> None:
    assert set(GROWING) - TOLD_BY_OTHERS <= OF_A_TIME.keys() | OF_ANY_TIME.keys()
    assert set(GROWING) >= TOLD_BY_OTHERS
