"""Plain hours of many counters at once: the same rows as `counter.derive` gives, in a few passes.

An hour is plain where one replica tells it, one known mark (or none at all) came with every reading,
the values never fall, no step is a gap and the day's usual interval stays as it was. All others are
left to the careful way; a law in the tests compares both on thousands of histories.

Counters of one target are read at the same instants, so what the instants tell is found once for
all of them (`plain_clock`); what the values tell is found for thousands of counters at once.
Times are whole milliseconds, values whole tokens, marks whole microseconds.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .counter_values import Mark, proves_birth
from .plain_clock import Clock, Numbers, Tick, steps_within

State = dict[str, Any]
"""A counter's state as `Carry.as_json` writes it; empty before its first reading."""

_NEAR: Final = 1 - 1e-9


@dataclass(slots=True)
class Standing:
    """A counter as it stands between two hours; `number` is 0 before its first reading.

    `others` are earlier incarnations behind the same address, as the state has them.
    """

    number: int = 0
    marks: dict[str, int] | None = None
    high: int = 0
    first_ms: int = 0
    value: int = 0
    fall_ms: int | None = None
    others: Sequence[list[Any]] = ()

    @classmethod
    def of(cls, state: State, replica: str) -> Standing | None:
        """The counter in use of a state; None where another replica than this one read it, or its
        last reading was of another counter."""
        if not state:
            return cls()
        last = state["replicas"].get(replica)
        number = state["current"]
        if last is None or len(state["replicas"]) != 1 or last[2] != number:
            return None
        if last[0] != state["last"]:
            return None
        counters = state["counters"]
        current = counters[0]
        others: Sequence[list[Any]] = ()
        if len(counters) > 1:
            current = next(one for one in counters if one[0] == number)
            others = [one for one in counters if one[0] != number]
        _, marks, high, first_ms, _ = current
        return cls(number, marks, high, first_ms, last[1], state["fall"], others)

    def has(self, mark: Mark | None) -> bool:
        """Whether readings with this mark are of this counter; a new one must have a mark."""
        if not self.number:
            return mark is not None
        if mark is None:
            return not self.marks
        return bool(self.marks) and self.marks.get(mark[0]) == mark[1]  # type: ignore[union-attr]


@dataclass(slots=True)
class Together:
    """Counters that one replica read at the same instants, and whose states stand at one clock.

    `earliest_ms` is the earliest reading of the job (method §2.4).
    """

    clock: Clock
    earliest_ms: int
    counters: list[Standing]


@dataclass(slots=True)
class OfHour:
    """What one hour brings to counters that are taken together: each one's mark and values."""

    together: Together
    marks: Sequence[Mark | None]
    values: Sequence[array[float]]


@dataclass(slots=True)
class Booked:
    """A plain hour of counters taken together, each one's numbers in the counters' order.

    `births` and `openings` are of the first reading of a counter, by its place.
    """

    tick: Tick
    tokens: list[int]
    rates: list[tuple[int, int]]
    unmarked: list[bool]
    births: dict[int, tuple[int, int]]
    openings: dict[int, tuple[int, int]]


def states_after(tick: Tick, counters: Sequence[Standing]) -> list[str]:
    """The state of each counter after an hour, as JSON of what `Carry.as_json` writes."""
    replica, last, steps = json.dumps(tick.replica), tick.last_ms, json.dumps(tick.steps)
    tail = f'"usual":{{{replica}:{tick.usual_ms}}},"day":{tick.day},"steps":{{{replica}:{steps}}}}}'
    found = []
    for one in counters:
        number = one.number
        fall = "null" if one.fall_ms is None else one.fall_ms
        text = f"[{number},{_marks(one.marks)},{one.high},{one.first_ms},{last}]"
        if one.others:
            texts = {number: text} | {other[0]: json.dumps(other) for other in one.others}
            text = ",".join(texts[each] for each in sorted(texts))
        found.append(
            f'{{"counters":[{text}],"current":{number},"last":{last},"fall":{fall},'
            f'"replicas":{{{replica}:[{last},{one.value},{number}]}},{tail}'
        )
    return found


def _marks(marks: Mapping[str, int] | None) -> str:
    return "{" + ",".join([f'"{kind}":{mark}' for kind, mark in (marks or {}).items()]) + "}"


