"""GPU memory: what was reserved and in use, card by card, and what engines said when they started."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from finops.core.auditor import PER_CENT, UNITS, asked, figures_of, find
from finops.core.money import plain
from finops.core.period import week_of
from finops.ledger.models import EngineStart, Workload
from finops.ledger.queries.evidence import Evidence
from finops.ledger.queries.memory import memory_rows
from finops.ledger.queries.memory_by_hour import measured_hours
from finops.ledger.which import use_ledger
from finops.sources import engine_log
from finops.sources.records import EngineStartRecord, Refused
from reports.forms_data import LogForm
from reports.memory_by_hour import stacked
from reports.memory_lines import bar_of, lines_of, remedy_words, seen_on_device, together
from reports.operations.refused import NotAllowed
from reports.operations.uploads import clean_name, take
from reports.queries.gauge_weeks import GaugeWeeks, gauge_weeks
from reports.queries.notes import current_annotations
from reports.queries.weeks import zone
from reports.roles import allowed, may

from .page import page, typed

NUMBER_UNITS = (*UNITS, PER_CENT)
VIEWS = (("workload", "Workload"), ("engine", "Engine"), ("gpu", "GPU"))
ROWS_A_PAGE = 50
STARTS_SHOWN = 20


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The memory table of a week: the fleet line by line, then each workload, engine or GPU."""
    weeks = gauge_weeks()
    week = _asked(request, weeks)
    by = typed(request.GET, "by", "workload")
    if by not in dict(VIEWS):
        raise Http404("The table is by workload, engine or gpu.")
    context: dict[str, Any] = {"weeks": weeks.names, "week": week, "by": by, "views": VIEWS}
    context |= {"label": dict(VIEWS)[by], "starts": _starts(), "zone": zone().key}
    if week is not None:
        period = week_of(week, zone())
        fleet = next(iter(memory_rows(period)), None)
        cards = memory_rows(period, "gpu")
        rows = Paginator(cards if by == "gpu" else memory_rows(period, by), ROWS_A_PAGE)
        context |= {"fleet": fleet and _fleet(fleet, cards), "period": period}
        context["rows"] = shown = rows.get_page(request.GET.get("page"))
        _tell_apart(rows.object_list)
        context["details"] = [_shown(row) for row in shown]
        context |= _elsewhere(request, cards)
    return page(request, "reports/memory.html", context)


@require_GET
@allowed("read")
def by_hour(request: HttpRequest) -> HttpResponse:
    """The memory table hour by hour, of the fleet or of one workload, as an area and as rows."""
    weeks = gauge_weeks()
    week = _asked(request, weeks)
    if week is None:
        return redirect("memory")
    slug = typed(request.GET, "workload")
    known = list(Workload.objects.order_by("slug").values_list("slug", flat=True))
    if slug and slug not in known:
        raise Http404("no such workload")
    period = week_of(week, zone())
    found = measured_hours(period, slug or None)
    notes = current_annotations(period, slug or None)
    context: dict[str, Any] = {"weeks": weeks.names, "week": week, "zone": zone().key}
    context |= {"workloads": known, "slug": slug, "rows": found.rows, "notes": notes}
    context["left_out"] = found.left_out
    title = f"Memory of {slug or 'all engines'} in {week}"
    context["chart"] = stacked(found.rows, title, period, zone(), [note.at for note in notes])
    return page(request, "reports/memory_hours.html", context)


def _asked(request: HttpRequest, weeks: GaugeWeeks) -> str | None:
    """The week of the page; None when no week has gauges."""
    try:
        return weeks.chosen(typed(request.GET, "week"))
    except ValueError as error:
        raise Http404(str(error)) from None


def _tell_apart(rows: Iterable[dict[str, Any]]) -> None:
    """Rows of one name (an engine that came back with other labels) say when each was there."""
    known = list(rows)
    names = Counter(row["key"] for row in known)
    for row in known:
        row["is_repeated"] = names[row["key"]] > 1


