"""Many counters' plain hours booked at once give what the careful way gives, reading by reading."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.counter import (
    DAY_MS,
    Carry,
    Context,
    HourReadings,
    HourRow,
    Mark,
    Readings,
    continues,
    derive,
)
from finops.core.plain_hours import PlainHour, book_plain

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
        self.born_ms = self.now_ms - rng.choice([7_000, 90_000, 30 * HOUR_MS])
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


def plain(hours: list[HourReadings], carry: Carry, earliest_ms: int) -> list[HourRow | None]:
    """The hours booked one after the other, each from the state after the one before."""
    state = carry.as_json() if carry.current else {}
    rows: list[HourRow | None] = []
    for number, hour in enumerate(hours):
        (name, readings), *others = hour.replicas.items()
        if others or isinstance(readings.marks, list):
            return [None]
        (row,) = book_plain(
            [
                PlainHour(
                    hour.hour_ms,
                    name,
                    readings.marks,
                    array("q", readings.times_ms),
                    np.array(readings.values, np.int64),
                    [
                        array("q", one.replicas[name].times_ms)
                        for one in hours[number:]
                        if one.hour_ms // DAY_MS == hour.hour_ms // DAY_MS
                    ],
                    state,
                    earliest_ms,
                )
            ]
        )
        if row is None:
            return [None]
        state = row.carry
        rows.append(row)
    return rows


def compared(seed: int) -> int:
    """How many plain hours were found the same, of a life collected a few hours at a time."""
    rng = random.Random(seed)
    life, carry = Life(rng), Carry()
    earliest_ms = life.now_ms - rng.choice([0, 10_000, 40 * HOUR_MS])
    same = 0
    for _ in range(rng.randrange(1, 6)):
        hours = list(life.hours(rng.choice([1, 1, 2, 5])))
        found = plain(hours, carry, earliest_ms)
        goes_on = carry.day is None or not hours or _goes_on(hours, carry)
        rows, learned = derive(hours, carry, Context(earliest_ms, _Unread()))
        if None not in found and hours:
            assert goes_on
            assert not learned
            assert found == rows
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
