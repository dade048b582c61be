"""Baselines: what the legacy stack cost, declared with a document or measured from the ledger."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from finops.core.period import Period
from finops.ledger.models import Baseline, Workload
from finops.ledger.operations.baselines import declare_baseline, measure_baseline
from finops.ledger.operations.workloads import NotAccepted
from reports.forms import PlainForm, sensible
from reports.operations.uploads import clean_name
from reports.queries.weeks import zone
from reports.roles import allowed, may
from reports.widgets import LongSelect

from .page import note_sample, page, typed


class DeclaredForm(PlainForm):
    """A price with the document that says it."""

    workload = forms.ChoiceField(label="Workload", widget=LongSelect)
    per_million = forms.CharField(label="Price per million tokens", max_length=60)
    currency = forms.CharField(label="Currency", max_length=3, initial="USD")
    document = forms.FileField(label="Document that says so")
    note = forms.CharField(label="Note", required=False, max_length=500)


class MeasuredForm(PlainForm):
    """Tokens and cost of a legacy workload in a period."""

    workload = forms.ChoiceField(label="Workload", widget=LongSelect)
    legacy = forms.ChoiceField(label="Legacy workload", widget=LongSelect)
    start = forms.DateField(
        label="From", widget=forms.DateInput(attrs={"type": "date"}), validators=[sensible]
    )
    end = forms.DateField(
        label="To",
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Not included.",
        validators=[sensible],
    )
    note = forms.CharField(label="Note", required=False, max_length=500)


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The baselines and the two ways to set one."""
    kind = typed(request.POST, "kind") if request.method == "POST" else ""
    data, files = request.POST, request.FILES
    declared = DeclaredForm(data, files) if kind == "declared" else DeclaredForm()
    measured = MeasuredForm(data) if kind == "measured" else MeasuredForm()
    slugs = list(Workload.objects.order_by("slug").values_list("slug", flat=True))
    for field in (
        declared.fields["workload"],
        measured.fields["workload"],
        measured.fields["legacy"],
    ):
        field.choices = [(slug, slug) for slug in slugs]  # type: ignore[attr-defined]
    if kind:
        if not may(request.user, "baseline"):
            return page(request, "403.html", status=403)
        form: forms.Form = declared if kind == "declared" else measured
        if form.is_valid() and _save(request, form):
            return redirect("baselines")
    rows = Baseline.objects.select_related("workload", "legacy_workload").order_by("-id")
    context = {"rows": list(rows[:200]), "declared": declared, "measured": measured}
    return page(request, "reports/baselines.html", context | {"any": bool(slugs)})


def _save(request: HttpRequest, form: forms.Form) -> bool:
    values = form.cleaned_data
    by, at = request.user.get_username(), timezone.now()
    try:
        if isinstance(form, DeclaredForm):
            _declare(values, by, at)
        else:
            _measure(values, by, at)
    except NotAccepted as refused:
        form.add_error(None, str(refused))
        return False
    messages.success(request, "The baseline was kept.")
    note_sample(request)
    return True


def _declare(values: dict[str, Any], by: str, at: datetime) -> None:
    upload: UploadedFile = values["document"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / clean_name(upload.name or "")
        with path.open("wb") as file:
            for chunk in upload.chunks():
                file.write(chunk)
        declare_baseline(
            values["workload"],
            per_million=values["per_million"],
            currency=values["currency"],
            document=path,
            note=values["note"],
            by=by,
            at=at,
        )


def _measure(values: dict[str, Any], by: str, at: datetime) -> None:
    start, end = (
        datetime.combine(values[name], time(), tzinfo=zone()).astimezone(UTC)
        for name in ("start", "end")
    )
    if end <= start:
        raise NotAccepted("the period must end after it begins")
    measure_baseline(
        values["workload"],
        legacy=values["legacy"],
        period=Period(start, end),
        note=values["note"],
        by=by,
        at=at,
    )
