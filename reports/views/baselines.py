"""Baselines: what the legacy stack cost, registered by one person and approved by another (§6)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from finops.core.period import Period
from finops.ledger.models import Document, Workload
from finops.ledger.operations.baselines import (
    PAPER,
    POSSIBLE,
    decide_baseline,
    declare_baseline,
    measure_baseline,
)
from finops.ledger.operations.documents import stored
from finops.ledger.operations.workloads import NotAccepted
from finops.ledger.queries.baselines import (
    baseline_row,
    baseline_rows,
    baseline_value,
    counting_numbers,
)
from finops.ledger.queries.exchange_rates import chosen_currency
from reports.forms_baselines import CLASSES, DeclaredForm, MeasuredForm
from reports.operations.uploads import clean_name
from reports.queries.weeks import zone
from reports.roles import allowed, may

from .page import note_sample, page, typed

MOST_SHOWN = 200


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The baselines, newest first, and the two ways to register one."""
    kind = typed(request.POST, "kind") if request.method == "POST" else ""
    data, files = request.POST, request.FILES
    fresh = DeclaredForm(initial={"currency": chosen_currency() or "USD"})
    declared = DeclaredForm(data, files) if kind == "declared" else fresh
    measured = MeasuredForm(data, files) if kind == "measured" else MeasuredForm()
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
        if form.is_valid() and (number := _save(request, form)):
            return redirect("baseline", number=number)
    rows = baseline_rows(timezone.now())[::-1]
    context = {
        "rows": rows[:MOST_SHOWN],
        "waiting": [row for row in rows if row["state"] == "waiting"],
        "counting": counting_numbers(),
        "declared": declared,
        "measured": measured,
    }
    return page(request, "reports/baselines.html", context | {"any": bool(slugs)})


@require_GET
@allowed("read")
def baseline(request: HttpRequest, number: int) -> HttpResponse:
    """One baseline with its documents, and the decision on it."""
    row = baseline_row(number)
    if row is None:
        raise Http404(f"There is no baseline {number}.")
    value = baseline_value(row, timezone.now())
    known = {one.sha256: one for one in Document.objects.filter(pk__in=value["documents"])}
    documents = [{"sha256": sha, "row": known.get(sha)} for sha in value["documents"]]
    is_author = request.user.get_username() == row.by
    possible = [verdict for verdict, states in POSSIBLE.items() if value["state"] in states]
    if is_author and "approved" in possible:
        possible.remove("approved")
    context = {
        "b": value,
        "documents": documents,
        "paper": PAPER,
        "counts": number in counting_numbers(),
        "is_author": is_author,
        "possible": possible,
    }
    return page(request, "reports/baseline.html", context)


@require_POST
@allowed("approve")
def decide(request: HttpRequest, number: int) -> HttpResponse:
    """Approves, refuses or withdraws a baseline."""
    verdict = typed(request.POST, "verdict")
    if verdict not in POSSIBLE or baseline_row(number) is None:
        raise Http404("There is no such decision.")
    try:
        decide_baseline(
            number,
            verdict,
            text=typed(request.POST, "text"),
            by=request.user.get_username(),
            at=timezone.now(),
        )
    except NotAccepted as refused:
        messages.error(request, f"{str(refused)[:1].upper()}{str(refused)[1:]}.")
    else:
        messages.success(request, f"Baseline {number} was {verdict}.")
        note_sample(request)
    return redirect("baseline", number=number)


@require_GET
@allowed("read")
def paper(request: HttpRequest, digest: str) -> FileResponse:
    """A document of a baseline as it came; to be saved, never shown inside the site."""
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


def _save(request: HttpRequest, form: forms.Form) -> int | None:
    values = form.cleaned_data
    by, at = request.user.get_username(), timezone.now()
    try:
        if isinstance(form, DeclaredForm):
            number = _declare(values, by, at)
        else:
            number = _measure(values, by, at)
    except NotAccepted as refused:
        form.add_error(None, str(refused))
        return None
    messages.success(request, "The baseline was kept. Another person has to approve it.")
    note_sample(request)
    return number


@contextmanager
def _written(uploads: list[UploadedFile | None]) -> Iterator[list[Path]]:
    """The uploaded files in a folder of their own, each under its name."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, upload in enumerate(one for one in uploads if one is not None):
            path = Path(folder) / str(number) / clean_name(upload.name or "")
            path.parent.mkdir()
            with path.open("wb") as file:
                for chunk in upload.chunks():
                    file.write(chunk)
            paths.append(path)
        yield paths


def _declare(values: dict[str, Any], by: str, at: datetime) -> int:
    with _written(values["document"]) as paths:
        return declare_baseline(
            values["workload"],
            per_million=values["per_million"],
            currency=values["currency"],
            basis=values["basis"],
            quality=values["quality"],
            classes={name: values[name] for name in CLASSES if values[name]},
            model=values["model"],
            tokenizer=values["tokenizer"],
            document=paths[0],
            more=paths[1:],
            note=values["note"],
            by=by,
            at=at,
        ).pk


def _measure(values: dict[str, Any], by: str, at: datetime) -> int:
    start, end = (
        datetime.combine(values[name], time(), tzinfo=zone()).astimezone(UTC)
        for name in ("start", "end")
    )
    if end <= start:
        raise NotAccepted("the period must end after it begins")
    with _written(values["document"]) as paths:
        return measure_baseline(
            values["workload"],
            legacy=values["legacy"],
            period=Period(start, end),
            tokenizer=values["tokenizer"],
            documents=paths,
            note=values["note"],
            by=by,
            at=at,
        ).pk
