"""`waive WEEK KIND SUBJECT --text …`: a second person signs for what stands against sealing."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reports.operations.sealing import waivable, waive
from reports.queries.standing import standing

from ._shared import ReportCommand


class Command(ReportCommand):
    """Kinds: `provisional-month 2026-11`, `invoice-differs NUMBER`, `recomputation figures`;
    `all all` signs for every provisional month and differing invoice."""

    help = "Sign a waiver on a week's report; the preparer may not."
    permission = "approve"

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", metavar="KIND")
        parser.add_argument("subject", metavar="SUBJECT")
        parser.add_argument("--text", required=True, help="why it may be sealed all the same")

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        report = self.found(options["week"], newest=True)
        wanted = [(options["kind"], options["subject"])]
        if wanted == [("all", "all")]:
            possible = waivable(standing(report).statement)
            wanted = [one for one in possible if one[0] != "recomputation"]
        for kind, subject in wanted:
            waive(report, kind, subject, text=options["text"], by=self.by, at=self.at)
        signed = [{"kind": kind, "subject": subject} for kind, subject in wanted]
        return {
            "week": report.week,
            "revision": report.revision,
            "signed": signed,
            "ok": True,
        }, True
