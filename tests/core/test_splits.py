"""Laws of exact money: shares sum to the amount, parts of a charge telescope to it (§3.7, §4)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.allocation import parse_shares, split_shared
from finops.core.money import part, scale_of, split

START = datetime(2026, 11, 1, tzinfo=UTC)

amounts = st.builds(
    lambda digits, places: Decimal((0 if digits >= 0 else 1, _digits(digits), -places)),
    st.integers(-(10**34), 10**34),
    st.integers(0, 25),
)


def _digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


@settings(max_examples=700, deadline=None)
@given(amounts, st.lists(st.integers(0, 10**18), min_size=1, max_size=9).filter(any))
def test_shares_sum_to_the_amount_and_are_fair_to_the_last_digit(amount, weights):
    shares = split(amount, weights)
    assert sum(map(Fraction, shares)) == Fraction(amount)
    unit = Fraction(1, 10 ** (scale_of(amount) + 4))
    for share, weight in zip(shares, weights, strict=True):
        assert abs(Fraction(share) - Fraction(amount) * weight / sum(weights)) < unit


def test_the_long_amount_of_an_azure_export_loses_no_digit():
    amount = Decimal("16.2969321366366446274854190001")  # 30 significant digits
    assert sum(map(Fraction, split(amount, [1, 2, 4]))) == Fraction(amount)


@settings(max_examples=400, deadline=None)
@given(amounts, st.integers(1, 10**6), st.lists(st.integers(0, 10**6), max_size=6))
def test_parts_over_any_partition_telescope_to_the_charge(cost, length, cuts):
    end = START + timedelta(seconds=length)
    edges = sorted({START - timedelta(hours=1), end, *(START + timedelta(seconds=c) for c in cuts)})
    parts = [part(cost, START, end, a, b) for a, b in pairwise(edges)]
    last = part(cost, START, end, edges[-1], edges[-1] + timedelta(days=1))
    assert sum(map(Fraction, [*parts, last])) == Fraction(cost)


def test_sixty_forty_of_a_thousand():
    # The cost-weighted example of the FinOps Foundation: 1000 shared, 60/40.
    parts = split_shared(Decimal(1000), {"b": 40, "a": 60})
    assert parts == {"a": Decimal(600), "b": Decimal(400)}


def test_a_cent_in_three_goes_nowhere():
    parts = split_shared(Decimal("0.01"), {"a": 1, "b": 1, "c": 1})
    assert [str(parts[k]) for k in "abc"] == ["0.003334", "0.003333", "0.003333"]


@pytest.mark.parametrize("text", ["a", "a=-1", "a=1,a=2", "a=0", "a=1.5", "=5", "", "a=٣"])
def test_wrong_shares_are_refused(text):
    with pytest.raises(ValueError):
        parse_shares(text)


def test_shares_are_read():
    assert parse_shares("a=60, b=40") == {"a": 60, "b": 40}
