"""The page where a person types in an invoice whose vendor has no export."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from finops.ledger.which import use_ledger
from finops.sources.typed_invoice import NotUsable
from reports.forms_data import FurtherLines, TypedInvoiceForm
from reports.operations.attaching import enter_invoice
from reports.roles import allowed

from .page import page, typed

LINE = "line"
TAKEN_OVER = ("issuer", "invoice", "billing_period", "currency")


@require_http_methods(["GET", "POST"])
@allowed("invoice")
def enter(request: HttpRequest) -> HttpResponse:
    """The form; what is typed in goes to the organisation's own ledger, as files handed over do."""
    if request.method == "POST" and "more" not in request.POST:
        form = TypedInvoiceForm(request.POST, request.FILES)
        further = _further(request)
        if form.is_valid() and further.is_valid() and _post(request, form, further):
            return redirect("tieout", period=form.cleaned_data["billing_period"])
    elif request.method == "POST":  # one more line: nothing is checked yet
        form = TypedInvoiceForm(initial=request.POST.dict())
        further = FurtherLines(prefix=LINE, initial=_typed_lines(request))
    else:
        given = {name: typed(request.GET, name) for name in TAKEN_OVER}
        form = TypedInvoiceForm(initial={name: text for name, text in given.items() if text})
        further = FurtherLines(prefix=LINE)
    return page(request, "reports/invoice_enter.html", {"form": form, "further": further})


def _further(request: HttpRequest) -> Any:
    """The lines beyond the first; none where the form had no room for them."""
    has_any = f"{LINE}-TOTAL_FORMS" in request.POST
    data = request.POST if has_any else {f"{LINE}-TOTAL_FORMS": "0", f"{LINE}-INITIAL_FORMS": "0"}
    return FurtherLines(data, prefix=LINE)


def _typed_lines(request: HttpRequest) -> list[dict[str, str]]:
    """What was typed into further lines, to be shown again; empty ones are left out."""
    forms = _further(request).forms
    lines = [{name: one[name].data or "" for name in one.fields} for one in forms]
    return [line for line in lines if any(line.values())]


def _post(request: HttpRequest, form: TypedInvoiceForm, further: Any) -> bool:
    by = request.user.get_username()
    more = [one for one in further if one.has_changed()]
    attached = form.cleaned_data["attached"]
    with use_ledger("default"):
        try:
            invoice = form.given(more)
            invoice.check()
            enter_invoice(invoice, attached, attached.name, by=by, at=timezone.now())
        except NotUsable as error:
            where = more[error.line - 1] if error.line else form
            where.add_error(error.field if error.field in where.fields else None, error.told())
            return False
    messages.success(request, "The invoice was booked, and its amount issued was set.")
    return True
