"""Sentences of a statement in plain words; figures in them are rounded for reading (§1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .money import EXACT, divide, round_half_even

HUNDRED = Decimal(100)
READ_TWICE = (
    "Engines shown with who tells of them may be one engine that two jobs or sources read. Until a rule "
    "on job or source decides, each stands for itself and they are not added up: the one that was read "
    "longest counts."
)
"""Said where engines stand one by one and no rule has decided which of two is the engine (§2.7)."""


def amount_text(amount: Decimal) -> str:
    """An amount for a sentence: two decimals, more where it is smaller than ten cents."""
    decimals = 2
    if amount and abs(amount) < Decimal("0.1"):
        decimals = min(12, 1 - amount.adjusted())
    return f"{round_half_even(amount, decimals):,f}"


def compared(now: Decimal, before: Decimal) -> str:
    """`12 % less than`, `5 % more than` or `as much as`, rounded to whole per cent."""
    if now == before:
        return "as much as"
    change = EXACT.multiply(HUNDRED, EXACT.subtract(now, before))
    share = divide(change, before).copy_abs()  # abs() would round to the digits of its context
    whole = round_half_even(share, 0 if share >= 1 else 1)
    if not whole:
        return "about as much as"
    return f"{whole} % {'less' if now < before else 'more'} than"


@dataclass(frozen=True, slots=True)
class Legacy:
    """What the workloads with a baseline cost, and what their tokens would have cost there."""

    actual: Decimal
    counterfactual: Decimal
    workloads: tuple[str, ...]
    all_workloads: bool

    def name(self) -> str:
        """The workloads, for a sentence."""
        if len(self.workloads) == 1:
            return self.workloads[0]
        return f"the {len(self.workloads)} workloads with a baseline"


def counted_text(count: int, noun: str) -> str:
    """`1 gap`, `2 gaps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def headline(
    week: str,
    currency: str,
    figures: Mapping[str, Any],
    reasons: Mapping[str, str],
    previous: Mapping[str, Any] | None,
    legacy: Legacy | None,
    complete: bool,
) -> str:
    """The one sentence that answers what a million tokens cost."""
    text = figures["cost_per_million_tokens"]
    if text is None:
        reason = reasons.get("cost_per_million_tokens", "unknown")
        return f"No cost per million tokens can be given for week {week}: {reason}."
    cost = Decimal(text)
    sentence = f"A million tokens cost {amount_text(cost)} {currency} in week {week}"
    comparisons, after = [], ""
    before = previous["cost_per_million_tokens"] if previous else None
    if before is not None and Decimal(before) > 0:
        comparisons.append(f"{compared(cost, Decimal(before))} the week before")
    if legacy and legacy.counterfactual > 0:
        text = compared(legacy.actual, legacy.counterfactual)
        if legacy.all_workloads:
            comparisons.append(f"{text} on the legacy stack")
        else:
            after = f"; {legacy.name()} cost {text} on the legacy stack"
    if comparisons:
        sentence += ", " + " and ".join(comparisons)
    sentence += after
    return sentence + ("." if complete else " (preliminary: not all hours have both figures yet).")
