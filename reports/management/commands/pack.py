"""`pack WEEK -o F`: everything an auditor needs to compute a sealed report again (method §11)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.trail.operations import record as trail
from reports import paper
from reports.evidence.pack import pack
from reports.evidence.printed import print_report
from reports.evidence.sealed import Gone
from reports.operations.refused import NotAllowed
from reports.queries.standing import Standing, standing

from ._shared import ReportCommand
from .report import written_whole


class Command(ReportCommand):
    """Exit 1 when the week is not sealed, or its evidence is not what was sealed."""

    help = "Write the evidence pack of a sealed week."
    takes_revision = True

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-o", "--output", required=True, metavar="F", help="the zip to write")
        parser.add_argument(
            "--documents", action="store_true", help="the documents' bytes too, not digests alone"
        )
        parser.add_argument("--paper", default="A4", choices=paper.SIZES)

    def _printed(self, stand: Standing, size: str) -> bytes | None:
        if stand.seal is None:
            return None
        return print_report(stand, size=size, by=self.by, at=self.at, sign=False).unsigned

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        stand = standing(self.found(options["week"], options["revision"]))
        self.progress("gathering the evidence …")
        try:
            printed = self._printed(stand, options["paper"])
            packed = pack(stand, printed=printed, with_documents=options["documents"])
        except Gone as error:
            raise NotAllowed(str(error)) from error
        finally:
            self.progress("")
        path = written_whole(options["output"], packed.content)
        trail(
            at=timezone.now(),
            actor=self.by,
            action="pack written",
            subject=f"report {stand.week}",
            detail={"revision": stand.revision, "sha256": packed.sha256},
        )
        return {
            "ok": True,
            "week": stand.week,
            "revision": stand.revision,
            "digest": stand.digest,
            "path": path,
            "sha256": packed.sha256,
            "size_bytes": len(packed.content),
            "files": packed.names,
        }, True
