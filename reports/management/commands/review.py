"""`review WEEK`: records that a person has read the week's report (method §11)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reports.operations import sealing

from ._shared import ReportCommand, summary_of


class Command(ReportCommand):
    """Acts on the newest revision; exit 1 when a rule stands against it."""

    help = "Review the report of a week."
    permission = "approve"

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--comment", default="", help="a note kept with the act")

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        report = self.found(options["week"], newest=True)
        sealing.review(report, by=self.by, at=self.at, comment=options["comment"])
        return summary_of(report) | {"ok": True}, True
