"""Sums of charges by a key: account, service, invoice, day, hour and others (method §3.6, §3.7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, F, Func, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import TruncDay, TruncHour

from finops.core.amounts import FourAmounts, Money
from finops.core.period import HOUR, Period, hour_of, rfc3339
from finops.ledger.models import Charge
from finops.ledger.queries.money import (
    CHUNK_ROWS,
    COLUMNS,
    MONEY,
    amounts_inside,
    in_period,
    inside,
)

# The key's column first; the others stand beside it as labels.
KEYS = {
    "account": ("account", "issuer"),
    "sub_account": ("sub_account",),
    "service": ("service",),
    "gpu_model": ("gpu_model",),
    "category": ("category",),
    "invoice": ("invoice", "issuer"),
}
TIMES = {"day": timedelta(days=1), "hour": HOUR}

Labels = dict[str, str | None]
Key = tuple[str | None, ...]


def money_totals(
    period: Period, by: str | None = None, basis: str = "incurred", *, as_of: datetime | None = None
) -> list[tuple[str, Labels, Money]]:
    """Rows of (key, labels, money), sorted by key; one row with key "" when `by` is None.

    A row exists only where there are charges; the rows sum to the total exactly. Charges without
    a value have the key "". `day` and `hour` are UTC and always cut charges by time. ValueError
    for an unknown key.
    """
    if by in TIMES:
        return _by_time(period, by, basis, as_of)
    if by is not None and by not in KEYS:
        raise ValueError(f"money has no key {by!r}; there are {', '.join([*KEYS, *TIMES])}")
    names = KEYS[by] if by else ()
    sums: dict[Key, Money] = defaultdict(Money)
    for key, currency, amounts in _summands(period, names, basis, as_of):
        sums[key].add(currency, amounts)
    rows = [
        (key[0] or "" if key else "", dict(zip(names, key, strict=True)), sums[key]) for key in sums
    ]
    return sorted(rows, key=lambda row: (row[0], str(row[1])))


def money_total(period: Period, basis: str = "incurred", *, as_of: datetime | None = None) -> Money:
    """All money of a period."""
    rows = money_totals(period, None, basis, as_of=as_of)
    return rows[0][2] if rows else Money()


def _summands(
    period: Period, names: tuple[str, ...], basis: str, as_of: datetime | None
) -> Iterator[tuple[Key, str, FourAmounts]]:
    """What the database added up, then the parts of charges over an edge of the period."""
    charges = in_period(period, basis, as_of=as_of)
    whole = charges.filter(inside(period)) if basis == "incurred" else charges
    columns = [COLUMNS[name] for name in names]
    for *key, currency, billed, effective, listed, contracted in _added(whole, columns):
        yield tuple(key), currency, (billed, effective, listed, contracted)
    if basis == "incurred":
        for row in _cut(charges.exclude(inside(period)), columns):
            start, end, *key, currency, billed, effective, listed, contracted = row
            amounts = (billed, effective, listed, contracted)
            yield tuple(key), currency, amounts_inside(amounts, start, end, period)


def _added(charges: QuerySet[Charge], columns: list[Any]) -> Iterator[tuple[Any, ...]]:
    sums = {f"sum_{name}": Sum(name) for name in MONEY}
    grouped = charges.order_by().values(*columns, "currency").annotate(**sums)
    return grouped.values_list(*columns, "currency", *sums).iterator(chunk_size=CHUNK_ROWS)


def _cut(charges: QuerySet[Charge], columns: list[str]) -> Iterator[tuple[Any, ...]]:
    fields = ("charge_start", "charge_end", *columns, "currency", *MONEY)
    return charges.order_by().values_list(*fields).iterator(chunk_size=CHUNK_ROWS)


def _by_time(
    period: Period, by: str, basis: str, as_of: datetime | None
) -> list[tuple[str, Labels, Money]]:
    """By UTC day or hour: charges inside one are added by the database, the others cut."""
    length = TIMES[by]
    charges = _with_buckets(in_period(period, basis, as_of=as_of), by)
    window = period if basis == "incurred" else _span(charges)
    sums: dict[datetime, Money] = defaultdict(Money)
    fits = Q(last_bucket__lte=F("bucket")) & (inside(window) if window else Q())
    for start, currency, billed, effective, listed, contracted in _added(
        charges.filter(fits), ["bucket"]
    ):
        sums[start].add(currency, (billed, effective, listed, contracted))
    for start, end, currency, *four in _cut(charges.exclude(fits), []):
        amounts: FourAmounts = (four[0], four[1], four[2], four[3])
        for piece in _pieces(start, end, window or Period(start, end), length):
            at = _bucket(max(piece.start, start), length)
            sums[at].add(currency, amounts_inside(amounts, start, end, piece))
    name = _day if by == "day" else rfc3339
    return [(name(start), {}, sums[start]) for start in sorted(sums)]


def _with_buckets(charges: QuerySet[Charge], by: str) -> QuerySet[Charge]:
    """Each charge with the buckets of its first and its last instant."""
    truncated = TruncDay if by == "day" else TruncHour
    last = Func(
        F("charge_end"),
        template="(%(expressions)s - interval '1 microsecond')",
        output_field=DateTimeField(),
    )
    return charges.annotate(bucket=truncated("charge_start"), last_bucket=truncated(last))


def _span(charges: QuerySet[Charge]) -> Period | None:
    """The time that the charges cover, their last instant included."""
    found = charges.order_by().aggregate(start=Min("charge_start"), end=Max("charge_end"))
    if found["start"] is None:
        return None
    return Period(found["start"], found["end"] + timedelta(microseconds=1))


def _day(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d}"


def _bucket(instant: datetime, length: timedelta) -> datetime:
    hour = hour_of(instant)
    return hour if length == HOUR else hour.replace(hour=0)


def _pieces(start: datetime, end: datetime, period: Period, length: timedelta) -> Iterator[Period]:
    """The buckets that a charge touches inside the period, cut at the period's edges."""
    if start == end:
        yield period
        return
    first, last = max(start, period.start), min(end, period.end)
    at = _bucket(first, length)
    while at < last:
        yield Period(max(at, period.start), min(at + length, period.end))
        at += length
