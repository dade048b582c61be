"""What people say of invoices: the amount an issuer printed, and that a month is final (§3.8, §4)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from finops.core import signs
from finops.core.money import parse_decimal, plain
from finops.core.period import month_of
from finops.ledger.models import Document, InvoiceAmount, PeriodConfirmation
from finops.ledger.which import atomic
from finops.sources import currencies
from finops.trail import operations as trail


def set_invoice_amount(
    *,
    issuer: str,
    invoice: str,
    billing_period: str,
    amount: str | Decimal,
    currency: str,
    by: str,
    at: datetime,
    document: Document | None = None,
) -> InvoiceAmount:
    """Adds the amount printed on an invoice; the newest holds. ValueError for unusable values.

    An empty `invoice` stands for the lines of the month that name none, as exports before FOCUS
    1.2 never do.
    """
    month_of(billing_period)
    exact = parse_decimal(amount) if isinstance(amount, str) else amount
    issuer, currency = _words(issuer=issuer, currency=currency)
    if reason := currencies.refusal(currency):
        raise ValueError(f"currency {currency[:20]} {reason}")
    invoice = _words(invoice=invoice)[0] if invoice.strip() else ""
    with atomic():
        row = InvoiceAmount.objects.create(
            issuer=issuer,
            invoice=invoice,
            billing_period=billing_period,
            currency=currency,
            amount=exact,
            document=document,
            at=at,
            by=by,
        )
        trail.record(
            at=at,
            actor=by,
            action="invoice.amount",
            subject=f"{issuer} {invoice} {billing_period}",
            detail={"amount": plain(exact), "currency": currency},
        )
    return row


def confirm_period(
    *, issuer: str, billing_account: str, billing_period: str, reason: str, by: str, at: datetime
) -> PeriodConfirmation:
    """A person confirms that an account's month is final. ValueError without a reason."""
    month_of(billing_period)
    issuer, account, reason = _words(issuer=issuer, account=billing_account, reason=reason)
    with atomic():
        row = PeriodConfirmation.objects.create(
            issuer=issuer,
            billing_account=account,
            billing_period=billing_period,
            at=at,
            by=by,
            reason=reason,
        )
        trail.record(
            at=at,
            actor=by,
            action="period.confirm",
            subject=f"{issuer} {account} {billing_period}",
            detail={"reason": reason},
        )
    return row


def _words(**values: str) -> list[str]:
    """The values without outer blanks; none may be empty, overlong or hold what cannot be kept."""
    for name, value in values.items():
        if not value.strip():
            raise ValueError(f"{name} must not be empty")
        if len(value) > 400 or "\0" in value:
            raise ValueError(f"{name} is over 400 characters long or holds a NUL")
        if refused := signs.refusal(value):
            raise ValueError(f"{name}: {refused}")
    return [value.strip() for value in values.values()]
