"""`restate WEEK --reason …`: a new revision of a sealed week, with a difference table.

With `--leave` the reason is why a proposed restatement is not made: no revision, a decision.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.period import rfc3339
from reports.operations.closing import restate, week_asked
from reports.operations.leaving import leave

from ._shared import ReportCommand, summary_of


class Command(ReportCommand):
    """Exit 1 when the week is not sealed or no printed figure would change; with `--leave` when no
    restatement of the week waits for a decision."""

    help = "Make a new revision of a sealed week, or leave a proposed one."
    permission = "close"

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", required=True)
        parser.add_argument(
            "--leave", action="store_true", help="leave what is proposed; the sealed report stays"
        )

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        week = week_asked(options["week"], self.at)
        if options["leave"]:
            left = leave(week, text=options["reason"], by=self.by, at=self.at)
            told = {"text": left.text, "by": left.by, "at": rfc3339(left.at)}
            return summary_of(left.look.report) | {"left": told, "ok": True}, True
        closed = restate(week, reason=options["reason"], by=self.by, at=self.at)
        result = summary_of(closed.report) | {"differences": closed.differences, "ok": True}
        return result, True
