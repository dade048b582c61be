"""Whole columns give exactly what the rules give reading by reading (method §8.3, §8.4, §8.9)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core import cache, cache_columns
from finops.core.cache import Engine, Gauge, Pool
from finops.core.held_pieces import held_ends_of_rows, usual_of_rows

HOUR = 3_600_000
START = 1_794_787_200_000 - 2 * HOUR  # two hours before a UTC midnight

steps = st.lists(
    st.one_of(
        st.sampled_from([15_000, 15_000, 15_001, 30_000, 60_000]),
        st.integers(1, 4 * HOUR),
        st.sampled_from([HOUR, HOUR + 1, 2 * HOUR]),
    ),
    max_size=60,
)
use = st.one_of(
    st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 0.005, 0.29, 0.57, 1.2, -0.1]),
    st.integers(0, 1000).map(lambda n: n / 1000),
)  # fmt: skip
blocks = st.one_of(st.none(), st.integers(1, 3_000_000))


def times_of(first, gaps):
    found = [START + first]
    for gap in gaps:
        found.append(found[-1] + gap)
    return found


@st.composite
def gauges(draw, values, least=0):
    if not draw(st.booleans()) and not least:
        return Gauge()
    times = times_of(draw(st.integers(0, 3 * HOUR)), draw(steps))
    return Gauge(times, [draw(values) for _ in times])


@st.composite
def engines(draw):
    usage = draw(gauges(use, least=1))
    span = usage.times_ms[-1] - usage.times_ms[0]
    instants = st.integers(usage.times_ms[0] - HOUR, usage.times_ms[0] + span + HOUR)
    pools = [
        Pool(from_ms, draw(blocks), 16, None, None, null_blocks=draw(st.sampled_from([0, 1])))
        for from_ms in sorted(draw(st.lists(instants, max_size=4)))
    ]
    return Engine(
        usage=usage,
        running=draw(gauges(st.integers(0, 300).map(float))),
        waiting=draw(gauges(st.integers(0, 300).map(float))),
        moved_ms=sorted(draw(st.lists(instants, max_size=30))),
        pools=pools,
        asleep=draw(gauges(st.sampled_from([0.0, 1.0]))),
        moves_known=draw(st.booleans()),
    )


@settings(max_examples=600, deadline=None)
@given(engines())
def test_columns_and_readings_give_the_same_hours(engine):
    assert cache_columns.cache_hours(engine) == cache.cache_hours(engine)


@settings(max_examples=200, deadline=None)
@given(st.lists(engines(), max_size=6))
def test_engines_together_give_what_each_gives_alone(some):
    twice = [*some, *some]  # equally many readings at least once
    assert cache_columns.cache_hours_together(twice) == [cache.cache_hours(one) for one in twice]


@st.composite
def read_alike(draw):
    """Engines with equally many readings, most of them read at the instants of the first."""
    gaps = draw(steps)
    found = []
    for _ in range(draw(st.integers(2, 5))):
        one = draw(engines())
        first = draw(st.sampled_from([0, 0, 7_000, HOUR - 1, HOUR]))
        mine = draw(st.sampled_from([gaps, gaps, draw(st.permutations(gaps))]))
        times = times_of(first, mine)
        usage = Gauge(times, [draw(use) for _ in times])
        running = draw(
            st.sampled_from([one.running, Gauge(times, [float(n) for n in range(len(times))])])
        )
        moved = draw(st.sampled_from([one.moved_ms, times]))
        found.append(replace(one, usage=usage, running=running, moved_ms=moved))
    return found


@settings(max_examples=300, deadline=None)
@given(read_alike())
def test_engines_read_alike_give_what_each_gives_alone(some):
    assert cache_columns.cache_hours_together(some) == [cache.cache_hours(one) for one in some]


@settings(max_examples=200, deadline=None)
@given(engines(), st.data())
def test_the_last_hours_follow_from_the_days_usual_intervals(engine, data):
    """The readings from some instant on, and what is known of the days before, give its hours."""
    times = list(engine.usage.times_ms)
    whole = cache.cache_hours(engine)
    usual = cache._usual_by_day(times)
    since = data.draw(st.sampled_from([row.hour_ms for row in whole]))
    # From the reading that holds into the hour on; moved at the first reading of all at the latest.
    low = max(0, sum(t < since for t in times) - 1)
    late = replace(
        engine,
        usage=Gauge(times[low:], engine.usage.values[low:]),
        moved_ms=sorted({times[0], *engine.moved_ms}),
    )
    whole = cache.cache_hours(replace(engine, moved_ms=late.moved_ms))
    (rows,) = cache_columns.cache_hours_together([late], [usual])
    assert [r for r in rows if r.hour_ms >= since] == [r for r in whole if r.hour_ms >= since]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 3 * HOUR), steps)
def test_each_reading_holds_as_long(first, gaps):
    times = times_of(first, gaps)
    rows = np.array([times])
    (ends,) = held_ends_of_rows(rows, usual_of_rows(rows))
    assert list(zip(times, ends.tolist(), strict=True)) == list(cache.held_spans(times))


def test_without_a_reading_there_is_no_hour():
    nothing = Engine(Gauge(), Gauge(), Gauge(), [], [])
    assert cache_columns.cache_hours(nothing) == cache.cache_hours(nothing) == []


def test_a_day_at_fifteen_seconds_by_hand():
    times = list(range(START + 2 * HOUR, START + 26 * HOUR, 15_000))
    engine = Engine(
        Gauge(times, [0.25 if n % 2 else 0.75 for n in range(len(times))]), Gauge(times, [7.0] * len(times)),
        Gauge(), times, [Pool(0, 1001, 16, 16_016, None)],
    )  # fmt: skip
    rows = cache_columns.cache_hours(engine)
    assert [row.observed_ms for row in rows] == [HOUR] * 24
    assert {row.active_block_ms for row in rows} == {500 * HOUR}
    assert {(row.peak_blocks, row.peak_ms - row.hour_ms, row.peak_running) for row in rows} == {
        (750, 0, 7)
    }
    assert rows[0].levels_ms == {"50": HOUR // 2, "150": HOUR // 2}
    assert Decimal(rows[0].active_block_ms) / HOUR == 500
