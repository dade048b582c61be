"""The auditor's pages: verifying a report or a file, the trail, samples for a walk-through (§11)."""

from __future__ import annotations

import json
import secrets
import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_http_methods

from finops.trail import queries
from finops.trail.models import Entry
from reports import walkthrough
from reports.evidence.sealed import Gone
from reports.lineage import sampled
from reports.models import Seal
from reports.operations import drawing, verification
from reports.operations.refused import NotAllowed
from reports.queries.standing import Standing, report_of, standing
from reports.roles import allowed

from .page import page, typed

ACTS_A_PAGE = 50
MOST_SAMPLED = 100
LONGEST_SEED = 100
HIGHEST = 2**63 - 1


@require_http_methods(["GET", "POST"])
@allowed("audit")
def verify(request: HttpRequest) -> HttpResponse:
    """What can be verified: a sealed report, a file, or all seals and the trail."""
    if request.method == "POST":
        by, at = request.user.get_username(), timezone.now()
        try:
            if request.POST.get("what") == "file":
                file = request.FILES.get("file")
                if file is None:
                    raise NotAllowed("Choose a file.")
                key = verification.ask(by=by, at=at, file=file)
            elif request.POST.get("what") == "report":
                week, _, revision = typed(request.POST, "report").partition("/")
                number = _number(revision)
                if not week or number is None:
                    raise NotAllowed("Choose a sealed report.")
                key = verification.ask(by=by, at=at, week=week, revision=number)
            else:
                key = verification.ask(by=by, at=at)
        except NotAllowed as refused:
            messages.error(request, str(refused))
            return redirect("verify")
        return redirect("verified", key=key)
    made = Entry.objects.filter(action=verification.ACTION).order_by("-number")[:10]
    context = {"sealed": _sealed(), "seals": Seal.objects.count(), "made": list(made)}
    return page(request, "reports/verify.html", context | {"chosen": typed(request.GET, "report")})


def _sealed() -> list[str]:
    """The sealed reports, newest first, as `week/revision`."""
    rows = Seal.objects.order_by("-number").values_list("report__week", "report__revision")
    return [f"{week}/{revision}" for week, revision in rows]


def _number(text: str) -> int | None:
    """A whole number that the database can hold; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


@require_GET
@allowed("audit")
def verified(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """One check: how far it has come, and what it found."""
    found = verification.shown(str(key))
    if found is None:
        raise Http404("no such check")
    unchecked = [name for step in found["steps"] for name in step.get("not_checked", ())]
    context: dict[str, Any] = {"found": found, "not_checked": unchecked}
    context["refresh_seconds"] = None if found["done"] or "given_up" in found else 2
    return page(request, "reports/verified.html", context)


@require_GET
@allowed("audit")
def trail(request: HttpRequest) -> HttpResponse:
    """Who did what, newest first, filtered; with the head of the chain."""
    asked = {name: typed(request.GET, name) for name in ("actor", "action", "about")}
    before = typed(request.GET, "before")
    found = queries.entries(
        **{name: value for name, value in asked.items() if value},
        before=min(int(before[:20]), HIGHEST) if before.isascii() and before.isdigit() else None,
        limit=ACTS_A_PAGE + 1,
    )
    head = queries.head()
    rows = [{"act": one, "told": _told(one.detail)} for one in found[:ACTS_A_PAGE]]
    context: dict[str, Any] = {"rows": rows, "actions": queries.actions(), "asked": asked}
    context |= {"head": head, "anchor": _anchor(), "before": before, "query": urlencode(asked)}
    if len(found) > ACTS_A_PAGE:
        context["older"] = found[ACTS_A_PAGE - 1].number
    return page(request, "reports/trail.html", context)


def _told(detail: dict[str, Any]) -> list[tuple[str, str]]:
    """What an entry tells, name by name, as text."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in queries.brief(detail).items()
    ]


def _anchor() -> dict[str, Any] | None:
    """The newest seal, and the head of the trail that it bears."""
    seal = Seal.objects.select_related("report").order_by("-number").first()
    if seal is None:
        return None
    told = (standing(seal.report).seal or {}).get("trail")
    there = told and Entry.objects.filter(number=told["entries"], digest=told["head"]).exists()
    return {"report": seal.report, "told": told, "there": there}


@require_http_methods(["GET", "POST"])
@allowed("audit")
def sampler(request: HttpRequest) -> HttpResponse:
    """Draws rows of a report by a seed, notes it in the trail, and leads to the sheet."""
    if request.method == "GET":
        made = Entry.objects.filter(action=drawing.ACTION).order_by("-number")[:10]
        context = {"sealed": _sealed(), "most": MOST_SAMPLED, "made": list(made)}
        return page(request, "reports/sampler.html", context)
    week, _, revision = typed(request.POST, "report").partition("/")
    count, number = _number(typed(request.POST, "rows", "10")), _number(revision)
    seed = typed(request.POST, "seed")[:LONGEST_SEED] or secrets.token_hex(8)
    report = report_of(week, number) if number is not None else None
    if report is None or count is None or not 1 <= count <= MOST_SAMPLED:
        messages.error(request, f"Choose a report, and from 1 to {MOST_SAMPLED} rows.")
        return redirect("sampler")
    stand = standing(report)
    try:
        rows = sampled(stand, count, seed)
    except Gone as gone:
        messages.error(request, str(gone))
        return redirect("sampler")
    by = request.user.get_username()
    drawing.drawn(stand, rows, seed=seed, count=count, by=by, at=timezone.now())
    address = reverse("sample-sheet", kwargs={"week": week, "revision": stand.revision})
    return redirect(f"{address}?{urlencode({'rows': str(count), 'seed': seed})}")


@require_GET
@allowed("audit")
def sheet(request: HttpRequest, week: str, revision: int) -> HttpResponse:
    """The walk-through sheet of a sample: the same rows for the same seed, whoever asks."""
    report = report_of(week, revision)
    count, seed = _number(typed(request.GET, "rows", "10")), typed(request.GET, "seed")
    if report is None or not seed or count is None or not 1 <= count <= MOST_SAMPLED:
        raise Http404("no such sample")
    stand = standing(report)
    context: dict[str, Any] = {"stand": stand, "seed": seed, "count": count}
    try:
        rows = walkthrough.steps(sampled(stand, count, seed))
    except Gone as gone:
        return page(request, "reports/sample_sheet.html", context | {"gone": str(gone)})
    context |= {"rows": rows, "is_whole": walkthrough.is_whole(rows)}
    return page(
        request, "reports/sample_sheet.html", context | {"drawn": _drawn(stand, seed, count)}
    )


def _drawn(stand: Standing, seed: str, count: int) -> Entry | None:
    """The trail's first entry that says this sample was drawn."""
    return (
        Entry.objects.filter(
            action=drawing.ACTION,
            subject=f"report {stand.week}",
            detail__seed=seed,
            detail__rows=count,
        )
        .order_by("number")
        .first()
    )
