"""The overview, the guide for a new system, and how things are counted."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_GET

from finops.core.wording import counted_text
from finops.ledger.models import Baseline, Charge, Document, Rule, TokenHour, UsageHour, Workload
from finops.ledger.queries.snapshots import waiting
from finops.ledger.queries.sources import health
from finops.ledger.which import use_ledger
from reports import sheet
from reports.models import Annotation, Report
from reports.queries import kept
from reports.queries.desk import WEEKS, panels
from reports.queries.proposals import proposals
from reports.queries.standing import Standing, shown_reports, standing
from reports.roles import allowed, may, roles_of

from .page import page

MOST_SHOWN = 10


@require_GET
@allowed("read")
def overview(request: HttpRequest) -> HttpResponse:
    """The newest report in short, and what waits for a person."""
    shown = shown_reports(limit=WEEKS)
    context: dict[str, Any] = {"sources": _sources(), "steps": None}
    if shown:
        stand = standing(shown[0])
        context |= _short(stand)
        context |= {"standing": stand, "has_charts": True}
        # The shown revision is what holds; what still has to be done is of the newest one.
        newest = Report.objects.filter(week=stand.week).defer("statement").order_by("-revision")[0]
        context["panels"] = panels(roles_of(request.user), stand, context["sources"], shown)
        context["todo"] = _todo(request, stand if newest == stand.report else standing(newest))
    else:
        context["steps"] = steps()
    context["recent"] = list(
        Annotation.objects.filter(replaced_by__isnull=True).order_by("-at", "-id")[:3]
    )
    return page(request, "reports/overview.html", context)


def _short(stand: Standing) -> dict[str, Any]:
    """The figures and the left column, rendered once for each report."""
    url, lean = reverse("annotations"), _lean(stand.statement)

    def render() -> dict[str, Any]:
        values = sheet.context(lean, sheet.identity(stand), {}, note_url=url)
        values |= {"standing": stand, "linked": True}
        parts = {"strip": "strip", "left": "overview_left"}
        return {
            name: mark_safe(render_to_string(f"reports/parts/{part}.html", values))  # noqa: S308
            for name, part in parts.items()
        }

    return kept.contexts.made(("overview", stand.digest), render) | {"s": stand.statement}


def _lean(statement: dict[str, Any]) -> dict[str, Any]:
    """What the overview shows of a statement: the rest stays in the report."""
    left = {"workloads": statement["workloads"][:MOST_SHOWN], "bridge": None}
    left |= {name: [] for name in ("memory", "memory_hours", "rules", "exceptions", "allocation")}
    return statement | left | {"workload_count": len(statement["workloads"])}


def _sources() -> list[dict[str, Any]]:
    return [row for row in health(timezone.now()) if row["active"]][:8]


def _todo(request: HttpRequest, stand: Standing) -> list[dict[str, str]]:
    """What waits for this person, by role."""
    found = []
    count = len(stand.open_exceptions)
    if stand.is_open and count and may(request.user, "dispose"):
        noun = "exception" if count == 1 else "exceptions"
        found.append(
            {"url": reverse("exceptions"), "text": f"Decide on {count} {noun} of {stand.week}"}
        )
    if stand.is_open and may(request.user, "approve"):
        mine = stand.report.prepared_by == request.user.get_username()
        if not stand.approved_by and not mine:
            found.append({"url": stand_url(stand), "text": f"Approve report {stand.number}"})
        elif stand.approved_by and not count:
            found.append({"url": stand_url(stand), "text": f"Seal report {stand.number}"})
    if may(request.user, "close"):
        found += [
            {
                "url": reverse("report", args=[one.report.week]),
                "text": f"Restate {one.report.week}, or leave it: "
                f"{counted_text(len(one.differences), 'sealed figure')} would change",
            }
            for one in proposals()
        ]
    if may(request.user, "decide") and (snapshots := waiting()):
        found.append(
            {"url": reverse("imports"), "text": f"Decide on {len(snapshots)} waiting snapshots"}
        )
    return found


def stand_url(stand: Standing) -> str:
    """The page of a revision."""
    return reverse("report-revision", kwargs={"week": stand.week, "revision": stand.revision})


def steps() -> list[dict[str, Any]]:
    """The way from an empty system to the first report, of the own ledger."""
    with use_ledger("default"):
        return [
            {
                "title": "Connect Prometheus",
                "done": TokenHour.objects.exists() or UsageHour.objects.exists(),
                "text": "Its counters say how many tokens the engines worked on. No Prometheus "
                "within reach? Hand over a saved answer on the page Imports.",
                "url": "sources",
                "action": "Add a source",
            },
            {
                "title": "Hand over an invoice",
                "done": Charge.objects.exists(),
                "text": "An export in the FOCUS format as CSV, CSV.gz or Parquet.",
                "url": "imports",
                "action": "Upload",
            },
            {
                "title": "Name the workloads",
                "done": Workload.objects.exists(),
                "text": "A workload is one model service on one stack.",
                "url": "workload-add",
                "action": "Add a workload",
            },
            {
                "title": "Say what belongs to them",
                "done": Rule.objects.exists(),
                "text": "Rules match series and charges; a rule shows what it would move first.",
                "url": "rules",
                "action": "Add rules",
            },
            {
                "title": "Set the baseline",
                "done": Baseline.objects.exists(),
                "text": "What the legacy stack cost per million tokens: needed for the saving, "
                "not for the cost.",
                "url": "baselines",
                "action": "Set a baseline",
            },
            {
                "title": "Close the week",
                "done": Report.objects.exists(),
                "text": "Makes the preliminary report; another person approves it.",
                "url": "reports",
                "action": "Close a week",
            },
        ]


@require_GET
@allowed("read")
def guide(request: HttpRequest) -> HttpResponse:
    """The guide on a page of its own, for whoever looks at the sample."""
    with use_ledger("default"):
        empty = not Document.objects.exists()
    return page(request, "reports/guide.html", {"steps": steps(), "empty": empty})


@require_GET
@allowed("read")
def help_page(request: HttpRequest) -> HttpResponse:
    """How things are counted, in words for a finance reader."""
    return page(request, "reports/help.html")
