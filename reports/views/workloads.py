"""Workloads: the list, one workload over time, adding one."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.views.decorators.http import (
    require_GET,
    require_http_methods,
    require_POST,
)

from finops.core.period import Period
from finops.ledger.models import Workload
from finops.ledger.operations import adopting
from finops.ledger.operations.objectives import set_objective
from finops.ledger.operations.workloads import NotAccepted, add_workload
from finops.ledger.queries.discovery import proposed_workloads
from finops.ledger.queries.service_levels import objective_rows
from finops.ledger.queries.workload_hours import workload_hours
from finops.ledger.queries.workloads import workload_rows
from reports import charts, figures, level_words
from reports.forms import ObjectiveForm, WorkloadForm
from reports.memory_words import memory_blocks
from reports.models import Report
from reports.queries import kept
from reports.queries.kept import workload_weeks
from reports.queries.notes import as_statement, current_annotations
from reports.queries.standing import recent_reports, statement_of
from reports.queries.weeks import zone
from reports.roles import allowed

from .page import note_sample, page, typed

WEEKS = 12
FIRST_OF_ALL = "2000-01-02"  # an objective without a day begins before every reading


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """All workloads with their newest figures."""
    reports = recent_reports(1)
    newest = [statement_of(report) for report in reports]
    said = {w["slug"]: w for w in newest[0]["workloads"]} if newest else {}
    levels = level_words.levels(newest[0]) if newest else {}
    rows = workload_rows()
    week = newest[0]["period"]["week"] if newest else None
    currency = newest[0]["currency"] if newest else "USD"

    def render() -> str:
        shown = [
            row | {"said": said.get(row["slug"]), "level": levels.get(row["slug"])} for row in rows
        ]
        values = {"rows": shown, "week": week, "currency": currency}
        return render_to_string("reports/parts/workload_table.html", values)

    key = ("workloads", tuple(report.digest for report in reports), repr(rows))
    table = mark_safe(kept.articles.made(key, render))  # noqa: S308 - a rendered template
    context = {"rows": rows, "table": table, "proposed": proposed_workloads(timezone.now())}
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
            note_sample(request)
            return redirect("rules")
    return page(request, "reports/workload_add.html", {"form": form})


@require_POST
@allowed("allocate")
def adopt(request: HttpRequest) -> HttpResponse:
    """Makes what was found a workload, with the rule that reaches it."""
    matchers = typed(request.POST, "matchers")
    try:
        made = adopting.adopt(matchers, by=request.user.get_username(), at=timezone.now())
    except NotAccepted as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, f"{made.slug} has a rule of its own now.")
        note_sample(request)
    return redirect("workloads")


@require_GET
@allowed("read")
def workload(request: HttpRequest, slug: str) -> HttpResponse:
    """One workload: its newest figures, its weeks, its memory and what happened to it."""
    return _shown(request, slug.replace("\0", ""), ObjectiveForm())


@require_POST
@allowed("allocate")
def objective(request: HttpRequest, slug: str) -> HttpResponse:
    """A new service level objective of a workload."""
    slug = slug.replace("\0", "")
    form = ObjectiveForm(request.POST)
    if form.is_valid():
        values = form.cleaned_data
        day = values.pop("valid_from")
        since = datetime.combine(day, time(), tzinfo=zone()).astimezone(UTC) if day else None
        by, at = request.user.get_username(), timezone.now()
        try:
            set_objective(slug, **values, valid_from=since, by=by, at=at)
        except NotAccepted as refused:
            form.add_error(None, str(refused))
        else:
            messages.success(request, "The objective was set; reports closed from now on use it.")
            note_sample(request)
            return redirect("workload", slug=slug)
    return _shown(request, slug, form)


def _shown(request: HttpRequest, slug: str, form: ObjectiveForm) -> HttpResponse:
    reports = recent_reports(WEEKS)
    rows = workload_weeks(reports, slug)
    newest = statement_of(reports[-1]) if reports else None
    weeks = [
        {
            "week": r.week,
            "row": row,
            "level": level_words.level(row.get("level")) if row else None,
            "other": _other_currency(r, newest),
        }
        for r, row in zip(reports, rows, strict=True)
    ]
    row = next((w["row"] for w in reversed(weeks) if w["row"]), None)
    known = Workload.objects.filter(slug=slug).first()
    if row is None and known is None:
        raise Http404("no such workload")
    context: dict[str, Any] = {
        "slug": slug,
        "known": known,
        "w": row,
        "level": level_words.level(row.get("level")) if row else None,
        "objectives": [
            one | {"words": level_words.objective(one), "always": one["valid_from"] < FIRST_OF_ALL}
            for one in objective_rows(slug)
        ],
        "objective_form": form,
        "weeks": weeks[::-1],
        "has_charts": True,
        **_drawn(reports, weeks, newest, slug),
        "s": newest,
        "zone": zone().key,
        "notes": current_annotations(workload=slug)[::-1][:20],
    }
    return page(request, "reports/workload.html", context)


def _other_currency(report: Report, newest: dict[str, Any] | None) -> str:
    """The currency of a week that was told in another one than the newest: never drawn beside it."""
    told = str(report.figures.get("currency") or "")
    return told if newest and told and told != newest["currency"] else ""


def _drawn(
    reports: list[Report], weeks: list[dict[str, Any]], newest: dict[str, Any] | None, slug: str
) -> dict[str, Any]:
    """The charts of the weeks and of the newest week's hours, drawn once for what they show."""
    if newest is None:
        return {"charts": {}, "kv": None}
    start, end = (figures.as_datetime(newest["period"][name]) for name in ("start", "end"))
    assert start is not None and end is not None
    notes = as_statement(current_annotations(Period(start, end), slug))
    key = (slug, tuple(report.digest for report in reports), repr(notes))
    return kept.contexts.made(
        key,
        lambda: {
            "charts": _charts(weeks, newest["currency"]),
            "kv": _memory(newest, slug, notes),
        },
    )


