"""Baselines and the bridge as a statement states them (method §6, §7)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from . import baseline
from .baseline import Comparison, Terms
from .bridge import MAIN_ROWS, Bridge, Group, Side, bridge, per_million_text
from .facts import Facts, WorkloadFacts
from .figures import counting, summed, summed_cost, total_of
from .money import EXACT, add, divide, plain
from .period import Period, rfc3339
from .plainly import Value, span, text_of
from .wording import Legacy

COST_BASIS = "allocation: effective cost in hours that have both cost and tokens"
COPIED = (
    "kind",
    "basis",
    "quality",
    "currency",
    "model",
    "tokenizer",
    "legacy",
    "author",
    "approver",
    "note",
)


def comparisons(facts: Facts) -> dict[str, Comparison]:
    """Each workload that has a baseline against it, on the baseline's own basis."""
    found = {}
    for w in facts.workloads:
        if w.baseline:
            processed = w.counted if w.basis == "processed" else None
            counted = w.delivered if w.baseline.basis == "delivered" else processed
            found[w.slug] = baseline.compare(w.baseline, counted, w.common_cost, facts.currency)
    return found


def against_legacy(facts: Facts, compared: Mapping[str, Comparison]) -> Legacy | None:
    """Σ actual and Σ counterfactual of the workloads whose saving is known, and which they are."""
    known = {slug: one for slug, one in compared.items() if one.saving is not None}
    actual = total_of([*known.values()], "actual")
    would = total_of([*known.values()], "counterfactual")
    if actual is None or would is None:
        return None
    every = {w.slug for w in counting(facts)} <= known.keys()
    return Legacy(actual, would, tuple(sorted(known)), every)


def saving_scope(facts: Facts, compared: Mapping[str, Comparison]) -> Value:
    """Which workloads the saving is of, and their share of the organisation's unit cost."""
    known = sorted(slug for slug, one in compared.items() if one.saving is not None)
    whole = summed_cost(counting(facts))
    actual = add([one.actual for one in compared.values() if one.saving is not None and one.actual])
    return {
        "workloads": known,
        "of": len(counting(facts)),
        "share_of_cost": text_of(divide(actual, whole)) if known and whole > 0 else None,
    }


def baseline_value(w: WorkloadFacts, terms: Terms, compared: Comparison, end: datetime) -> Value:
    """One baseline and what it says of this period."""
    age = terms.age(end)
    measured = terms.period_start and terms.period_end
    cached = w.counted is not None and w.counted.cached_prompt is not None
    return {
        "workload": w.slug,
        **{name: getattr(terms, name) for name in COPIED},
        "frozen_at": rfc3339(terms.frozen_at),
        "document_digests": list(terms.documents),
        "period": span(Period(terms.period_start, terms.period_end))
        if measured and terms.period_start and terms.period_end
        else None,
        "cost_per_million_tokens": text_of(compared.cost_per_million_tokens),
        "by_class": compared.by_class,
        "age_days": age.days,
        "ageing": age > baseline.AGEING_AFTER,
        "cost_basis": COST_BASIS,
        "counterfactual": text_of(compared.counterfactual),
        "actual": text_of(compared.actual),
        "saving": text_of(compared.saving),
        "saving_lower": text_of(compared.saving_lower),
        "saving_upper": text_of(compared.saving_upper),
        "saving_share": text_of(compared.saving_share),
        "reason": compared.reason,
        "sensitivity": [
            {"change": f"{change if change[0] == '-' else '+' + change} %", "saving": plain(saving)}
            for change, saving in compared.sensitivity
        ],
        "break_even_cost_per_million_tokens": text_of(compared.break_even),
        "notes": baseline.notes(terms, model=w.model, cached_known=cached, end=end),
        **_quoted(terms),
    }


def _quoted(terms: Terms) -> Value:
    """The price in the baseline's own currency and the rate; nothing where it was not converted."""
    if terms.quoted is None:
        return {}
    rate = terms.quoted.rate
    return {
        "quoted": {
            "currency": rate.source,
            "cost_per_million_tokens": text_of(terms.quoted.cost_per_million_tokens),
            "day": rate.day.isoformat(),
            "from_per_eur": plain(rate.source_per_base),
            "to_per_eur": plain(rate.target_per_base),
            "rate": plain(rate.value),
            "document_digests": list(rate.documents),
        }
    }


def side_value(facts: Facts) -> Value:
    """The bridge's groups and the totals they belong to, as the week after needs them."""
    parts = counting(facts)
    counted = summed(parts)
    return {
        "cost": plain(summed_cost(parts)),
        "tokens": counted.total if counted else 0,
        "groups": [
            {
                "workload": w.slug,
                "gpu_model": w.gpu_model,
                "cost": plain(w.common_cost or Decimal(0)),
                "gpu_hours": plain(w.common_gpu_hours or Decimal(0)),
                "gpu_hours_source": w.gpu_hours_source,
                "billed_gpu_hours": plain(w.billed_gpu_hours or Decimal(0)),
                "tokens": w.counted.total if w.counted else 0,
                "active_hours": w.active_hours,
                "hours": w.common_hours,
            }
            for w in parts
        ],
    }


def _side(value: Mapping[str, Any], other: Mapping[str, Any]) -> Side:
    """A week as the bridge takes it. Where the two weeks know a workload's GPU-hours from
    different sources, both count the billed ones: a new exporter is no change of efficiency."""
    sources = {row["workload"]: row.get("gpu_hours_source") for row in other["groups"]}
    groups = {}
    for row in value["groups"]:
        share = Fraction(row["active_hours"], row["hours"]) if row["active_hours"] else None
        own = row.get("gpu_hours_source")
        same = sources.get(row["workload"], own) == own
        hours = row["gpu_hours"] if same else row["billed_gpu_hours"]
        groups[f"{row['workload']} on {row['gpu_model'] or 'unknown GPU'}"] = Group(
            Decimal(row["cost"]), Decimal(hours), row["tokens"], share
        )
    return Side(groups, Decimal(value["cost"]), value["tokens"])


def bridge_value(previous: Mapping[str, Any] | None, value: Mapping[str, Any]) -> Value | None:
    """The bridge from the week before, per million tokens; null when it cannot be made."""
    if not previous or previous["currency"] != value["currency"]:
        return None
    before, now = previous["bridge_groups"], value["bridge_groups"]
    found = bridge(_side(before, now), _side(now, before))
    if found is None:
        return None
    parts = per_million_text({name: getattr(found, name) for name in _PARTS})
    return {
        "from": previous["period"]["week"],
        "to": value["period"]["week"],
        **{name: plain(amount) for name, amount in parts.items()},
        "total": plain(add(list(parts.values()))),
        **_halves(found, parts["efficiency"]),
        "rows": [
            {"group": key, **{name: plain(part) for name, part in per_million_text(row).items()}}
            for key, row in found.rows.items()
        ],
    }


_PARTS = (*MAIN_ROWS, "cost_without_tokens")


def _halves(found: Bridge, efficiency: Decimal) -> Value:
    """Active share and throughput; they sum to the printed efficiency."""
    if found.active_share is None:
        return {"active_share": None, "throughput": None}
    active = per_million_text({"active_share": found.active_share})["active_share"]
    return {"active_share": plain(active), "throughput": plain(EXACT.subtract(efficiency, active))}
