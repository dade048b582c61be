"""The page where a person types in an invoice whose vendor has no export."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from finops.ledger.which import use_ledger
from finops.sources.typed_invoice import NotUsable
from reports.forms_data import TypedInvoiceForm
from reports.operations.attaching import enter_invoice
from reports.roles import allowed

from .page import page, typed

TAKEN_OVER = ("issuer", "invoice", "billing_period", "currency")


@require_http_methods(["GET", "POST"])
@allowed("invoice")
def enter(request: HttpRequest) -> HttpResponse:
    """The form; what is typed in goes to the organisation's own ledger, as files handed over do."""
    if request.method == "POST":
        form = TypedInvoiceForm(request.POST, request.FILES)
        if form.is_valid() and _post(request, form):
            return redirect("tieout", period=form.cleaned_data["billing_period"])
    else:
        given = {name: typed(request.GET, name) for name in TAKEN_OVER}
        form = TypedInvoiceForm(initial={name: text for name, text in given.items() if text})
    return page(request, "reports/invoice_enter.html", {"form": form})


def _post(request: HttpRequest, form: TypedInvoiceForm) -> bool:
    by = request.user.get_username()
    with use_ledger("default"):
        try:
            enter_invoice(form.given(), form.cleaned_data["attached"], by=by, at=timezone.now())
        except NotUsable as error:
            form.add_error(error.field, error.told())
            return False
    messages.success(request, "The invoice was booked, and its amount issued was set.")
    return True
