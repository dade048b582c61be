"""Training beside inference: cost, budget and forecast next to what came in time (method §5)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from finops.ledger.operations.budgets import set_budget
from finops.ledger.operations.workloads import NotAccepted
from finops.ledger.queries.training import budget_rows
from reports import level_words
from reports.forms import PlainForm
from reports.operations.uploads import clean_name
from reports.queries.standing import recent_reports, statement_of
from reports.queries.weeks import zone
from reports.roles import allowed, may

from .page import note_sample, page


class BudgetForm(PlainForm):
    """A quarter's budget of training."""

    quarter = forms.CharField(label="Quarter", max_length=7, help_text="Like 2026-Q4.")
    amount = forms.CharField(label="Amount", max_length=60)
    currency = forms.CharField(label="Currency", max_length=3, initial="USD")
    document = forms.FileField(label="Document that says so", required=False)
    note = forms.CharField(label="Note", required=False, max_length=300)


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The newest report's section, service levels, and the budgets with a form."""
    form = BudgetForm(request.POST or None, request.FILES or None)
    if request.method == "POST":
        if not may(request.user, "baseline"):
            return page(request, "403.html", status=403)
        if form.is_valid() and _save(request, form):
            return redirect("training")
    context: dict[str, Any] = {"form": form, "budgets": budget_rows()[:100], "zone": zone().key}
    for report in recent_reports(1):
        s = statement_of(report)
        context |= {
            "s": s,
            "linked": True,
            "level_message": level_words.message(s),
            "level_rows": list(level_words.levels(s).values()),
        }
    return page(request, "reports/training.html", context)


def _save(request: HttpRequest, form: BudgetForm) -> bool:
    values = dict(form.cleaned_data)
    upload: UploadedFile | None = values.pop("document")
    with tempfile.TemporaryDirectory() as folder:
        path = None
        if upload is not None:
            path = Path(folder) / clean_name(upload.name or "")
            with path.open("wb") as file:
                for chunk in upload.chunks():
                    file.write(chunk)
        try:
            by, at = request.user.get_username(), timezone.now()
            set_budget(**values, document=path, by=by, at=at)
        except NotAccepted as refused:
            form.add_error(None, str(refused))
            return False
    messages.success(request, "The budget was kept; reports closed from now on use it.")
    note_sample(request)
    return True
