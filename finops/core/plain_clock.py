"""What the times of plain hours tell: steps between readings, the day's usual interval, gaps.

One clock serves all counters that one replica read at the same instants. An hour is told from the
state before it; None where it is not plain (`plain_hours`).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .counter_values import DAY_MS, is_gap
from .steps import MOST_STEPS, lower_median_of

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Within(NamedTuple):
    """The steps between the readings of one hour: all of them, the shortest and the longest; of a
    single reading both are None."""

    steps_ms: Numbers
    shortest_ms: int | None
    longest_ms: int | None


@dataclass(frozen=True, slots=True)
class Tick:
    """What the times of one hour tell; `even_ms` where all steps that end in it are equal.

    `steps` are the day's steps so far, as a counter's state has them.
    """

    replica: str
    hour_ms: int
    day: int
    readings: int
    first_ms: int
    last_ms: int
    usual_ms: int
    even_ms: int | None
    steps: list[Any]


@dataclass(slots=True)
class Clock:
    """The clock of one replica's readings: their times by hour, and where the state before stands.

    `usual` and `steps` are as the state has them.
    """

    replica: str
    times_ms: Mapping[int, array[int]]
    last_ms: int | None = None
    day: int | None = None
    usual: Mapping[str, int] = field(default_factory=dict)
    steps: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    _counts: dict[int, int] | None = None
    _usual_ms: int | None = None
    _is_checked: bool = False

    @classmethod
    def after(cls, tick: Tick, times_ms: Mapping[int, array[int]]) -> Clock:
        """The clock of the same replica's next readings, after the hour of a tick."""
        usual, steps = {tick.replica: tick.usual_ms}, {tick.replica: tick.steps}
        return cls(tick.replica, times_ms, tick.last_ms, tick.day, usual, steps)

    def is_of(self, state: Mapping[str, Any]) -> bool:
        """Whether a counter's state stands where this clock does."""
        if not state:
            return self.last_ms is None
        return (
            self.last_ms == state["last"]
            and self.day == state.get("day")
            and self.usual == state["usual"]
            and self.steps == state.get("steps", {})
        )

    def tick(self, hour_ms: int, within: Within) -> Tick | None:
        """The hour after the state, which then stands after it; None where it is not plain."""
        times, before_ms, day = self.times_ms[hour_ms], self.last_ms, hour_ms // DAY_MS
        if day != self.day:
            self._begin(day, hour_ms)
        elif not self._is_checked:
            self._go_on(hour_ms)
        self._is_checked = True
        if self._usual_ms is None or self._counts is None:
            return None
        shortest, longest = within.shortest_ms, within.longest_ms
        if before_ms is not None:
            first = times[0] - before_ms
            shortest = first if shortest is None or first < shortest else shortest
            longest = first if longest is None or first > longest else longest
        if shortest is None or longest is None or shortest <= 0:
            return None
        if is_gap(longest, self._usual_ms):
            return None
        even_ms = longest if shortest == longest else None
        self._count(within, times, before_ms)
        self.last_ms = times[-1]
        counts = None if self._counts is None else sorted(map(list, self._counts.items()))
        return Tick(
            self.replica,
            hour_ms,
            day,
            len(times),
            times[0],
            times[-1],
            self._usual_ms,
            even_ms,
            [times[-1], counts],
        )

    def steps_of(self, hour_ms: int, before_ms: int | None) -> Numbers:
        """The steps that end at the readings of an hour; 0 to the first one of all."""
        times = np.frombuffer(self.times_ms[hour_ms], np.int64)
        return np.diff(times, prepend=times[0] if before_ms is None else before_ms)

    # -- the day's account -------------------------------------------------------------------------

    def _begin(self, day: int, hour_ms: int) -> None:
        """A day's first hour: its usual interval is told by all of it that is at hand."""
        self.day, self._counts = day, {}
        counts = _tally(self._steps_from(hour_ms))
        self._usual_ms = lower_median_of(counts) if sum(counts.values()) > 1 else None

    def _go_on(self, hour_ms: int) -> None:
        """A later hour: plain as long as all that is at hand leaves the usual interval as it was."""
        self._counts = self._usual_ms = None
        if set(self.steps) != {self.replica}:
            return
        _, counts = self.steps[self.replica]
        if counts is None:
            return
        self._counts = dict(counts)
        whole = _tally(self._steps_from(hour_ms))
        for step, count in counts:
            whole[step] = whole.get(step, 0) + count
        # With more lengths than a day's account holds, its interval is not known.
        if len(whole) <= MOST_STEPS and sum(whole.values()) > 1:
            usual_ms = lower_median_of(whole)
            self._usual_ms = usual_ms if self.usual == {self.replica: usual_ms} else None

    def _steps_from(self, hour_ms: int) -> Numbers:
        """The steps that end in an hour or in the later hours of its day that are at hand."""
        day = hour_ms // DAY_MS
        some = [
            np.frombuffer(times, np.int64)
            for at_ms, times in self.times_ms.items()
            if at_ms >= hour_ms and at_ms // DAY_MS == day
        ]
        whole = np.concatenate(some) if len(some) > 1 else some[0]
        return np.diff(whole) if self.last_ms is None else np.diff(whole, prepend=self.last_ms)

    def _count(self, within: Within, times: array[int], before_ms: int | None) -> None:
        """Adds the hour's steps to the day's."""
        counts = self._counts
        if counts is None:
            return
        more = _tally(within.steps_ms)
        for step, count in more.items():
            counts[step] = counts.get(step, 0) + count
        if before_ms is not None:
            first = times[0] - before_ms
            counts[first] = counts.get(first, 0) + 1
        if len(counts) > MOST_STEPS:
            self._counts = None


def _tally(steps_ms: Numbers) -> dict[int, int]:
    """How often each length came."""
    if len(steps_ms) and (steps_ms == steps_ms[0]).all():
        return {int(steps_ms[0]): len(steps_ms)}
    return Counter(steps_ms.tolist())


def steps_within(columns: Sequence[array[int]]) -> list[Within]:
    """The steps inside each of some columns of times of one length."""
    rows = np.frombuffer(b"".join(columns), np.int64).reshape(len(columns), -1)
    steps_ms = np.diff(rows, axis=1)
    if not steps_ms.shape[1]:
        return [Within(row, None, None) for row in steps_ms]
    low, high = steps_ms.min(axis=1).tolist(), steps_ms.max(axis=1).tolist()
    return [Within(*each) for each in zip(steps_ms, low, high, strict=True)]
