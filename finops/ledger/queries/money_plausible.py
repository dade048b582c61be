"""Charges that cannot be what they say: too many hours a day, impossible prices, contracted 0 (§3.4, §11).

Each is for a person to look at; none changes an amount.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from django.db.models import Count, ExpressionWrapper, F, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from finops.core.gpu_hours import hours_of
from finops.core.money import plain
from finops.core.period import Period
from finops.ledger.models import Charge
from finops.ledger.models.fields import NumericField
from finops.ledger.queries.money import in_period
from finops.ledger.queries.money_unusual import MoneyException
from finops.sources.gpu_prices import price_range
from finops.sources.gpu_shapes import UNRECOGNISED

A_DAY = timedelta(days=1)
HOURS_A_DAY = Decimal(24)
HOUR_UNITS = ("hour", "hours", "hr", "hrs", "h", "1 hour")
CLEAR_OF_DOLLARS = ("USD", "EUR", "GBP", "CHF", "CAD", "AUD")  # within a factor of two of a dollar
FURTHEST_BELOW_LIST = Decimal("0.02")
FURTHEST_ABOVE_LIST = Decimal(3)
SHOWN_PLACES = Decimal("0.0001")


def implausible(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """All of them; nothing when there is nothing."""
    yield from _contracted_zero(period, as_of)
    yield from _too_many_hours(period, as_of)
    yield from _prices_of_gpus(period, as_of)
    yield from _far_from_list(period, as_of)


def _uncovered(period: Period, as_of: datetime | None = None) -> QuerySet[Charge]:
    """Usage that no commitment covers and that no correction changes."""
    return in_period(period, as_of=as_of).filter(
        category="Usage", charge_class__isnull=True, commitment__isnull=True
    )


def _contracted_zero(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    rows = (
        _uncovered(period, as_of)
        .filter(contracted_cost=0)
        .exclude(Q(billed_cost=0) | Q(billed_cost__isnull=True))
        .order_by()
        .values_list("snapshot__issuer", "currency")
        .annotate(lines=Sum("line_count"), billed=Sum("billed_cost"))
    )
    for issuer, currency, lines, billed in rows:
        yield MoneyException(
            "contracted-zero",
            issuer,
            f"{issuer}: the contracted cost of {lines} lines is 0, though {plain(billed)} {currency} "
            "were billed for them. Take it for unknown: some exports write 0 where they know none",
            billed,
            currency,
        )


def _too_many_hours(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Resources billed for more than 24 hours of one meter in a day."""
    rows = (
        _uncovered(period, as_of)
        .filter(resource__isnull=False, billed_cost__gt=0, consumed_quantity__gt=0)
        .filter(Q(*[("consumed_unit__iexact", unit) for unit in HOUR_UNITS], _connector=Q.OR))
        .filter(charge_end__lte=F("charge_start") + A_DAY)
        .annotate(day=TruncDate("charge_start"))
        .order_by()
        .values("snapshot__issuer", "resource", "resource_name", "sku", "description", "day")
        .annotate(hours=Sum("consumed_quantity"))
        .filter(hours__gt=HOURS_A_DAY)
    )
    found: dict[str, tuple[int, Decimal, str]] = {}
    for row in rows.iterator(chunk_size=2000):
        issuer = row["snapshot__issuer"]
        days, most, where = found.get(issuer, (0, Decimal(0), ""))
        if row["hours"] > most:
            most, where = row["hours"], f"{row['resource']} on {row['day']}"
        found[issuer] = (days + 1, most, where)
    for issuer, (days, most, where) in sorted(found.items()):
        yield MoneyException(
            "hours-over-24",
            issuer,
            f"{issuer}: {days} times a resource is billed for over 24 hours of one meter in a day, at "
            f"most {plain(most)} hours ({where}). Several machines may stand under one name, or lines "
            "count twice",
        )


def _prices_of_gpus(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Machines whose price for a GPU-hour lies outside what any public price comes near."""
    price = ExpressionWrapper(
        F("effective_cost") / F("consumed_quantity"), output_field=NumericField()
    )
    rows = (
        _uncovered(period, as_of)
        .filter(gpu_count__gt=0, effective_cost__gt=0, consumed_quantity__gt=0)
        .filter(currency__in=CLEAR_OF_DOLLARS, rate_card__isnull=True)
        .exclude(gpu_model=UNRECOGNISED)
        .annotate(price=price)
        .order_by()
        .values_list("snapshot__issuer", "gpu_model", "gpu_count", "consumed_unit", "currency")
        .annotate(
            lines=Count("pk"), low=Min("price"), high=Max("price"), cost=Sum("effective_cost")
        )
    )
    for issuer, model, count, unit, currency, lines, low, high, cost in rows:
        each = hours_of(Decimal(1), unit)
        bounds = price_range(model)
        if each is None:
            continue
        gpu_hours = each[0] if each[1] else each[0] * Fraction(count)
        prices = [_decimal(Fraction(one) / gpu_hours) for one in (low, high)]
        if all(one in bounds for one in prices):
            continue
        shown = " to ".join(dict.fromkeys(plain(one.quantize(SHOWN_PLACES)) for one in prices))
        yield MoneyException(
            "unit-price-implausible",
            f"{issuer} {model} × {plain(count.normalize())}",  # 8.0 GPUs are 8
            f"{issuer}: {lines} lines of {model} cost {shown} {currency} a GPU-hour; between "
            f"{plain(bounds.lowest)} and {plain(bounds.highest)} USD were to be expected "
            f"({bounds.source}). A unit or a price may be wrong",
            cost,
            currency,
        )


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _far_from_list(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Usage that costs a small part or a multiple of its own list price."""
    listed = ExpressionWrapper(
        F("list_unit_price") * F("pricing_quantity"), output_field=NumericField()
    )
    rows = (
        _uncovered(period, as_of)
        .filter(list_unit_price__gt=0, pricing_quantity__gt=0, effective_cost__gt=0)
        .filter(rate_card__isnull=True)
        .annotate(listed=listed)
        .filter(
            Q(effective_cost__lt=F("listed") * FURTHEST_BELOW_LIST)
            | Q(effective_cost__gt=F("listed") * FURTHEST_ABOVE_LIST)
        )
        .order_by()
        .values_list("snapshot__issuer", "currency")
        .annotate(lines=Count("pk"), cost=Sum("effective_cost"), full=Sum("listed"))
    )
    for issuer, currency, lines, cost, full in rows:
        yield MoneyException(
            "far-from-list-price",
            issuer,
            f"{issuer}: {lines} lines cost {plain(cost)} {currency}; by their own list prices it would "
            f"be {plain(full.quantize(SHOWN_PLACES))}. Under a fiftieth or over three times the list "
            "price, a unit or a price may be wrong",
            cost,
            currency,
        )
