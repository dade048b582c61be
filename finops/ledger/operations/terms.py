"""What stands around charges: lines of issued invoices, period statuses, rate cards, FX rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from finops.core.period import month_of_span, rfc3339
from finops.ledger.models import Document, FxRate, PeriodStatus
from finops.ledger.operations import issued
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


@dataclass(frozen=True, slots=True)
class PostedTerms:
    """How many records were taken, what was refused, and what to say of the document; `account` is
    kept with it."""

    records: int
    refused: list[Rejection] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    account: dict[str, Any] = field(default_factory=dict)


def post_terms(
    document: Document,
    kind: type[object] | None,
    records: Iterable[Any],
    told: issued.Told,
    *,
    by: str,
    at: datetime,
) -> PostedTerms:
    """Posts a document of one kind, inside the ledger's transaction."""
    if kind is InvoiceDetailRecord:
        return _invoice_details(document, records, told, by=by, at=at)
    if kind is BillingPeriodRecord:
        return _period_statuses(document, records, at=at)
    if kind is FxRateRecord:
        return _fx_rates(document, records)
    kept = [keep_card(document, record, by=by, at=at) for record in records]
    return PostedTerms(len(kept))


def _invoice_details(
    document: Document,
    records: Iterable[InvoiceDetailRecord],
    told: issued.Told,
    *,
    by: str,
    at: datetime,
) -> PostedTerms:
    """Counts the lines; the amounts are posted as all files of the delivery tell them together."""
    if document.sha256 in told.refused:
        raise told.refused[document.sha256]
    count = sum(one.amount is not None for one in records)
    warnings = issued.post_amounts(document, told, by=by, at=at)
    own = told.updated_at.get(document.sha256)
    return PostedTerms(
        count, warnings=warnings, account={"exported_at": rfc3339(own)} if own else {}
    )


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
