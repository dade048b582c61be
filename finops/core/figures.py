"""The figures of a workload and of the organisation, each null with its reason (method §5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from .baseline import Comparison
from .facts import Facts, WorkloadFacts
from .money import EXACT, add, divide, plain
from .plainly import Value, text_of
from .tokens import Tokens, union
from .unit_cost import FIGURES, MILLION, Counted, UnitCosts, change, unit_costs

Reasons = dict[str, str]

NO_READINGS = "no readings of tokens"
NO_BASELINE = "no baseline is recorded"
NO_WEEK_BEFORE = "there is no week before to compare with"
APART = "training stands apart from the cost of inference"
UNKNOWN = {
    "cached_prompt_tokens": "the engines do not tell cached prompt tokens",
    "delivered_prompt_tokens": "no delivered tokens are told",
    "delivered_generation_tokens": "no delivered tokens are told",
    "effective_cost": "no hours have both cost and readings of tokens",
    "gpu_hours": "no charge reached by its rules has a known number of GPUs",
    "gpu_hours_source": "no charge reached by its rules has a known number of GPUs",
    "tokens_lower": "the tokens have no bounds",
    "tokens_upper": "the tokens have no bounds",
}
SAVINGS = ("saving_vs_baseline", "saving_lower", "saving_upper")


def workload_figures(
    w: WorkloadFacts, facts: Facts, compared: Comparison | None
) -> tuple[Value, Reasons, UnitCosts]:
    """A workload's figures, why any is null, and the unit costs behind them."""
    costs = unit_costs(
        w.common_cost, w.counted, facts.weights, active_hours=w.active_hours, hours=w.common_hours
    )
    apart = _apart(w)
    if apart:
        costs = UnitCosts(reasons=dict.fromkeys(FIGURES, apart))
    if w.purpose != "inference":
        costs = UnitCosts(reasons=dict.fromkeys(FIGURES, APART))
    figures: Value = {name: text_of(getattr(costs, name)) for name in FIGURES}
    figures |= _token_figures(w.common_tokens, w.counted)
    figures |= {
        "effective_cost": text_of(w.common_cost),
        "period_effective_cost": plain(w.cost),
        "cost_own": plain(w.cost_own),
        "cost_shared": plain(w.cost_shared),
        "gpu_hours": text_of(w.gpu_hours),
        "gpu_hours_source": w.gpu_hours_source,
        "saving_vs_baseline": text_of(compared.saving) if compared else None,
        "saving_lower": text_of(compared.saving_lower) if compared else None,
        "saving_upper": text_of(compared.saving_upper) if compared else None,
    }
    why = dict(costs.reasons) | ({"effective_cost": apart} if apart else {})
    return figures, _explained(figures, why, _saving_reason([compared])), costs


def _apart(w: WorkloadFacts) -> str | None:
    """Why a workload with cost in another currency has no unit cost; None where it has."""
    if w.common is None or w.common_cost is not None or not w.other_currencies:
        return None
    others = ", ".join(sorted(w.other_currencies))
    return f"a part of its cost is in {others} and was not converted"


def counting(facts: Facts) -> list[WorkloadFacts]:
    """The workloads of the organisation's unit cost: inference on processed tokens, with hours
    that have both cost and readings. Training and stacks that only usage records tell of stand
    apart (method §4, §6)."""
    return [
        w
        for w in facts.workloads
        if w.purpose == "inference"
        and w.basis == "processed"
        and w.counted is not None
        and w.common_cost is not None
    ]


def summed(parts: Sequence[WorkloadFacts]) -> Counted | None:
    """The tokens of workloads together; a class or bound that one does not tell is unknown."""
    every = [w.counted for w in parts if w.counted]
    if not every:
        return None

    def total(name: str) -> int | None:
        values = [getattr(counted, name) for counted in every]
        return None if None in values else sum(values)

    return Counted(
        prompt=sum(counted.prompt for counted in every),
        generation=sum(counted.generation for counted in every),
        cached_prompt=total("cached_prompt"),
        lower=total("lower"),
        upper=total("upper"),
    )


def summed_cost(parts: Sequence[WorkloadFacts]) -> Decimal:
    """The effective cost of workloads in their common hours."""
    return add([w.common_cost for w in parts if w.common_cost is not None])


