"""Charges as money of a period: parts of charges, sums by a key, and how far costs reach (§3).

Only charges of current snapshots count. Two views: *incurred* takes of each charge the part inside
the period (method §3.7); *invoiced* takes whole charges by their billing month (method §3.6).
The database adds what lies wholly inside; only charges over an edge are cut here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F, Max, Q, QuerySet

from finops.core.allocation import KEPT_SUM
from finops.core.amounts import FourAmounts
from finops.core.exchange import Rate, Rates
from finops.core.money import part
from finops.core.period import Period
from finops.ledger.models import Charge, Document
from finops.ledger.queries.snapshots import current_ids

CHUNK_ROWS = 2000
OWN_HARDWARE = "Own hardware"  # the issuer of what rate cards say of it
BASES_OF_TIME = ("incurred", "invoiced")

# The columns rules and keys may name, and where each stands.
COLUMNS = {
    "account": "snapshot__billing_account",
    "account_name": "billing_account_name",
    "sub_account": "sub_account",
    "sub_account_name": "sub_account_name",
    "provider": "provider",
    "issuer": "snapshot__issuer",
    "service": "service",
    "service_category": "service_category",
    "sku": "sku",
    "sku_price": "sku_price",
    "resource": "resource",
    "resource_name": "resource_name",
    "resource_type": "resource_type",
    "region": "region",
    "instance_type": "instance_type",
    "gpu_model": "gpu_model",
    "category": "category",
    "class": "charge_class",
    "pricing_category": "pricing_category",
    "commitment": "commitment",
    "commitment_name": "commitment_name",
    "commitment_status": "commitment_status",
    "invoice": "invoice",
    "description": "description",
    "frequency": "frequency",
    "currency": "currency",
    "billing_period": "snapshot__billing_period",
    "rate_card": "rate_card",
}
MONEY = ("billed_cost", "effective_cost", "list_cost", "contracted_cost")
QUANTITIES = (
    "gpu_count",
    "pricing_quantity",
    "pricing_unit",
    "consumed_quantity",
    "consumed_unit",
)
PLACE = (
    "pk",
    "document_id",
    "line",
    "last_line",
    "line_count",
    "snapshot_id",
    "charge_start",
    "charge_end",
)


@dataclass(frozen=True, slots=True)
class Original:
    """A charge's part in its own currency, and the rate that converted it; None: there is none."""

    currency: str
    billed: Decimal | None
    effective: Decimal | None
    rate: Rate | None


@dataclass(frozen=True, slots=True)
class ChargePart:
    """What of one charge counts: its money inside the period, and all a rule may look at.

    `columns` holds every name of `COLUMNS` ("" where the source has none) and `tag:NAME` for each
    tag. Quantities are those of the whole charge, whose own period is [start, end). With rates,
    money and `currency` are the report's where there is a rate, and `original` says what the
    document says; `columns["currency"]` is always the document's. Of a kept sum
    `last_line` is known, and the column `kept sum` tells how many lines it adds up.
    """

    charge_id: int
    document: str
    line: int
    last_line: int | None
    line_count: int
    snapshot_id: int
    start: datetime
    end: datetime
    currency: str
    billed: Decimal | None
    effective: Decimal | None
    list: Decimal | None
    contracted: Decimal | None
    gpu_count: Decimal | None
    pricing_quantity: Decimal | None
    pricing_unit: str | None
    consumed_quantity: Decimal | None
    consumed_unit: str | None
    columns: Mapping[str, str]
    original: Original | None = None


def charge_parts(
    period: Period,
    basis: str = "incurred",
    *,
    as_of: datetime | None = None,
    rates: Rates | None = None,
    only: Collection[int] | None = None,
) -> Iterator[ChargePart]:
    """The part of each current charge inside the period, in the order of documents and lines.

    `basis` is `incurred` or `invoiced`; `as_of` reads the snapshots that were current then; `rates`
    converts what is in another currency, whole charges first, so that parts sum to them (§3.9).
    `only` are the keys of the charges wanted.
    Streams: memory does not grow with the number of charges.
    """
    rows = in_period(period, basis, as_of=as_of).order_by("document_id", "line", "pk")
    if only is not None:
        rows = rows.filter(pk__in=only)
    fields = (*PLACE, *MONEY, *QUANTITIES, "tags", *COLUMNS.values())
    cut = basis == "incurred"
    for row in rows.values_list(*fields).iterator(chunk_size=CHUNK_ROWS):
        yield _charge_part(row, period if cut else None, rates)


def in_period(
    period: Period, basis: str = "incurred", *, as_of: datetime | None = None
) -> QuerySet[Charge]:
    """The current charges that touch a period. ValueError for an unknown basis."""
    if basis not in BASES_OF_TIME:
        raise ValueError(f"{basis!r} is no basis; there are {' and '.join(BASES_OF_TIME)}")
    charges = Charge.objects.filter(snapshot__in=current_ids(as_of))
    if basis == "invoiced":
        return charges.filter(snapshot__billing_period__in=months_of(period))
    lasting = Q(charge_start__lt=period.end, charge_end__gt=period.start)
    instant = Q(charge_start__gte=period.start, charge_start__lt=period.end)
    return charges.filter(lasting | instant)


