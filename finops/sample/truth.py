"""What is true of the sample organisation, kept while its files are written.

Tokens are kept as the engines counted them, by the hour of the reading that shows them, apart from
those that no reading ever showed. Money is kept line by line with the place where it belongs. The
arithmetic here is the tests' oracle: it uses nothing of `finops.core`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

HOUR_MS = 3_600_000
KINDS = (
    "prompt",
    "generation",
    "cached_prompt",
    "delivered_prompt",
    "delivered_generation",
    "preemptions",
)
Counts = tuple[int, ...]
PART_DIGITS = 4


def total(counts: Iterator[Counts] | list[Counts]) -> dict[str, int]:
    """The sums by kind."""
    sums = [0] * len(KINDS)
    for row in counts:
        for index, value in enumerate(row):
            sums[index] += value
    return dict(zip(KINDS, sums, strict=True))


@dataclass(frozen=True)
class Loss:
    """Tokens counted by an engine before it ended and after its last reading. `at_ms` is the
    reading that shows the restart, or the last one of a pod that did not come back."""

    workload: str
    at_ms: int
    counts: Counts


@dataclass(frozen=True)
class Restart:
    """One engine that was born again at its address, as `at_ms` was the first to show."""

    workload: str
    at_ms: int
    hidden: bool


@dataclass(frozen=True)
class Line:
    """One line of an invoice file: its period, its money as written, and where it belongs.

    `place` is a workload's slug, `shared:KEY`, `unused commitment`, `out of scope`, `unassigned`,
    or `covering purchase` for what was bought and shows its cost in the charges it covers.
    """

    issuer: str
    month: str
    invoice: str | None
    start_ms: int
    end_ms: int
    billed: Decimal
    effective: Decimal
    place: str


def part(cost: Decimal, start_ms: int, end_ms: int, since_ms: int, until_ms: int) -> Decimal:
    """The share of a cost over [start, end) that falls into [since, until) (method §3.7)."""
    if start_ms == end_ms:
        return cost if since_ms <= start_ms < until_ms else Decimal(0)
    exponent = cost.as_tuple().exponent
    digits = max(0, -int(exponent)) + PART_DIGITS
    units = int(cost.scaleb(digits))

    def up_to(time_ms: int) -> int:
        inside = min(max(time_ms, start_ms), end_ms) - start_ms
        return round(Fraction(units * inside, end_ms - start_ms))  # half to even

    return Decimal(up_to(until_ms) - up_to(since_ms)).scaleb(-digits)


@dataclass
class Truth:
    """Everything that is true; filled by the writers of the files."""

    shown: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    readings: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    lines: list[Line] = field(default_factory=list)

    def book(self, workload: str, time_ms: int, counts: Counts) -> None:
        """Counts that a reading (or a usage record) at an instant shows."""
        hour = self.shown.setdefault((workload, time_ms // HOUR_MS), [0] * len(KINDS))
        for index, value in enumerate(counts):
            hour[index] += value

    def tokens(self, workload: str, since_ms: int, until_ms: int) -> dict[str, int]:
        """What readings in whole hours show of a workload, by kind."""
        hours = range(since_ms // HOUR_MS, until_ms // HOUR_MS)
        rows = (self.shown.get((workload, hour)) for hour in hours)
        return total([tuple(row) for row in rows if row])

    def lost(self, workload: str, since_ms: int, until_ms: int) -> dict[str, int]:
        """What no reading showed, by kind."""
        inside = (x for x in self.losses if x.workload == workload)
        return total([x.counts for x in inside if since_ms <= x.at_ms < until_ms])

    def money(self, since_ms: int, until_ms: int) -> dict[str, tuple[Decimal, Decimal]]:
        """Billed and effective cost by place, of the parts inside a period, as incurred."""
        sums: dict[str, tuple[Decimal, Decimal]] = {}
        for line in self.lines:
            if line.end_ms < since_ms or line.start_ms >= until_ms:
                continue
            span = (line.start_ms, line.end_ms, since_ms, until_ms)
            billed, effective = sums.get(line.place, (Decimal(0), Decimal(0)))
            sums[line.place] = (
                billed + part(line.billed, *span),
                effective + part(line.effective, *span),
            )
        return sums

    def invoices(self) -> dict[tuple[str, str, str | None], tuple[int, Decimal]]:
        """Lines and billed cost of each (issuer, month, invoice)."""
        sums: dict[tuple[str, str, str | None], tuple[int, Decimal]] = {}
        for line in self.lines:
            key = (line.issuer, line.month, line.invoice)
            count, billed = sums.get(key, (0, Decimal(0)))
            sums[key] = (count + 1, billed + line.billed)
        return sums
