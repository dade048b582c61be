"""Plain hours of many counters at once: the same rows as `counter.derive` gives, in a few passes.

An hour is plain where one replica tells it, one known mark (or none at all) came with every reading,
the values never fall, no step is a gap and the day's usual interval stays as it was. All others are
left to the careful way; a law in the tests compares both on thousands of histories.

Times are whole milliseconds, values whole tokens, marks whole microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .counter import BIRTH_WITHIN_MS, DAY_MS, HourRow, Mark, is_gap
from .steps import Steps, lower_median

Numbers = np.ndarray[Any, np.dtype[np.int64]]
State = dict[str, Any]
"""A counter's state as `Carry.as_json` writes it; empty before its first reading."""

_NEAR: Final = 1 - 1e-9


@dataclass(slots=True)
class Clock:
    """What the times of an hour tell, whichever counter of the target they belong to.

    `steps_ms` are the steps that end in the hour, the one from the hour before included.
    """

    usual_ms: int
    steps: list[Any]
    steps_ms: Numbers
    even_ms: int | None


@dataclass(slots=True)
class PlainHour:
    """One counter's readings in one hour, in time order, with the state before it.

    `day` holds the times of this hour and of the later hours of its UTC day that are at hand.
    `earliest_ms` is the earliest reading of the job (method §2.4).
    """

    hour_ms: int
    replica: str
    mark: Mark | None
    times_ms: array[int]
    values: Numbers
    day: Sequence[array[int]]
    state: State
    earliest_ms: int
    clock: Clock | None = None


class Clocks:
    """The clocks of hours; counters of one target share their times, and so their clock."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Clock | None] = {}
        self._held: list[array[int]] = []  # so that no other column comes to the same address

    def of(self, hour: PlainHour) -> Clock | None:
        """The clock of an hour; None where the hour is not plain."""
        state = hour.state
        key = (
            *(id(times) for times in hour.day),
            hour.replica,
            state.get("last"),
            state.get("day"),
            str(state.get("usual")),
            str(state.get("steps")),
        )
        if key not in self._known:
            self._known[key] = _clock(hour)
            self._held += hour.day
        return self._known[key]


def book_plain(hours: Sequence[PlainHour]) -> list[HourRow | None]:
    """The row of each hour, its state after it included; None where the hour is not plain.

    The hours are of different counters. No state is changed.
    """
    clocks = Clocks()
    rows: list[HourRow | None] = [None] * len(hours)
    by_length: dict[int, list[int]] = {}
    for place, hour in enumerate(hours):
        if _is_known(hour):
            hour.clock = clocks.of(hour)
            if hour.clock is not None:
                by_length.setdefault(len(hour.times_ms), []).append(place)
    for places in by_length.values():
        _book_rows([hours[place] for place in places], places, rows)
    return rows


def _is_known(hour: PlainHour) -> bool:
    """Whether the state is of one replica and its counter the one that this hour's mark names."""
    state = hour.state
    if not state:
        return hour.mark is not None
    last = state["replicas"].get(hour.replica)
    if last is None or len(state["replicas"]) != 1 or last[2] != state["current"]:
        return False
    if last[0] != state["last"]:
        return False
    marks = _current(state)[1]
    if hour.mark is None:
        return not marks
    return bool(marks.get(hour.mark[0]) == hour.mark[1])


def _current(state: State) -> list[Any]:
    """The counter in use: number, marks, highest value booked, first and last reading."""
    found: list[Any] = next(one for one in state["counters"] if one[0] == state["current"])
    return found


# -- times -------------------------------------------------------------------------------------------


def _clock(hour: PlainHour) -> Clock | None:
    before_ms, steps = hour.state.get("last"), _steps_before(hour)
    if steps is None:
        return None
    usual_ms = _usual(hour, steps, before_ms)
    if usual_ms is None:
        return None
    steps.add(hour.times_ms.tolist())
    times = np.frombuffer(hour.times_ms, np.int64)
    steps_ms = np.diff(times, prepend=times[0] if before_ms is None else before_ms)
    counted = steps_ms[1:] if before_ms is None else steps_ms
    if len(counted) == 0 or counted.min() <= 0 or is_gap(int(counted.max()), usual_ms):
        return None
    is_even = counted.min() == counted.max()
    return Clock(usual_ms, steps.as_json(), steps_ms, int(counted[0]) if is_even else None)


