"""Lengths of requests and steps, from an engine's histograms, as bounds (method §9).

A bucket counts what was at most its upper edge; the counts of a period are whole numbers booked
from raw readings as tokens are (§2). What lies inside a bucket is not told: every answer is the
bucket's two edges, and None where the histogram has no upper edge for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation


@dataclass(frozen=True, slots=True)
class Between:
    """More than `over` and at most `most`; `most` is None where the last bucket is open."""

    over: int
    most: int | None

    def words(self, unit: str = "tokens") -> str:
        """`1,001 to 2,000 tokens`, `over 10,000 tokens`."""
        if self.most is None:
            return f"over {self.over:,} {unit}"
        return f"{self.over + 1:,} to {self.most:,} {unit}"

    def as_json(self) -> list[int | None]:
        """The two edges."""
        return [self.over, self.most]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by upper edge, each of what lies in its bucket alone, edges in order."""

    buckets: tuple[tuple[int | None, int], ...] = ()

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(number for _, number in self.buckets)

    @property
    def longest(self) -> Between | None:
        """The bucket of the longest; None where nothing was counted."""
        return self._bucket_at(self.count)

    def quantile(self, share: Decimal) -> Between | None:
        """The bucket that holds the length not exceeded by this share; None without a count."""
        wanted = int((share * self.count).to_integral_value(rounding="ROUND_CEILING"))
        return self._bucket_at(max(1, wanted))

    def over(self, edge: int) -> tuple[int, int]:
        """How many were longer than an edge: at least and at most."""
        surely = sum(n for (low, _), n in self._spans() if low >= edge)
        perhaps = sum(n for (_, high), n in self._spans() if high is None or high > edge)
        return surely, perhaps

    def _spans(self) -> list[tuple[tuple[int, int | None], int]]:
        found, low = [], 0
        for high, number in self.buckets:
            found.append(((low, high), number))
            low = low if high is None else high
        return found

    def _bucket_at(self, place: int) -> Between | None:
        reached = 0
        for (low, high), number in self._spans():
            reached += number
            if number and reached >= place > 0:
                return Between(low, high)
        return None


def histogram(at_most: Mapping[str, int]) -> Histogram:
    """From counts by the text of `le`, each of all up to its edge, as Prometheus keeps them.

    A restart in the middle of a scrape may leave a higher edge with less: the difference counts as
    0. Edges that are no whole number of tokens are left out with what they alone tell.
    """
    known = sorted(
        ((edge, count) for text, count in at_most.items() if (edge := _edge(text)) != -1),
        key=lambda one: (one[0] is None, one[0] or 0),
    )
    found, before = [], 0
    for edge, count in known:
        found.append((edge, max(0, count - before)))
        before = max(before, count)
    return Histogram(tuple(found))


def together(histograms: Iterable[Histogram]) -> Histogram:
    """Several engines' counts as one; they have the same edges, or those of each are kept."""
    found: dict[int | None, int] = {}
    for one in histograms:
        for edge, number in one.buckets:
            found[edge] = found.get(edge, 0) + number
    order = sorted(found, key=lambda edge: (edge is None, edge or 0))
    return Histogram(tuple((edge, found[edge]) for edge in order))


def _edge(text: str) -> int | None:
    """The edge of a bucket: None for the open one, -1 for what is no whole number."""
    try:
        edge = Decimal(text)
    except InvalidOperation:
        return -1
    if edge.is_infinite() and edge > 0:
        return None
    if not edge.is_finite() or edge < 0 or edge != edge.to_integral_value():
        return -1
    return int(edge)
