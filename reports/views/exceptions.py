"""The exceptions register of a week, and what people decide of each line."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from reports.models import Report
from reports.operations import sealing
from reports.operations.leaving import leave as leave_proposal
from reports.operations.refused import NotAllowed
from reports.queries.proposals import proposal_of
from reports.queries.standing import standing, week_names
from reports.roles import allowed
from reports.widgets import LongSelect

from .page import page, typed


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The exceptions of the newest revision of a week, by default the newest week."""
    weeks = week_names()
    week = typed(request.GET, "week") or (weeks[0] if weeks else "")
    if not weeks:
        return page(request, "reports/exceptions.html", {"weeks": weeks})
    report = Report.objects.filter(week=week).defer("statement").order_by("-revision").first()
    if report is None:
        raise Http404("no such week")
    choice = LongSelect(choices=[(name, name) for name in weeks])
    stand = standing(report)
    rows = [
        entry | {"disposition": stand.dispositions.get(entry["id"])}
        for entry in stand.statement["exceptions"]
    ]
    rows.sort(key=lambda row: row["disposition"] is not None)
    context = {"weeks": weeks, "week": week, "standing": stand, "rows": rows}
    context["proposal"] = proposal_of(report)
    context["week_choice"] = choice.render("week", week, {"id": "week"})
    return page(request, "reports/exceptions.html", context | {"zone": _zone(stand.statement)})


def _zone(statement: dict[str, dict[str, str]]) -> str:
    return statement["period"]["zone"]


@require_POST
@allowed("dispose")
def dispose(request: HttpRequest) -> HttpResponse:
    """Writes a decision on one exception, or the same one on all that are open."""
    week = typed(request.POST, "week")
    wanted = [name.replace("\0", "") for name in request.POST.getlist("exception")]
    text = typed(request.POST, "text")
    try:
        if not wanted:
            raise NotAllowed("Tick at least one exception.")
        for name in wanted:
            sealing.dispose(
                week, name, text=text, by=request.user.get_username(), at=timezone.now()
            )
    except NotAllowed as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, "The decision was written.")
    return redirect(f"{reverse('exceptions')}?week={week}")


@require_POST
@allowed("close")
def leave(request: HttpRequest, week: str) -> HttpResponse:
    """Leaves a proposed restatement with a reason; the sealed report stays."""
    try:
        leave_proposal(
            week,
            text=typed(request.POST, "text"),
            by=request.user.get_username(),
            at=timezone.now(),
        )
    except NotAllowed as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, f"{week} stays as it is sealed. The reason was written.")
    return redirect("report", week=week)