def _steps_before(hour: PlainHour) -> Steps | None:
    """The day's steps so far: begun anew with each day."""
    state = hour.state
    if state.get("day") != hour.hour_ms // DAY_MS:
        return Steps(state.get("last"))
    if set(state["steps"]) != {hour.replica}:
        return None
    last_ms, counts = state["steps"][hour.replica]
    return None if counts is None else Steps(last_ms, dict(counts), True)


def _usual(hour: PlainHour, steps: Steps, before_ms: int | None) -> int | None:
    """The day's usual interval (method §2.5); None where a later hour of the day changes it."""
    state = hour.state
    if state.get("day") == hour.hour_ms // DAY_MS:
        whole = Steps(steps.last_ms, dict(steps.counts or {}), True)
        for times in hour.day:
            whole.add(times.tolist())
        same = state["usual"] == {hour.replica: whole.usual_ms()}
        return whole.usual_ms() if same else None
    whole_day = np.concatenate([np.frombuffer(one, np.int64) for one in hour.day])
    found = np.diff(whole_day) if before_ms is None else np.diff(whole_day, prepend=before_ms)
    return lower_median(found.tolist()) if len(found) > 1 else None


# -- values ------------------------------------------------------------------------------------------


def _book_rows(hours: Sequence[PlainHour], places: list[int], rows: list[HourRow | None]) -> None:
    """Books hours with equally many readings."""
    values = np.stack([hour.values for hour in hours])
    lasts = [
        hour.state["replicas"][hour.replica][1] if hour.state else int(hour.values[0])
        for hour in hours
    ]
    rises = np.diff(values, axis=1, prepend=np.array(lasts, np.int64)[:, np.newaxis])
    lowest, highest = rises.min(axis=1).tolist(), rises.max(axis=1).tolist()
    ends = values[:, -1].tolist()
    for index, hour in enumerate(hours):
        if lowest[index] < 0 or hour.clock is None:
            continue
        if hour.clock.even_ms is not None:
            rate = (highest[index], hour.clock.even_ms) if highest[index] > 0 else (0, 1)
        else:
            rate = _highest_rate(rises[index], hour.clock.steps_ms)
        rows[places[index]] = _row(hour, hour.clock, ends[index], rate)


def _highest_rate(rises: Numbers, steps_ms: Numbers) -> tuple[int, int]:
    """The highest rise over a step, the first of equals; compared exactly where floats are near."""
    with np.errstate(divide="ignore", invalid="ignore"):
        about = np.where(steps_ms > 0, rises / steps_ms, 0.0)
    best, best_ms = 0, 1
    if about.max() <= 0:
        return best, best_ms
    for place in np.flatnonzero(about >= about.max() * _NEAR).tolist():
        rise, step = int(rises[place]), int(steps_ms[place])
        if step > 0 and rise * best_ms > best * step:
            best, best_ms = rise, step
    return best, best_ms


def _row(hour: PlainHour, clock: Clock, end: int, rate: tuple[int, int]) -> HourRow:
    row = HourRow(hour.hour_ms, readings=len(hour.times_ms))
    row.first_ms, row.last_ms = hour.times_ms[0], hour.times_ms[-1]
    row.usual_ms, row.unmarked = clock.usual_ms, hour.mark is None
    row.rate_tokens, row.rate_ms = rate
    if hour.state:
        number = hour.state["current"]
        counters = [list(one) for one in hour.state["counters"]]
        current = next(one for one in counters if one[0] == number)
        row.tokens = max(0, end - current[2])
        current[2], current[4] = max(current[2], end), row.last_ms
    else:
        number, counters = 1, [_born(hour, row, end)]
    row.carry = {
        "counters": counters,
        "current": number,
        "last": row.last_ms,
        "fall": hour.state.get("fall"),
        "replicas": {hour.replica: [row.last_ms, end, number]},
        "usual": {hour.replica: clock.usual_ms},
        "day": hour.hour_ms // DAY_MS,
        "steps": {hour.replica: clock.steps},
    }
    return row


def _born(hour: PlainHour, row: HourRow, end: int) -> list[Any]:
    """The first counter of a series: its first reading is a birth or an opening (method §2.4)."""
    first_ms, first = row.first_ms, int(hour.values[0])
    assert hour.mark is not None
    kind, mark_us = hour.mark
    mark_ms = mark_us // 1000
    if mark_ms >= hour.earliest_ms and first_ms - mark_ms <= BIRTH_WITHIN_MS:
        row.births.append((first_ms, mark_us))
        row.tokens = end
    else:
        row.openings.append((first_ms, first))
        row.tokens = end - first
    return [1, {kind: mark_us}, end, first_ms, row.last_ms]
