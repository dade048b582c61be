"""Changes and their impact: matching, differences, and bounds anyone can draw again (method §10)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from finops.core.changes import Change, Drawing, LoadHour, impact, pairs_of
from finops.core.period import milliseconds

AT = datetime(2026, 11, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


def change(at: datetime = AT) -> Change:
    return Change("chat", "configuration", at, "block size 16", "block size 32")


def hour(offset: int, tokens: int = 1000, cost: str = "2.00", level: int = 100) -> LoadHour:
    return LoadHour(milliseconds(AT + offset * HOUR), Decimal(cost), tokens, {level: 3_600_000})


def test_hours_meet_at_the_same_hour_of_the_week() -> None:
    pairs = pairs_of([hour(-168), hour(-24), hour(5), hour(168), hour(24)], AT)
    assert [(b.hour_ms, a.hour_ms) for b, a in pairs] == [
        (hour(-24).hour_ms, hour(144).hour_ms)
    ] or [a.hour_ms - b.hour_ms for b, a in pairs] == [336 * 3_600_000]


def test_the_hour_of_the_change_and_far_hours_are_left_out() -> None:
    assert pairs_of([hour(-168), hour(0)], AT) == []
    assert pairs_of([hour(-337), hour(167)], AT) == []
    assert len(pairs_of([hour(-336), hour(168)], AT)) == 1


def test_loads_more_than_a_fifth_apart_do_not_match() -> None:
    assert len(pairs_of([hour(-160, 1000), hour(8, 800)], AT)) == 1
    assert pairs_of([hour(-160, 1000), hour(8, 799)], AT) == []
    assert pairs_of([hour(-160, 1000), hour(8, 0)], AT) == []


def test_the_nearest_load_is_taken_and_each_hour_once() -> None:
    hours = [hour(-328, 1000), hour(-160, 1100), hour(8, 1080), hour(176, 1090)]
    pairs = pairs_of(hours, AT)
    assert [(b.tokens, a.tokens) for b, a in pairs] == [(1100, 1080), (1000, 1090)]


def weeks(before: str, after: str, hours: int = 48) -> list[LoadHour]:
    return [
        *(hour(n - 168, 1000 + n, before, 100 + n % 3) for n in range(1, hours + 1)),
        *(hour(n, 1000 + n, after, 60 + n % 3) for n in range(1, hours + 1)),
    ]


def test_fewer_than_a_day_of_matched_hours_is_not_enough() -> None:
    found = impact(change(), weeks("2", "1", 23))
    assert (found.pairs, found.cost, found.p99) == (23, None, None)
    assert found.reason is not None and found.reason.startswith("not enough data")


def test_the_difference_is_that_of_the_matched_hours() -> None:
    found = impact(change(), weeks("2.00", "1.5"))
    tokens = sum(1000 + n for n in range(1, 49))
    assert found.pairs == 48 and found.cost is not None and found.p99 is not None
    for said, cost in ((found.cost.before, 96), (found.cost.after, 72)):
        assert abs(Fraction(said) - Fraction(cost * 10**6, tokens)) < Fraction(1, 10**20)
    assert found.cost.lower <= found.cost.difference <= found.cost.upper < 0
    assert (found.p99.before, found.p99.after) == (Decimal("0.515"), Decimal("0.315"))
    assert found.p99.difference == Decimal("-0.2")


def test_nothing_changed_gives_an_interval_around_zero() -> None:
    found = impact(change(), weeks("2.00", "2.00"))
    assert found.cost is not None
    assert found.cost.lower <= 0 <= found.cost.upper


def test_without_gauges_only_the_cost_is_measured() -> None:
    bare = [LoadHour(h.hour_ms, h.cost, h.tokens, {}) for h in weeks("2", "1")]
    found = impact(change(), bare)
    assert found.cost is not None and found.p99 is None


def test_the_same_seed_draws_the_same_numbers() -> None:
    drawing = Drawing("seed")
    first = hashlib.sha256(b"seed:0").digest()
    second = hashlib.sha256(b"seed:1").digest()
    wanted = [int.from_bytes((first + second)[i : i + 4], "big") % 100 for i in range(0, 40, 4)]
    assert [drawing.below(100) for _ in range(10)] == wanted
    assert impact(change(), weeks("2", "1")) == impact(change(), weeks("2", "1"))
    other = change(AT + timedelta(minutes=1))
    assert change().key != other.key and len(change().key) == 12


@given(st.lists(st.integers(-336, 336), unique=True, max_size=120), st.data())
def test_pairs_keep_every_rule(offsets: list[int], data: st.DataObject) -> None:
    hours = [hour(n, data.draw(st.integers(0, 50))) for n in offsets]
    pairs = pairs_of(hours, AT)
    at = milliseconds(AT)
    assert len({b.hour_ms for b, _ in pairs}) == len({a.hour_ms for _, a in pairs}) == len(pairs)
    for before, after in pairs:
        assert before.hour_ms < at < after.hour_ms
        assert (after.hour_ms - before.hour_ms) % (168 * 3_600_000) == 0
        apart = abs(before.tokens - after.tokens)
        assert 5 * apart <= max(before.tokens, after.tokens)
