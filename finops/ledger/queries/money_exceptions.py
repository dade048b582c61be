"""What a reader of a period's money must know: implausible, provisional, waiting, rejected (§11)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Exists, F, OuterRef, Q, Sum

from finops.core.money import EXACT, plain
from finops.core.period import Period, milliseconds, rfc3339
from finops.ledger.models import (
    Charge,
    Document,
    InvoiceAmount,
    ReadingBlock,
    Snapshot,
    UsageHour,
)
from finops.ledger.queries.as_of import known_by
from finops.ledger.queries.invoices import invoice_tie_out
from finops.ledger.queries.money import cost_reach, in_period, months_of, reach_by_issuer
from finops.ledger.queries.money_deliveries import of_deliveries
from finops.ledger.queries.money_plausible import implausible
from finops.ledger.queries.money_unusual import MoneyException, unusual
from finops.ledger.queries.snapshots import with_verdict
from finops.sources.focus_invoices import DETAIL

LAG = timedelta(hours=48)
ACTIVE = timedelta(days=35)
UNRECOGNISED = "unrecognised"


def money_exceptions(period: Period, as_of: datetime | None = None) -> list[MoneyException]:
    """All exceptions of the charges of a period, in a stable order; empty when there are none."""
    found = [
        *_effective_differs(period, as_of),
        *_provisional(period, as_of),
        *_outside_tolerance(period, as_of),
        *_issued_twice(period, as_of),
        *_waiting(period, as_of),
        *_rejected(period, as_of),
        *_unrecognised(period, as_of),
        *_lagging(period, as_of),
        *of_deliveries(period, as_of),
        *implausible(period, as_of),
        *unusual(period, as_of),
    ]
    return sorted(found, key=lambda one: (one.kind, one.subject, one.currency or ""))


def _effective_differs(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Usage no commitment covers must cost effectively what is billed (facts: whole-dollar file)."""
    rows = (
        in_period(period, as_of=as_of)
        .filter(category="Usage", commitment__isnull=True)
        .exclude(effective_cost=F("billed_cost"))
        .filter(effective_cost__isnull=False, billed_cost__isnull=False)
        .order_by()
        .values_list("snapshot__issuer", "currency")
        .annotate(
            lines=Sum("line_count"), billed=Sum("billed_cost"), effective=Sum("effective_cost")
        )
    )
    for issuer, currency, lines, billed, effective in rows:
        difference = EXACT.subtract(effective, billed)
        yield MoneyException(
            "effective-differs-from-billed",
            issuer,
            f"{issuer}: effective cost differs from billed cost on {lines} lines of usage that no "
            f"commitment covers: {plain(effective)} against {plain(billed)} {currency}. The export "
            "may round one of them",
            difference,
            currency,
        )


