"""The list of reports, one report, two side by side, paper, and the acts on a report."""

from __future__ import annotations

import csv
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_GET, require_POST

from finops.core.canonical import canonical_bytes, digest
from finops.core.service_levels import beside_price
from reports import figures, level_columns, level_words, paper, sheet
from reports.models import Report
from reports.operations import closing, printing, sealing
from reports.operations.refused import NotAllowed
from reports.queries import kept, papers
from reports.queries.proposals import proposal_of
from reports.queries.standing import (
    FINAL,
    Standing,
    has_report,
    report_of,
    shown_reports,
    standing,
    state_of,
    week_names,
)
from reports.roles import allowed, may
from reports.widgets import LongSelect

from .downloads import noted
from .page import page, typed

WEEKS_A_PAGE = 26
STATES = ("preliminary", "in review", "final")
COMPARED = (
    ("cost_per_million_tokens", "Cost per million tokens", "price"),
    ("cost_per_million_prompt_tokens", "… of prompt tokens", "price"),
    ("cost_per_million_generation_tokens", "… of generation tokens", "price"),
    ("tokens_per_dollar", "Tokens per unit of money", "whole"),
    ("effective_cost", "Effective cost", "money"),
    ("prompt_tokens", "Prompt tokens", "whole"),
    ("generation_tokens", "Generation tokens", "whole"),
    ("coverage", "Coverage", "coverage"),
    ("saving_vs_baseline", "Saving against the legacy stack", "money"),
)
OF_MONEY = {name for name, _, kind in COMPARED if kind in ("price", "money")} | {
    "tokens_per_dollar"
}


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The weeks, newest first, half a year a page; filtered by state and year."""
    names = week_names()
    state, year = typed(request.GET, "state"), typed(request.GET, "year")
    wanted = [name for name in names if name.startswith(year)]
    pages: Paginator[Any]
    if state:  # follows from what happened to each report, so all of them are looked at
        rows = [_row(report) for report in shown_reports(weeks_wanted=wanted)]
        rows = [row for row in rows if row["state"] == state]
        pages = Paginator(rows, WEEKS_A_PAGE)
        shown = list(pages.get_page(request.GET.get("page")))
    else:
        pages = Paginator(wanted, WEEKS_A_PAGE)
        part = pages.get_page(request.GET.get("page"))
        shown = [_row(report) for report in shown_reports(weeks_wanted=part)]
    context = {"rows": shown, "states": STATES, "state": state, "year": year, "any": bool(names)}
    context |= {"years": sorted({name[:4] for name in names}, reverse=True)}
    context |= {"part": pages.get_page(request.GET.get("page")), "pages": pages.num_pages}
    return page(request, "reports/list.html", context)


def _row(report: Report) -> dict[str, Any]:
    return {
        "week": report.week,
        "revision": report.revision,
        "state": state_of(report),
        "headline": report.headline,
        "figures": report.figures,
        "digest": report.digest,
    }


def _found(week: str, revision: int | None = None) -> Standing:
    report = report_of(week, revision)
    if report is None:
        raise Http404("no such report")
    return standing(report)


@require_GET
@allowed("read")
def report(request: HttpRequest, week: str, revision: int | None = None) -> HttpResponse:
    """One report, with what may be done about it."""
    stand = _found(week, revision)
    before = _week_before(stand)
    context: dict[str, Any] = {
        "layout": "reports/on_screen.html",
        "article": _article(request, stand, before),
        "week_before": before,
        "s": stand.statement,
        "stand": sheet.identity(stand),
        "has_charts": True,
        "actions": True,
        "standing": stand,
        "blocks": sealing.blocks(stand) if stand.is_open else [],
        "waivable": sealing.unsigned(stand),
        "is_newest": stand.revision == stand.newest_revision,
        "revisions": _revisions(week),
        "proposal": proposal_of(stand.report) if stand.state == FINAL else None,
    }
    if stand.report.reason and stand.revision > 1:
        earlier = report_of(week, stand.revision - 1)
        if earlier:
            old = standing(earlier).statement
            context["differences"] = sheet.differences(old, stand.statement)
    return page(request, "reports/report.html", context)


def _week_before(stand: Standing) -> str:
    """The week the report was compared with when it has a report to lead to, else empty: before
    the first report ever closed, the comparison is with the ledger alone."""
    week = (stand.statement["previous"] or {}).get("week", "")
    return week if week and has_report(week) else ""


def _article(request: HttpRequest, stand: Standing, before: str) -> SafeString:
    """The report itself, rendered once for all who may do the same: it only changes with what
    is said in it, who has signed, and whether the week before has a report to lead to."""
    can = {"annotate": may(request.user, "annotate")}
    identity = sheet.identity(stand)
    shown = {"stand": identity, "dispositions": stand.dispositions, "can": can, "before": before}
    key = (papers.BUILD, stand.digest, digest(canonical_bytes(shown)))

    def render() -> str:
        note_url = reverse("annotations")
        context = sheet.context(stand.statement, identity, stand.dispositions, note_url=note_url)
        more = {"linked": True, "can": can, "standing": stand, "week_before": before}
        return render_to_string("reports/article.html", context | more)

    return mark_safe(kept.articles.made(key, render))  # noqa: S308 - a rendered template


def _revisions(week: str) -> list[dict[str, Any]]:
    rows = Report.objects.filter(week=week).defer("statement").prefetch_related("events")
    return [
        {"revision": row.revision, "state": state_of(row), "at": row.created_at}
        for row in rows.order_by("revision")
    ]


@require_GET
@allowed("read")
def compare(request: HttpRequest) -> HttpResponse:
    """Two weeks side by side."""
    weeks = week_names()
    right = typed(request.GET, "right") or (weeks[0] if weeks else "")
    left = typed(request.GET, "left") or (weeks[1] if len(weeks) > 1 else right)
    context: dict[str, Any] = {"weeks": weeks, "left": left, "right": right}
    if weeks:
        a, b = _found(left), _found(right)
        context["tables"] = _side_by_side(a, b)
        choice = LongSelect(choices=[(week, week) for week in weeks])
        for name, week in (("left", left), ("right", right)):
            context[f"{name}_choice"] = choice.render(name, week, {"id": name})
    return page(request, "reports/compare.html", context)


def _side_by_side(a: Standing, b: Standing) -> SafeString:
    """The tables of two reports, rendered once."""

    def render() -> str:
        values = {"a": a, "b": b, "rows": _compared(a, b), "workloads": _workloads(a, b)}
        values["same_currency"] = same_currency(a.statement, b.statement)
        return render_to_string("reports/parts/side_by_side.html", values)

    key = (papers.BUILD, a.digest, b.digest, a.state, b.state)
    return mark_safe(kept.articles.made(key, render))  # noqa: S308 - a rendered template


def _compared(a: Standing, b: Standing) -> list[dict[str, Any]]:
    same = same_currency(a.statement, b.statement)
    return [
        _pair(
            label,
            kind,
            a.statement["figures"].get(name),
            b.statement["figures"].get(name),
            same or name not in OF_MONEY,
        )
        for name, label, kind in COMPARED
    ] + [
        {
            "label": f"In time: {word}",
            "before": level_words.share(old),
            "after": level_words.share(new),
            "change": "–",
        }
        for name, word in level_words.MEASURES.items()
        for old, new in [[beside_price(side.statement)[name] for side in (a, b)]]
    ]


def same_currency(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two statements' amounts may be compared (method §3.9)."""
    return bool(a["currency"] == b["currency"])


