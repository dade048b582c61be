"""Rate cards: prices for usage that no invoice prices, and the cost of own hardware (method §3.10).

A cost from a card is never invoiced: it is effective, not billed, and carries the card's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from .gpu_hours import hours_of
from .money import EXACT, part, round_half_even
from .period import Period

GPU_HOUR = "gpu-hour"
DECIMALS = 18  # of a quotient that does not end, such as seconds priced by the hour
HOUR_US = 3_600_000_000
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Rate:
    """A price of one unit for what matches; None matches anything."""

    gpu_model: str | None
    provider: str | None
    sku: str | None
    unit: str
    price: Decimal

    @property
    def names(self) -> int:
        """How many properties it asks for: the more, the closer it fits."""
        return sum(one is not None for one in (self.gpu_model, self.provider, self.sku))

    @property
    def is_of_unusual_unit(self) -> bool:
        """Whether it prices a GPU by neither the GPU-hour nor a unit of time.

        Only a unit that a usage spells alike is priced then (method §3.10): hours of machines are
        worked out as GPU-hours for the unit `GPU-Hour` alone.
        """
        if self.gpu_model is None or _unit(self.unit) == GPU_HOUR:
            return False
        hours = hours_of(Decimal(1), self.unit)
        return hours is None or hours[1]


@dataclass(frozen=True, slots=True)
class Owned:
    """Own hardware: bought for `capex`, written off over its life, drawing power meanwhile."""

    name: str
    gpu_model: str
    gpus: Decimal
    capex: Decimal
    life_months: int
    power_kw: Decimal
    pue: Decimal
    tariff_per_kwh: Decimal
    in_service: datetime

    @property
    def written_off(self) -> datetime:
        """When nothing of the price is left."""
        months = self.in_service.month - 1 + self.life_months
        year, month = self.in_service.year + months // 12, months % 12 + 1
        for day in (self.in_service.day, 30, 29, 28):
            try:
                return self.in_service.replace(year=year, month=month, day=day)
            except ValueError:
                continue
        raise AssertionError("every month has 28 days")


@dataclass(frozen=True, slots=True)
class Card:
    """One version of a card, in force in [valid_from, valid_to)."""

    name: str
    currency: str
    valid_from: datetime
    valid_to: datetime | None
    rates: tuple[Rate, ...]
    owned: tuple[Owned, ...]
    version: int = 0

    @property
    def label(self) -> str:
        """How charges priced by it name it."""
        return f"{self.name} v{self.version}"

    def covers(self, at: datetime) -> bool:
        """Whether it is in force."""
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)


@dataclass(frozen=True, slots=True)
class Usage:
    """What of a charge a price is looked up by."""

    at: datetime
    provider: str | None
    issuer: str
    gpu_model: str | None
    gpu_count: Decimal | None
    skus: tuple[str | None, ...]
    quantities: tuple[tuple[Decimal | None, str | None], ...]


@dataclass(frozen=True, slots=True)
class Priced:
    """A cost by a card."""

    amount: Decimal
    currency: str
    card: str


def price(usage: Usage, cards: Iterable[Card]) -> Priced | None:
    """The cost of one usage by the cards, newest first; None when no rate fits.

    Of a card's versions the newest in force counts; of fitting rates the one that names most.
    """
    best: tuple[int, Priced] | None = None
    for card in _in_force(cards, usage.at):
        for rate in card.rates:
            amount = _amount(rate, usage) if _fits(rate, usage) else None
            if amount is not None and (best is None or rate.names > best[0]):
                best = (rate.names, Priced(amount, card.currency, card.label))
    return best[1] if best else None


def _in_force(cards: Iterable[Card], at: datetime) -> list[Card]:
    newest: dict[str, Card] = {}
    for card in cards:
        if card.covers(at):
            newest.setdefault(card.name, card)
    return list(newest.values())


def _same(asked: str | None, *given: str | None) -> bool:
    return asked is None or asked.casefold() in {one.casefold() for one in given if one}


def _fits(rate: Rate, usage: Usage) -> bool:
    return (
        _same(rate.gpu_model, usage.gpu_model)
        and _same(rate.provider, usage.provider, usage.issuer)
        and _same(rate.sku, *usage.skus)
    )


def _amount(rate: Rate, usage: Usage) -> Decimal | None:
    asked = _unit(rate.unit)
    for quantity, unit in usage.quantities:
        if quantity is None or unit is None:
            continue
        if _unit(unit) == asked:
            return EXACT.multiply(quantity, rate.price)
        hours = hours_of(quantity, unit)
        if asked == GPU_HOUR and hours is not None:
            count = Fraction(1) if hours[1] else _fraction(usage.gpu_count)
            return None if count is None else _decimal(hours[0] * count * Fraction(rate.price))
    return None


def _fraction(count: Decimal | None) -> Fraction | None:
    return None if count is None else Fraction(count)


def _unit(text: str) -> str:
    return text.strip().lower().replace(" ", "-").removesuffix("s")


def _decimal(value: Fraction) -> Decimal:
    """The exact decimal where it ends, else rounded half to even to 18 decimals."""
    scaled = value * 10**DECIMALS
    if scaled.denominator == 1:
        return EXACT.scaleb(Decimal(scaled.numerator), -DECIMALS).normalize(EXACT)
    return EXACT.scaleb(Decimal(round(scaled)), -DECIMALS)


def own_cost(owned: Owned, card: Card, month: Period) -> tuple[Period, Decimal, Fraction] | None:
    """What own hardware costs in a month: the span it served, the cost, the hours; None if none.

    Its price is written off evenly over time, so that the months of its life sum to the price
    exactly; power is kW × PUE × tariff × hours.
    """
    start = max(month.start, owned.in_service, card.valid_from)
    end = min(month.end, card.valid_to or month.end)
    if end <= start:
        return None
    bought = part(owned.capex, owned.in_service, owned.written_off, start, end)
    hours = Fraction((end - start) // MICROSECOND, HOUR_US)
    kilowatts = Fraction(owned.power_kw) * Fraction(owned.pue)
    power = _decimal(kilowatts * Fraction(owned.tariff_per_kwh) * hours)
    return Period(start, end), EXACT.add(bought, power), hours


def hours_text(hours: Fraction) -> Decimal:
    """Hours as a decimal, to six places where they do not end."""
    return round_half_even(_decimal(hours), 6)
