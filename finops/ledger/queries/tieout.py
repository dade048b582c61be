"""An invoice month line by line: kinds of charges by invoice, and invoiced against incurred (§3.6, §4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.db.models import Case, Q, Sum, When

from finops.core.money import EXACT, plain
from finops.core.period import Period, month_of
from finops.ledger.models import Charge, Document, InvoiceAmount, Snapshot
from finops.ledger.queries.invoices import InvoiceRow, Place, invoice_tie_out
from finops.ledger.queries.money import CHUNK_ROWS, amounts_inside, in_period, inside
from finops.ledger.queries.snapshots import current_ids

ZERO = Decimal(0)
CORRECTION = "Correction"
ROUNDING = "Rounding"
KINDS = ("Usage", "Purchase", "Tax", "Credit", "Adjustment", ROUNDING, CORRECTION)
# A word of its own: "Grounding with Google Search" is none.
_ROUNDING_WORD = r"(^|[^[:alpha:]])rounding(adjustment|error)?s?([^[:alpha:]]|$)"
_IS_ROUNDING = Q(category="Adjustment", description__iregex=_ROUNDING_WORD)
TYPED_IN = "typed in"
"""The origin of the document of an invoice that a person typed in; a file's is its path."""


@dataclass(slots=True)
class InvoiceDetail:
    """One invoice of a month: its row of the tie-out, and its lines' billed cost by kind.

    A line of the class *Correction* counts as a correction, whatever its category, and an
    adjustment whose description speaks of rounding as rounding; so the kinds add up to the sum of
    lines. `entered` is the newest amount that was typed or read; `typed_in` the document of lines
    that a person typed in.
    """

    row: InvoiceRow
    kinds: dict[str, Decimal] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    entered: InvoiceAmount | None = None
    typed_in: Document | None = None

    def as_json(self) -> dict[str, Any]:
        """The row of the tie-out, and its lines' billed cost by kind."""
        kinds = {kind: plain(self.kinds.get(kind, ZERO)) for kind in KINDS}
        return self.row.as_json() | {
            "usage": kinds["Usage"],
            "purchases": kinds["Purchase"],
            "taxes": kinds["Tax"],
            "credits": kinds["Credit"],
            "adjustments": kinds["Adjustment"],
            "rounding": kinds[ROUNDING],
            "corrections": kinds[CORRECTION],
            "typed_in_by": self.typed_in.received_by if self.typed_in else None,
        }


@dataclass(frozen=True, slots=True)
class MonthInTwoViews:
    """A month's billed cost in one currency: as invoiced, and by steps as incurred.

    invoiced − elsewhere + from_other_months = incurred, exactly. `elsewhere`: of the month's
    invoices, what is for hours outside of the month; `from_other_months`: for hours of the month,
    but on other months' invoices.
    """

    currency: str
    invoiced: Decimal
    elsewhere: Decimal
    from_other_months: Decimal
    incurred: Decimal

    def as_json(self) -> dict[str, Any]:
        """Decimal strings."""
        names = ("invoiced", "elsewhere", "from_other_months", "incurred")
        return {"currency": self.currency} | {n: plain(getattr(self, n)) for n in names}


def invoice_details(month: str) -> list[InvoiceDetail]:
    """The invoices of a billing month `YYYY-MM` with their kinds of lines."""
    details = {_place(row): InvoiceDetail(row) for row in invoice_tie_out(month)}
    names = ("snapshot__issuer", "invoice", "snapshot__billing_period", "currency")
    rows = (
        Charge.objects.filter(
            snapshot__in=current_ids(),
            snapshot__billing_period=month,
            billed_cost__isnull=False,
        )
        .order_by()
        .annotate(is_rounding=Case(When(_IS_ROUNDING, then=True), default=False))
        .values_list(*names, "category", "charge_class", "is_rounding")
        .annotate(total=Sum("billed_cost"), lines=Sum("line_count"))
    )
    for issuer, invoice, period, currency, category, charge_class, rounding, total, lines in rows:
        detail = details[issuer, invoice or "", period, currency]
        kind = ROUNDING if rounding else category
        kind = CORRECTION if charge_class == CORRECTION else kind
        detail.kinds[kind] = EXACT.add(detail.kinds.get(kind, ZERO), total)
        detail.counts[kind] = detail.counts.get(kind, 0) + lines
    for one in (
        InvoiceAmount.objects.filter(billing_period=month).select_related("document").order_by("pk")
    ):
        place = (one.issuer, one.invoice, one.billing_period, one.currency)
        details[place].entered = one
    for place, document in _typed_in(month):
        details[place].typed_in = document
    return list(details.values())


def _typed_in(month: str) -> Iterator[tuple[Place, Document]]:
    """The month's invoices whose lines were typed in."""
    snapshots = Snapshot.objects.filter(
        pk__in=current_ids(), billing_period=month, parts__document__origin=TYPED_IN
    )
    lines = Charge.objects.filter(snapshot__in=list(snapshots)).select_related(
        "snapshot", "document"
    )
    for one in lines.order_by("pk"):
        scope = one.snapshot
        yield (scope.issuer, one.invoice or "", scope.billing_period, one.currency), one.document


def _place(row: InvoiceRow) -> Place:
    return row.issuer, row.invoice, row.billing_period, row.currency


def two_views(month: str) -> list[MonthInTwoViews]:
    """A month's billed cost as invoiced and as incurred, and what lies between the two."""
    period = month_of(month)
    invoiced: dict[str, Decimal] = defaultdict(Decimal)
    rows = in_period(period, "invoiced").order_by().values_list("currency")
    for currency, total in rows.annotate(total=Sum("billed_cost")):
        invoiced[currency] = total or ZERO
    own, others = _incurred(period, month)
    return [
        MonthInTwoViews(
            currency,
            invoiced[currency],
            EXACT.subtract(invoiced[currency], own[currency]),
            others[currency],
            EXACT.add(own[currency], others[currency]),
        )
        for currency in sorted(invoiced.keys() | own.keys() | others.keys())
    ]


def _incurred(
    period: Period, month: str
) -> tuple[defaultdict[str, Decimal], defaultdict[str, Decimal]]:
    """Billed cost of the month's hours by currency: on the month's own invoices, and on others."""
    own: defaultdict[str, Decimal] = defaultdict(Decimal)
    others: defaultdict[str, Decimal] = defaultdict(Decimal)
    charges = in_period(period).filter(billed_cost__isnull=False).order_by()
    names = ("snapshot__billing_period", "currency")
    whole = charges.filter(inside(period)).values_list(*names).annotate(total=Sum("billed_cost"))
    for billing_period, currency, total in whole:
        held = own if billing_period == month else others
        held[currency] = EXACT.add(held[currency], total)
    fields = (*names, "charge_start", "charge_end", "billed_cost")
    cut = charges.exclude(inside(period)).values_list(*fields)
    for billing_period, currency, start, end, billed in cut.iterator(chunk_size=CHUNK_ROWS):
        held = own if billing_period == month else others
        share = amounts_inside((billed, None, None, None), start, end, period)[0]
        held[currency] = EXACT.add(held[currency], share or ZERO)
    return own, others