def _elsewhere(request: HttpRequest, cards: list[dict[str, Any]]) -> dict[str, Any]:
    """A card's figures as other tools show them, and a number found among them."""
    if not cards:
        return {}
    wanted = typed(request.GET, "card")
    card = next((one for one in cards if one["key"] == wanted), cards[0])
    unit, text = typed(request.GET, "unit", "MiB"), typed(request.GET, "number")
    found: dict[str, Any] = {
        "cards": [one["key"] for one in cards], "card": card["key"], "number": text,
        "unit": unit if unit in NUMBER_UNITS else "MiB", "units": NUMBER_UNITS,
        "elsewhere": figures_of(card), "card_row": card,
    }  # fmt: skip
    if text:
        told = asked(text, found["unit"])
        if told is None:
            found["number_refused"] = "A number like 19818 or 79.65, alone or with its unit."
        else:
            number, found["unit"] = told
            found["number_said"] = plain(number)
            found["matches"] = find(number, found["unit"], card)
    return found


def _fleet(row: dict[str, Any], cards: list[dict[str, Any]]) -> dict[str, Any]:
    """The fleet; where some GPUs have no metrics, the ones that have, so that the table closes."""
    measured = together(cards) if row["total_bytes"] is None else None
    unmeasured = None
    if measured is not None:
        unmeasured = None if row["gpus"] is None else row["gpus_without_metrics"]
        row = row | measured | {"gpus": len(cards)}
    return _shown(row) | {"is_part": measured is not None, "unmeasured": unmeasured}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "row": row,
        "lines": lines_of(row),
        "bar": bar_of(row),
        "device": seen_on_device(row),
        "flags": [_of_group(flag) if len(row["engines"]) > 1 else flag for flag in row["flags"]],
    }


def _of_group(flag: str) -> str:
    """A remark on one engine as it reads of several, of which it need not hold for all."""
    return flag.replace("for this engine", "for some of the engines")


def _starts() -> list[EngineStart]:
    rows = EngineStart.objects.select_related("document").order_by("-started_at", "-pk")
    return list(rows[:STARTS_SHOWN])


@require_GET
@allowed("read")
def start(request: HttpRequest, pk: int) -> HttpResponse:
    """One start of an engine, as its kept log tells it."""
    row = get_object_or_404(EngineStart.objects.select_related("document"), pk=pk)
    context = {"start": row, "engines": [_in_words(row.figures)], "zone": zone().key}
    context["agreement"] = Evidence().agreement_of(row)
    return page(request, "reports/engine_start.html", context)


@require_http_methods(["GET", "POST"])
@allowed("read")
def log(request: HttpRequest) -> HttpResponse:
    """Explains a start-up log. Explaining keeps nothing; keeping it is a delivery like any other."""
    form = LogForm(request.POST, request.FILES) if request.method == "POST" else LogForm()
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        given = form.given()
        if "keep" in request.POST:
            if not may(request.user, "upload"):
                return page(request, "403.html", status=403)
            try:
                return _keep(request, given)
            except NotAllowed as refused:
                form.add_error(None, str(refused))
        else:
            context |= _explained(form, given)
    return page(request, "reports/engine_log.html", context)


def _keep(request: HttpRequest, given: UploadedFile) -> HttpResponse:
    with use_ledger("default"):
        taken = take(
            [given], by=request.user.get_username(), at=timezone.now(), format="engine-log"
        )
    return redirect("upload", key=taken.pk)


def _explained(form: LogForm, given: UploadedFile) -> dict[str, Any]:
    """The engines of a log; what cannot be read stands at the form."""
    name = clean_name(given.name or "engine.log")
    with tempfile.TemporaryDirectory(prefix="headroom-log-") as folder:
        path = Path(folder) / name
        path.write_bytes(given.read())
        try:
            records = list(engine_log.parse(path, name, engine_log.FORMATS[0]).records)
        except Refused as refused:
            form.add_error(None, str(refused))
            return {}
    engines = [one.engine.as_json() for one in records if isinstance(one, EngineStartRecord)]
    return {"engines": [_in_words(one) for one in engines], "name": name}


def _in_words(engine: dict[str, Any]) -> dict[str, Any]:
    """An engine's start with each remedy as an instruction."""
    failure = engine["failure"]
    if failure:
        for remedy in (*failure["remedies"], *failure["wrong_remedies"]):
            remedy["words"] = remedy_words(remedy["kind"], remedy["to"])
    return engine
