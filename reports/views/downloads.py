"""What leaves the house, and the rows behind a figure: downloads, packs, lineage (method §11)."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from finops.core.period import parse_instant
from finops.ledger.queries import explain
from finops.trail.operations import record as trail
from reports import lineage, tables_behind
from reports.client import client_address
from reports.evidence.pack import pack
from reports.evidence.sealed import Gone
from reports.operations import printing
from reports.operations.refused import NotAllowed
from reports.queries import papers
from reports.queries.standing import Standing, report_of, standing
from reports.roles import allowed

from .page import page, typed

PAPER = "A4"  # the sheets of a pack


def noted(request: HttpRequest, stand: Standing, what: str) -> None:
    """Writes a download into the trail: who, what, when, from where."""
    trail(
        at=timezone.now(),
        actor=request.user.get_username(),
        action="downloaded",
        subject=f"report {stand.week}",
        detail={
            "what": what,
            "revision": stand.revision,
            "digest": stand.digest,
            "from": client_address(request),
        },
    )


def _found(week: str, revision: int) -> Standing:
    report = report_of(week, revision)
    if report is None:
        raise Http404("no such report")
    return standing(report)


@require_GET
@allowed("read")
def evidence_pack(request: HttpRequest, week: str, revision: int) -> HttpResponse:
    """The evidence pack of a sealed report, with its PDF: when nobody printed it yet, it is asked
    for and the page waits. `?paper=none`, or no worker to print, leaves it out."""
    stand = _found(week, revision)
    path = papers.path_of(papers.key_of(stand, PAPER))
    wanted = stand.seal is not None and request.GET.get("paper") != "none"
    if wanted and not path.exists():
        failed = papers.path_of(papers.key_of(stand, PAPER), "failed").exists()
        if not failed and printing.ask(stand, PAPER):
            context = {"stand": stand, "size": PAPER, "reached": True, "is_pack": True}
            return page(request, "reports/paper_wait.html", context | {"refresh_seconds": 2}, 202)
    printed = path.read_bytes() if wanted and path.exists() else None
    try:
        packed = pack(stand, printed=printed)
    except (NotAllowed, Gone) as error:
        return page(request, "reports/lineage.html", {"stand": stand, "gone": str(error)}, 409)
    paper = "with paper" if printed else "without paper"
    noted(request, stand, f"evidence pack {paper}, SHA-256 {packed.sha256}")
    answer = HttpResponse(packed.content, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="evidence-{week}-{revision}.zip"'
    return answer


@require_GET
@allowed("read")
def behind(request: HttpRequest, week: str, revision: int, figure: str) -> HttpResponse:
    """The ledger rows behind one figure of a report."""
    stand = _found(week, revision)
    slug, series = typed(request.GET, "workload"), typed(request.GET, "series")
    context = {
        "stand": stand,
        "figure": figure,
        "slug": slug,
        "currency": stand.statement["currency"],
    }
    try:
        if figure == "charges":
            place, document = typed(request.GET, "place"), typed(request.GET, "document")
            found = lineage.behind_charges(stand, place=place, document=document)
        else:
            found = lineage.behind(stand, figure, slug, series)
    except lineage.NoSuchFigure as error:
        raise Http404(str(error)) from error
    except Gone as error:
        return page(request, "reports/lineage.html", context | {"gone": str(error)})
    return page(request, "reports/lineage.html", context | {"found": found})


@require_GET
@allowed("read")
def hour(request: HttpRequest, week: str, revision: int, series: int, hour: str) -> HttpResponse:
    """The readings behind one token hour, with the documents they came in."""
    stand = _found(week, revision)
    try:
        found = lineage.hour(str(series), hour)
    except (explain.Unknown, ValueError) as error:
        raise Http404(str(error)) from error
    return page(request, "reports/lineage_hour.html", {"stand": stand, "found": found})


@require_GET
@allowed("read")
def kept_rows(request: HttpRequest, week: str, revision: int, kind: str) -> HttpResponse:
    """The rows kept with a report behind memory, right-sizing, service levels, training, bridge."""
    stand = _found(week, revision)
    workload, engine = typed(request.GET, "workload"), typed(request.GET, "engine")
    try:
        found = tables_behind.behind(stand, kind, workload, engine)
    except lineage.NoSuchFigure as error:
        raise Http404(str(error)) from error
    except Gone as error:
        return page(request, "reports/lineage.html", {"stand": stand, "gone": str(error)})
    return page(request, "reports/kept_rows.html", {"stand": stand, "found": found})


@require_GET
@allowed("read")
def gauge(request: HttpRequest, week: str, revision: int, series: int, hour: str) -> HttpResponse:
    """The readings of a gauge in an hour, with the documents they came in."""
    stand = _found(week, revision)
    try:
        found = explain.explain_gauge(explain.series_named(str(series)), parse_instant(hour))
    except (explain.Unknown, ValueError) as error:
        raise Http404(str(error)) from error
    return page(request, "reports/gauge_hour.html", {"stand": stand, "found": found})
