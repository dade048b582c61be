"""The week-over-week bridge: why the cost per million tokens changed, exactly (method §7).

Fractions inside; the rows are given as decimals of fixed length that sum to their total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from .money import EXACT, add

MILLION = 1_000_000
DECIMALS = 24
MAIN_ROWS = ("price", "efficiency", "mix", "entered", "left")


@dataclass(frozen=True, slots=True)
class Group:
    """One workload on one GPU model in one period; `active_share` of its hours moved tokens."""

    cost: Decimal
    gpu_hours: Decimal
    tokens: int
    active_share: Fraction | None = None

    @property
    def r(self) -> Fraction:
        """Cost per GPU-hour."""
        return Fraction(self.cost) / Fraction(self.gpu_hours)

    @property
    def p(self) -> Fraction:
        """Tokens per GPU-hour."""
        return Fraction(self.tokens) / Fraction(self.gpu_hours)

    @property
    def c(self) -> Fraction:
        """Cost per token."""
        return Fraction(self.cost) / self.tokens

    @property
    def bridged(self) -> bool:
        """Whether the group has both tokens and GPU-hours."""
        return self.tokens > 0 and self.gpu_hours > 0


@dataclass(frozen=True, slots=True)
class Side:
    """One week: its groups by key, its whole cost and tokens (groups outside the bridge too)."""

    groups: Mapping[str, Group]
    cost: Decimal
    tokens: int

    @property
    def bridged(self) -> dict[str, Group]:
        """The groups with tokens and GPU-hours."""
        return {key: group for key, group in self.groups.items() if group.bridged}


@dataclass(frozen=True, slots=True)
class Bridge:
    """Changes of cost per token as fractions; `rows` are per group, `total` = Σ parts."""

    price: Fraction
    efficiency: Fraction
    mix: Fraction
    entered: Fraction
    left: Fraction
    cost_without_tokens: Fraction
    total: Fraction
    active_share: Fraction | None
    throughput: Fraction | None
    rows: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)


def bridge(before: Side, after: Side) -> Bridge | None:
    """The bridge between two weeks, or None when one of them has no tokens with GPU-hours.

    Σ of price, efficiency, mix, entered, left and cost without tokens is the change of cost per
    token exactly; raises ArithmeticError should it ever not be. Tokens without GPU-hours thin the
    cost out: that stands in the row of cost without tokens or GPU-hours.
    """
    old, new = before.bridged, after.bridged
    if not old or not new:
        return None
    tokens0 = sum(group.tokens for group in old.values())
    tokens1 = sum(group.tokens for group in new.values())
    c0 = sum((Fraction(g.cost) for g in old.values()), Fraction(0)) / tokens0
    c1 = sum((Fraction(g.cost) for g in new.values()), Fraction(0)) / tokens1
    s0 = {key: Fraction(group.tokens, tokens0) for key, group in old.items()}
    s1 = {key: Fraction(group.tokens, tokens1) for key, group in new.items()}
    rows = {key: _row(key, old, new, s0, s1, c0) for key in sorted({*old, *new})}
    sums = {name: sum((r[name] for r in rows.values()), Fraction(0)) for name in MAIN_ROWS}
    whole0 = Fraction(before.cost) / before.tokens
    whole1 = Fraction(after.cost) / after.tokens
    outside = (whole1 - c1) - (whole0 - c0)
    if sum(sums.values(), outside) != whole1 - whole0:
        raise ArithmeticError("the bridge does not sum to the change of the cost per token")
    active = _halves(old, new, s1)
    return Bridge(**sums, cost_without_tokens=outside, total=whole1 - whole0, rows=rows,
                  active_share=active, throughput=None if active is None
                  else sums["efficiency"] - active)  # fmt: skip


def _row(
    key: str,
    old: Mapping[str, Group],
    new: Mapping[str, Group],
    s0: Mapping[str, Fraction],
    s1: Mapping[str, Fraction],
    c0: Fraction,
) -> dict[str, Fraction]:
    row = dict.fromkeys(MAIN_ROWS, Fraction(0))
    if key not in old:
        row["entered"] = s1[key] * (new[key].c - c0)
    elif key not in new:
        row["left"] = -s0[key] * (old[key].c - c0)
    else:
        a, b = old[key], new[key]
        row["price"] = s1[key] * (b.r - a.r) / a.p
        row["efficiency"] = s1[key] * b.r * (1 / b.p - 1 / a.p)
        row["mix"] = (s1[key] - s0[key]) * (a.r / a.p - c0)
    return row


def _halves(
    old: Mapping[str, Group], new: Mapping[str, Group], s1: Mapping[str, Fraction]
) -> Fraction | None:
    """The part of efficiency that comes of the active share: p = a·q (method §7)."""
    total = Fraction(0)
    for key in old.keys() & new.keys():
        a0, a1 = old[key].active_share, new[key].active_share
        if not a0 or not a1:
            return None
        q0 = old[key].p / a0
        total += s1[key] * new[key].r * (1 / a1 - 1 / a0) / q0
    return total


def per_million_text(parts: Mapping[str, Fraction]) -> dict[str, Decimal]:
    """Fractions per token as decimals per million tokens that still sum to their rounded total.

    Each is cut to 24 decimals; the last digits that are left over go to the largest part.
    """
    exact = {name: value * MILLION for name, value in parts.items()}
    cut = {name: decimal_of(value) for name, value in exact.items()}
    whole = decimal_of(sum(exact.values(), Fraction(0)))
    largest = max(exact, key=lambda name: (abs(exact[name]), name))
    rest = EXACT.subtract(whole, add(list(cut.values())))
    cut[largest] = EXACT.add(cut[largest], rest)
    return cut


def decimal_of(value: Fraction) -> Decimal:
    """A fraction as a decimal of at most 24 places, rounded half to even."""
    units, places = round(value * 10**DECIMALS), DECIMALS
    while places and units % 10 == 0:
        units, places = units // 10, places - 1
    return EXACT.scaleb(Decimal(units), -places)