def _pair(
    label: str, kind: str, before: Any, after: Any, comparable: bool = True
) -> dict[str, Any]:
    show = getattr(figures, kind)
    change = figures.ratio_change(after, before) if comparable else None
    return {
        "label": label,
        "before": show(before),
        "after": show(after),
        "change": None if change is None else figures.percent(change, 1, sign=True),
    }


def _workloads(a: Standing, b: Standing) -> list[dict[str, Any]]:
    name = "cost_per_million_tokens"
    old = {w["slug"]: w["figures"].get(name) for w in a.statement["workloads"]}
    new = {w["slug"]: w["figures"].get(name) for w in b.statement["workloads"]}
    slugs = sorted({*old, *new})
    same = same_currency(a.statement, b.statement)
    levels = [level_words.levels(side.statement) for side in (a, b)]
    return [
        _pair(slug, "price", old.get(slug), new.get(slug), same)
        | {f"level_{side}": (of.get(slug) or {}).get("in_time")
           for side, of in zip(("before", "after"), levels, strict=True)}
        for slug in slugs
    ]  # fmt: skip


@require_GET
@allowed("read")
def on_paper(request: HttpRequest, week: str, revision: int) -> HttpResponseBase:
    """The PDF when it is there; else it is asked for and the page waits for it."""
    stand = _found(week, revision)
    size = request.GET.get("size", "A4")
    if size not in paper.SIZES:
        raise Http404("no such paper size")
    key = papers.key_of(stand, size)
    path = papers.path_of(key)
    if path.exists():
        signed = papers.path_of(key, "signed.pdf")
        is_signed = signed.exists() and "unsigned" not in request.GET
        name = f"report-{week}-{revision}-{stand.state.replace(' ', '-')}.pdf"
        noted(request, stand, f"PDF, {size}" + (", signed" if is_signed else ""))
        chosen = signed if is_signed else path
        return FileResponse(chosen.open("rb"), as_attachment=True, filename=name)
    failed = papers.path_of(key, "failed")
    context: dict[str, Any] = {"stand": stand, "size": size}
    if failed.exists() and "again" not in request.GET:
        return page(request, "reports/paper_wait.html", context | {"failed": True}, status=500)
    reached = printing.ask(stand, size)
    context |= {"reached": reached, "refresh_seconds": 2 if reached else None}
    return page(request, "reports/paper_wait.html", context, status=202 if reached else 503)


