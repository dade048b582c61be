"""Service levels: bounds from buckets, shares, verdicts and good tokens (method §5)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from finops.core.slo import (
    INFINITE,
    BucketHour,
    InTime,
    Objective,
    good_tokens,
    in_time,
    joint,
    together,
)

BOUNDS = [Decimal(text) for text in ("0.1", "0.25", "0.5", "0.75", "1", "2.5", "5", "10")]


def buckets(**counts: int) -> dict[Decimal, BucketHour]:
    return {
        INFINITE if name == "inf" else Decimal(name[1:].replace("_", ".")): BucketHour(count, 6)
        for name, count in counts.items()
    }


def test_a_threshold_on_a_bound_is_exact_and_one_between_two_is_an_interval() -> None:
    told = buckets(b0_5=324, b0_75=341, b1=363, inf=472)
    assert in_time(told, Decimal(1)) == InTime(472, 363, 363)
    assert in_time(told, Decimal("0.6")) == InTime(472, 324, 341)
    assert in_time(told, Decimal("0.3")) == InTime(472, 0, 324)
    assert in_time(told, Decimal(3)) == InTime(472, 363, 472)


def test_without_the_last_bucket_nothing_is_known() -> None:
    assert in_time(buckets(b1=3), Decimal(1)) is None


def test_a_bound_that_was_read_less_often_does_not_speak_of_all() -> None:
    told = buckets(b0_5=10, b1=20, inf=30) | {Decimal("0.75"): BucketHour(12, 5)}
    assert in_time(told, Decimal("0.8")) == InTime(30, 10, 20)


def test_bounds_that_contradict_each_other_leave_everything_open() -> None:
    assert in_time(buckets(b0_5=9, b1=8, inf=10), Decimal(1)) == InTime(10, 0, 10)


@given(
    st.lists(st.integers(10, 20_000), max_size=60),
    st.integers(10, 1000),
)
def test_the_truth_lies_within_the_bounds(milliseconds: list[int], hundredths: int) -> None:
    seconds = [Decimal(one).scaleb(-3) for one in milliseconds]
    threshold = Decimal(hundredths).scaleb(-2)
    told = {b: BucketHour(sum(s <= b for s in seconds), 1) for b in [*BOUNDS, INFINITE]}
    found = in_time(told, threshold)
    assert found is not None
    truth = sum(s <= threshold for s in seconds)
    assert found.counted == len(seconds)
    assert found.lower <= truth <= found.upper
    assert threshold not in BOUNDS or found.lower == truth == found.upper


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 9)), min_size=1, max_size=40)
)
def test_what_kept_both_thresholds_lies_within_the_joint_share(
    requests: list[tuple[bool, bool, int]],
) -> None:
    """Each alone is known exactly; what kept both is any number that agrees with them."""
    count = len(requests)
    first, between = (
        Fraction(sum(row[i] for row in requests), count) for i in range(2)
    )  # fmt: skip
    both = Fraction(sum(row[0] and row[1] for row in requests), count)
    low, high = joint([(first, first), (between, between)])
    assert low <= both <= high


def test_verdicts() -> None:
    target = Decimal("0.9")
    assert InTime(10, 9, 10).verdict(target) == "met"
    assert InTime(10, 8, 8).verdict(target) == "missed"
    assert InTime(10, 8, 9).verdict(target) == "undecided"
    assert InTime(0, 0, 0).verdict(target) is None


def test_parts_sum() -> None:
    parts = [InTime(10, 8, 9), InTime(5, 5, 5)]
    assert together(parts) == InTime(15, 13, 14)


def test_good_tokens_are_rounded_outwards() -> None:
    third = Fraction(1, 3)
    assert good_tokens(100, 100, (third, third)) == (33, 34)
    assert good_tokens(99, 102, (third, 2 * third)) == (33, 68)
    assert good_tokens(7, 7, (Fraction(1), Fraction(1))) == (7, 7)


def test_a_threshold_of_each_measure() -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    one = Objective("chat", Decimal(1), None, Decimal("0.99"), now, now, "Ada")
    assert one.threshold_seconds("first_token") == 1
    assert one.threshold_seconds("inter_token") is None
