"""Which mark came with each reading: the marks of a target's counters as columns (method §2.1)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from finops.core.counter_values import Mark


@dataclass(frozen=True, slots=True)
class MarkColumn:
    """One kind of mark of one replica: times in milliseconds, marks in microseconds."""

    kind: str
    times_ms: Sequence[int]
    micros: Sequence[int]

    @classmethod
    def of(cls, kind: str, times_ms: Sequence[int], values: Sequence[float]) -> MarkColumn:
        """The column of readings in seconds. A mark only tells incarnations apart; it is no amount,
        so it may be rounded."""
        rounded = {value: round(value * 1_000_000) for value in set(values)}
        return cls(kind, times_ms, [rounded[value] for value in values])

    def the_one(self, times_ms: Sequence[int]) -> Mark | None:
        """The mark that came with every one of these readings; None where there is no such."""
        start, count = bisect_left(self.times_ms, times_ms[0]), len(times_ms)
        if self.times_ms[start : start + count] != times_ms:
            return None
        marks = self.micros[start : start + count]
        return (self.kind, marks[0]) if marks.count(marks[0]) == count else None

    def between(self, first_ms: int, last_ms: int) -> dict[int, int]:
        """The marks from one instant to another, by time."""
        start, end = bisect_left(self.times_ms, first_ms), bisect_right(self.times_ms, last_ms)
        return dict(zip(self.times_ms[start:end], self.micros[start:end], strict=True))


def marks_at(
    times_ms: Sequence[int], columns: Sequence[MarkColumn]
) -> Mark | list[Mark | None] | None:
    """The mark of each reading, the preferred kind first; one value where all are the same."""
    if not columns:
        return None
    if one := columns[0].the_one(times_ms):
        return one
    known = [(column.kind, column.between(times_ms[0], times_ms[-1])) for column in columns]
    marks = [
        next(((kind, at[time_ms]) for kind, at in known if time_ms in at), None)
        for time_ms in times_ms
    ]
    return marks[0] if len(set(marks)) == 1 else marks
