"""One month's invoices line by line, against what was issued; as invoiced and as incurred."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from finops.core.period import month_of
from finops.ledger.models import Document
from finops.ledger.operations.documents import stored
from finops.ledger.operations.typed_invoices import credited
from finops.ledger.queries.invoices import InvoiceRow, months_known
from finops.ledger.queries.tieout import KINDS, InvoiceDetail, invoice_details, two_views
from reports.forms_data import IssuedAmountForm
from reports.operations.attaching import FORMAT as PAPER
from reports.operations.attaching import enter_amount
from reports.roles import allowed, may

from .page import page, typed


@require_http_methods(["GET", "POST"])
@allowed("read")
def month(request: HttpRequest, period: str) -> HttpResponse:
    """The month's tie-out, and a form for the amount an issuer printed."""
    try:
        month_of(period)
    except ValueError as error:
        raise Http404(str(error)) from None
    form = _form(request, period)
    if request.method == "POST":
        if not may(request.user, "invoice"):
            return page(request, "403.html", status=403)
        if form.is_valid() and _enter(request, form):
            return redirect("tieout", period=form.cleaned_data["billing_period"])
    details = invoice_details(period)
    context: dict[str, Any] = {"month": period, "months": months_known(), "form": form}
    context |= {"details": [_shown(one) for one in details], "views": two_views(period)}
    context["headline"] = _headline([one.row for one in details])
    return page(request, "reports/tieout.html", context)


@require_GET
@allowed("read")
def paper(request: HttpRequest, digest: str) -> FileResponse:
    """The invoice that was attached to an amount, as it came; to be saved, never shown inside the
    site, since its bytes are not ours."""
    row = get_object_or_404(Document, pk=digest, format=PAPER)
    path = stored(row.sha256)
    if not path.exists():
        raise Http404("Its bytes are missing from the store.")
    return FileResponse(
        path.open("rb"),
        as_attachment=True,
        filename=row.name,
        content_type="application/octet-stream",
    )


def _headline(rows: list[InvoiceRow]) -> str:
    """The month in a few words."""
    off = sum(row.within is False for row in rows)
    unknown = sum(row.issued is None for row in rows)
    if not rows:
        return "no invoice lines"
    if off:
        return "an invoice differs from its lines" if off == 1 else f"{off} invoices differ"
    if unknown == len(rows):
        return "no issued amount is known yet"
    if unknown:
        return f"{len(rows) - unknown} of {len(rows)} issued amounts are known"
    return "every invoice agrees with its lines"


def _form(request: HttpRequest, period: str) -> IssuedAmountForm:
    if request.method == "POST":
        return IssuedAmountForm(request.POST, request.FILES)
    given = {name: typed(request.GET, name) for name in ("issuer", "invoice", "currency")}
    return IssuedAmountForm(
        initial={"billing_period": period, "currency": "USD"}
        | {name: value for name, value in given.items() if value}
    )


def _enter(request: HttpRequest, form: IssuedAmountForm) -> bool:
    values = dict(form.cleaned_data)
    attached = values.pop("attached")
    by = request.user.get_username()
    try:
        enter_amount(values, attached, by=by, at=timezone.now())
    except ValueError as error:
        form.add_error(None, str(error))
        return False
    messages.success(request, "The amount was kept.")
    return True


def _shown(one: InvoiceDetail) -> dict[str, Any]:
    return {
        "row": one.row,
        "kinds": [(kind, one.kinds[kind], one.counts[kind]) for kind in KINDS if kind in one.kinds],
        "entered": one.entered,
        "typed_in": one.typed_in,
        "credits": credited(one.typed_in),
        "result": _result(one.row),
    }


def _result(row: InvoiceRow) -> str:
    """The comparison in a sentence."""
    if row.difference is None:
        return "The amount the issuer printed is not known here, so nothing is compared."
    if row.difference == 0:
        return "The lines add up to the amount issued, to the last digit."
    if not row.lines:
        return "The invoice was issued, but no line of it is in any file: an export is missing."
    if row.within:
        return "The difference is within what rounding each line on the invoice can cause."
    return (
        "The difference is more than rounding explains: look for an export that is missing, "
        "a later delivery, or a correction on another invoice."
    )
