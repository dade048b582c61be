"""`close WEEK`: makes the week's preliminary report from the ledger as it stands."""

from __future__ import annotations

from typing import Any

from reports.operations.closing import close_week, week_asked

from ._shared import ReportCommand, summary_of


class Command(ReportCommand):
    """Closing again makes a new revision only when something differs."""

    help = "Make the report of a week."
    permission = "close"

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        week = week_asked(options["week"], self.at)
        closed = close_week(week, by=self.by, at=self.at)
        result = summary_of(closed.report) | {"new": closed.is_new, "ok": True}
        if closed.differences:
            result["differences"] = closed.differences
            result["hint"] = "The week is sealed and figures would change: restate it."
        return result, True
