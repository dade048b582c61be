"""Rules of the schema on workloads, allocation rules, baselines and hours; none stays untried."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, transaction
from django.db.models import Model

from finops.ledger import models as ledger
from tests.ledger import test_append_only as others
from tests.ledger.test_append_only import NOW, copy_of, saved, series

pytestmark = pytest.mark.django_db


def workload(**changes: Any) -> ledger.Workload:
    values = {"slug": "chat", "model": "m", "stack": "vllm", "created_at": NOW, "created_by": "Ada"}
    return ledger.Workload(**values | changes)


def shared_key() -> ledger.SharedKey:
    return ledger.SharedKey.objects.create(
        name="network", method="tokens", created_at=NOW, created_by="Ada"
    )


def rule(**changes: Any) -> ledger.Rule:
    values = {"number": 1, "version": 1, "subject": "series", "place": "out-of-scope"}
    return ledger.Rule(**values | {"matchers": [], "at": NOW, "by": "Ada"} | changes)


def baseline(**changes: Any) -> ledger.Baseline:
    values = {"kind": "declared", "basis": "processed", "currency": "USD", "at": NOW, "by": "Ada"}
    declared = {"cost_per_million_tokens": Decimal(3), "workload": saved(workload())}
    return ledger.Baseline(**values | declared | changes)


def decision(**changes: Any) -> ledger.BaselineDecision:
    values = {"verdict": "approved", "at": NOW, "by": "Bo"}
    if "baseline" not in changes:
        changes = {"baseline": saved(baseline())} | changes
    return ledger.BaselineDecision(**values | changes)


def cache_hour(**changes: Any) -> ledger.CacheHour:
    values = {"hour": NOW, "revision": 1, "observed_ms": 0, "posted_at": NOW}
    return ledger.CacheHour(series=series(), **values | changes)


def again(one: Model) -> Model:
    """A saved row once more, under a new key."""
    one.pk = None
    one._state.adding = True
    return one


def engine_start(**changes: Any) -> ledger.EngineStart:
    values = {"number": 1, "figures": {}, "posted_at": NOW}
    return ledger.EngineStart(document=saved(others.document()), **values | changes)


def link(**changes: Any) -> ledger.EvidenceLink:
    found = {"document": saved(others.document()), "workload": saved(workload())}
    return ledger.EvidenceLink(**found, at=NOW, by="Ada", **changes)


def device_hour(**changes: Any) -> ledger.DeviceHour:
    values = {"device": "GPU-1", "hour": NOW, "revision": 1, "observed_ms": 0, "posted_at": NOW}
    return ledger.DeviceHour(target=series().target, **values | changes)


def gpu_hour(**changes: Any) -> ledger.GpuHour:
    values = {"hour": NOW, "revision": 1, "gpu_ms": 0, "observed_ms": 3_600_000, "posted_at": NOW}
    return ledger.GpuHour(series=series(), **values | changes)


def mapping(**changes: Any) -> ledger.CsvMapping:
    values = {"name": "m", "version": 1, "content": {}, "at": NOW, "by": "Ada"}
    return ledger.CsvMapping(**values | changes)


def rate_card(**changes: Any) -> ledger.RateCard:
    values = {"name": "r", "version": 1, "currency": "USD", "valid_from": NOW, "content": {}}
    card = {"document": saved(others.document()), "at": NOW, "by": "Ada"}
    return ledger.RateCard(**values | card | changes)


def fx_rate(**changes: Any) -> ledger.FxRate:
    values = {"base": "EUR", "currency": "USD", "date": NOW.date(), "rate": Decimal(1)}
    return ledger.FxRate(document=saved(others.document()), **values | changes)


def period_status(**changes: Any) -> ledger.PeriodStatus:
    values = {"issuer": "i", "billing_period": "2026-10", "status": "Open", "updated_at": NOW}
    document = saved(others.document())
    return ledger.PeriodStatus(document=document, at=NOW, **values | changes)


def reread(**changes: Any) -> ledger.Reread:
    delivery = ledger.Delivery.objects.create(at=NOW, by="Ada", origin="x")
    values = {"at": NOW, "by": "Ada", "reason": "r", "charges": 0}
    return ledger.Reread(document=saved(others.document()), delivery=delivery, **values | changes)


def slo(**changes: Any) -> ledger.ServiceObjective:
    values = {"first_token_seconds": Decimal(1), "target": Decimal("0.99"), "valid_from": NOW}
    of = saved(workload())
    return ledger.ServiceObjective(workload=of, at=NOW, by="Ada", **values | changes)


def budget(**changes: Any) -> ledger.TrainingBudget:
    values = {"quarter": "2026-Q4", "amount": Decimal(1), "currency": "USD", "at": NOW, "by": "Ada"}
    return ledger.TrainingBudget(**values | changes)


def verdict(**changes: Any) -> ledger.ChangeDecision:
    values = {"kind": "replicas", "changed_at": NOW, "before": "1", "after": "2", "at": NOW}
    given = {"workload": saved(workload()), "verdict": "confirmed", "by": "Ada"}
    return ledger.ChangeDecision(**values | given | changes)


MEASURED = {"kind": "measured", "cost_per_million_tokens": None}

BROKEN: dict[str, list[Callable[[], Model]]] = {
    "workload_purpose": [lambda: workload(purpose="fun")],
    "workload_kv_bytes_positive": [lambda: workload(kv_bytes_per_token=0)],
    "workload_max_model_len_positive": [lambda: workload(max_model_len=0)],
    "workload_rate_cap_positive": [lambda: workload(rate_cap_tokens_per_second=0)],
    "rule_version_once": [lambda: copy_of(rule())],
    "rule_names_its_place": [
        lambda: rule(place="workload"),
        lambda: rule(workload=saved(workload())),
        lambda: rule(subject="charge", place="shared"),
        lambda: rule(subject="charge", place="shared", workload=saved(workload())),
        lambda: rule(place="workload", workload=saved(workload()), shared_key=shared_key()),
        lambda: rule(place="elsewhere"),
    ],
    "rule_dates_in_order": [
        lambda: rule(valid_from=NOW, valid_to=NOW),
        lambda: rule(valid_from=NOW, valid_to=NOW - timedelta(seconds=1)),
    ],
    "rule_shares_only_charges": [lambda: rule(place="shared", shared_key=shared_key())],
    "baseline_has_its_figures": [
        lambda: baseline(cost_per_million_tokens=None),
        lambda: baseline(**MEASURED, cost=Decimal(1)),
        lambda: baseline(**MEASURED, generation_tokens=1),
        lambda: baseline(kind="guessed"),
    ],
    "baseline_approver_is_another_person": [lambda: baseline(approved_by="Ada")],
    "baseline_decision_verdict": [lambda: decision(verdict="perhaps", text="why")],
    "baseline_decision_says_why": [
        lambda: decision(verdict="refused"),
        lambda: decision(verdict="withdrawn"),
    ],
    "baseline_decision_has_a_person": [lambda: decision(by="")],
    "baseline_decision_once": [lambda: copy_of(decision())],
    "cache_hour_once": [lambda: copy_of(cache_hour())],
    "cache_hour_observed": [lambda: cache_hour(observed_ms=-1)],
    "engine_start_once": [lambda: copy_of(engine_start())],
    "evidence_link_parallelism": [
        lambda: link(tensor_parallel=0),
        lambda: link(pipeline_parallel=0),
    ],
    "device_hour_once": [lambda: copy_of(device_hour())],
    "device_hour_observed": [lambda: device_hour(observed_ms=-1)],
    "gpu_hour_once": [lambda: copy_of(gpu_hour())],
    "gpu_hour_not_negative": [lambda: gpu_hour(gpu_ms=-1)],
    "gpu_hour_observed_within_hour": [
        lambda: gpu_hour(observed_ms=-1),
        lambda: gpu_hour(observed_ms=3_600_001),
    ],
    "csv_mapping_version_once": [lambda: copy_of(mapping())],
    "csv_mapping_version_positive": [lambda: mapping(version=0)],
    "rate_card_version_once": [lambda: copy_of(rate_card())],
    "rate_card_valid_in_order": [lambda: rate_card(valid_to=NOW)],
    "fx_rate_once": [lambda: copy_of(fx_rate())],
    "fx_rate_positive": [lambda: fx_rate(rate=Decimal(0))],
    "period_status_known": [lambda: period_status(status="Maybe")],
    "reread_charges": [lambda: reread(charges=-1)],
    "reread_rows_summed": [lambda: reread(rows_summed=-1)],
    "reread_once_a_delivery": [lambda: copy_of(reread())],
    "objective_has_a_threshold": [lambda: slo(first_token_seconds=None)],
    "objective_thresholds_positive": [
        lambda: slo(first_token_seconds=Decimal(0)),
        lambda: slo(inter_token_seconds=Decimal(-1)),
    ],
    "objective_target_is_a_share": [
        lambda: slo(target=Decimal(0)),
        lambda: slo(target=Decimal("1.01")),
    ],
    "training_budget_positive": [lambda: budget(amount=Decimal(0))],
    "training_budget_quarter": [lambda: budget(quarter="2026-Q5"), lambda: budget(quarter="2026")],
    "training_budget_currency": [lambda: budget(currency="")],
    "change_decision_verdict": [lambda: verdict(verdict="perhaps")],
    "change_decision_kind": [lambda: verdict(kind="weather")],
    "target_once": [lambda: again(series().target)],
    "series_once": [lambda: again(series())],
}
ELSEWHERE = {"snapshot_document_once"}
CASES = [(name, place) for name, cases in BROKEN.items() for place in range(len(cases))]


@pytest.mark.parametrize(("constraint", "place"), CASES)
def test_rows_that_cannot_be_true_are_refused(constraint: str, place: int) -> None:
    with pytest.raises(IntegrityError, match=f'"{constraint}"'), transaction.atomic():
        row = BROKEN[constraint][place]()
        row.save(force_insert=True)


@pytest.mark.parametrize(
    "row",
    [
        lambda: workload(kv_bytes_per_token=1, max_model_len=1, purpose="training"),
        lambda: rule(place="workload", workload=saved(workload())),
        lambda: rule(subject="charge", place="shared", shared_key=shared_key()),
        lambda: rule(valid_from=NOW, valid_to=NOW + timedelta(seconds=1)),
        lambda: baseline(approved_by="Bo"),
        lambda: baseline(**MEASURED, cost=Decimal(1), generation_tokens=1),
        lambda: decision(),
        lambda: decision(verdict="refused", text="no source", by="Ada"),
        lambda: cache_hour(),
        lambda: engine_start(),
        lambda: link(tensor_parallel=1, pipeline_parallel=1),
        lambda: device_hour(),
        lambda: gpu_hour(),
        lambda: mapping(),
        lambda: rate_card(valid_to=NOW + timedelta(seconds=1)),
        lambda: fx_rate(),
        lambda: period_status(status="Closed"),
        lambda: slo(first_token_seconds=None, inter_token_seconds=Decimal("0.05")),
        lambda: slo(target=Decimal(1)),
        lambda: budget(),
        lambda: verdict(),
        lambda: reread(),
    ],
)
def test_their_neighbours_that_can_be_true_are_taken(row: Callable[[], Model]) -> None:
    row().save(force_insert=True)


def test_every_named_rule_of_the_ledger_s_schema_is_broken_by_a_test() -> None:
    named = {
        constraint.name
        for model in apps.get_app_config("ledger").get_models()
        for constraint in model._meta.constraints
    }
    assert named - (BROKEN.keys() | others.BROKEN.keys() | ELSEWHERE) == set()
