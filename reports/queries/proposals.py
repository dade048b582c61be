"""Restatements that are proposed: sealed weeks that would print something else now (method §11).

A person restates the week, or leaves the proposal with a reason; what is left is told on the page of
the report and proposed again only when other figures would change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from finops.core.facts import Notice
from finops.core.wording import counted_text
from reports import sheet
from reports.models import FreshLook, LeftProposal, Report, ReportEvent
from reports.queries.standing import SUPERSEDED, statement_of

KIND = "restatement-proposed"
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A sealed report, what it would print otherwise, and who leaves it so."""

    report: Report
    at: datetime  # when it was first said so
    look: FreshLook
    left: LeftProposal | None = None

    @property
    def differences(self) -> list[dict[str, Any]]:
        """The figures as sealed and as they would be printed now."""
        found: list[dict[str, Any]] = self.look.differences
        return found

    @property
    def documents(self) -> list[str]:
        """Names of the documents that came since."""
        found: list[str] = self.look.documents
        return found

    @property
    def currencies(self) -> tuple[str, str]:
        """The currency of the sealed report, and that of the amounts now."""
        sealed: str = statement_of(self.report)["currency"]
        now = (row["after"] for row in self.differences if row["figure"] == "currency")
        return sealed, next(now, sealed)

    @property
    def text(self) -> str:
        """What changed, in sentences."""
        figures, money = counted_text(len(self.differences), "figure"), self.currencies
        shown = "; ".join(_told(one, money) for one in self.differences[:SHOWN])
        more = len(self.differences) - SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        came = f" New documents: {', '.join(self.documents[:SHOWN])}." if self.documents else ""
        return (
            f"Report {self.report.week}/{self.report.revision} is sealed, and {figures} of it would "
            f"be printed otherwise now: {shown}{rest}.{came} The sealed report stays as it is"
            + ("." if self.left else "; restate the week with a reason, or leave it with a reason.")
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
    """What waits for a decision, the oldest week first."""
    return [one for one in _with_left(at) if one.left is None]


def proposal_of(report: Report) -> Proposal | None:
    """What is proposed of a sealed report; also where a person leaves it."""
    return next((one for one in _with_left() if one.report.pk == report.pk), None)


def _with_left(at: datetime | None = None) -> list[Proposal]:
    if not FreshLook.objects.exists():
        return []
    reports = sealed_reports()
    looks, firsts, left = newest_looks(reports, at), _first_said(reports, at), _left(reports, at)
    return [
        Proposal(one, firsts[one.pk], look, _holds(left.get(one.pk), look, firsts[one.pk]))
        for one in reports
        if (look := looks.get(one.pk)) and look.differences
    ]


def _left(reports: Iterable[Report], at: datetime | None) -> dict[int, LeftProposal]:
    """The newest decision to leave a proposal, by report."""
    rows = LeftProposal.objects.filter(look__report__in=list(reports)).select_related("look")
    rows = rows if at is None else rows.filter(at__lte=at)
    return {row.look.report_id: row for row in rows.order_by("at", "id")}


def _holds(left: LeftProposal | None, look: FreshLook, since: datetime) -> LeftProposal | None:
    """A decision, where what it was on is still what is said."""
    same = left and left.look.differences == look.differences and left.look.at >= since
    return left if same else None


def notices(week: str, at: datetime) -> tuple[Notice, ...]:
    """Exceptions of a week's statement: earlier weeks whose sealed figures would change, and that
    nobody has decided on."""
    return tuple(
        Notice(KIND, one.report.week, one.text) for one in proposals(at) if one.report.week < week
    )


def _told(row: Mapping[str, Any], currencies: tuple[str, str]) -> str:
    """One figure in words, amounts with their currency (method §1)."""
    name = str(row["figure"])
    sides = zip((row["before"], row["after"]), currencies, strict=True)
    before, after = (_printed(name, value, currency) for value, currency in sides)
    figure = name.replace("_", " ")
    return f"{row['workload'] or 'organisation'}: {figure} {before} \u2192 {after}"


def _printed(name: str, value: Any, currency: str) -> str:
    if value is None:
        return "n/a"
    text = sheet.as_printed(name, value)
    return f"{text} {currency}" if sheet.is_money(name) else text
