"""`restate WEEK --reason …`: a new revision of a sealed week, with a difference table."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reports.operations.closing import restate, week_asked

from ._shared import ReportCommand, summary_of


class Command(ReportCommand):
    """Exit 1 when the week is not sealed or no printed figure would change."""

    help = "Make a new revision of a sealed week."

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", required=True)

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        week = week_asked(options["week"], self.at)
        closed = restate(week, reason=options["reason"], by=self.by, at=self.at)
        result = summary_of(closed.report) | {"differences": closed.differences, "ok": True}
        return result, True
