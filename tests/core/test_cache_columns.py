"""Whole columns give exactly what the rules give reading by reading (method §8.3, §8.4, §8.9)."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core import cache, cache_columns
from finops.core.cache import Engine, Gauge, Pool

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


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 3 * HOUR), steps)
def test_each_reading_holds_as_long(first, gaps):
    times = times_of(first, gaps)
    ends = cache_columns.held_ends(cache_columns._times(Gauge(times)))
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
