"""Changes that were found: confirm or dismiss each, and see what the confirmed ones did (§10)."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from finops.ledger.operations.changes import decide, found
from finops.ledger.operations.workloads import NotAccepted
from reports import change_words
from reports.models import Annotation
from reports.queries.notes import current_annotations
from reports.queries.standing import recent_reports, statement_of
from reports.queries.weeks import zone
from reports.roles import allowed, may

from .page import note_sample, page, typed

MOST_SHOWN = 100
NEAR = timedelta(days=1)


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The proposals with their decisions, and the newest report's section."""
    refusal = ""
    if request.method == "POST":
        if not may(request.user, "annotate"):
            return page(request, "403.html", status=403)
        key, verdict = typed(request.POST, "key"), typed(request.POST, "verdict")
        by, at = request.user.get_username(), timezone.now()
        try:
            decide(key, verdict, note=typed(request.POST, "note"), by=by, at=at)
        except NotAccepted as refused:
            refusal = str(refused)
        else:
            messages.success(
                request, f"The change was {verdict}; reports closed from now on use it."
            )
            note_sample(request)
            return redirect("changes")
    notes = current_annotations()
    shown = [_with_notes(one, notes) for one in found(timezone.now())[:MOST_SHOWN]]
    context: dict[str, Any] = {"found": shown, "zone": zone().key, "refusal": refusal}
    for report in recent_reports(1):
        s = statement_of(report)
        context |= {"s": s, "linked": True, "change_rows": change_words.rows(s),
                    "change_message": change_words.message(s)}  # fmt: skip
    return page(request, "reports/changes.html", context)


def _with_notes(one: Any, notes: list[Annotation]) -> SimpleNamespace:
    """A proposal with the annotations of its workload near its instant."""
    change = one.change
    near = [
        note
        for note in notes
        if note.workload in ("", change.workload) and abs(note.at - change.at) <= NEAR
    ]
    return SimpleNamespace(change=change, verdict=one.verdict, by=one.by, note=one.note, notes=near)
