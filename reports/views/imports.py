"""Imports: handing files over, what each changed, errors by line, snapshots that wait."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from finops.ledger.models import Document
from finops.ledger.operations.snapshots import decide as decide_snapshot
from finops.ledger.queries import documents
from finops.ledger.queries.snapshots import waiting
from finops.ledger.which import use_ledger
from reports.forms import UploadForm
from reports.models import Upload
from reports.operations.drafts import files_of
from reports.operations.refused import NotAllowed
from reports.operations.uploads import take
from reports.roles import allowed, may

from .page import page, typed

MOST_SHOWN = 100


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The form, what waits for a decision, and the newest deliveries and documents."""
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST":
        if not may(request.user, "upload"):
            return page(request, "403.html", status=403)
        if form.is_valid():
            with use_ledger("default"):
                try:
                    taken = take(
                        form.cleaned_data["chosen"],
                        by=request.user.get_username(),
                        at=timezone.now(),
                        format=form.cleaned_data["format"],
                    )
                except NotAllowed as refused:
                    form.add_error("chosen", str(refused))
                else:
                    return redirect("upload", key=taken.pk)
    context: dict[str, Any] = {"form": form}
    with use_ledger("default"):
        context |= {
            "uploads": list(Upload.objects.select_related("outcome").order_by("-at")[:20]),
            "waiting": waiting(),
        }
    # Documents are those of the ledger shown: the sample's while it is shown.
    rows = Document.objects.defer("account").order_by("-received_at", "name")
    context |= {"documents": list(rows[:MOST_SHOWN]), "count": rows.count()}
    return page(request, "reports/imports.html", context)


@require_GET
@allowed("read")
def upload(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """One delivery: waiting to be read, or what came of it."""
    with use_ledger("default"):
        row = get_object_or_404(Upload.objects.select_related("outcome"), pk=key)
        outcome = getattr(row, "outcome", None)
    context = {"upload": row, "outcome": outcome}
    context["waiting"] = {path.name for path in files_of(key)}
    context["refresh_seconds"] = None if outcome else 3
    return page(request, "reports/upload.html", context)


@require_GET
@allowed("read")
def document(request: HttpRequest, digest: str) -> HttpResponse:
    """One document: what was read from it and what was not."""
    row = get_object_or_404(Document, pk=digest)
    account = documents.report(row, row.name)
    reasons = row.rejected_rows.values("reason").annotate(count=Count("id")).order_by("-count")
    context = {"document": row, "account": account, "reasons": list(reasons[:20])}
    return page(request, "reports/document.html", context)


@require_POST
@allowed("decide")
def decide(request: HttpRequest, snapshot: int) -> HttpResponse:
    """A person's word on a snapshot that waits."""
    reason = typed(request.POST, "reason")
    with use_ledger("default"):
        try:
            decide_snapshot(
                snapshot,
                typed(request.POST, "verdict"),
                request.user.get_username(),
                reason,
                at=timezone.now(),
            )
        except ValueError as error:
            messages.error(request, str(error))
        else:
            messages.success(request, f"Snapshot {snapshot} was decided.")
    return redirect("imports")