def _charts(weeks: list[dict[str, Any]], currency: str) -> dict[str, Any]:
    values: list[Decimal | None] = [
        figures.decimal(w["row"]["figures"].get("cost_per_million_tokens"))
        if w["row"] and not w["other"]
        else None
        for w in weeks
    ]
    if not any(value is not None for value in values):
        return {}
    trend = charts.Columns(
        id="workload-trend",
        title="Cost per million tokens by week",
        unit=f"{currency} per million tokens",
        labels=[w["week"].partition("-")[2] for w in weeks],
        values=values,
    )
    return {"trend": charts.on_screen(trend)}


def _memory(
    statement: dict[str, Any], slug: str, notes: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """The newest week's hours of the workload, with its engines and annotations as they are now."""
    rows = [m for m in statement.get("memory") or [] if m["workload"] == slug]
    hours = [h for h in statement.get("memory_hours") or [] if h["workload"] == slug]
    lean = statement | {"memory": rows, "memory_hours": hours, "annotations": notes}
    defined = charts.of_statement(lean, "workload-")
    url = f"{reverse('annotations')}?workload={quote(slug)}"
    drawn = {name: charts.on_screen(chart, url) for name, chart in defined.items()}
    blocks = memory_blocks(lean, defined, drawn)
    return blocks[0] if blocks else None


@require_GET
@allowed("read")
def hours(request: HttpRequest, slug: str) -> HttpResponse:
    """The newest hours of a workload, each a place an annotation can be written at."""
    slug = slug.replace("\0", "")
    if not Workload.objects.filter(slug=slug).exists():
        raise Http404("no such workload")
    rows = workload_hours(slug)
    most = max((row.prompt or 0) + (row.generation or 0) for row in rows) if rows else 0
    context = {"slug": slug, "rows": rows, "most": most or 1, "zone": zone().key}
    return page(request, "reports/workload_hours.html", context)