@require_GET
@allowed("read")
def as_csv(request: HttpRequest, week: str, revision: int) -> HttpResponse:
    """The workloads' exact figures as CSV; nothing is rounded."""
    stand = _found(week, revision)
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="report-{week}-{revision}.csv"'
    noted(request, stand, "CSV of workloads")
    rows = stand.statement["workloads"]
    names = sorted({name for row in rows for name in row["figures"]})
    writer = csv.writer(answer)
    levels = {one["workload"]: one for one in stand.statement.get("service_levels") or []}
    columns = ["week", "revision", "state", "currency", "workload", "model"]
    writer.writerow([*columns, *names, *level_columns.NAMES])
    for row in rows:
        values = ["" if row["figures"].get(n) is None else row["figures"][n] for n in names]
        head = [week, revision, stand.state, stand.statement["currency"]]
        values += level_columns.values(levels.get(row["slug"]))
        writer.writerow([*head, _safe(row["slug"]), _safe(row["model"]), *values])
    return answer


def _safe(text: str) -> str:
    """Text a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


@require_POST
@allowed("close")
def close(request: HttpRequest) -> HttpResponse:
    """Closes a week and shows its report."""
    now = timezone.now()
    try:
        week = closing.week_asked(typed(request.POST, "week", "latest") or "latest", now)
        closed = closing.close_week(week, by=request.user.get_username(), at=now)
    except NotAllowed as refused:
        messages.error(request, str(refused))
        return redirect((typed(request.POST, "back") == "overview" and "overview") or "reports")
    if closed.is_new:
        messages.success(request, f"Report {closed.report} was made.")
    elif closed.differences:
        messages.warning(
            request,
            f"{week} is sealed. {len(closed.differences)} figures would change: restate the week "
            "with a reason if they should.",
        )
    else:
        messages.info(request, f"Nothing has changed since {closed.report}.")
    return redirect("report-revision", week=week, revision=closed.report.revision)


@require_POST
@allowed("close")
def restate(request: HttpRequest, week: str) -> HttpResponse:
    """A new revision of a sealed week."""
    try:
        closed = closing.restate(
            week,
            reason=typed(request.POST, "reason"),
            by=request.user.get_username(),
            at=timezone.now(),
        )
    except NotAllowed as refused:
        messages.error(request, str(refused))
        return redirect("report", week=week) if report_of(week) else redirect("reports")
    return redirect("report-revision", week=week, revision=closed.report.revision)


@require_POST
@allowed("approve")
def act(request: HttpRequest, week: str, revision: int, kind: str) -> HttpResponse:
    """Reviews, approves, sends back, waives or seals."""
    stand = _found(week, revision)
    by, at = request.user.get_username(), timezone.now()
    comment = typed(request.POST, "comment")
    try:
        if kind == "review":
            sealing.review(stand.report, by=by, at=at, comment=comment)
        elif kind == "approve":
            sealing.approve(stand.report, by=by, at=at, comment=comment)
        elif kind == "return":
            sealing.send_back(stand.report, by=by, at=at, comment=comment)
        elif kind == "waive":
            what, _, subject = typed(request.POST, "waived").partition(" ")
            sealing.waive(stand.report, what, subject, text=comment, by=by, at=at)
        elif kind == "seal":
            sealing.seal(stand.report, by=by, at=at)
        else:
            raise Http404("no such act")
    except NotAllowed as refused:
        messages.error(request, str(refused))
    else:
        done = {"review": "reviewed", "approve": "approved", "return": "sent back",
                "waive": "given a waiver"}  # fmt: skip
        messages.success(request, f"Report {stand.number} was {done.get(kind, 'sealed')}.")
    return redirect("report-revision", week=week, revision=revision)


__all__ = ["FINAL", "act", "as_csv", "close", "compare", "listing", "on_paper", "report", "restate"]