def inside(period: Period) -> Q:
    """Charges wholly in the period, whose amounts need no cutting."""
    return Q(
        charge_start__gte=period.start, charge_start__lt=period.end, charge_end__lte=period.end
    )


def months_of(period: Period) -> list[str]:
    """The UTC months, `YYYY-MM`, that a period touches."""
    months = []
    instant = period.start.replace(day=1)
    while instant < period.end:
        months.append(f"{instant.year:04d}-{instant.month:02d}")
        instant = (instant.replace(day=28) + timedelta(days=4)).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
    return months


def amounts_inside(
    amounts: FourAmounts, start: datetime, end: datetime, period: Period | None
) -> FourAmounts:
    """The four amounts' parts inside a period; unknown stays unknown."""
    if period is None or (period.start <= start < period.end and end <= period.end):
        return amounts
    since, until = period.start, period.end
    return (
        None if amounts[0] is None else part(amounts[0], start, end, since, until),
        None if amounts[1] is None else part(amounts[1], start, end, since, until),
        None if amounts[2] is None else part(amounts[2], start, end, since, until),
        None if amounts[3] is None else part(amounts[3], start, end, since, until),
    )


_MONEY_AT = len(PLACE)
_QUANTITIES_AT = _MONEY_AT + len(MONEY)
_TAGS_AT = _QUANTITIES_AT + len(QUANTITIES)


def day_of(start: datetime) -> date:
    """The day whose rate converts a charge: the UTC day on which it begins (method §3.9)."""
    return start.astimezone(UTC).date()


def _converted(amounts: FourAmounts, rate: Rate) -> FourAmounts:
    """The four amounts of a whole charge in the report's currency; unknown stays unknown."""
    one, two, three, four = (None if a is None else rate.convert(a) for a in amounts)
    return one, two, three, four


def _charge_part(
    row: tuple[Any, ...], period: Period | None, rates: Rates | None = None
) -> ChargePart:
    pk, document, line, last_line, line_count, snapshot_id, start, end = row[:_MONEY_AT]
    amounts: FourAmounts = row[_MONEY_AT:_QUANTITIES_AT]
    columns = {name: v or "" for name, v in zip(COLUMNS, row[_TAGS_AT + 1 :], strict=True)}
    for name, value in row[_TAGS_AT].items():
        columns[f"tag:{name}"] = str(value)
    if last_line is not None:
        columns[KEPT_SUM] = str(line_count)
    currency, original = columns["currency"], None
    inside_it = amounts_inside(amounts, start, end, period)
    if rates is not None and currency != rates.target:
        rate = rates.on(currency, day_of(start))
        original = Original(currency, inside_it[0], inside_it[1], rate)
        if rate is not None:
            currency = rates.target
            inside_it = amounts_inside(_converted(amounts, rate), start, end, period)
    billed, effective, listed, contracted = inside_it
    return ChargePart(
        charge_id=pk,
        document=document,
        line=line,
        last_line=last_line,
        line_count=line_count,
        snapshot_id=snapshot_id,
        start=start,
        end=end,
        currency=currency,
        billed=billed,
        effective=effective,
        list=listed,
        contracted=contracted,
        columns=columns,
        original=original,
        **dict(zip(QUANTITIES, row[_QUANTITIES_AT:_TAGS_AT], strict=True)),
    )


def cost_reach(as_of: datetime | None = None) -> datetime | None:
    """The instant up to which current usage charges reach; None without charges.

    Purchases, taxes and credits do not count where there is usage: they are written for a whole
    month ahead of it. Own hardware is priced ahead too: it counts where there is nothing else.
    """
    reaches = reach_by_issuer(as_of)
    invoiced = [reach for issuer, reach in reaches.items() if issuer != OWN_HARDWARE]
    return max(invoiced or list(reaches.values()), default=None)


def reach_by_issuer(as_of: datetime | None = None) -> dict[str, datetime]:
    """How far each issuer's current charges reach, by usage where it has any."""
    charges = Charge.objects.filter(snapshot__in=current_ids(as_of))
    rows = charges.values("snapshot__issuer").annotate(
        usage=Max("charge_end", filter=Q(category="Usage")), any=Max("charge_end")
    )
    return {row["snapshot__issuer"]: row["usage"] or row["any"] for row in rows}


def cost_start(period: Period, as_of: datetime | None = None) -> datetime | None:
    """The first instant inside the period that a current usage charge covers."""
    first = (
        in_period(period, as_of=as_of)
        .filter(category="Usage", charge_end__gt=F("charge_start"))
        .order_by("charge_start")
        .values_list("charge_start", flat=True)
        .first()
    )
    return None if first is None else max(first, period.start)


def has_documents() -> bool:
    """Whether the ledger in use holds any document."""
    return Document.objects.exists()
