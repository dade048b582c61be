"""What is unusual about a period's charges: priced by us, priced by nobody, one view, twice (§3, §11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, ExpressionWrapper, F, Q, Sum

from finops.core.money import plain
from finops.core.period import Period
from finops.ledger.models import Charge, Document
from finops.ledger.models.fields import NumericField
from finops.ledger.queries.money import in_period, months_of
from finops.ledger.queries.snapshots import with_verdict
from finops.sources.azure_cost import ACTUAL, AMORTISED, FORMAT
from finops.sources.focus import NO_CURRENCY

# What tells one line of an export from another.
ALIKE = (
    "charge_start",
    "charge_end",
    "category",
    "charge_class",
    "service",
    "sku",
    "resource",
    "description",
    "billed_cost",
    "effective_cost",
    "consumed_quantity",
    "invoice",
    "sub_account",
    "tags",
)


@dataclass(frozen=True, slots=True)
class MoneyException:
    """One thing to know; kind and subject name it, the amount is what is at stake."""

    kind: str
    subject: str
    text: str
    amount: Decimal | None = None
    currency: str | None = None


def unusual(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """All of them; nothing when there is nothing."""
    yield from _without_currency(period, as_of)
    yield from _priced(period, as_of)
    yield from _unpriced(period, as_of)
    yield from _one_view(period, as_of)
    yield from _two_exports(period, as_of)
    yield from _duplicated(period, as_of)
    yield from _wrong_products(period, as_of)
    yield from _purchases_with_effect(period, as_of)


def _without_currency(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Amounts of files that name no currency: they stand apart from every other (method §3.9)."""
    rows = (
        in_period(period, as_of=as_of)
        .filter(currency=NO_CURRENCY)
        .exclude(billed_cost__isnull=True, effective_cost__isnull=True)
        .order_by()
        .values_list("snapshot__issuer")
        .annotate(lines=Sum("line_count"), effective=Sum("effective_cost"))
    )
    for issuer, lines, effective in rows:
        yield MoneyException(
            "currency-unknown",
            issuer,
            f"{issuer}: the amounts of {lines} lines are in no known currency, for their file names none. "
            f"They stand in {NO_CURRENCY} and count in no other. Hand over the file with its currency",
            effective,
            NO_CURRENCY,
        )


