"""Amounts in the report's currency by dated rates, cross rates through the euro (method §3.9).

The day of an amount is the UTC day on which its charge begins; its rate is the last one published
on or before that day for both currencies. Where none was published in the ten days before, there is
no rate: the amount stays in its own currency, and whoever asks is told so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal

from .money import divide, round_half_even, scale_of

BASE = "EUR"
LONGEST_GAP = timedelta(days=10)  # a rate older than this says nothing of a day
CONVERTED_DIGITS = 10
FRIDAY = 4


@dataclass(frozen=True, slots=True)
class Quote:
    """What one euro was worth in a currency on a day, as a document says it."""

    currency: str
    day: date
    per_base: Decimal
    document: str


@dataclass(frozen=True, slots=True)
class Rate:
    """From one currency to another on the day `day`, both quoted against the euro."""

    source: str
    target: str
    day: date
    source_per_base: Decimal
    target_per_base: Decimal
    documents: tuple[str, ...]

    @property
    def value(self) -> Decimal:
        """What one unit of the source is worth in the target, to 60 digits: to be shown."""
        return divide(self.target_per_base, self.source_per_base)

    def convert(self, amount: Decimal) -> Decimal:
        """The amount in the target currency: `Q(amount × target ÷ source)`.

        Q rounds half to even, once, to the amount's own decimals plus ten. What is cut or split
        afterwards is cut of this amount, so that its parts sum to it (method §3.7, §4).
        """
        wide = Context(prec=400, rounding=ROUND_HALF_EVEN)
        product = wide.multiply(amount, self.target_per_base)
        exact = wide.divide(product, self.source_per_base)
        return round_half_even(exact, scale_of(amount) + CONVERTED_DIGITS)


class Rates:
    """The rates into one currency, found by currency and day."""

    def __init__(self, target: str, quotes: Iterable[Quote] = ()) -> None:
        """Of two quotes of one currency and day, the later in `quotes` counts."""
        self.target = target
        self._quotes: dict[str, dict[date, Quote]] = {}
        for quote in quotes:
            self._quotes.setdefault(quote.currency, {})[quote.day] = quote
        self._days: dict[str, list[date]] = {}
        self._known: dict[tuple[str, date], Rate | None] = {}

    def on(self, source: str, day: date) -> Rate | None:
        """The rate of a day: that day's, else the last one up to ten days before; None without.

        Both currencies are taken of one day, so that a cross rate is never of two days.
        """
        key = (source, day)
        if key not in self._known:
            self._known[key] = self._find(source, day)
        return self._known[key]

    def newest_day(self, source: str) -> date | None:
        """The last day that has a rate of a currency."""
        days = self._published(source)
        return days[-1] if days else None

    def _find(self, source: str, day: date) -> Rate | None:
        days = self._published(source)
        at = bisect_right(days, day)
        if not at or day - days[at - 1] >= LONGEST_GAP:
            return None
        found = days[at - 1]
        one, other = self._per_base(source, found), self._per_base(self.target, found)
        documents = {quote.document for quote in (one, other) if quote.document}
        return Rate(
            source, self.target, found, one.per_base, other.per_base, tuple(sorted(documents))
        )

    def _published(self, source: str) -> list[date]:
        """The days on which both currencies were quoted, in order."""
        if source not in self._days:
            legs = [self._quotes.get(c, {}).keys() for c in (source, self.target) if c != BASE]
            days = set(legs[0]) if legs else set()
            self._days[source] = sorted(days.intersection(*legs[1:]))
        return self._days[source]

    def _per_base(self, currency: str, day: date) -> Quote:
        if currency == BASE:
            return Quote(BASE, day, Decimal(1), "")
        return self._quotes[currency][day]


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What one rate converted: how many charges, their amounts before and after."""

    rate: Rate
    charges: int
    first_day: date
    last_day: date
    billed: Decimal
    effective: Decimal
    converted_billed: Decimal
    converted_effective: Decimal


@dataclass(frozen=True, slots=True)
class Unconverted:
    """Charges of one currency for whose days no rate was published."""

    currency: str
    charges: int
    first_day: date
    last_day: date
    billed: Decimal
    effective: Decimal


def working_days_after(newest: date, last: date) -> bool:
    """Whether a working day, Monday to Friday, lies after one day and not after another."""
    days = [newest + timedelta(days=n) for n in range(1, min(7, (last - newest).days) + 1)]
    return any(day.weekday() <= FRIDAY for day in days)
