"""Conversion by dated rates: the day's rate, cross rates of one day, parts that sum (method §3.9)."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.baseline import Terms, compare
from finops.core.exchange import Quote, Rate, Rates, working_days_after
from finops.core.money import add, part, split
from finops.core.unit_cost import Counted

FRIDAY, MONDAY = date(2026, 11, 13), date(2026, 11, 16)
QUOTES = [
    Quote("USD", FRIDAY, Decimal("1.1000"), "a"),
    Quote("CAD", FRIDAY, Decimal("1.5000"), "a"),
    Quote("USD", MONDAY, Decimal("1.1200"), "b"),
]


def test_a_weekend_takes_the_friday_before() -> None:
    rates = Rates("USD", QUOTES)
    saturday = FRIDAY + timedelta(days=1)
    assert [rates.on("EUR", saturday + timedelta(days=n)).day for n in (-1, 0, 1, 2)] == [  # type: ignore[union-attr]
        FRIDAY, FRIDAY, FRIDAY, MONDAY,
    ]  # fmt: skip


def test_both_legs_of_a_cross_rate_are_of_one_day() -> None:
    # Canada was not quoted on Monday: Friday's pair counts, never Monday's dollar with Friday's.
    found = Rates("USD", QUOTES).on("CAD", MONDAY)
    assert found is not None and found.day == FRIDAY
    assert (found.source_per_base, found.target_per_base) == (Decimal("1.5000"), Decimal("1.1000"))
    assert found.documents == ("a",)
    # 30.00 CAD ÷ 1.5 × 1.1 = 22 USD
    assert found.convert(Decimal("30.00")) == 22


def test_the_euro_itself_needs_no_quote_of_its_own() -> None:
    into = Rates("EUR", QUOTES).on("USD", MONDAY)
    out = Rates("USD", QUOTES).on("EUR", MONDAY)
    assert into is not None and out is not None
    assert into.convert(Decimal("5.60")) == 5
    assert out.convert(Decimal("5.00")) == Decimal("5.60")


@pytest.mark.parametrize("days", [10, 11, 4000])
def test_a_rate_ten_days_old_says_nothing(days: int) -> None:
    rates = Rates("USD", QUOTES)
    assert rates.on("EUR", MONDAY + timedelta(days=9)) is not None
    assert rates.on("EUR", MONDAY + timedelta(days=days)) is None


def test_without_any_rate_there_is_none() -> None:
    assert Rates("USD").on("EUR", MONDAY) is None
    assert Rates("USD", QUOTES).on("GBP", MONDAY) is None
    assert Rates("GBP", QUOTES).on("USD", MONDAY) is None
    assert Rates("USD", QUOTES).on("EUR", FRIDAY - timedelta(days=1)) is None


def test_of_two_quotes_of_a_day_the_later_counts() -> None:
    later = Quote("USD", MONDAY, Decimal("1.1300"), "c")
    found = Rates("USD", [*QUOTES, later]).on("EUR", MONDAY)
    assert found is not None and (found.target_per_base, found.documents) == (
        Decimal("1.1300"),
        ("c",),
    )


def test_rounded_once_half_to_even_to_ten_more_digits() -> None:
    third = Rate("CAD", "USD", MONDAY, Decimal("1.5400"), Decimal("1.1200"), ())
    # 2.00 × 1.12 ÷ 1.54 = 1.454545454545|45…
    assert str(third.convert(Decimal("2.00"))) == "1.454545454545"
    tie = Rate("EUR", "USD", MONDAY, Decimal(1), Decimal("0.00000000005"), ())
    assert tie.convert(Decimal(1)) == 0
    assert tie.convert(Decimal(3)) == Decimal("2E-10")  # 1.5 units: to the even 2


MONEY = st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9)  # fmt: skip
PER_EURO = st.decimals(min_value="0.0001", max_value="30000", places=4)


@given(amount=MONEY, source=PER_EURO, target=PER_EURO,
       cuts=st.lists(st.integers(1, 86_400 * 30 - 1), max_size=8))  # fmt: skip
def test_parts_of_a_converted_charge_sum_to_it(
    amount: Decimal, source: Decimal, target: Decimal, cuts: list[int]
) -> None:
    """The law that makes totals close: whole charges are converted first, then cut by time."""
    rate = Rate("CAD", "USD", MONDAY, source, target, ())
    whole = rate.convert(amount)
    assert abs(Fraction(whole) - Fraction(amount) * Fraction(target) / Fraction(source)) <= (
        Fraction(1, 2 * 10**16)
    )
    start = datetime(2026, 11, 1, tzinfo=UTC)
    edges = [0, *sorted(set(cuts)), 86_400 * 30]
    moments = [start + timedelta(seconds=second) for second in edges]
    parts = [part(whole, start, moments[-1], one, other)
             for one, other in itertools.pairwise(moments)]  # fmt: skip
    assert add(parts) == whole


@given(amounts=st.lists(MONEY, min_size=1, max_size=6), source=PER_EURO, target=PER_EURO,
       weights=st.lists(st.integers(1, 10**12), min_size=1, max_size=5))  # fmt: skip
def test_shares_of_converted_charges_sum_to_their_total(
    amounts: list[Decimal], source: Decimal, target: Decimal, weights: list[int]
) -> None:
    rate = Rate("CAD", "USD", MONDAY, source, target, ())
    converted = [rate.convert(amount) for amount in amounts]
    assert add(split(add(converted), weights)) == add(converted)


@given(amount=MONEY, target=PER_EURO)
def test_a_rate_to_itself_would_change_nothing(amount: Decimal, target: Decimal) -> None:
    same = Rate("USD", "USD", MONDAY, target, target, ())
    assert same.convert(amount) == amount


@pytest.mark.parametrize(
    ("newest", "last", "expected"),
    [
        (FRIDAY, FRIDAY + timedelta(days=2), False),  # Saturday and Sunday
        (FRIDAY, MONDAY, True),
        (MONDAY, MONDAY, False),
        (MONDAY, FRIDAY, False),
        (FRIDAY, FRIDAY + timedelta(days=400), True),
    ],
)
def test_only_working_days_after_the_last_rate_are_late(
    newest: date, last: date, expected: bool
) -> None:
    assert working_days_after(newest, last) is expected


def _declared(**changes: object) -> Terms:
    values = {
        "workload": "chat", "kind": "declared", "basis": "processed", "quality": "measured",
        "currency": "CAD", "frozen_at": datetime(2026, 11, 15, 9, tzinfo=UTC), "author": "Ada",
        "declared_price": Decimal("30.00"),
    }  # fmt: skip
    return Terms(**(values | changes))  # type: ignore[arg-type]


def test_a_baseline_in_another_currency_keeps_the_rate_of_its_own_day() -> None:
    terms = _declared(classes={"prompt": Decimal(15), "generation": Decimal(60)})
    assert terms.day == date(2026, 11, 15)
    measured = _declared(
        declared_price=None, cost=Decimal(60), prompt_tokens=10**6, generation_tokens=0,
        period_start=datetime(2026, 11, 13, 23, tzinfo=UTC),
        period_end=datetime(2026, 11, 20, tzinfo=UTC),
    )  # fmt: skip
    assert measured.day == FRIDAY
    rate = Rates("USD", QUOTES).on("CAD", terms.day)
    assert rate is not None
    found = terms.converted(rate)
    assert (found.currency, found.declared_price) == ("USD", 22)
    assert found.classes == {"prompt": 11, "generation": 44}
    assert measured.converted(rate).cost == 44
    assert found.quoted is not None and found.quoted.cost_per_million_tokens == 30
    # 2 million prompt and 1 million generation tokens: 2 × 11 + 1 × 44 against 50 spent.
    counted = Counted(2_000_000, 1_000_000)
    compared = compare(found, counted, Decimal(50), "USD")
    assert (compared.counterfactual, compared.saving) == (66, 16)
    without = compare(terms, counted, Decimal(50), "USD")
    assert without.saving is None
    assert "in CAD, the report in USD" in str(without.reason)
