"""Stores that add a 0 where a counter began (Prometheus 3, `created-timestamp-zero-ingestion`).

The 0 stands at the instant the counter was made, between two scrapes, without a mark beside it; the
process may have begun minutes before, while its model was loading.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from finops.core.counter import derive
from finops.core.counter_values import Carry, Context, HourReadings, Mark, Readings
from tests.core.test_counter_laws import BASE_S, HOUR_S, World, world

Seen = tuple[int, int, int | None]


def with_zeros(rng: random.Random, w: World) -> list[Seen]:
    """The scrapes of a world, and a 0 before the first scrape of each life that was seen."""
    seen: list[Seen] = list(w.scrapes)
    for born in {born for _, _, born in w.scrapes}:
        first = min(second for second, _, b in w.scrapes if b == born)
        assert born is not None
        seen.append((rng.randrange(born, first) if first > born else first, 0, None))
    return sorted(seen, key=lambda one: (one[0], one[1]))


def hours_of(seen: list[Seen], *, marked: bool) -> list[HourReadings]:
    hours = []
    for hour in sorted({second // HOUR_S for second, _, _ in seen}):
        mine = [one for one in seen if one[0] // HOUR_S == hour]
        marks: list[Mark | None] = [
            None if born is None else ("process_start", born * 1_000_000) for _, _, born in mine
        ]
        times, values = [second * 1000 for second, _, _ in mine], [value for _, value, _ in mine]
        readings = Readings(times, values, marks if marked else None)
        hours.append(HourReadings(hour * HOUR_S * 1000, {"": readings}))
    return hours


@pytest.mark.parametrize("marked", [True, False])
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
@example(151072844)
def test_a_zero_where_a_counter_began_changes_no_token(marked: bool, seed: int) -> None:
    """With marks it tells nothing new; without, it shows the restarts that nobody else could see.

    But a 0 carries the mark before it (method §2.1), and after a life that was never seen to count it
    is no fall. Where the next begins in the dark its mark may lie before the 0: an opening, told with
    its size. Without marks such a restart is not seen, and no token is lost.
    """
    w = world(seed)
    if not w.scrapes:
        return
    hours = hours_of(with_zeros(random.Random(seed), w), marked=marked)
    context = Context((BASE_S - 600) * 1000, [(BASE_S - 600) * 1000, *(s * 1000 for s, _ in w.ups)])
    rows, _ = derive(hours, Carry(), context)
    openings = [opening for row in rows for opening in row.openings]
    assert sum(row.tokens for row in rows) + sum(value for _, value in openings) == w.seen()
    quiet = set(after_nothing(w))
    assert set(openings) <= (quiet if marked else set())
    lives, unseen = len({born for _, _, born in w.scrapes}), openings if marked else quiet
    assert sum(len(row.restarts) for row in rows) == lives - 1 - len(unseen)


def after_nothing(w: World) -> Iterator[tuple[int, int]]:
    """The first readings (ms, value) of lives after one that was never seen to count."""
    for (_, value, born), (second, first, next_born) in pairwise(w.scrapes):
        if born != next_born and value == 0:
            yield second * 1000, first
