"""GPU-hours of charges: units as invoices write them, parts in time, corrections (method §4)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.gpu_hours import charge_gpu_hours, hours_of, share_inside

START = datetime(2026, 11, 16, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("quantity", "unit", "expected"),
    [
        ("2", "Hours", (2, False)),
        ("2", "Hrs", (2, False)),
        ("2", "100 Hours", (200, False)),
        ("7200", "Seconds", (2, False)),
        ("3", "GPU-Hours", (3, True)),
        ("3", "Instance Hours", (3, False)),
        ("3", "GB", None),
        ("3", "", None),
        ("3", None, None),
    ],
)
def test_units(quantity, unit, expected):
    assert hours_of(Decimal(quantity), unit) == expected


def _hours(quantity, unit="Hours", count="8", since=START, until=START + DAY, **other):
    return charge_gpu_hours(
        gpu_count=None if count is None else Decimal(count),
        quantities=((quantity and Decimal(quantity), unit), (Decimal(99), "Hours")),
        start=START, end=START + DAY, since=since, until=until, **other,
    )  # fmt: skip


def test_count_times_hours():
    assert _hours("24") == 192
    assert _hours("192", "GPU-Hours") == 192
    assert _hours(None) == 99 * 8  # the next quantity that is in hours
    assert _hours("24", count=None) is None
    assert _hours("24", count="0") is None
    assert _hours("24", until=START + DAY / 4) == 48


def test_without_a_quantity_in_hours_the_charge_lasts_as_long_as_it_says():
    found = charge_gpu_hours(
        gpu_count=Decimal("0.5"), quantities=((Decimal(3), "GB"),),
        start=START, end=START + DAY, since=START, until=START + DAY,
    )  # fmt: skip
    assert found == 12


def test_a_refund_of_hours_takes_them_back_and_one_of_money_does_not():
    assert _hours("-12", correction_of=Decimal("-30")) == -96
    assert _hours("12", correction_of=Decimal("-30")) == 0


@given(st.lists(st.integers(-100, 90_000), max_size=8))
def test_shares_over_any_partition_sum_to_one(cuts):
    edges = sorted({START - DAY, START + 2 * DAY, *(START + timedelta(seconds=c) for c in cuts)})
    parts = [share_inside(START, START + DAY, a, b) for a, b in pairwise(edges)]
    assert sum(parts) == Fraction(1)
