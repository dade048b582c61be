"""What stands around charges: lines of issued invoices, period statuses, rate cards, FX rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from finops.core.money import EXACT
from finops.ledger.models import Document, FxRate, InvoiceAmount, PeriodStatus
from finops.ledger.operations.bulk import copy_rows
from finops.ledger.operations.rate_cards import keep_card
from finops.sources.records import (
    BillingPeriodRecord,
    FxRateRecord,
    InvoiceDetailRecord,
    RateCardRecord,
    Rejection,
)

KINDS = (InvoiceDetailRecord, BillingPeriodRecord, RateCardRecord, FxRateRecord)
BATCH_ROWS = 5000
HALF_A_MONTH = timedelta(days=15)

Place = tuple[str, str, str, str]  # issuer, invoice, billing month, currency


@dataclass(frozen=True, slots=True)
class PostedTerms:
    """How many records were taken, what was refused, and what to say of the document."""

    records: int
    refused: list[Rejection] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def post_terms(
    document: Document, kind: type[object] | None, records: Iterable[Any], *, by: str, at: datetime
) -> PostedTerms:
    """Posts a document of one kind, inside the ledger's transaction."""
    if kind is InvoiceDetailRecord:
        return _invoice_details(document, records, by=by, at=at)
    if kind is BillingPeriodRecord:
        return _period_statuses(document, records, at=at)
    if kind is FxRateRecord:
        return _fx_rates(document, records)
    kept = [keep_card(document, record, by=by, at=at) for record in records]
    return PostedTerms(len(kept))


def month_of_span(start: datetime, end: datetime) -> str:
    """The month `YYYY-MM` of a billing period, told by its middle (issuers' own time zones)."""
    middle = start + max(timedelta(), min((end - start) / 2, HALF_A_MONTH))
    return f"{middle.year:04d}-{middle.month:02d}"


def _invoice_details(
    document: Document, records: Iterable[InvoiceDetailRecord], *, by: str, at: datetime
) -> PostedTerms:
    """The amount of each invoice, once it is issued: an open one may still change (method §4).

    A voided invoice asks for nothing.
    """
    sums: dict[Place, Decimal] = {}
    still_open = set[Place]()
    count = 0
    for one in records:
        count += 1
        month = month_of_span(one.billing_period_start, one.billing_period_end)
        place = (one.issuer, one.invoice, month, one.currency)
        if one.status == "Open":
            still_open.add(place)
        counted = one.amount if one.status == "Issued" else Decimal(0)
        sums[place] = EXACT.add(sums.get(place, Decimal(0)), counted)
    rows = [
        InvoiceAmount(
            issuer=issuer,
            invoice=invoice,
            billing_period=month,
            currency=currency,
            amount=amount,
            document=document,
            at=at,
            by=by,
        )
        for (issuer, invoice, month, currency), amount in sorted(sums.items())
        if (issuer, invoice, month, currency) not in still_open
    ]
    InvoiceAmount.objects.bulk_create(rows)
    text = f"{len(still_open)} invoices are still open: their amounts are not taken yet"
    return PostedTerms(count, warnings=[text] if still_open else [])


def _period_statuses(
    document: Document, records: Iterable[BillingPeriodRecord], *, at: datetime
) -> PostedTerms:
    rows = [
        PeriodStatus(
            issuer=one.issuer,
            billing_period=month_of_span(one.billing_period_start, one.billing_period_end),
            status=one.status,
            updated_at=one.updated_at or at,
            document=document,
            at=at,
        )
        for one in records
    ]
    PeriodStatus.objects.bulk_create(rows)
    return PostedTerms(len(rows))


def _fx_rates(document: Document, records: Iterable[FxRateRecord]) -> PostedTerms:
    """Rates by currency and day; a second one for the same day in one document is refused.

    Posted in batches: the bank's history holds over two hundred thousand.
    """
    seen = set[tuple[str, object]]()
    batch: list[FxRate] = []
    refused: list[Rejection] = []
    for one in records:
        key = (one.currency, one.day)
        if key in seen:
            reason = "a second rate of that day in the document"
            refused.append(Rejection.of(one.line, one.currency, one.rate, reason))
            continue
        seen.add(key)
        batch.append(
            FxRate(
                document=document,
                base=one.base,
                currency=one.currency,
                date=one.day,
                rate=one.rate,
            )
        )
        if len(batch) == BATCH_ROWS:
            copy_rows(batch)
            batch = []
    if batch:
        copy_rows(batch)
    return PostedTerms(len(seen), refused)
