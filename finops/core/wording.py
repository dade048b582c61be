"""Sentences of a statement in plain words; figures in them are rounded for reading (§1)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .money import divide, round_half_even

HUNDRED = Decimal(100)


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
    share = abs(divide(HUNDRED * (now - before), before))
    whole = round_half_even(share, 0 if share >= 1 else 1)
    if not whole:
        return "about as much as"
    return f"{whole} % {'less' if now < before else 'more'} than"


def headline(
    week: str,
    currency: str,
    figures: Mapping[str, Any],
    reasons: Mapping[str, str],
    previous: Mapping[str, Any] | None,
    legacy: tuple[Decimal, Decimal] | None,
    complete: bool,
) -> str:
    """The one sentence that answers what a million tokens cost.

    `legacy` is (actual, counterfactual) of the workloads that have a baseline.
    """
    text = figures["cost_per_million_tokens"]
    if text is None:
        reason = reasons.get("cost_per_million_tokens", "unknown")
        return f"No cost per million tokens can be given for week {week}: {reason}."
    cost = Decimal(text)
    sentence = f"A million tokens cost {amount_text(cost)} {currency} in week {week}"
    comparisons = []
    before = previous["cost_per_million_tokens"] if previous else None
    if before is not None and Decimal(before) > 0:
        comparisons.append(f"{compared(cost, Decimal(before))} the week before")
    if legacy and legacy[1] > 0:
        comparisons.append(f"{compared(*legacy)} on the legacy stack")
    if comparisons:
        sentence += ", " + " and ".join(comparisons)
    return sentence + ("." if complete else " (preliminary: not all hours have both figures yet).")
