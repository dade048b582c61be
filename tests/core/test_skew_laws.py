"""Clocks that differ, and lives that nobody saw: what the bounds must hold (§2.1, §2.6)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.counter import derive
from finops.core.counter_values import Carry, HourRow, Readings
from tests.core.test_counter_laws import (
    HOUR_S,
    World,
    _fastest_life_was_measured,
    context_of,
    derived,
    hours_of,
    series_rows,
    world,
)


def derived_by_a_clock(w: World, skew_s: int) -> list[HourRow]:
    """The hours of a world whose engine's clock, which writes the marks, is so much ahead."""
    hours = hours_of(w)
    for hour in hours:
        for name, one in hour.replicas.items():
            assert isinstance(one.marks, list)
            moved = [(kind, at + skew_s * 1_000_000) for kind, at in one.marks]  # type: ignore[misc]
            hour.replicas = {name: Readings(one.times_ms, one.values, moved)}
    rows, _ = derive(hours, Carry(), context_of(w))
    return rows


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 10**9), st.integers(-5, 5))
def test_five_seconds_between_the_clocks_change_no_token(seed: int, skew_s: int) -> None:
    w = world(seed)
    if not w.scrapes:
        return
    rows = derived_by_a_clock(w, skew_s)
    plain = derived(w)
    assert [row.tokens for row in rows] == [row.tokens for row in plain]
    assert [len(row.restarts) for row in rows] == [len(row.restarts) for row in plain]
    unplaced = sum(value for row in rows for _, value in row.openings)
    assert sum(row.tokens for row in rows) + unplaced == w.seen()


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 10**9))
def test_lives_that_no_reading_saw_lie_inside_the_upper_bound(seed: int) -> None:
    """Several restarts in one gap, or between two scrapes, where no `up` = 0 ends the dark: what the
    unseen processes counted is below the bound, as long as none ran faster than any was seen to."""
    w = world(seed, with_up_zero=False)
    if len(w.scrapes) < 3:
        return
    rows = derived(w)
    first, last = w.scrapes[0][0], w.scrapes[-1][0]
    start, end = first // HOUR_S * HOUR_S, (last // HOUR_S + 1) * HOUR_S
    (part,) = series_rows(w, rows, last).parts(start * 1000, end * 1000, lambda ms: None).values()
    seen = {born for _, _, born in w.scrapes}
    unplaced = sum(value for row in rows for _, value in row.openings)
    counted = [one for one in w.lives if one.born in seen or first < one.born <= last]
    truth = sum(life.value(last) for life in counted) - unplaced
    if _fastest_life_was_measured(w):
        assert part.lower() <= truth <= part.upper()
    unseen = [one for one in counted if one.born not in seen and one.value(last)]
    assert not (unseen and part.exact())


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10**9), st.integers(-3600, 3600))
def test_clocks_further_apart_lose_no_token_silently(seed: int, skew_s: int) -> None:
    """A mark that seems older than the last reading is taken for another process (§2.1): what its
    first reading shows then stands as an opening, with its size, and the period is not exact."""
    w = world(seed)
    if not w.scrapes:
        return
    rows = derived_by_a_clock(w, skew_s)
    booked, unplaced = sum(r.tokens for r in rows), sum(v for r in rows for _, v in r.openings)
    assert booked + unplaced == w.seen()
    first, last = w.scrapes[0][0], w.scrapes[-1][0]
    start, end = first // HOUR_S * HOUR_S, (last // HOUR_S + 1) * HOUR_S
    (part,) = series_rows(w, rows, last).parts(start * 1000, end * 1000, lambda ms: None).values()
    assert not (unplaced and part.exact())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(86_400, 10 * 86_400))
def test_a_clock_that_is_days_ahead_proves_no_birth(seed: int, skew_s: int) -> None:
    """The first reading of a series stands as an opening, however long its process has counted (§2.4)."""
    w = world(seed)
    if not w.scrapes:
        return
    at, value, _ = w.scrapes[0]
    openings = [one for row in derived_by_a_clock(w, skew_s) for one in row.openings]
    assert openings[0] == (at * 1000, value)
