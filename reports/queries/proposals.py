"""Restatements that are proposed: sealed weeks that would print something else now (method §11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from finops.core.facts import Notice
from finops.core.wording import counted_text
from reports import sheet
from reports.models import FreshLook, Report, ReportEvent
from reports.queries.standing import SUPERSEDED

KIND = "restatement-proposed"
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A sealed report, and what it would print otherwise."""

    report: Report
    at: datetime  # when it was first said so
    differences: list[dict[str, Any]]
    documents: list[str]

    @property
    def text(self) -> str:
        """What changed, in a sentence."""
        figures = counted_text(len(self.differences), "figure")
        shown = "; ".join(_told(one) for one in self.differences[:SHOWN])
        more = len(self.differences) - SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        came = f" New documents: {', '.join(self.documents[:SHOWN])}." if self.documents else ""
        return (
            f"Report {self.report.week}/{self.report.revision} is sealed, and {figures} of it would "
            f"be printed otherwise now: {shown}{rest}.{came} The sealed report stays as it is; "
            "restate the week with a reason, or decide to leave it."
        )


def sealed_reports() -> list[Report]:
    """The sealed reports that hold: not superseded, and with no newer revision on the way."""
    gone = ReportEvent.objects.filter(kind=SUPERSEDED).values("report")
    sealed = Report.objects.filter(events__kind="sealed").exclude(pk__in=gone).defer("statement")
    newest: dict[str, int] = {}
    for week, revision in Report.objects.values_list("week", "revision"):
        newest[week] = max(revision, newest.get(week, 0))
    return [one for one in sealed.order_by("week") if newest[one.week] == one.revision]


def newest_looks(reports: Iterable[Report], at: datetime | None = None) -> dict[int, FreshLook]:
    """The newest fresh look at each report, at an instant."""
    return {look.report_id: look for look in _looks(reports, at)}


def _looks(reports: Iterable[Report], at: datetime | None) -> QuerySet[FreshLook]:
    """Fresh looks, oldest first."""
    looks = FreshLook.objects.filter(report__in=list(reports)).order_by("at", "id")
    return looks if at is None else looks.filter(at__lte=at)


def _first_said(reports: Iterable[Report], at: datetime | None) -> dict[int, datetime]:
    """Since when each report's looks say without a break what the newest one says."""
    said: dict[int, FreshLook] = {}
    for look in _looks(reports, at):
        before = said.get(look.report_id)
        if before is None or before.differences != look.differences:
            said[look.report_id] = look
    return {key: look.at for key, look in said.items()}


def proposals(at: datetime | None = None) -> list[Proposal]:
    """What is proposed now, the oldest week first."""
    if not FreshLook.objects.exists():
        return []
    reports = sealed_reports()
    looks, firsts = newest_looks(reports, at), _first_said(reports, at)
    return [
        Proposal(one, firsts[one.pk], look.differences, look.documents)
        for one in reports
        if (look := looks.get(one.pk)) and look.differences
    ]


def proposal_of(report: Report) -> Proposal | None:
    """What is proposed of a sealed report."""
    return next((one for one in proposals() if one.report.pk == report.pk), None)


def notices(week: str, at: datetime) -> tuple[Notice, ...]:
    """Exceptions of a week's statement: earlier weeks whose sealed figures would change."""
    return tuple(
        Notice(KIND, one.report.week, one.text) for one in proposals(at) if one.report.week < week
    )


def _told(row: Mapping[str, Any]) -> str:
    figure = str(row["figure"]).replace("_", " ")
    before, after = (sheet.as_printed(row["figure"], row[name]) for name in ("before", "after"))
    return f"{row['workload'] or 'organisation'}: {figure} {before} \u2192 {after}"
