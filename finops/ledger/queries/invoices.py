"""The invoice tie-out: what an issuer printed against the sum of its lines (method §4, §3.8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q, Sum

from finops.core.money import EXACT, plain
from finops.core.period import Period, month_of
from finops.core.tolerance import is_within, tolerance
from finops.ledger.models import (
    Charge,
    InvoiceAmount,
    PeriodConfirmation,
    PeriodStatus,
    Snapshot,
)
from finops.ledger.queries.as_of import known_by
from finops.ledger.queries.money import months_of
from finops.ledger.queries.snapshots import current_ids

ZERO = Decimal(0)
Place = tuple[str, str, str, str]  # issuer, invoice ("" while not issued), month, currency


@dataclass(frozen=True, slots=True)
class InvoiceRow:
    """One invoice of one month in one currency: its lines' sum against the amount issued.

    `difference` = issued − billed; it and `within` are None while no issued amount is known.
    `provisional`: no invoice is tied to the lines and nobody has confirmed the month.
    """

    issuer: str
    invoice: str
    billing_period: str
    currency: str
    lines: int
    billed: Decimal
    issued: Decimal | None
    difference: Decimal | None
    tolerance: Decimal
    within: bool | None
    provisional: bool

    def as_json(self) -> dict[str, Any]:
        """The row with decimal strings."""
        return {
            "issuer": self.issuer,
            "invoice": self.invoice or None,
            "billing_period": self.billing_period,
            "currency": self.currency,
            "lines": self.lines,
            "billed": plain(self.billed),
            "issued": None if self.issued is None else plain(self.issued),
            "difference": None if self.difference is None else plain(self.difference),
            "tolerance": plain(self.tolerance),
            "within": self.within,
            "provisional": self.provisional,
        }


@dataclass(slots=True)
class _Lines:
    """The lines of one invoice so far."""

    billed: Decimal = ZERO
    lines: int = 0
    tax_lines: int = 0
    accounts: set[str] = field(default_factory=set)


def invoice_tie_out(when: str | Period, as_of: datetime | None = None) -> list[InvoiceRow]:
    """The invoices of a month `YYYY-MM`, or of all billing months that a period touches.

    Only current charges count. An invoice that was issued but has no line in any file stands with
    0 lines (facts: invoice charges absent from the export). Currencies are never mixed.
    """
    months = months_of(month_of(when) if isinstance(when, str) else when)
    lines = _lines(months, as_of)
    issued = _issued(months, as_of)
    confirmed, closed = _confirmed(months, as_of), _closed(months, as_of)
    places = sorted(lines.keys() | issued.keys(), key=lambda one: (one[2], one))
    return [
        _row(place, lines.get(place, _Lines()), issued.get(place), confirmed, closed)
        for place in places
    ]


def months_known() -> list[str]:
    """The billing months of which charges or issued amounts are known, newest first."""
    names = set(Snapshot.objects.values_list("billing_period", flat=True).distinct())
    names |= set(InvoiceAmount.objects.values_list("billing_period", flat=True).distinct())
    return sorted(names, reverse=True)


def provisional_months(period: Period, as_of: datetime | None = None) -> list[str]:
    """The billing months of a period with lines that are not final yet (method §3.8)."""
    return sorted({row.billing_period for row in invoice_tie_out(period, as_of) if row.provisional})


def _lines(months: Iterable[str], as_of: datetime | None) -> dict[Place, _Lines]:
    found: dict[Place, _Lines] = {}
    names = ("snapshot__issuer", "invoice", "snapshot__billing_period", "currency")
    rows = (
        Charge.objects.filter(
            snapshot__in=current_ids(as_of),
            snapshot__billing_period__in=list(months),
            billed_cost__isnull=False,
        )
        .order_by()
        .values_list(*names, "snapshot__billing_account")
        .annotate(
            total=Sum("billed_cost"),
            lines=Sum("line_count"),
            tax_lines=Sum("line_count", filter=Q(category="Tax"), default=0),
        )
    )
    for issuer, invoice, month, currency, account, billed, count, taxes in rows:
        sums = found.setdefault((issuer, invoice or "", month, currency), _Lines())
        sums.billed = EXACT.add(sums.billed, billed or ZERO)
        sums.lines += count
        sums.tax_lines += taxes
        sums.accounts.add(account)
    return found


def _issued(months: Iterable[str], as_of: datetime | None) -> dict[Place, Decimal]:
    """The newest amount typed or read of each invoice."""
    amounts = InvoiceAmount.objects.filter(
        known_by(as_of, "at"), billing_period__in=list(months)
    ).order_by("pk")
    return {
        (one.issuer, one.invoice, one.billing_period, one.currency): one.amount for one in amounts
    }


def _confirmed(months: Iterable[str], as_of: datetime | None) -> set[tuple[str, str, str]]:
    rows = PeriodConfirmation.objects.filter(known_by(as_of, "at"), billing_period__in=list(months))
    return set(rows.values_list("issuer", "billing_account", "billing_period"))


def _closed(months: Iterable[str], as_of: datetime | None) -> set[tuple[str, str]]:
    """Issuers' months that the newest word of the issuer calls closed."""
    rows = PeriodStatus.objects.filter(known_by(as_of, "at"), billing_period__in=list(months))
    newest = {
        (one.issuer, one.billing_period): one.status for one in rows.order_by("updated_at", "pk")
    }
    return {place for place, status in newest.items() if status == "Closed"}


def _row(
    place: Place,
    lines: _Lines,
    issued: Decimal | None,
    confirmed: set[tuple[str, str, str]],
    closed: set[tuple[str, str]],
) -> InvoiceRow:
    issuer, invoice, month, currency = place
    final = bool(invoice) or issued is not None or (issuer, month) in closed
    final = final or all((issuer, account, month) in confirmed for account in lines.accounts)
    difference = None if issued is None else EXACT.subtract(issued, lines.billed)
    return InvoiceRow(
        *place,
        lines=lines.lines,
        billed=lines.billed,
        issued=issued,
        difference=difference,
        tolerance=tolerance(lines.lines, currency, lines.tax_lines),
        within=None
        if difference is None
        else is_within(difference, lines.lines, currency, lines.tax_lines),
        provisional=not final,
    )
