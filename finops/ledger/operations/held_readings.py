"""The readings of one series that a run of collecting holds: see `at_hand`.

Of what was posted the last hours stay, and of what lies before them the last reading and how often
each step of a day came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from finops.core.counter_values import DAY_MS
from finops.core.period import HOUR_MS
from finops.core.steps import lower_median_of

from .gauges import LOOK_BACK_MS, Column, Columns

KEPT_MS = HOUR_MS + LOOK_BACK_MS

Late = dict[int, tuple[Column, Column]]
"""Times, by identity while they are held, and what is kept of them: series read at the same instants
share both."""


@dataclass(slots=True)
class Held:
    """The readings of one series that this run has posted: the last hours of them, how often each
    step of a UTC day came, and whether they are of one replica and rose in time throughout.

    `before_ms` and `was` are the last reading and the usual intervals before the newest window.
    """

    replica: str
    first_ms: int
    pieces: list[Columns] = field(default_factory=list)
    steps: dict[int, dict[int, int]] = field(default_factory=dict)
    usual: dict[int, int] = field(default_factory=dict)
    is_usual: bool = True
    is_new: bool = True
    last_ms: int | None = None
    before_ms: int | None = None
    was: dict[int, int] = field(default_factory=dict)

    def add(self, replica: str, times: Column, values: Column, is_timed: bool) -> None:
        """Takes the readings of one more window."""
        last = self.last_ms
        if replica != self.replica or (last is not None and times[0] <= last):
            self.is_usual = False
        self.before_ms, self.was = last, dict(self.usual)
        self.pieces.append((times, values))
        self.last_ms = int(times[-1])
        if is_timed and self.is_usual:
            self._count(times if last is None else np.concatenate(([last], times)))

    def _count(self, times: Column) -> None:
        """Counts the steps between these readings, each in the day of the reading it ends at."""
        steps, days = times[1:] - times[:-1], times[1:] // DAY_MS
        if not len(steps):
            return
        for day in (days[:1] if days[0] == days[-1] else np.unique(days)).tolist():
            counts = self.steps.setdefault(day, {})
            for length, count in _counted(steps if days[0] == days[-1] else steps[days == day]):
                counts[length] = counts.get(length, 0) + count
            self.usual[day] = lower_median_of(counts)
        if (first := self.first_ms // DAY_MS) not in self.steps:
            self.usual[first] = next(iter(self.usual.values()))  # as `core.cache` has it

    def columns(self, from_ms: int, *, and_before: bool) -> Columns | None:
        """The readings from an instant on, and the one before where it is asked for; None without
        any."""
        if self.last_ms is None or self.last_ms < from_ms:
            return None
        first = len(self.pieces) - 1
        while first and self.pieces[first - 1][0][-1] >= from_ms:
            first -= 1
        times, values = self.pieces[first]
        low = int(times.searchsorted(from_ms))
        if and_before and low:
            low -= 1
        elif and_before and first:
            first, low = first - 1, -1
            times, values = self.pieces[first]
        more = self.pieces[first + 1 :]
        if not more:
            return times[low:], values[low:]
        return (
            np.concatenate([times[low:], *(piece[0] for piece in more)]),
            np.concatenate([values[low:], *(piece[1] for piece in more)]),
        )

    def held_hour_before(self, new_ms: int) -> bool:
        """Whether the last reading before the newest window held to the end of the hour before an
        instant already."""
        if self.before_ms is None:
            return True
        usual = self.was.get(self.before_ms // DAY_MS)
        return usual is not None and self.before_ms < new_ms <= self.before_ms + usual

    def forget_before(self, from_ms: int, late: Late) -> None:
        """Lets go of readings that no later window needs: of those before, the last stays. `late` are
        the times that other series keep of the same ones."""
        self.is_new = False
        passed = 0
        while passed < len(self.pieces) and self.pieces[passed][0][-1] < from_ms:
            passed += 1
        left = [_late(piece, from_ms, late) for piece in self.pieces[passed:]]
        if passed:
            times, values = self.pieces[passed - 1]
            left.insert(0, (times[-1:].copy(), values[-1:].copy()))
        self.pieces = left
        for day in [day for day in self.steps if day < from_ms // DAY_MS - 1]:
            del self.steps[day], self.usual[day]


def _late(piece: Columns, from_ms: int, late: Late) -> Columns:
    """A piece without its beginning where that is long; the last reading before stays."""
    times, values = piece
    if times[0] >= from_ms - KEPT_MS:
        return piece
    kept = late.get(id(times))
    if kept is None:
        low = max(0, int(times.searchsorted(from_ms)) - 1)
        kept = late[id(times)] = times, times[low:].copy()
    return kept[1], values[-len(kept[1]) :].copy()


def _counted(steps: Column) -> Iterable[tuple[int, int]]:
    """The lengths of steps, and how often each came."""
    if (steps == steps[0]).all():
        return ((int(steps[0]), len(steps)),)
    lengths, often = np.unique(steps, return_counts=True)
    return zip(lengths.tolist(), often.tolist(), strict=True)
