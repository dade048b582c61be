"""`dispose WEEK EXCEPTION --text …`: what was decided of an exception of the week."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reports.operations.sealing import dispose
from reports.queries.standing import standing

from ._shared import ReportCommand


class Command(ReportCommand):
    """`all` instead of an exception's id decides on every open one."""

    help = "Decide on an exception of a week."
    permission = "dispose"

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("exception", metavar="EXCEPTION", help="its id, or all")
        parser.add_argument("--text", required=True)

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        report = self.found(options["week"], newest=True)
        wanted = [options["exception"]]
        if wanted == ["all"]:
            wanted = [e["id"] for e in standing(report).open_exceptions]
        for name in wanted:
            dispose(report.week, name, text=options["text"], by=self.by, at=self.at)
        left = standing(report).open_exceptions
        return {"week": report.week, "dispositioned": wanted, "open": len(left), "ok": True}, True