def organisation_figures(facts: Facts, compared: Mapping[str, Comparison]) -> tuple[Value, Reasons]:
    """The organisation's figures: Σ cost ÷ Σ tokens of `counting` workloads (method §4, §5)."""
    parts = counting(facts)
    counted, cost = summed(parts), summed_cost(parts) if parts else None
    costs = unit_costs(cost, counted, facts.weights)
    figures: Value = {name: text_of(getattr(costs, name)) for name in FIGURES}
    usage = _usage_cost(parts)
    if figures["cost_per_million_tokens"] and usage and counted:
        price = divide(EXACT.multiply(usage, MILLION), Decimal(counted.total))
        figures["usage_cost_per_million_tokens"] = plain(price)
    known = [one for one in compared.values() if one.saving is not None]
    tokens = [w.common_tokens for w in parts if w.common_tokens]
    figures |= _token_figures(union(tokens) if tokens else None, counted)
    figures |= {
        "effective_cost": text_of(cost),
        "period_effective_cost": plain(period_cost(facts)),
        "saving_vs_baseline": text_of(total_of(known, "saving")),
        "saving_lower": text_of(total_of(known, "saving_lower")),
        "saving_upper": text_of(total_of(known, "saving_upper")),
    }
    return figures, _explained(figures, costs.reasons, _saving_reason(compared.values()))


def period_cost(facts: Facts) -> Decimal:
    """All effective cost of the period in the report's currency."""
    return add([m.effective for m in facts.money if m.currency == facts.currency])


def total_of(known: Sequence[Comparison], name: str) -> Decimal | None:
    """The sum of a figure over comparisons; None where one of them does not know it."""
    values = [getattr(one, name) for one in known]
    return add(values) if values and None not in values else None


OTHER_CURRENCY = "the week before was reported in another currency"


def week_over_week(
    figures: Value, reasons: Reasons, before: Mapping[str, Any] | None, why: str = NO_WEEK_BEFORE
) -> None:
    """Adds the change of tokens per unit of money against the week before (method §5).

    `why` says why there is no week before."""
    now, then = figures["tokens_per_dollar"], before and before["tokens_per_dollar"]
    moved = change(Decimal(now), Decimal(then)) if now and then else None
    figures["tokens_per_dollar_change"] = text_of(moved)
    if moved is None:
        reasons["tokens_per_dollar_change"] = why if now else NO_READINGS


def _token_figures(tokens: Tokens | None, counted: Counted | None) -> Value:
    return {
        "prompt_tokens": counted.prompt if counted else None,
        "cached_prompt_tokens": counted.cached_prompt if counted else None,
        "generation_tokens": counted.generation if counted else None,
        "tokens_lower": counted.lower if counted else None,
        "tokens_upper": counted.upper if counted else None,
        "delivered_prompt_tokens": tokens.delivered_prompt if tokens else None,
        "delivered_generation_tokens": tokens.delivered_generation if tokens else None,
        "coverage": str(tokens.coverage) if tokens else None,
        "restarts": tokens.restarts if tokens else None,
        "hidden_resets": tokens.hidden_resets if tokens else None,
        "exact": tokens.exact if tokens else None,
    }


def _usage_cost(parts: Sequence[WorkloadFacts]) -> Decimal | None:
    """Σ cost × share of hours with tokens moving; a workload without tokens adds nothing."""
    total = Decimal(0)
    for w in parts:
        if not w.common_hours or w.active_hours is None or w.common_cost is None:
            return None
        above = EXACT.multiply(w.common_cost, Decimal(w.active_hours))
        total = EXACT.add(total, divide(above, Decimal(w.common_hours)))
    return total


def _saving_reason(compared: Any) -> str:
    """Why there is no saving, or no bounds of it."""
    known = [one for one in compared if one]
    for one in known:
        if one.reason or one.bounds_reason:
            return str(one.reason or one.bounds_reason)
    return NO_BASELINE


def _explained(figures: Value, reasons: Mapping[str, str], saving: str) -> Reasons:
    """A reason for every null and none for what is known."""
    found = {}
    for name, value in figures.items():
        if value is None:
            default = saving if name in SAVINGS else UNKNOWN.get(name, NO_READINGS)
            found[name] = reasons.get(name) or default
    return found
