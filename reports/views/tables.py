"""Lists as CSV: exact figures, nothing rounded."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from finops.core.service_levels import beside_price
from reports import figures, level_columns
from reports.queries.standing import report_of, shown_reports, standing, state_of
from reports.roles import allowed

from .page import typed

FIGURES = (
    "cost_per_million_tokens",
    "tokens_per_dollar",
    "effective_cost",
    "prompt_tokens",
    "generation_tokens",
    "coverage",
    "saving_vs_baseline",
)
OF_MONEY = ("cost", "dollar", "saving")  # figures whose weeks are compared in one currency only


@require_GET
@allowed("read")
def reports_csv(request: HttpRequest) -> HttpResponse:
    """The reports of the list with the same filters, one line a week."""
    state, year = typed(request.GET, "state"), typed(request.GET, "year")
    lines = []
    for report in shown_reports():
        said = state_of(report)
        if (state and said != state) or not report.week.startswith(year):
            continue
        values = [_plain(report.figures.get(name)) for name in FIGURES]
        currency = report.figures.get("currency", "")
        level = [_plain(report.figures.get(name)) for name in level_columns.ORGANISATION]
        lines.append([report.week, report.revision, said, currency, *values, *level, report.digest])
    columns = [*FIGURES, *level_columns.ORGANISATION]
    head = ["week", "revision", "state", "currency", *columns, "digest"]
    return _file("reports.csv", [head, *lines])


@require_GET
@allowed("read")
def compare_csv(request: HttpRequest) -> HttpResponse:
    """Two weeks side by side: the organisation's figures and each workload's."""
    names = typed(request.GET, "left"), typed(request.GET, "right")
    found = [report_of(week) for week in names]
    if not all(found):
        raise Http404("no such report")
    sides = [standing(report).statement for report in found if report is not None]
    same = len({side["currency"] for side in sides}) == 1
    lines: list[list[Any]] = []
    for scope in ("", *sorted({w["slug"] for side in sides for w in side["workloads"]})):
        values = [_figures(side, scope) for side in sides]
        for name in FIGURES:
            pair = [value.get(name) for value in values]
            comparable = same or not any(word in name for word in OF_MONEY)
            change = figures.ratio_change(pair[1], pair[0]) if comparable else None
            shown = "" if change is None else f"{change:.10f}"
            lines.append([scope or "organisation", name, *map(_plain, pair), shown])
        told = [level_columns.shares(_level(side, scope)) for side in sides]
        lines += [
            [scope or "organisation", name, *(_plain(one[name]) for one in told), ""]
            for name in level_columns.ORGANISATION
        ]
    return _file("compare.csv", [["workload", "figure", *names, "relative change"], *lines])


def _figures(statement: dict[str, Any], slug: str) -> dict[str, Any]:
    if not slug:
        return statement["figures"]
    rows = (w["figures"] for w in statement["workloads"] if w["slug"] == slug)
    return next(rows, {})


def _level(statement: dict[str, Any], slug: str) -> dict[str, Any]:
    """What came in time: of a workload, or of the organisation."""
    if not slug:
        return beside_price(statement)
    rows = (row for row in statement.get("service_levels") or () if row["workload"] == slug)
    return next(rows, {})


def _plain(value: Any) -> Any:
    return "" if value is None else value


def _file(name: str, lines: Iterable[Iterable[Any]]) -> HttpResponse:
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    csv.writer(answer).writerows(lines)
    return answer