def _provisional(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    for row in invoice_tie_out(period, as_of):
        if row.provisional:
            yield MoneyException(
                "provisional-month",
                f"{row.issuer} {row.billing_period}",
                f"{row.issuer}: {row.lines} lines of {row.billing_period} are on no invoice yet; "
                "the month may still change",
                row.billed,
                row.currency,
            )


def _outside_tolerance(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    for row in invoice_tie_out(period, as_of):
        if row.within is False and row.difference is not None and row.issued is not None:
            yield MoneyException(
                "invoice-differs",
                f"{row.issuer} {row.invoice}",
                f"{row.issuer} issued {plain(row.issued)} {row.currency} on invoice {row.invoice} of "
                f"{row.billing_period}; its {row.lines} lines sum to {plain(row.billed)}, which is "
                "outside the tolerance",
                row.difference,
                row.currency,
            )


def _issued_twice(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Invoices of which a person typed one amount and the issuer's details tell another."""
    rows = InvoiceAmount.objects.filter(
        known_by(as_of, "at"), billing_period__in=months_of(period)
    ).select_related("document")
    newest: dict[tuple[str, ...], dict[bool, InvoiceAmount]] = {}
    for one in rows.order_by("pk"):
        place = (one.issuer, one.invoice, one.billing_period, one.currency)
        is_told = one.document is not None and one.document.format == DETAIL
        newest.setdefault(place, {})[is_told] = one
    for (issuer, invoice, month, currency), found in newest.items():
        if len(found) < 2 or found[True].amount == found[False].amount:
            continue
        told, typed = plain(found[True].amount), plain(found[False].amount)
        counts = told if found[True].pk > found[False].pk else typed
        yield MoneyException(
            "issued-amounts-differ",
            f"{issuer} {invoice} {month} {currency}",
            f"{issuer}, invoice {invoice} of {month}: {found[False].by} typed in {typed} {currency}, the "
            f"issuer's invoice details say {told}. What came last counts: {counts}. Type in the amount "
            "that stands on the invoice",
        )


def _waiting(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    snapshots = with_verdict(as_of).filter(verdict="waiting")
    touching = Q(charge_start__lt=period.end, charge_end__gte=period.start)
    for one in snapshots.filter(touching | Q(billing_period__in=months_of(period))):
        for currency, billed in _billed_of(one):
            yield MoneyException(
                "waiting-snapshot",
                f"snapshot {one.pk}",
                f"{one}: a delivery of {one.charges} charges waits for a decision: more parts, or a "
                "replacement? It does not count yet",
                billed,
                currency,
            )


def _billed_of(snapshot: Snapshot) -> list[tuple[str, Decimal | None]]:
    lines = Charge.objects.filter(snapshot=snapshot).order_by()
    return list(lines.values_list("currency").annotate(billed=Sum("billed_cost")))


def _rejected(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Documents of the period with rejected rows, and those received in it of which nothing could
    be taken: no row tells what they are of. What a newer delivery replaced leaves nothing to know.
    """
    counting = with_verdict(as_of).exclude(verdict="superseded").order_by().values("pk")
    lines = Charge.objects.filter(
        document=OuterRef("pk"),
        snapshot__in=counting,
        charge_start__lt=period.end,
        charge_end__gte=period.start,
    )
    start = period.start - timedelta(hours=1)
    blocks = ReadingBlock.objects.filter(document=OuterRef("pk")).touching(
        milliseconds(start), milliseconds(period.end)
    )
    usage = UsageHour.objects.filter(document=OuterRef("pk"), hour__gte=start, hour__lt=period.end)
    nothing = Q(
        charges=0, readings=0, received_at__gte=period.start, received_at__lt=period.end
    ) & ~Exists(UsageHour.objects.filter(document=OuterRef("pk")))
    documents = Document.objects.filter(known_by(as_of, "received_at"), rows_rejected__gt=0).filter(
        Q(Exists(lines)) | Q(Exists(blocks)) | Q(Exists(usage)) | nothing
    )
    for one in documents.order_by("received_at", "pk"):
        yield MoneyException(
            "rejected-rows",
            one.sha256,
            f"{one.name}: {one.rows_rejected} of {one.rows_read} rows could not be taken",
        )


def _unrecognised(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    rows = (
        in_period(period, as_of=as_of)
        .filter(gpu_model=UNRECOGNISED)
        .order_by()
        .values_list("snapshot__issuer", "currency")
        .annotate(lines=Sum("line_count"), effective=Sum("effective_cost"))
    )
    for issuer, currency, lines, effective in rows:
        yield MoneyException(
            "unrecognised-gpu",
            issuer,
            f"{issuer}: {lines} lines look like GPU time of a model not in the catalogue; the page GPU "
            "catalogue lists them",
            effective,
            currency,
        )


def _lagging(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """Issuers whose charges end well before the others' do."""
    newest = cost_reach(as_of)
    for issuer, reach in sorted(reach_by_issuer(as_of).items()):
        if newest and reach < period.end and LAG < newest - reach < ACTIVE:
            yield MoneyException(
                "cost-lags",
                issuer,
                f"{issuer}: charges reach only to {rfc3339(reach)}, others to {rfc3339(newest)}",
            )
