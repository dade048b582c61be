"""The bridge is exact: recomputed here in plain fractions for thousands of random weeks (§7)."""

from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.bridge import Group, Side, bridge, per_million_text

costs = st.decimals(-100, 10**6, places=6, allow_nan=False).filter(lambda c: c != 0)
hours = st.decimals(0, 5000, places=3, allow_nan=False)
shares = st.one_of(st.none(), st.fractions(Fraction(1, 168), 1, max_denominator=168))
group = st.builds(Group, costs, hours, st.integers(0, 10**13), shares)
sides = st.dictionaries(st.sampled_from("abcdefg"), group, max_size=7)


def _side(groups, extra_cost, extra_tokens):
    cost = sum((g.cost for g in groups.values()), Decimal(0)) + extra_cost
    return Side(groups, cost, sum(g.tokens for g in groups.values()) + extra_tokens)


@settings(max_examples=300, deadline=None)
@given(sides, sides, costs, costs, st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_parts_sum_to_the_change(before, after, extra0, extra1, more0, more1):
    _check(_side(before, extra0, more0), _side(after, extra1, more1))


def test_the_parts_sum_to_the_change_in_thousands_of_weeks():
    rng = Random(47)
    bridges = sum(_check(_random_side(rng), _random_side(rng)) for _ in range(5000))
    assert bridges > 2500


def _random_side(rng):
    def group():
        cost = Decimal(rng.randrange(-(10**6), 10**11)).scaleb(-rng.randrange(9))
        gpu_hours = Decimal(rng.choice([0, rng.randrange(1, 10**7)])).scaleb(-3)
        share = rng.choice([None, Fraction(rng.randrange(1, 169), 168)])
        return Group(cost, gpu_hours, rng.choice([0, 1, rng.randrange(10**13)]), share)

    groups = {key: group() for key in "abcdef" if rng.random() < 0.6}
    return _side(groups, Decimal(rng.randrange(10**6)), rng.randrange(10**9))


def _check(old, new):
    """Whether there is a bridge; that it sums, in plain fractions, if there is."""
    found = bridge(old, new)
    if not old.bridged or not new.bridged:
        assert found is None
        return False
    change = Fraction(new.cost) / new.tokens - Fraction(old.cost) / old.tokens
    parts = [found.price, found.efficiency, found.mix, found.entered, found.left]
    assert sum(parts) + found.cost_without_tokens == change == found.total
    if found.active_share is not None:
        assert found.active_share + found.throughput == found.efficiency
        assert found.throughput == _throughput(old, new)
    text = per_million_text({str(i): value for i, value in enumerate(parts)})
    assert abs(sum(map(Fraction, text.values())) - sum(parts) * 10**6) <= Fraction(1, 2 * 10**24)
    return True


def _throughput(old, new):
    """Σ s₁r₁(1/q₁ − 1/q₀)/a₁ as the method writes it, from raw figures."""
    all_tokens = sum(g.tokens for g in new.bridged.values())
    total = Fraction(0)
    for key in old.bridged.keys() & new.bridged.keys():
        a, b = old.bridged[key], new.bridged[key]
        q0 = Fraction(a.tokens) / Fraction(a.gpu_hours) / a.active_share
        q1 = Fraction(b.tokens) / Fraction(b.gpu_hours) / b.active_share
        rate = Fraction(b.cost) / Fraction(b.gpu_hours)
        total += Fraction(b.tokens, all_tokens) * rate * (1 / q1 - 1 / q0) / b.active_share
    return total


def test_only_the_price_changed():
    before = Side({"a": Group(Decimal(100), Decimal(50), 10**8)}, Decimal(100), 10**8)
    after = Side({"a": Group(Decimal(80), Decimal(50), 10**8)}, Decimal(80), 10**8)
    found = bridge(before, after)
    assert found.price * 10**6 == Fraction(-1, 5)
    assert (found.efficiency, found.mix, found.entered, found.left) == (0, 0, 0, 0)


def test_only_throughput_doubled():
    before = Side(
        {"a": Group(Decimal(100), Decimal(50), 10**8, Fraction(1, 2))}, Decimal(100), 10**8
    )
    after = Side(
        {"a": Group(Decimal(100), Decimal(50), 2 * 10**8, Fraction(1, 2))}, Decimal(100), 2 * 10**8
    )
    found = bridge(before, after)
    assert found.efficiency * 10**6 == Fraction(-1, 2)
    assert (found.price, found.mix, found.active_share) == (0, 0, 0)
    assert found.throughput == found.efficiency


def test_a_workload_that_left_and_one_that_came():
    cheap, dear = Group(Decimal(10), Decimal(10), 10**7), Group(Decimal(30), Decimal(10), 10**7)
    before = Side({"x": cheap, "gone": dear}, Decimal(40), 2 * 10**7)
    after = Side({"x": cheap, "new": dear}, Decimal(40), 2 * 10**7)
    found = bridge(before, after)
    # c₀ = 2 per million; the dear half leaves (−0.5) and another dear half enters (+0.5).
    assert found.left * 10**6 == Fraction(-1, 2)
    assert found.entered * 10**6 == Fraction(1, 2)
    assert found.total == 0


@pytest.mark.parametrize("groups", [{}, {"a": Group(Decimal(5), Decimal(0), 10)}])
def test_no_bridge_without_tokens_and_gpu_hours(groups):
    full = Side({"a": Group(Decimal(1), Decimal(1), 1)}, Decimal(1), 1)
    empty = Side(groups, Decimal(5), sum(g.tokens for g in groups.values()))
    assert bridge(full, empty) is None
    assert bridge(empty, full) is None
