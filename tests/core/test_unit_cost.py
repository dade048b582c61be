"""Unit costs against plain fractions computed here, and the laws they keep (method §5)."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.unit_cost import Counted, Weights, change, class_costs, unit_costs

CLOSE = Fraction(1, 10**40)

costs = st.decimals("0.0001", 10**7, places=4, allow_nan=False)


@st.composite
def counts(draw):
    prompt, generation = draw(st.integers(0, 10**14)), draw(st.integers(0, 10**13))
    cached = draw(st.none() | st.integers(0, prompt))
    total = prompt + generation
    bounds = draw(st.none() | st.tuples(st.integers(0, total), st.integers(total, 2 * total)))
    lower, upper = bounds or (None, None)
    return Counted(prompt, generation, cached, lower, upper)


def _near(found, expected):
    return abs(Fraction(found) - expected) <= CLOSE * abs(expected)


@settings(max_examples=600, deadline=None)
@given(costs, counts())
def test_every_figure_is_the_plain_fraction(cost, counted):
    found = unit_costs(cost, counted, active_hours=42, hours=168)
    if counted.total == 0:
        assert found.cost_per_million_tokens is None
        assert found.reasons["cost_per_million_tokens"] == "no tokens in the period"
        return
    exact = Fraction(cost) / counted.total * 10**6
    assert _near(found.cost_per_million_tokens, exact)
    assert _near(found.tokens_per_dollar, counted.total / Fraction(cost))
    assert _near(found.usage_cost_per_million_tokens, exact / 4)
    known = {
        "prompt": counted.prompt - (counted.cached_prompt or 0),
        "generation": counted.generation,
    }
    if counted.cached_prompt is not None:
        known["cached_prompt"] = counted.cached_prompt
    ratio = {"prompt": Fraction(1), "cached_prompt": Fraction(1, 10), "generation": Fraction(4)}
    weighted = sum(ratio[name] * n for name, n in known.items())
    for name in ratio:
        price = getattr(found, f"cost_per_million_{name}_tokens")
        if not known.get(name):
            assert price is None and found.reasons[f"cost_per_million_{name}_tokens"]
        else:
            assert _near(price, Fraction(cost) * ratio[name] / weighted * 10**6)
    assert sum(map(Fraction, found.class_costs.values())) == Fraction(cost)


@settings(max_examples=300, deadline=None)
@given(costs, counts().filter(lambda counted: counted.wide and counted.lower))
def test_bounds_hold_the_figure_between_them(cost, counted):
    found = unit_costs(cost, counted)
    assert _near(found.cost_per_million_lower, Fraction(cost) / counted.upper * 10**6)
    assert _near(found.cost_per_million_upper, Fraction(cost) / counted.lower * 10**6)
    assert found.cost_per_million_lower <= found.cost_per_million_tokens
    assert found.cost_per_million_tokens <= found.cost_per_million_upper


def test_narrow_bounds_are_not_shown():
    found = unit_costs(Decimal(1), Counted(900, 100, None, 1000, 1001))
    assert found.cost_per_million_lower is None
    assert found.reasons["cost_per_million_lower"] == "the bounds lie within 0.1 %"


def test_opencost_example_usage_is_a_quarter_of_allocation():
    # OpenCost's published example: $1 usage against $4 allocation is 25 % utilisation.
    found = unit_costs(Decimal(4), Counted(600_000, 400_000), active_hours=1, hours=4)
    assert found.cost_per_million_tokens == 4
    assert found.usage_cost_per_million_tokens == 1


def test_cached_prompt_costs_a_tenth_and_is_part_of_the_prompt():
    # 1.1 = 1×1 + 0.1×1 units for two millions of prompt, 4 for one of output: 5.1 in all.
    counted = Counted(2_000_000, 1_000_000, cached_prompt=1_000_000)
    found = class_costs(Decimal("5.10"), counted, Weights())
    assert found == {
        "prompt": Decimal(1),
        "cached_prompt": Decimal("0.1"),
        "generation": Decimal(4),
    }


@pytest.mark.parametrize(
    ("cost", "counted", "reason"),
    [
        (Decimal(1), None, "no readings of tokens in hours that have cost"),
        (None, Counted(1, 1), "no cost in hours that have readings of tokens"),
        (Decimal(0), Counted(1, 1), "the cost is zero"),
        (Decimal(-1), Counted(1, 1), "credits are larger than the cost"),
        (Decimal(1), Counted(0, 0), "no tokens in the period"),
    ],
)
def test_what_cannot_be_said_has_its_reason(cost, counted, reason):
    found = unit_costs(cost, counted)
    assert found.cost_per_million_tokens is None and found.tokens_per_dollar is None
    assert set(found.reasons.values()) == {reason}


def test_change_is_of_what_was_before():
    assert change(Decimal(110), Decimal(100)) == Decimal("0.1")
    assert change(Decimal(110), Decimal(0)) is None
    assert change(None, Decimal(1)) is None
