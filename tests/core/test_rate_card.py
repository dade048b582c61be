"""Rate cards: which price fits, and own hardware whose months sum to its price (method §3.10)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.money import add
from finops.core.period import Period
from finops.core.rate_card import Card, Owned, Rate, Usage, own_cost, price

START = datetime(2026, 1, 1, tzinfo=UTC)
AT = datetime(2026, 10, 5, 10, tzinfo=UTC)
OWNED = Owned(
    "rack-7", "H100", Decimal(8), Decimal(250000), 48, Decimal("10.2"), Decimal("1.3"), Decimal("0.14"), START
)  # fmt: skip


def card(*rates: Rate, **changes: object) -> Card:
    made = Card("card", "USD", START, None, rates, (), version=1)
    return replace(made, **changes)  # type: ignore[arg-type]


def rate(amount: str, unit: str = "GPU-Hour", **match: str) -> Rate:
    asked = {"gpu_model": None, "provider": None, "sku": None} | match
    return Rate(asked["gpu_model"], asked["provider"], asked["sku"], unit, Decimal(amount))


def usage(quantity: str = "8", unit: str = "GPU-Hours", **changes: object) -> Usage:
    made = Usage(
        AT, "CoreWeave", "CoreWeave, Inc.", "H100", Decimal(8), ("sku-1", None), ((Decimal(quantity), unit),)
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "amount"),
    [
        (usage("8"), "19.12"),  # GPU-hours as they are
        (usage("2", "Hours"), "38.24"),  # of a machine with 8 GPUs
        (usage("3600", "Seconds"), "19.12"),
        (usage("1", "Seconds"), "0.005311111111111111"),  # 8 × 2.39 ÷ 3600, to 18 decimals
        (usage("5", "GiB-Hours"), None),
        (usage("2", "Hours", gpu_count=None), None),
        (usage(provider="Other", issuer="Other"), None),
        (usage(provider=None), None),  # the issuer's name is another one
        (usage(gpu_model="h100"), "19.12"),
        (usage(at=START - timedelta(seconds=1)), None),
    ],
)
def test_quantity_times_price(one: Usage, amount: str | None) -> None:
    known = card(rate("2.39", gpu_model="H100", provider="CoreWeave"))
    found = price(one, [known])
    assert (found and found.amount) == (None if amount is None else Decimal(amount))


def test_the_rate_that_names_most_counts() -> None:
    known = card(rate("1"), rate("3", sku="sku-1", gpu_model="H100"), rate("2", gpu_model="H100"))
    found = price(usage("1"), [known])
    assert found is not None
    assert (found.amount, found.card) == (3, "card v1")


def test_a_newer_version_counts_from_its_first_instant_on() -> None:
    old, new = card(rate("1")), card(rate("2"), version=2, valid_from=AT)
    before, after = usage("1", at=AT - timedelta(microseconds=1)), usage("1")
    prices = [price(one, [new, old]) for one in (before, after)]
    assert [one and one.amount for one in prices] == [1, 2]


def test_a_card_that_has_ended_prices_nothing() -> None:
    assert price(usage("1"), [card(rate("1"), valid_to=AT)]) is None


def months(count: int) -> list[Period]:
    edges = [datetime(2026 + at // 12, at % 12 + 1, 1, tzinfo=UTC) for at in range(count + 1)]
    return [Period(*pair) for pair in pairwise(edges)]


@given(
    st.decimals(0, 10**9, places=4),
    st.integers(1, 60),
    st.integers(0, 60 * 24 * 30),
)
def test_the_months_of_a_life_sum_to_the_price_exactly(
    capex: Decimal, life: int, minutes: int
) -> None:
    in_service = START + timedelta(minutes=minutes)
    owned = replace(
        OWNED, capex=capex, life_months=life, in_service=in_service, power_kw=Decimal(0)
    )
    found = [own_cost(owned, card(), month) for month in months(70)]
    assert add([one[1] for one in found if one]) == capex


def test_power_by_the_hour_beside_the_write_off() -> None:
    found = own_cost(replace(OWNED, capex=Decimal(0)), card(), months(1)[0])
    assert found is not None
    span, cost, hours = found
    assert (span.start, hours) == (START, Fraction(744))
    assert cost == Decimal("10.2") * Decimal("1.3") * Decimal("0.14") * 744


def test_a_card_in_force_for_part_of_a_month_costs_that_part() -> None:
    middle = datetime(2026, 1, 16, 12, tzinfo=UTC)
    halves = [card(valid_to=middle), card(valid_from=middle)]
    found = [own_cost(OWNED, one, months(1)[0]) for one in halves]
    whole = own_cost(OWNED, card(), months(1)[0])
    assert whole is not None
    assert add([one[1] for one in found if one]) == whole[1]


@pytest.mark.parametrize(
    ("day", "life", "ends"),
    [("2026-01-31", 1, "2026-02-28"), ("2027-12-31", 2, "2028-02-29"), ("2026-03-01", 48, "2030-03-01")],
)  # fmt: skip
def test_a_life_ends_on_a_day_of_the_calendar(day: str, life: int, ends: str) -> None:
    in_service = datetime.fromisoformat(day).replace(tzinfo=UTC)
    owned = replace(OWNED, in_service=in_service, life_months=life)
    assert owned.written_off == datetime.fromisoformat(ends).replace(tzinfo=UTC)
