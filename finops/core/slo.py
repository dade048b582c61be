"""Service levels: what came in time, as bounds that an engine's histograms give (method §5).

A histogram tells how many observations lay at or below each bucket's bound. A threshold between two
bounds leaves open which side the observations in between lie on: so every count is an interval of
whole numbers, and every share an interval of exact fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

INFINITE = Decimal("Infinity")
FIRST_TOKEN, INTER_TOKEN = "first_token", "inter_token"
MEASURES = (FIRST_TOKEN, INTER_TOKEN)
MET, MISSED, UNDECIDED = "met", "missed", "undecided"
KEPT_SECONDS: Mapping[str, tuple[Decimal, Decimal]] = {
    FIRST_TOKEN: (Decimal("0.1"), Decimal(10)),
    INTER_TOKEN: (Decimal("0.01"), Decimal(1)),
}
"""The buckets that the ledger keeps beside the last one: bounds from … to, in seconds."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One dated service level objective of a workload. `target` is the share that has to come in
    time; a threshold in seconds that is None is not part of the objective."""

    workload: str
    first_token_seconds: Decimal | None
    inter_token_seconds: Decimal | None
    target: Decimal
    valid_from: datetime
    at: datetime
    by: str
    note: str = ""

    def threshold_seconds(self, measure: str) -> Decimal | None:
        """The threshold of a measure."""
        return self.first_token_seconds if measure == FIRST_TOKEN else self.inter_token_seconds


@dataclass(frozen=True, slots=True)
class InTime:
    """How many of `counted` observations came in time: at least `lower`, at most `upper`."""

    counted: int
    lower: int
    upper: int

    def shares(self) -> tuple[Fraction, Fraction] | None:
        """The lowest and the highest share in time; None where nothing was counted."""
        if self.counted == 0:
            return None
        return Fraction(self.lower, self.counted), Fraction(self.upper, self.counted)

    def verdict(self, target: Decimal) -> str | None:
        """Whether the share reaches the target: met, missed, or undecided where the bounds lie on
        both sides of it; None where nothing was counted."""
        shares = self.shares()
        if shares is None:
            return None
        if shares[0] >= Fraction(target):
            return MET
        return MISSED if shares[1] < Fraction(target) else UNDECIDED


@dataclass(frozen=True, slots=True)
class BucketHour:
    """One bucket in one hour: observations at or below its bound, and how often it was read."""

    count: int
    readings: int


def in_time(buckets: Mapping[Decimal, BucketHour], threshold_seconds: Decimal) -> InTime | None:
    """Of one engine's cumulative buckets in one hour, how many came within a threshold.

    Certainly in time: the largest bound at or below it. Possibly: the smallest at or above it. A
    bound that was read less often than the last bucket is left out: it does not speak of all
    observations. Where bounds contradict each other, all that is known is how many there were. None
    without the last bucket.
    """
    whole = buckets.get(INFINITE)
    if whole is None:
        return None
    told = {bound: one.count for bound, one in buckets.items() if one.readings >= whole.readings}
    in_order = [told[bound] for bound in sorted(told)]
    if any(before > after for before, after in pairwise(in_order)):
        return InTime(whole.count, 0, whole.count)
    below = [bound for bound in told if bound <= threshold_seconds]
    above = [bound for bound in told if bound >= threshold_seconds]
    return InTime(whole.count, told[max(below)] if below else 0, told[min(above)])


def together(parts: Iterable[InTime]) -> InTime:
    """Several disjoint counts as one."""
    every = list(parts)
    return InTime(
        sum(part.counted for part in every),
        sum(part.lower for part in every),
        sum(part.upper for part in every),
    )


Shares = tuple[Fraction, Fraction]


def joint(shares: Iterable[Shares]) -> Shares:
    """The share that keeps every one of several thresholds, of which only each alone is known.

    At most the smallest of them; at least what is left when their misses do not overlap.
    """
    every = list(shares)
    missed = sum((1 - low for low, _ in every), Fraction(0))
    return max(Fraction(0), 1 - missed), min((high for _, high in every), default=Fraction(1))


def good_tokens(lower: int, upper: int, share: Shares) -> tuple[int, int]:
    """Tokens of requests in time, of tokens between two bounds: rounded outwards."""
    above = Fraction(upper) * share[1]
    return int(Fraction(lower) * share[0]), -int(-above // 1)
