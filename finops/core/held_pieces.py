"""How long readings hold, cut at the hours: many gauges at once, each a row of one matrix.

`core.cache.held_spans` says the rule reading by reading (method §8). A reading holds until the next
one, at most an hour, over a usual interval before a gap and at the end; so it touches two hours at
most. Laws in the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from .counter_values import DAY_MS
from .period import HOUR_MS
from .steps import lower_median

Column = np.ndarray[Any, Any]
UNKNOWN: Final = -1
Usual = Mapping[int, int]
"""The usual interval of UTC days (days since the epoch), where it is known from elsewhere."""


def held_ends_of_rows(times: Column, usual: Column) -> Column:
    """Until when each reading holds: the next one, or one usual interval before a gap and at the
    end; never longer than an hour."""
    following = np.empty_like(times)
    following[:, :-1] = times[:, 1:]
    following[:, -1:] = times[:, -1:] + HOUR_MS
    # As `is_gap`: longer than two and a half usual intervals, in whole numbers.
    is_gap = 2 * (following - times) > 5 * usual
    is_gap[:, -1:] = True
    until = np.where(is_gap, times + usual, following)
    if (lost := usual == UNKNOWN).any():
        until[lost] = following[lost]
        until[:, -1:][lost[:, -1:]] = times[:, -1:][lost[:, -1:]]
    held: Column = np.clip(until, times, times + HOUR_MS)
    return held


def usual_of_rows(times: Column, known: Sequence[Usual] = ()) -> Column:
    """The usual interval of each reading's UTC day: as `known` says of a row and day, else the
    lower median of the row's own steps that end in the day; the first day without one has the
    next's."""
    days = times // DAY_MS
    if known and (found := _as_known(days, known)) is not None:
        return found
    if (days == days[:1]).all():
        usual = _usual_of_equal_days(times, days[0])
    else:
        usual = np.array([_usual_of_equal_days(row[np.newaxis], of)[0]
                          for row, of in zip(times, days, strict=True)])  # fmt: skip
    for number, told in enumerate(known):
        for day, interval in told.items():
            usual[number][days[number] == day] = interval
    return usual


def _as_known(days: Column, known: Sequence[Usual]) -> Column | None:
    """The usual intervals where all are told; None where one is not."""
    usual = np.full(days.shape, UNKNOWN, dtype=np.int64)
    for day in np.unique(days).tolist():
        told = np.array([one.get(day, UNKNOWN) for one in known], dtype=np.int64)
        usual = np.where(days == day, told[:, np.newaxis], usual)
    return None if (usual == UNKNOWN).any() else usual


def _usual_of_equal_days(times: Column, days: Column) -> Column:
    """The same of rows whose readings lie in the same days."""
    usual = np.full(times.shape, UNKNOWN, dtype=np.int64)
    steps = np.diff(times, axis=1)
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    lacking = None
    for low, high in pairwise(edges):
        ending = steps[:, max(low - 1, 0) : high - 1]
        if not ending.shape[1]:
            lacking = slice(low, high)
            continue
        usual[:, low:high] = medians_of_rows(ending)[:, np.newaxis]
        if lacking is not None:
            usual[:, lacking] = usual[:, low : low + 1]
            lacking = None
    return usual


def medians_of_rows(steps: Column) -> Column:
    """The lower median of each row."""
    first = steps[:, :1]
    if (steps == first).all():
        return steps[:, 0]
    if len(steps) == 1:
        return np.array([lower_median(steps[0])], dtype=np.int64)
    middle = (steps.shape[1] - 1) // 2
    return np.partition(steps, middle, axis=1)[:, middle]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Spans cut at full hours, row after row in order of time, and the hours that they lie in.

    Of each piece: the reading it is of (its place in the flattened matrix), where it starts, how
    long it holds, whether it begins with its reading. Of each hour: its first piece, its row, when
    it starts. A reading without length stands once.
    """

    of: Column
    starts: Column
    held: Column
    is_own: Column
    first: Column
    rows: Column
    hours_ms: Column

    @classmethod
    def cut(cls, times: Column, ends: Column) -> Pieces:
        """The pieces of readings (a matrix of at least one) that hold until `ends`."""
        flat, until = times.ravel(), ends.ravel()
        edge = (flat // HOUR_MS + 1) * HOUR_MS
        over = np.flatnonzero(until > edge)
        # What holds over a full hour ends before the next reading: its second piece follows it.
        second = over + np.arange(1, len(over) + 1)
        of = np.repeat(np.arange(len(flat)), 1 + (until > edge))
        starts, held = flat[of], (np.minimum(until, edge) - flat)[of]
        starts[second], held[second] = edge[over], until[over] - edge[over]
        is_own = np.ones(len(of), dtype=bool)
        is_own[second] = False
        hours, row = starts // HOUR_MS, of // times.shape[1]
        begins = np.ones(len(of), dtype=bool)
        begins[1:] = (hours[1:] != hours[:-1]) | (row[1:] != row[:-1])
        first = np.flatnonzero(begins)
        return cls(of, starts, held, is_own, first, row[first], hours[first] * HOUR_MS)

    @property
    def last(self) -> Column:
        """The last piece of each hour."""
        return np.append(self.first[1:], len(self.of)) - 1

    def number(self) -> Column:
        """The hour of each piece, counted from 0."""
        return np.repeat(np.arange(len(self.first)), np.diff(self.first, append=len(self.of)))

    def sums(self, amounts: Column) -> list[int]:
        """Whole amounts of the pieces, added by hour."""
        found: list[int] = np.add.reduceat(amounts, self.first).tolist()
        return found

    def counts(self, chosen: Column) -> list[int]:
        """How many pieces of each hour are chosen."""
        return self.sums(chosen.astype(np.int64))

    def highest(self, amounts: Column) -> Column:
        """The highest amount of each hour."""
        found: Column = np.maximum.reduceat(amounts, self.first)
        return found

    def first_of_highest(self, amounts: Column, highest: Column) -> list[int]:
        """Where the highest amount of each hour begins, ms; of several the first."""
        number = self.number()
        places = np.flatnonzero(amounts == highest[number])[::-1]
        found = np.empty(len(self.first), dtype=np.int64)
        found[number[places]] = self.starts[places]  # what is written last stands first
        instants: list[int] = found.tolist()
        return instants
