"""Laws of money: parts of any partition sum to the charge, rows of any key sum to the total."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.amounts import Money, plus, total_of
from finops.core.period import Period, month_of
from finops.ledger.queries.money import (
    amounts_inside,
    charge_parts,
    cost_reach,
    cost_start,
    months_of,
)
from finops.ledger.queries.money_totals import money_total, money_totals
from tests.ledger.doors import ingested
from tests.ledger.focus_files import focus_file, hours

START = datetime(2026, 10, 1, tzinfo=UTC)
OCTOBER = month_of("2026-10")
NOVEMBER = month_of("2026-11")
KEYS = ["account", "sub_account", "service", "gpu_model", "category", "invoice", "day", "hour"]

ledger = pytest.mark.django_db(databases=["default", "sample"])
costs = st.decimals(
    allow_nan=False, allow_infinity=False, places=11, min_value=-(10**6), max_value=10**6
)
seconds = st.integers(0, 40 * 86400)


@given(costs, st.tuples(seconds, seconds), st.sets(seconds, min_size=2))
def test_parts_over_any_partition_sum_to_the_charge(
    cost: Decimal, ends: tuple[int, int], cuts: set[int]
) -> None:
    start, end = (START + timedelta(seconds=s) for s in sorted(ends))
    edges = sorted({*cuts, 0, 40 * 86400 + 1})
    total: Decimal | None = None
    for since, until in pairwise(edges):
        piece = Period(START + timedelta(seconds=since), START + timedelta(seconds=until))
        total = plus(total, amounts_inside((cost, None, None, None), start, end, piece)[0])
    assert total == cost


def test_unknown_is_never_nought() -> None:
    money = Money()
    money.add("USD", (Decimal(1), None, None, None))
    money.add("USD", (Decimal(2), None, Decimal(0), None))
    money.add("EUR", (None, None, None, None))
    assert money.as_json() == {
        "EUR": {"billed": None, "effective": None, "list": None, "contracted": None},
        "USD": {"billed": "3", "effective": None, "list": "0", "contracted": None},
    }


def test_the_months_a_period_touches() -> None:
    week = Period(datetime(2026, 12, 28, tzinfo=UTC), datetime(2027, 1, 4, tzinfo=UTC))
    assert months_of(week) == ["2026-12", "2027-01"]
    assert months_of(OCTOBER) == ["2026-10"]


def random_rows(seed: int, count: int = 300) -> list[dict[str, str]]:
    """Charges of all lengths from an instant to two months, over edges of hours, days, months."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        start = START + timedelta(minutes=chance.randrange(-20 * 1440, 40 * 1440))
        length = chance.choice([0, 30, 60, 60, 60, 61, 1440, 1441, 44640, 88000])
        cost = Decimal(chance.randrange(-(10**9), 10**12)).scaleb(-chance.choice([0, 2, 8, 11]))
        rows.append(
            {
                "ResourceId": f"i-{number}",
                "ChargePeriodStart": f"{start:%Y-%m-%dT%H:%M:%SZ}",
                "ChargePeriodEnd": f"{start + timedelta(minutes=length):%Y-%m-%dT%H:%M:%SZ}",
                "BilledCost": f"{cost:f}",
                "EffectiveCost": f"{cost * 2:f}",
                "ListCost": chance.choice(["", f"{cost:f}"]),
                "ContractedCost": "",
                "BillingCurrency": chance.choice(["USD", "USD", "EUR"]),
                "SubAccountId": chance.choice(["", "a", "b"]),
                "ServiceName": chance.choice(["Compute", "Storage"]),
                "ChargeCategory": chance.choice(["Usage", "Tax", "Credit", "Purchase"]),
                "InvoiceId": chance.choice(["", "INV-1", "INV-2"]),
            }
        )
    return rows


@ledger
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_of_every_key_sum_to_the_total(tmp_path: Path, seed: int) -> None:
    ingested(focus_file(tmp_path / "random.csv", *random_rows(seed)))
    odd = Period(START + timedelta(days=3, minutes=17), START + timedelta(days=11, minutes=43))
    for period in (OCTOBER, odd):
        total = money_total(period)
        parts = Money()
        for one in charge_parts(period):
            parts.add(one.currency, (one.billed, one.effective, one.list, one.contracted))
        assert parts.as_json() == total.as_json()
        for by in KEYS:
            rows = money_totals(period, by)
            assert len({(key, str(labels)) for key, labels, _ in rows}) == len(rows)
            assert numbers(total_of(money for _, _, money in rows)) == numbers(total)
    invoiced = money_total(OCTOBER, "invoiced")
    for by in KEYS:
        rows = money_totals(OCTOBER, by, "invoiced")
        assert numbers(total_of(money for _, _, money in rows)) == numbers(invoiced)


