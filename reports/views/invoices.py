"""Invoices: the amounts issuers printed, and months that people confirm as final."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from finops.core.period import month_of
from finops.ledger.operations import invoices
from finops.ledger.queries.invoices import InvoiceRow, invoice_tie_out, months_known
from reports.forms import InvoiceAmountForm
from reports.roles import allowed, may

from .page import page, typed

MONTHS_SHOWN = 12


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """Each month's invoices against their lines, newest first."""
    form = InvoiceAmountForm(request.POST or None)
    if request.method == "POST":
        if not may(request.user, "invoice"):
            return page(request, "403.html", status=403)
        if form.is_valid() and _save(request, form):
            return redirect("invoices")
    months = months_known()
    shown = months[:MONTHS_SHOWN]
    rows: list[InvoiceRow] = [row for month in shown for row in invoice_tie_out(month)]
    context = {"rows": rows, "form": form, "older": months[MONTHS_SHOWN:]}
    return page(request, "reports/invoices.html", context)


def _save(request: HttpRequest, form: InvoiceAmountForm) -> bool:
    values = form.cleaned_data
    try:
        month_of(values["billing_period"])
        invoices.set_invoice_amount(**values, by=request.user.get_username(), at=timezone.now())
    except ValueError as error:
        form.add_error(None, str(error))
        return False
    messages.success(request, "The amount was kept.")
    return True


@require_POST
@allowed("invoice")
def confirm(request: HttpRequest) -> HttpResponse:
    """Confirms that an account's month is final."""
    given = {name: typed(request.POST, name) for name in ("issuer", "billing_account", "reason")}
    try:
        invoices.confirm_period(
            **given,
            billing_period=typed(request.POST, "billing_period"),
            by=request.user.get_username(),
            at=timezone.now(),
        )
    except ValueError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "The month is final now.")
    return redirect("invoices")
