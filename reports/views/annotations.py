"""Annotations: the time line, writing one, editing as a new version."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from finops.core.period import parse_instant
from finops.ledger.models import Workload
from reports.forms import AnnotationForm
from reports.models import Annotation
from reports.operations.notes import annotate
from reports.operations.refused import NotAllowed
from reports.queries.notes import current_annotations, versions
from reports.queries.weeks import zone
from reports.roles import allowed, may

from .page import page, typed

MOST_SHOWN = 200


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The time line, newest first, and a form for people who may write."""
    form = _form(request)
    if request.method == "POST":
        if not may(request.user, "annotate"):
            return page(request, "403.html", status=403)
        if form.is_valid() and _write(request, form, None):
            return redirect("annotations")
    workload = typed(request.GET, "workload")
    rows = current_annotations(workload=workload or None)[::-1][:MOST_SHOWN]
    context = {"rows": rows, "form": form, "workload": workload, "workloads": _slugs()}
    return page(request, "reports/annotations.html", context | {"zone": zone().key})


def _slugs() -> list[str]:
    return list(Workload.objects.order_by("slug").values_list("slug", flat=True))


def _form(request: HttpRequest, row: Annotation | None = None) -> AnnotationForm:
    if request.method == "POST":
        return AnnotationForm(request.POST, workloads=_slugs())
    return AnnotationForm(initial=_initial(request, row), workloads=_slugs())


def _initial(request: HttpRequest, row: Annotation | None) -> dict[str, Any]:
    if row is not None:
        local = row.at.astimezone(zone()).replace(tzinfo=None)
        return {
            "at": local,
            "workload": row.workload,
            "kind": row.kind,
            # A page that tells what came of a change brings the text with it.
            "text": typed(request.GET, "text")[:2000] or row.text,
            "url": row.url,
        }
    at = timezone.now()
    with suppress(KeyError, ValueError):
        at = parse_instant(request.GET["at"])
    local = at.astimezone(zone()).replace(tzinfo=None, second=0, microsecond=0)
    kind = typed(request.GET, "kind", "other")
    return {
        "at": local,
        "workload": typed(request.GET, "workload"),
        "kind": kind if kind in dict(Annotation.KINDS) else "other",
        "text": typed(request.GET, "text")[:2000],
    }


def _write(request: HttpRequest, form: AnnotationForm, replaces: Annotation | None) -> bool:
    values = form.cleaned_data
    try:
        annotate(
            instant=values["at"],
            text=values["text"],
            workload=values["workload"],
            kind=values["kind"],
            url=values["url"],
            author=request.user.get_username(),
            at=timezone.now(),
            replaces=replaces,
        )
    except NotAllowed as refused:
        form.add_error(None, str(refused))
        return False
    messages.success(request, "The annotation was written.")
    return True


@require_http_methods(["GET", "POST"])
@allowed("annotate")
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """A new version of an annotation; the old one stays visible."""
    row = get_object_or_404(Annotation.objects.select_related("replaces"), pk=pk)
    if hasattr(row, "replaced_by"):
        return redirect("annotation-edit", pk=row.replaced_by.pk)
    form = _form(request, row)
    if request.method == "POST" and form.is_valid() and _write(request, form, row):
        return redirect("annotations")
    context = {"form": form, "row": row, "versions": versions(row)}
    return page(request, "reports/annotation_edit.html", context | {"zone": zone().key})
