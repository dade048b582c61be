"""Savings against a baseline: laws, and figures recomputed by hand (method §6)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.baseline import Terms, compare, notes
from finops.core.unit_cost import Counted

AT = datetime(2026, 6, 1, tzinfo=UTC)
MEASURED = Terms(
    "llama", "measured", "delivered", "measured", "USD", AT, "ada", "ben", cost=Decimal("500"),
    prompt_tokens=80_000_000, generation_tokens=20_000_000, model="llama-2", tokenizer="llama-2",
    period_start=AT - timedelta(days=7), period_end=AT,
)  # fmt: skip
DECLARED = Terms(
    "llama", "declared", "processed", "measured", "USD", AT, "ada", declared_price=Decimal("5.10")
)


def test_a_measured_baseline():
    # 500 USD for 100 million tokens is 5 a million; 40 million tokens would have cost 200.
    found = compare(MEASURED, Counted(30_000_000, 10_000_000), Decimal("72"), "USD")
    assert found.cost_per_million_tokens == 5
    assert (found.counterfactual, found.saving, found.break_even) == (200, 128, Decimal("1.8"))
    assert dict(found.sensitivity) == {"-25": 78, "-10": 108, "10": 148, "25": 178}


def test_the_baseline_against_itself_saves_nothing():
    odd = replace(MEASURED, cost=Decimal("100.01"), prompt_tokens=3, generation_tokens=4)
    found = compare(odd, Counted(3, 4), Decimal("100.01"), "USD")
    assert found.saving == 0


def test_the_interval_follows_the_bounds_of_the_tokens():
    counted = Counted(900_000, 100_000, None, 900_000, 1_200_000)
    found = compare(DECLARED, counted, Decimal("2"), "USD")
    assert (found.saving_lower, found.saving, found.saving_upper) == (
        Decimal("2.59"), Decimal("3.1"), Decimal("4.12"),
    )  # fmt: skip


def test_prices_by_class_where_both_know_them():
    prices = {"prompt": Decimal(2), "generation": Decimal(8), "cached_prompt": Decimal("0.5")}
    terms = replace(DECLARED, classes=prices)
    counted = Counted(3_000_000, 1_000_000, cached_prompt=1_000_000)
    found = compare(terms, counted, Decimal(1), "USD")
    assert found.by_class and found.counterfactual == Decimal("12.5")
    unknown = compare(terms, Counted(3_000_000, 1_000_000), Decimal(1), "USD")
    assert unknown.counterfactual == 14


@settings(max_examples=300, deadline=None)
@given(
    st.decimals("0.01", 10**6, places=2), st.integers(0, 10**12), st.integers(1, 10**12),
    st.integers(1, 10**12), st.decimals("0.01", 10**6, places=2),
)  # fmt: skip
def test_at_the_break_even_price_nothing_is_saved(cost, prompt, generation, tokens, actual):
    terms = replace(MEASURED, cost=cost, prompt_tokens=prompt, generation_tokens=generation)
    found = compare(terms, Counted(0, tokens), actual, "USD")
    assert abs(Fraction(found.counterfactual) - Fraction(cost) * tokens / (prompt + generation)) < (
        Fraction(1, 10**20)
    )
    even = replace(DECLARED, declared_price=found.break_even)
    assert abs(compare(even, Counted(0, tokens), actual, "USD").saving) < Decimal("1e-30")


def test_no_saving_is_made_up():
    counted = Counted(1, 1)
    assert "EUR" in compare(DECLARED, counted, Decimal(1), "EUR").reason
    assert "no delivered tokens" in compare(MEASURED, None, Decimal(1), "USD").reason
    assert "no cost" in compare(DECLARED, counted, None, "USD").reason
    assert "no tokens" in compare(DECLARED, Counted(0, 0), Decimal(1), "USD").reason
    for found in (
        compare(MEASURED, None, Decimal(1), "USD"),
        compare(DECLARED, counted, None, "USD"),
    ):
        assert found.saving is None and found.counterfactual is None


def test_differences_are_said_not_smoothed():
    found = notes(MEASURED, model="llama-3", cached_known=True, end=AT + timedelta(days=181))
    text = " ".join(found)
    assert "Different models" in text and "tokenizer" in text
    assert "cached" in text and "181 days old" in text
    same = notes(MEASURED, model="llama-2", cached_known=False, end=AT + timedelta(days=180))
    assert same == []
    alone = replace(MEASURED, approver="")
    (said,) = notes(alone, model="llama-2", cached_known=False, end=AT + timedelta(days=180))
    assert "not approved yet: ada registered it" in said


def test_the_saving_s_share_says_how_far_the_baseline_may_fall():
    # 40 million tokens at 5 are 200; 150 were spent: a baseline a quarter lower saves nothing.
    found = compare(MEASURED, Counted(40_000_000, 0), Decimal(150), "USD")
    assert found.saving_share == Decimal("0.25")
    lower = replace(MEASURED, cost=Decimal("375"))
    assert compare(lower, Counted(40_000_000, 0), Decimal(150), "USD").saving == 0
    assert compare(DECLARED, None, Decimal(1), "USD").saving_share is None
