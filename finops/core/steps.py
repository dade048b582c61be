"""Steps between readings: their lower median, and one day's account of them (method §2.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Any

import numpy as np

MOST_STEPS = 64
"""How many lengths of steps a day's account holds."""


def lower_median(steps: Sequence[int] | np.ndarray[Any, Any]) -> int:
    """The lower median of a non-empty list or column."""
    middle = (len(steps) - 1) // 2
    if isinstance(steps, np.ndarray):
        return int(np.partition(steps, middle)[middle])
    return sorted(steps)[middle]


def lower_median_of(counts: Mapping[int, int]) -> int:
    """The lower median of steps that came so often each, at least one. Raises ValueError of none."""
    left = (sum(counts.values()) - 1) // 2
    for step, count in sorted(counts.items()):
        if left < count:
            return step
        left -= count
    raise ValueError("no steps")


@dataclass(slots=True)
class Steps:
    """A replica's steps of one UTC day so far: its last reading, and how often each step came.

    `counts` is None where more than MOST_STEPS lengths came: then the day is derived from its
    start whenever a later hour of it comes.
    """

    last_ms: int | None
    counts: dict[int, int] | None = field(default_factory=dict)
    is_seen: bool = False

    def as_json(self) -> list[Any]:
        """Plain values, the same for the same steps."""
        counts = None if self.counts is None else sorted(map(list, self.counts.items()))
        return [self.last_ms, counts]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Steps:
        """What `as_json` wrote of a replica that was seen."""
        last_ms, counts = value
        return cls(last_ms, None if counts is None else dict(counts), True)

    def add(self, times_ms: Sequence[int]) -> None:
        """Counts the steps that end at these readings, which follow in time."""
        if self.counts is not None:
            found = list(map(sub, times_ms[1:], times_ms))
            if self.last_ms is not None:
                found.append(times_ms[0] - self.last_ms)
            for step, count in Counter(found).items():
                self.counts[step] = self.counts.get(step, 0) + count
            if len(self.counts) > MOST_STEPS:
                self.counts = None
        self.last_ms, self.is_seen = times_ms[-1], True

    def usual_ms(self) -> int | None:
        """The lower median; None where it is not known, or of a single step."""
        counts = self.counts or {}
        return lower_median_of(counts) if sum(counts.values()) > 1 else None