def _priced(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    rows = (
        in_period(period, as_of=as_of)
        .filter(rate_card__isnull=False)
        .order_by()
        .values_list("rate_card", "currency")
        .annotate(lines=Sum("line_count"), cost=Sum("effective_cost"))
    )
    for card, currency, lines, cost in rows:
        yield MoneyException(
            "priced-by-rate-card",
            card,
            f"{lines} charges are priced by rate card {card}, not invoiced: {plain(cost)} {currency}",
            cost,
            currency,
        )


def _unpriced(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    rows = (
        in_period(period, as_of=as_of)
        .filter(category="Usage", billed_cost__isnull=True, effective_cost__isnull=True)
        .order_by()
        .values_list("snapshot__issuer")
        .annotate(lines=Sum("line_count"))
    )
    for issuer, lines in rows:
        yield MoneyException(
            "usage-without-price",
            issuer,
            f"{issuer}: {lines} charges of usage have no cost, and no rate card prices them; they "
            "stand in no sum",
        )


def _one_view(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Scopes with one of Azure's two views, where that leaves something unknown."""
    snapshots = with_verdict(as_of).filter(verdict="current", billing_period__in=months_of(period))
    for one in snapshots.filter(parts__document__format=FORMAT).distinct():
        views = set(
            Document.objects.filter(snapshots__snapshot=one).values_list("version", flat=True)
        )
        lines = Charge.objects.filter(snapshot=one)
        if AMORTISED in views and ACTUAL not in views:
            yield MoneyException(
                "one-view-only",
                f"{one} {AMORTISED}",
                f"{one}: only the amortised export is here, so nothing is known of what was billed; "
                "hand over the actual one too",
            )
        elif ACTUAL in views and AMORTISED not in views:
            unknown = lines.filter(effective_cost__isnull=True).count()
            if unknown:
                yield MoneyException(
                    "one-view-only",
                    f"{one} {ACTUAL}",
                    f"{one}: only the actual export is here; the effective cost of {unknown} charges "
                    "of commitments is not known. Hand over the amortised one too",
                )


def _two_exports(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """One account's month under two issuers' names, by deliveries of different formats."""
    snapshots = with_verdict(as_of).filter(verdict="current", billing_period__in=months_of(period))
    seen: dict[tuple[str, str], dict[str, set[str]]] = {}
    for one in snapshots.prefetch_related("parts__document"):
        formats = {part.document.format for part in one.parts.all()}
        place = seen.setdefault((one.billing_account, one.billing_period), {})
        place.setdefault(one.issuer, set()).update(formats)
    for (account, month), issuers in sorted(seen.items()):
        formats = set().union(*issuers.values())
        if len(issuers) > 1 and len(formats) > 1:
            names = ", ".join(sorted(issuers))
            yield MoneyException(
                "two-exports",
                f"{account} {month}",
                f"Account {account}, {month}: exports of several formats ({', '.join(sorted(formats))}) "
                f"under the names {names}. If they tell the same money, it counts twice",
            )


def _duplicated(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Lines of one file that are alike in everything that tells lines apart."""
    rows = (
        in_period(period, as_of=as_of)
        .exclude(Q(billed_cost=0) | Q(resource__isnull=True) | Q(billed_cost__isnull=True))
        .order_by()
        .values(
            "snapshot_id",
            "document_id",
            *ALIKE,
            "currency",
            "snapshot__issuer",
            "tags__allocated_resource",
            "tags__allocated_resource_name",
        )
        .annotate(lines=Count("pk"))
        .filter(lines__gt=1)
    )
    sums: dict[tuple[str, str], list[Decimal]] = {}
    for row in rows.iterator(chunk_size=2000):
        sums.setdefault((row["snapshot__issuer"], row["currency"]), []).append(
            row["billed_cost"] * (row["lines"] - 1)
        )
    for (issuer, currency), amounts in sorted(sums.items()):
        yield MoneyException(
            "duplicated-lines",
            issuer,
            f"{issuer}: {len(amounts)} groups of lines are alike in everything; all are counted",
            sum(amounts, Decimal(0)),
            currency,
        )


def _purchases_with_effect(
    period: Period, as_of: datetime | None = None
) -> Iterator[MoneyException]:
    """Purchases of commitments whose use costs something too: the effective cost counts twice."""
    used = in_period(period, as_of=as_of).filter(commitment_status="Used").exclude(effective_cost=0)
    names = set(used.order_by().values_list("commitment", flat=True).distinct())
    rows = (
        in_period(period, as_of=as_of)
        .filter(category="Purchase", commitment__in=names, commitment_status__isnull=True)
        .exclude(Q(effective_cost=0) | Q(effective_cost__isnull=True))
        .order_by()
        .values_list("commitment", "currency")
        .annotate(cost=Sum("effective_cost"))
    )
    for commitment, currency, cost in rows:
        yield MoneyException(
            "purchase-with-effective-cost",
            commitment,
            f"The purchase of {commitment} and its use both have an effective cost; of a purchase that "
            f"covers use it should be 0, not {plain(cost)} {currency}",
            cost,
            currency,
        )


def _wrong_products(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Uncovered usage whose contracted price × quantity is not its contracted cost."""
    rows = in_period(period, as_of=as_of).filter(
        category="Usage",
        charge_class__isnull=True,
        commitment__isnull=True,
        contracted_cost__isnull=False,
        contracted_unit_price__isnull=False,
        pricing_quantity__isnull=False,
    )
    off = ExpressionWrapper(
        F("contracted_unit_price") * F("pricing_quantity") - F("contracted_cost"),
        output_field=NumericField(),
    )
    wrong = (
        rows.annotate(off=off)
        .filter(Q(off__gt=Decimal("0.01")) | Q(off__lt=Decimal("-0.01")))
        .order_by()
        .values_list("snapshot__issuer", "currency")
        .annotate(lines=Sum("line_count"), total=Sum("off"))
    )
    for issuer, currency, lines, total in wrong:
        yield MoneyException(
            "price-times-quantity",
            issuer,
            f"{issuer}: price × quantity is not the cost of {lines} lines, by {plain(total)} {currency} "
            "in all",
            total,
            currency,
        )
