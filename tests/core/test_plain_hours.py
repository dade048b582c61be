"""Many counters' plain hours booked at once give what the careful way gives, reading by reading."""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.counter import derive
from finops.core.counter_values import DAY_MS, Carry, Context, HourReadings, HourRow, Mark, Readings
from finops.core.plain_clock import Clock
from finops.core.plain_hours import (
    Booked,
    OfHour,
    Standing,
    Together,
    book_plain,
    states_after,
)
from finops.core.usual import continues

HOUR_MS = 3_600_000
BASE_MS = 1_795_910_400_000  # a midnight, UTC


class Life:
    """A counter with its marks, read by one replica or two; it may restart, fall, pause or jitter."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.step_ms = rng.choice([5_000, 15_000, 60_000, 300_000])
        self.jitter_ms = rng.choice([0, 0, 3, 40])
        self.now_ms = BASE_MS + rng.randrange(0, 22) * HOUR_MS + rng.randrange(1, 60_000)
        self.kinds: list[str | None] = [
            rng.choice(["created", "process_start", "process_start", None])
        ]
        self.replicas = ["a"] if rng.random() < 0.9 else ["a", "b"]
        self.born_ms = self.now_ms - rng.choice([7_000, 90_000, 30 * HOUR_MS, -4_000, -9_000])
        self.value = rng.randrange(0, 3) * rng.randrange(1, 90_000)
        self.rate = rng.randrange(0, 900)
        self.calm = rng.random() < 0.5

    def hours(self, count: int) -> Iterator[HourReadings]:
        end_ms = (self.now_ms // HOUR_MS + count) * HOUR_MS
        found: dict[int, list[tuple[int, int, Mark | None]]] = {}
        while self.now_ms < end_ms:
            found.setdefault(self.now_ms // HOUR_MS * HOUR_MS, []).append(self._reading())
            self._go_on()
        for hour_ms, rows in found.items():
            marks = [mark for _, _, mark in rows]
            one = Readings(
                [at for at, _, _ in rows],
                [value for _, value, _ in rows],
                marks[0] if len(set(marks)) == 1 else marks,
            )
            yield HourReadings(hour_ms, dict.fromkeys(self.replicas, one))

    def _reading(self) -> tuple[int, int, Mark | None]:
        kind = self.kinds[0]
        return self.now_ms, self.value, (kind, self.born_ms * 1000) if kind else None

    def _go_on(self) -> None:
        rng = self.rng
        self.now_ms += self.step_ms + rng.randrange(-self.jitter_ms, self.jitter_ms + 1)
        if rng.random() < 0.7:
            self.value += rng.randrange(0, self.rate + 1)
        if self.calm:
            return
        if rng.random() < 0.004:
            self.now_ms += rng.choice([2, 3, 30, 300]) * self.step_ms
        if rng.random() < 0.003:
            self.born_ms, self.value = self.now_ms - 2000, rng.choice([0, 5, self.value + 9])
        if rng.random() < 0.002:
            self.value = max(0, self.value - rng.randrange(0, 50))
        if rng.random() < 0.002:
            self.kinds[0] = rng.choice(["created", "process_start", None])


def plain(several: list[list[HourReadings]], carries: list[Carry], earliest_ms: int) -> Rows:
    """The hours of counters that were read together, booked one after the other; None where they
    are not plain."""
    hours = several[0]
    name = next(iter(hours[0].replicas)) if hours else ""
    if any(len(hour.replicas) > 1 or isinstance(hour.replicas[name].marks, list) for hour in hours):
        return None
    states = [carry.as_json() if carry.current else {} for carry in carries]
    times = {hour.hour_ms: array("q", hour.replicas[name].times_ms) for hour in hours}
    clock = Clock(name, times)
    if states[0]:
        clock.last_ms, clock.day = states[0]["last"], states[0]["day"]
        clock.usual, clock.steps = states[0]["usual"], states[0]["steps"]
    standing = [Standing.of(state, name) for state in states]
    if None in standing or not all(clock.is_of(state) for state in states):
        return None
    together = Together(clock, earliest_ms, standing)
    rows: list[list[HourRow]] = [[] for _ in several]
    for number, hour in enumerate(hours):
        values = [array("d", one[number].replicas[name].values) for one in several]
        marks = [hour.replicas[name].marks] * len(several)
        (booked,) = book_plain(hour.hour_ms, [OfHour(together, marks, values)])
        if booked is None:
            return None
        for place, state in enumerate(states_after(booked.tick, together.counters)):
            rows[place].append(row_of(booked, place, json.loads(state)))
    return rows


Rows = list[list[HourRow]] | None


def row_of(booked: Booked, place: int, state: dict[str, Any]) -> HourRow:
    tick = booked.tick
    row = HourRow(tick.hour_ms, booked.tokens[place], tick.readings, carry=state)
    row.rate_tokens, row.rate_ms = booked.rates[place]
    row.usual_ms, row.first_ms, row.last_ms = tick.usual_ms, tick.first_ms, tick.last_ms
    row.unmarked = booked.unmarked[place]
    row.births = [booked.births[place]] if place in booked.births else []
    row.openings = [booked.openings[place]] if place in booked.openings else []
    return row


def beside(hours: list[HourReadings], factor: int, more: int) -> list[HourReadings]:
    """Another counter of the same target: read at the same instants, behind the same mark."""
    return [
        HourReadings(
            hour.hour_ms,
            {
                name: Readings(one.times_ms, [v * factor + more for v in one.values], one.marks)
                for name, one in hour.replicas.items()
            },
        )
        for hour in hours
    ]


def compared(seed: int) -> int:
    """How many plain hours were found the same, of lives collected a few hours at a time."""
    rng = random.Random(seed)
    life, carries = Life(rng), [Carry() for _ in range(rng.choice([1, 1, 3]))]
    factors = [(1, 0), (rng.choice([0, 3]), 0), (2, rng.randrange(0, 90))]
    earliest_ms = life.now_ms - rng.choice([0, 10_000, 40 * HOUR_MS])
    same = 0
    for _ in range(rng.randrange(1, 6)):
        first = list(life.hours(rng.choice([1, 1, 2, 5])))
        several = [beside(first, *factors[place]) for place in range(len(carries))]
        found = plain(several, carries, earliest_ms)
        for place, (hours, carry) in enumerate(zip(several, carries, strict=True)):
            goes_on = carry.day is None or not hours or _goes_on(hours, carry)
            rows, learned = derive(hours, carry, Context(earliest_ms, _Unread()))
            if found is not None and hours:
                assert goes_on
                assert not learned
                assert found[place] == rows
                same += len(rows)
    return same


def _goes_on(hours: list[HourReadings], carry: Carry) -> bool:
    """Whether the day's earlier hours stay as they were."""
    return carry.day != hours[0].hour_ms // DAY_MS or continues(hours, carry)


class _Unread(list):
    """No `up` reading; a plain hour never asks for one."""


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10**9))
def test_plain_hours_are_those_of_the_careful_way(seed: int) -> None:
    compared(seed)


def test_most_hours_are_plain_where_little_happens() -> None:
    assert sum(compared(seed) for seed in range(150)) > 300