def numbers(money: Money) -> dict[str, tuple[Decimal | None, ...]]:
    return dict(money.by_currency)


@ledger
def test_neighbouring_periods_sum_to_the_whole(tmp_path: Path) -> None:
    rows = random_rows(3)
    ingested(focus_file(tmp_path / "random.csv", *rows))
    everything = Period(START - timedelta(days=60), START + timedelta(days=200))
    expected: dict[str, Decimal] = {}
    for row in rows:
        currency = row["BillingCurrency"]
        expected[currency] = expected.get(currency, Decimal(0)) + Decimal(row["BilledCost"])
    edges = [everything.start, START, START + timedelta(days=7, hours=5), everything.end]
    pieces = [Period(a, b) for a, b in pairwise(edges)]
    for currency, amount in expected.items():
        assert money_total(everything).billed(currency) == amount
        assert sum(money_total(piece).billed(currency) or 0 for piece in pieces) == amount


@ledger
def test_a_month_long_charge_by_day_by_hand(tmp_path: Path) -> None:
    tax = hours("2026-10-01T00", "2026-11-01T00", ChargeCategory="Tax", BilledCost="31.00")
    ingested(focus_file(tmp_path / "tax.csv", tax))
    days = money_totals(OCTOBER, "day")
    assert [key for key, _, _ in days][:2] == ["2026-10-01", "2026-10-02"]
    assert {money.billed("USD") for _, _, money in days} == {Decimal("1.00")}
    hour = money_totals(Period(START, START + timedelta(hours=1)), "hour")
    # 31.00 ÷ 744 = 0.041666…, to two decimals and four more
    assert [(key, money.billed("USD")) for key, _, money in hour] == [
        ("2026-10-01T00:00:00Z", Decimal("0.041667"))
    ]


@ledger
def test_a_late_correction_as_incurred_and_as_invoiced(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "october.csv", {"BilledCost": "10"}))
    correction = {
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
        "ChargeClass": "Correction",
        "BilledCost": "-4",
        "InvoiceId": "INV-2",
    }
    ingested(focus_file(tmp_path / "november.csv", correction))
    assert money_total(OCTOBER).billed("USD") == 6
    assert money_total(NOVEMBER).billed("USD") is None
    assert money_total(OCTOBER, "invoiced").billed("USD") == 10
    assert money_total(NOVEMBER, "invoiced").billed("USD") == -4


@ledger
def test_columns_for_rules(tmp_path: Path) -> None:
    row = {"Tags": '{"team": "search"}', "SubAccountId": ""}
    ingested(focus_file(tmp_path / "one.csv", row))
    (one,) = charge_parts(OCTOBER)
    assert one.columns["account"] == "012345678901"
    assert one.columns["issuer"] == "Cloud Ltd"
    assert one.columns["tag:team"] == "search"
    assert one.columns["sub_account"] == ""
    assert (one.line, one.document) == (2, ingested(tmp_path / "one.csv")[0]["sha256"])


@ledger
def test_how_far_costs_reach(tmp_path: Path) -> None:
    assert cost_reach() is None
    usage = hours("2026-10-05T10", "2026-10-05T11")
    tax = hours("2026-10-01T00", "2026-11-01T00", ChargeCategory="Tax")
    ingested(focus_file(tmp_path / "open.csv", usage, tax))
    assert cost_reach() == datetime(2026, 10, 5, 11, tzinfo=UTC)
    assert cost_start(OCTOBER) == datetime(2026, 10, 5, 10, tzinfo=UTC)


@ledger
def test_an_unknown_key_or_basis_is_named() -> None:
    with pytest.raises(ValueError, match="no key 'colour'"):
        money_totals(OCTOBER, "colour")
    with pytest.raises(ValueError, match="'paid' is no basis"):
        money_total(OCTOBER, "paid")
