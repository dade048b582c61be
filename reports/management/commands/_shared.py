"""What the report commands share: the week asked for, the person, and plain answers."""

from __future__ import annotations

import getpass
from abc import abstractmethod
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger.cli import CannotRun, whole_number
from finops.ledger.cli import Command as Base
from reports.models import Report
from reports.operations.closing import week_asked
from reports.operations.refused import NoSuchWeek, NotAllowed
from reports.queries.standing import Standing, report_of, standing
from reports.roles import refusal


class ReportCommand(Base):
    """A command on one week's report; what the rules refuse ends with exit code 1."""

    takes_revision = False
    permission = "read"  # of the table in roles.py: what who acts must be allowed to do

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("week", metavar="WEEK", help="like 2026-W47, or latest")
        parser.add_argument("--by", default=None, metavar="USER", help="who does it")
        if self.takes_revision:
            parser.add_argument("--revision", type=whole_number, metavar="N")
        self.more_arguments(parser)

    def more_arguments(self, parser: CommandParser) -> None:
        """Arguments of the one command."""

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        self.by: str = options["by"] or getpass.getuser()
        self.at = timezone.now()
        try:
            if reason := refusal(self.by, self.permission):
                raise NotAllowed(reason)
            return self.act(**options)
        except NoSuchWeek as refused:
            raise CannotRun(str(refused)) from None
        except NotAllowed as refused:
            return {"ok": False, "week": options["week"], "error": str(refused)}, False

    @abstractmethod
    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        """Does the work."""

    def found(self, week: str, revision: int | None = None, *, newest: bool = False) -> Report:
        """The report asked for; `newest` takes the newest revision, else the one readers see."""
        name = self.name_of(week)
        if newest and revision is None:
            report = Report.objects.filter(week=name).order_by("-revision").first()
        else:
            report = report_of(name, revision)
        if report is None:
            which = f"{name} has no revision {revision}" if revision else f"{name} is not closed"
            raise CannotRun(f"{which}. `close {name}` makes a report.")
        return report

    def name_of(self, week: str) -> str:
        """The week; `latest` is the newest one with a report, else the newest complete one."""
        if week == "latest":
            newest = Report.objects.order_by("-week").values_list("week", flat=True).first()
            if newest:
                return str(newest)
        return week_asked(week, self.at)


def summary(stand: Standing) -> dict[str, Any]:
    """A report's identity as commands print it."""
    return {
        "week": stand.week,
        "revision": stand.revision,
        "state": stand.state,
        "digest": stand.digest,
        "headline": stand.statement["headline"],
        "prepared_by": stand.report.prepared_by,
        "approved_by": stand.approved_by or None,
        "open_exceptions": len(stand.open_exceptions),
    }


def summary_of(report: Report) -> dict[str, Any]:
    """The summary of a report as it stands now."""
    return summary(standing(Report.objects.get(pk=report.pk)))
