"""Workloads: the list, one workload over time, adding one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from finops.ledger.models import Workload
from finops.ledger.operations.workloads import NotAccepted, add_workload
from finops.ledger.queries.workloads import workload_rows
from reports import charts, figures
from reports.forms import WorkloadForm
from reports.queries.notes import current_annotations
from reports.queries.standing import recent_statements
from reports.roles import allowed

from .page import page

WEEKS = 12


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """All workloads with their newest figures."""
    newest = recent_statements(1)
    said = {w["slug"]: w for w in newest[0]["workloads"]} if newest else {}
    rows = [row | {"said": said.get(row["slug"])} for row in workload_rows()]
    context = {"rows": rows, "week": newest[0]["period"]["week"] if newest else None}
    context["currency"] = newest[0]["currency"] if newest else "USD"
    return page(request, "reports/workloads.html", context)


@require_http_methods(["GET", "POST"])
@allowed("allocate")
def add(request: HttpRequest) -> HttpResponse:
    """A new workload."""
    form = WorkloadForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            add_workload(**form.cleaned_data, by=request.user.get_username(), at=timezone.now())
        except NotAccepted as refused:
            form.add_error(None, str(refused))
        else:
            messages.success(request, "The workload was added. Rules say what belongs to it.")
            return redirect("rules")
    return page(request, "reports/workload_add.html", {"form": form})


@require_GET
@allowed("read")
def workload(request: HttpRequest, slug: str) -> HttpResponse:
    """One workload: its newest figures, its weeks, its memory and what happened to it."""
    slug = slug.replace("\0", "")
    statements = recent_statements(WEEKS)
    weeks = [_week(statement, slug) for statement in statements]
    row = next((w["row"] for w in reversed(weeks) if w["row"]), None)
    known = Workload.objects.filter(slug=slug).first()
    if row is None and known is None:
        raise Http404("no such workload")
    newest = statements[-1] if statements else None
    memory = [m for m in (newest or {}).get("memory", []) if m["workload"] == slug]
    context: dict[str, Any] = {
        "slug": slug,
        "known": known,
        "w": row,
        "weeks": weeks[::-1],
        "charts": _charts(weeks, memory, newest["currency"] if newest else "USD"),
        "memory": memory,
        "s": newest,
        "notes": current_annotations(workload=slug)[::-1][:20],
    }
    return page(request, "reports/workload.html", context)


def _week(statement: dict[str, Any], slug: str) -> dict[str, Any]:
    row = next((w for w in statement["workloads"] if w["slug"] == slug), None)
    return {"week": statement["period"]["week"], "row": row}


def _charts(
    weeks: list[dict[str, Any]], memory: list[dict[str, Any]], currency: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    values: list[Decimal | None] = [
        figures.decimal(w["row"]["figures"].get("cost_per_million_tokens")) if w["row"] else None
        for w in weeks
    ]
    if any(value is not None for value in values):
        trend = charts.Columns(
            id="workload-trend",
            title="Cost per million tokens by week",
            unit=f"{currency} per million tokens",
            labels=[w["week"].partition("-")[2] for w in weeks],
            values=values,
        )
        found["trend"] = charts.svg(trend)
    if chart := charts.memory_chart(memory, "workload-"):
        found["memory"] = charts.svg(chart)
        found["memory_unit"] = chart.unit
    return found