def book_plain(hour_ms: int, hours: Sequence[OfHour]) -> list[Booked | None]:
    """What the hour books for each group of counters, which then stand as they do after it; None
    where the hour of any of them is not plain: then the group is not to be used again."""
    found: list[Booked | None] = [None] * len(hours)
    by_length: dict[int, list[int]] = {}
    for place, hour in enumerate(hours):
        if all(map(Standing.has, hour.together.counters, hour.marks)):
            length = len(hour.together.clock.times_ms[hour_ms])
            by_length.setdefault(length, []).append(place)
    for places in by_length.values():
        some = [hours[place] for place in places]
        for place, one in zip(places, _book_rows(hour_ms, some), strict=True):
            found[place] = one
    return found


def _book_rows(hour_ms: int, hours: Sequence[OfHour]) -> Iterator[Booked | None]:
    """Books groups whose hours have equally many readings."""
    clocks = [hour.together.clock for hour in hours]
    within = steps_within([clock.times_ms[hour_ms] for clock in clocks])
    values = _as_rows([column for hour in hours for column in hour.values])
    counters = [counter for hour in hours for counter in hour.together.counters]
    ends = values[:, -1].tolist()
    rises = _rises(values, counters)
    lowest, highest = rises.min(axis=1).tolist(), rises.max(axis=1).tolist()
    start = 0
    for index, (hour, clock) in enumerate(zip(hours, clocks, strict=True)):
        rows = slice(start, start + len(hour.values))
        start = rows.stop
        before_ms = clock.last_ms
        tick = clock.tick(hour_ms, within[index]) if min(lowest[rows]) >= 0 else None
        if tick is None:
            yield None
            continue
        if tick.even_ms is not None:
            even = tick.even_ms
            rates = [(rise, even) if rise > 0 else (0, 1) for rise in highest[rows]]
        else:
            steps_ms = clock.steps_of(hour_ms, before_ms)
            rates = [_highest_rate(row, steps_ms) for row in rises[rows]]
        yield _booked(hour, tick, values[rows, 0], ends[rows], rates)


def _as_rows(columns: Sequence[array[float]]) -> Numbers:
    flat = np.frombuffer(b"".join(columns), np.float64)
    return flat.reshape(len(columns), -1).astype(np.int64)


def _rises(values: Numbers, counters: Sequence[Standing]) -> Numbers:
    """The rise to each reading; of a new counter, 0 to its first."""
    before = np.array([one.value for one in counters], np.int64)
    if not all(one.number for one in counters):
        is_new = np.array([not one.number for one in counters])
        before = np.where(is_new, values[:, 0], before)
    rises = np.empty_like(values)
    np.subtract(values[:, 1:], values[:, :-1], out=rises[:, 1:])
    np.subtract(values[:, 0], before, out=rises[:, 0])
    return rises


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


def _booked(
    hour: OfHour, tick: Tick, firsts: Numbers, ends: Sequence[int], rates: list[tuple[int, int]]
) -> Booked:
    tokens: list[int] = []
    booked = Booked(tick, tokens, rates, [mark is None for mark in hour.marks], {}, {})
    for place, (counter, end) in enumerate(zip(hour.together.counters, ends, strict=True)):
        if counter.number:
            tokens.append(end - counter.high if end > counter.high else 0)
            counter.high = max(counter.high, end)
        else:
            tokens.append(_born(hour, place, tick, int(firsts[place]), end, booked))
        counter.value = end
    return booked


def _born(hour: OfHour, place: int, tick: Tick, first: int, end: int, booked: Booked) -> int:
    """The first counter of a series: its first reading is a birth or an opening (method §2.4).
    Gives the tokens of its first hour."""
    counter, mark = hour.together.counters[place], hour.marks[place]
    assert mark is not None
    kind, mark_us = mark
    counter.number, counter.marks = 1, {kind: mark_us}
    counter.high, counter.first_ms = end, tick.first_ms
    if proves_birth(mark_us // 1000, tick.first_ms, hour.together.earliest_ms):
        booked.births[place] = (tick.first_ms, mark_us)
        return end
    booked.openings[place] = (tick.first_ms, first)
    return end - first
