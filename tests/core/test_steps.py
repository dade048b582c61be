"""An hour more goes on from the hour before it, or the day is derived anew: the same rows (§2.5)."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.counter import derive
from finops.core.counter_values import DAY_MS, Carry, Context, HourReadings, HourRow, Readings
from finops.core.steps import MOST_STEPS, Steps, lower_median
from finops.core.usual import continues
from tests.core.test_counter_laws import context_of, hours_of, world


def jittered(hours: list[HourReadings], rng: random.Random) -> list[HourReadings]:
    """The same readings at times a little off, as scrapes are."""
    for hour in hours:
        for readings in hour.replicas.values():
            readings.times_ms = [time_ms + rng.randrange(3) for time_ms in readings.times_ms]
    return hours


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.booleans(), st.booleans())
def test_hours_that_come_one_by_one_give_the_rows_of_the_whole(
    seed: int, marked: bool, jitter: bool
) -> None:
    w = world(seed)
    hours = hours_of(w, marked=marked)
    if jitter:
        hours = jittered(hours, random.Random(seed))
    whole, _ = derive(hours, Carry(), context_of(w))
    rows: dict[int, HourRow] = {}
    for index, hour in enumerate(hours):
        day = hour.hour_ms // DAY_MS
        before = [row for at, row in rows.items() if at < hour.hour_ms]
        carry = Carry.from_json(json.loads(json.dumps(before[-1].carry)) if before else {})
        wanted = [hour]
        if carry.day == day and not continues(wanted, carry):
            wanted = [one for one in hours[: index + 1] if one.hour_ms // DAY_MS == day]
            earlier = [row for at, row in rows.items() if at // DAY_MS < day]
            carry = Carry.from_json(earlier[-1].carry if earlier else {})
        rows |= {row.hour_ms: row for row in derive(wanted, carry, context_of(w))[0]}
    assert list(rows.values()) == whole


def test_a_steady_hour_goes_on_and_a_quicker_one_does_not() -> None:
    def hour(number: int, step_ms: int) -> HourReadings:
        times = list(range(number * 3_600_000, (number + 1) * 3_600_000, step_ms))
        return HourReadings(number * 3_600_000, {"": Readings(times, times)})

    carry = Carry()
    derive([hour(0, 15_000)], carry, Context(0))
    assert continues([hour(1, 15_000)], carry)
    assert not continues([hour(1, 5_000)], carry)


@given(st.lists(st.integers(1, 100_000), min_size=2, max_size=60))
def test_the_account_of_steps_knows_their_lower_median(steps: list[int]) -> None:
    times = [0]
    for step in steps:
        times.append(times[-1] + step)
    account = Steps(None)
    middle = len(times) // 2
    account.add(times[:middle])
    account.add(times[middle:])
    assert account.usual_ms() == lower_median(steps)
    assert Steps.from_json(json.loads(json.dumps(account.as_json()))).usual_ms() == (
        lower_median(steps)
    )


def test_too_many_lengths_of_steps_are_not_kept() -> None:
    times, account = [0], Steps(None)
    for step in range(1, MOST_STEPS + 3):
        times.append(times[-1] + step)
    account.add(times)
    assert account.counts is None
    assert account.usual_ms() is None
