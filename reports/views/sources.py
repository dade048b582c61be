"""Sources: adding, testing, health. Always of the own ledger, since that is what they fill."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from finops.core.period import Period, hour_of, parse_instant, rfc3339
from finops.ledger.access import Access
from finops.ledger.models import Series, Source
from finops.ledger.operations import sources
from finops.ledger.queries.explain import Unknown, bounds, explain
from finops.ledger.queries.source_hours import (
    EMPTY,
    PART,
    Events,
    engines_of,
    fetches_of,
    newest_hours,
    source_events,
    source_hours,
)
from finops.ledger.queries.sources import health
from finops.ledger.which import use_ledger
from reports.forms import SourceForm
from reports.heat import event_words, heat_map, runs
from reports.queries.weeks import zone
from reports.roles import allowed, may

from .page import page, typed

MOST_LISTED = 50


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The sources' health, and a form to add one."""
    form = SourceForm(request.POST or None)
    with use_ledger("default"):
        if request.method == "POST":
            if not may(request.user, "sources"):
                return page(request, "403.html", status=403)
            if form.is_valid() and _add(request, form):
                return redirect("sources")
    return page(request, "reports/sources.html", _shown() | {"form": form})


def _shown() -> dict[str, Any]:
    """Health of the own sources; the map is of the ledger that is shown, so the sample has one."""
    now = timezone.now()
    period = newest_hours(now)
    hours, events = source_hours(period), source_events(period)
    with use_ledger("default"):
        rows = health(now)
    return {
        "rows": rows,
        "period": period,
        "zone": zone().key,
        "map": heat_map(period, hours, zone().key, _hour_url, events),
        "incomplete": _stretches(period, hours, PART),
        "empty": _stretches(period, hours, EMPTY),
        "events": _disturbed(events),
    }


def _hour_url(name: str, at: datetime) -> str:
    return f"{reverse('source-hours', args=[name])}?at={rfc3339(at)}"


def _stretches(period: Period, hours: Mapping[str, list[str]], wanted: str) -> list[dict[str, Any]]:
    """The newest stretches of a state, for people who do not use the map."""
    found = [
        {
            "name": name,
            "at": period.start + timedelta(hours=at),
            "hours": length,
            "url": _hour_url(name, period.start + timedelta(hours=at)),
        }
        for name, values in hours.items()
        for state, at, length in runs(values)
        if state == wanted
    ]
    return sorted(found, key=lambda row: (row["at"], row["name"]), reverse=True)[:MOST_LISTED]


def _disturbed(events: Mapping[str, Mapping[datetime, Events]]) -> list[dict[str, Any]]:
    """The newest hours with a restart or the end of a gap, in words."""
    found = [
        {"name": name, "at": at, "words": event_words(one), "url": _hour_url(name, at)}
        for name, mine in events.items()
        for at, one in mine.items()
    ]
    return sorted(found, key=lambda row: (row["at"], row["name"]), reverse=True)[:MOST_LISTED]


@require_GET
@allowed("read")
def source(request: HttpRequest, name: str) -> HttpResponse:
    """One source: what its store says of itself, how far it was read, and what to mind."""
    row = _health_of(name)
    if row is None:
        raise Http404("no such source")
    return page(request, "reports/source.html", {"row": row, "zone": zone().key})


def _health_of(name: str) -> dict[str, Any] | None:
    """The health of one of the own sources, else of the sample's while the sample is shown."""
    now = timezone.now()
    with use_ledger("default"):
        own = next((one for one in health(now) if one["name"] == name), None)
    return own or next((one for one in health(now) if one["name"] == name), None)


@require_GET
@allowed("read")
def row(request: HttpRequest, series: int, hour: str) -> HttpResponse:
    """The readings behind one row of the token ledger, and the arithmetic (`explain`)."""
    try:
        one, at = Series.objects.get(pk=series), hour_of(parse_instant(hour))
        found = explain(one, at)
    except (Series.DoesNotExist, Unknown, ValueError, OverflowError):
        raise Http404("no such row") from None
    context = {"found": found, "bounds": bounds(one, at), "zone": zone().key}
    context["source"] = one.target.source.name
    return page(request, "reports/ledger_row.html", context)


@require_GET
@allowed("read")
def hours(request: HttpRequest, name: str) -> HttpResponse:
    """What was asked of a source about one hour, and what it answered."""
    if not Source.objects.filter(name=name).exists():
        raise Http404("no such source")
    try:
        at = hour_of(parse_instant(typed(request.GET, "at")))
        period = Period(at - timedelta(hours=1), at + timedelta(hours=1))
        rows = fetches_of(name, at)
    except (ValueError, OverflowError):  # the calendar's first and last hour have no neighbour
        raise Http404("no such hour") from None
    context = {"name": name, "at": at, "rows": rows, "zone": zone().key}
    context["engines"] = engines_of(name, at)
    context["hour"] = rfc3339(at)
    context |= {"before": period.start, "after": period.end}
    return page(request, "reports/source_hours.html", context)


def _add(request: HttpRequest, form: SourceForm) -> bool:
    values = form.cleaned_data
    try:
        sources.add_source(
            values["name"],
            values["url"],
            by=request.user.get_username(),
            at=timezone.now(),
            matchers=values["matchers"],
            secret=values["secret"],
            user=values["user"],
            replica_labels=values["replica_labels"],
            tenant=values["tenant"],
            product=values["product"],
            region=values["region"],
        )
    except sources.SourceRefused as refused:
        form.add_error(None, str(refused))
        return False
    messages.success(request, f"Source {values['name']} was added. It is collected every hour.")
    return True


@require_POST
@allowed("sources")
def test(request: HttpRequest) -> HttpResponse:
    """Asks a store about its last hour, without keeping anything."""
    form = SourceForm(request.POST)
    context: dict[str, object] = {"form": form}
    if form.is_valid():
        values = form.cleaned_data
        access = Access(
            values["url"],
            values["secret"],
            values["user"],
            "identity",
            values["tenant"],
            values["product"],
            values["region"],
        )
        context["tested"] = sources.test_access(access, values["matchers"], at=timezone.now())
    return page(request, "reports/sources.html", _shown() | context)


@require_POST
@allowed("sources")
def set_active(request: HttpRequest, name: str) -> HttpResponse:
    """Stops or starts collecting a source."""
    with use_ledger("default"):
        try:
            sources.set_active(
                name,
                typed(request.POST, "active") == "1",
                by=request.user.get_username(),
                at=timezone.now(),
            )
        except sources.SourceRefused as refused:
            messages.error(request, str(refused))
    return redirect("sources")
