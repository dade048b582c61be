"""Unit costs: cost per million tokens, blended, by class and with bounds; tokens per dollar (§5).

Every figure is a quotient to 60 digits, never rounded further; a figure that cannot be given is
None and its reason is told. Class costs are exact shares: they sum to the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from .money import EXACT, WIDE, divide, split

MILLION = Decimal(1_000_000)
SHOWN_WIDTH = Decimal("0.001")  # bounds are shown when they lie further apart than 0.1 % (§5)

CLASSES = ("prompt", "cached_prompt", "generation")


@dataclass(frozen=True, slots=True)
class Weights:
    """The declared ratio of what one token of each class costs."""

    prompt: Decimal = Decimal(1)
    cached_prompt: Decimal = Decimal("0.1")
    generation: Decimal = Decimal(4)
    kind: str = "declared ratio"

    def of(self, name: str) -> Decimal:
        """The weight of a class."""
        return Decimal(getattr(self, name))


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of a period: `cached_prompt` is a part of `prompt`, None where no engine tells it.

    `lower` and `upper` bound prompt and generation tokens together; None where unknown.
    """

    prompt: int
    generation: int
    cached_prompt: int | None = None
    lower: int | None = None
    upper: int | None = None

    @property
    def total(self) -> int:
        """Prompt and generation tokens."""
        return self.prompt + self.generation

    def by_class(self) -> dict[str, int]:
        """Tokens of each class known: uncached prompt, cached prompt, generation."""
        cached = self.cached_prompt
        if cached is None:
            return {"prompt": self.prompt, "generation": self.generation}
        uncached = max(0, self.prompt - cached)
        return {"prompt": uncached, "cached_prompt": cached, "generation": self.generation}

    @property
    def wide(self) -> bool:
        """Whether the bounds lie far enough apart to be shown."""
        if self.lower is None or self.upper is None or self.total <= 0:
            return False
        return self.upper - self.lower > SHOWN_WIDTH * self.total


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """The figures of a group; `reasons` says why a figure is None."""

    cost_per_million_tokens: Decimal | None = None
    cost_per_million_prompt_tokens: Decimal | None = None
    cost_per_million_cached_prompt_tokens: Decimal | None = None
    cost_per_million_generation_tokens: Decimal | None = None
    cost_per_million_lower: Decimal | None = None
    cost_per_million_upper: Decimal | None = None
    usage_cost_per_million_tokens: Decimal | None = None
    tokens_per_dollar: Decimal | None = None
    class_costs: Mapping[str, Decimal] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)


FIGURES = tuple(
    name for name in UnitCosts.__dataclass_fields__ if name not in ("class_costs", "reasons")
)


def per_million(cost: Decimal, tokens: int) -> Decimal:
    """Cost ÷ tokens × 10⁶. Raises ZeroDivisionError for no tokens."""
    return divide(EXACT.multiply(cost, MILLION), Decimal(tokens))


def why_not(cost: Decimal | None, counted: Counted | None) -> str | None:
    """The reason why a cost and its tokens give no unit cost, or None when they do (§5)."""
    if counted is None:
        return "no readings of tokens in hours that have cost"
    if cost is None:
        return "no cost in hours that have readings of tokens"
    if counted.total == 0:
        return "no tokens in the period"
    if cost == 0:
        return "the cost is zero"
    if cost < 0:
        return "credits are larger than the cost"
    return None


def unit_costs(
    cost: Decimal | None,
    counted: Counted | None,
    weights: Weights | None = None,
    *,
    active_hours: int | None = None,
    hours: int | None = None,
) -> UnitCosts:
    """All unit costs of a group (method §5).

    `hours` are the hours that have both cost and readings, `active_hours` those in which tokens
    moved: the usage basis is the allocation basis times their ratio.
    """
    reason = why_not(cost, counted)
    if reason or cost is None or counted is None:
        return UnitCosts(reasons=dict.fromkeys(FIGURES, reason or ""))
    reasons: dict[str, str] = {}
    figures: dict[str, Decimal | None] = {
        "cost_per_million_tokens": per_million(cost, counted.total),
        "tokens_per_dollar": divide(Decimal(counted.total), cost),
        **_class_prices(cost, counted, weights or Weights(), reasons),
        **_bounds(cost, counted, reasons),
        **_usage(cost, counted, active_hours, hours, reasons),
    }
    costs = class_costs(cost, counted, weights or Weights())
    return UnitCosts(**figures, class_costs=costs, reasons=reasons)


def class_costs(cost: Decimal, counted: Counted, weights: Weights) -> dict[str, Decimal]:
    """C_k = C × w_k T_k ÷ Σ w_j T_j as amounts that sum to the cost exactly; empty without tokens."""
    by_class = counted.by_class()
    parts = [EXACT.multiply(weights.of(name), Decimal(n)) for name, n in by_class.items()]
    if not any(parts):
        return {}
    return dict(zip(by_class, split(cost, parts), strict=True))


def _class_prices(
    cost: Decimal, counted: Counted, weights: Weights, reasons: dict[str, str]
) -> dict[str, Decimal | None]:
    by_class = counted.by_class()
    weighted = Decimal(0)
    for name, count in by_class.items():
        weighted = EXACT.add(weighted, EXACT.multiply(weights.of(name), Decimal(count)))
    prices: dict[str, Decimal | None] = {}
    for name in CLASSES:
        figure = f"cost_per_million_{name}_tokens"
        prices[figure] = None
        if name not in by_class:
            reasons[figure] = "the engines do not tell cached prompt tokens"
        elif not by_class[name]:
            reasons[figure] = "no tokens of this class in the period"
        elif not weighted:
            reasons[figure] = "the weights of the tokens sum to zero"
        else:
            above = EXACT.multiply(EXACT.multiply(cost, weights.of(name)), MILLION)
            prices[figure] = divide(above, weighted)
    return prices


def _bounds(cost: Decimal, counted: Counted, reasons: dict[str, str]) -> dict[str, Decimal | None]:
    lower = upper = None
    if counted.wide and counted.lower is not None and counted.upper is not None:
        lower = per_million(cost, counted.upper)
        upper = per_million(cost, counted.lower) if counted.lower > 0 else None
        if upper is None:
            reasons["cost_per_million_upper"] = "it is not sure that any token was counted"
    else:
        known = counted.lower is not None and counted.upper is not None
        why = "the bounds lie within 0.1 %" if known else "the tokens have no bounds"
        for name in ("cost_per_million_lower", "cost_per_million_upper"):
            reasons[name] = why
    return {"cost_per_million_lower": lower, "cost_per_million_upper": upper}


def _usage(
    cost: Decimal,
    counted: Counted,
    active_hours: int | None,
    hours: int | None,
    reasons: dict[str, str],
) -> dict[str, Decimal | None]:
    name = "usage_cost_per_million_tokens"
    if not active_hours or not hours:
        reasons[name] = "no hours in which tokens are known to have moved"
        return {name: None}
    above = EXACT.multiply(EXACT.multiply(cost, MILLION), Decimal(active_hours))
    return {name: divide(above, Decimal(counted.total * hours))}


def change(now: Decimal | None, before: Decimal | None) -> Decimal | None:
    """(now − before) ÷ before as a ratio; None where either is unknown or before is zero."""
    if now is None or before is None or before == 0:
        return None
    return WIDE.divide(WIDE.subtract(now, before), before)
