"""`report WEEK`: the report as JSON, as a page of its own, as PDF."""

from __future__ import annotations

import os
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from finops.ledger.cli import CannotRun
from reports import paper
from reports.evidence.printed import print_report
from reports.queries.standing import standing

from ._shared import ReportCommand


class Command(ReportCommand):
    """Without --html, --pdf or --record it prints the figures."""

    help = "Write the report of a week."
    takes_revision = True

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--html", metavar="F", help="a page that needs no other file")
        parser.add_argument("--pdf", metavar="F", help="PDF/A-3 on paper")
        parser.add_argument("--record", metavar="F", help="the sealed canonical bytes")
        parser.add_argument("--paper", default="A4", choices=paper.SIZES)
        parser.add_argument("--sign", action="store_true", help="sign the PDF of a sealed report")

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        stand = standing(self.found(options["week"], options["revision"]))
        written = []
        if path := options["html"]:
            written.append(written_whole(path, paper.html(stand, alone=True).encode()))
        if path := options["pdf"]:
            self.progress("setting the pages …")
            printed = print_report(
                stand, size=options["paper"], by=self.by, at=self.at, sign=options["sign"]
            )
            written.append(written_whole(path, printed.signed or printed.unsigned))
            self.progress("")
        if path := options["record"]:
            content = stand.report.seal.record if stand.seal else stand.report.statement
            written.append(written_whole(path, bytes(content)))
        s = stand.statement
        kept = ("headline", "figures", "reasons", "workloads", "tieout", "exceptions")
        result = {
            "week": stand.week,
            "state": stand.state,
            "revision": stand.revision,
            "digest": stand.digest,
            "sample": bool(s["sample"]),
            "currency": s["currency"],
            "cost_reaches": s["reaches"]["cost"],
            "tokens_reach": s["reaches"]["tokens"],
            **{name: s[name] for name in kept},
            "exchange": s.get("exchange"),
            **{name: s.get(name) for name in LATER},
            "written": written,
        }
        result["tieout"] = _with_difference(s["tieout"])
        return result, True

    def render(self, result: dict[str, Any]) -> str:
        if result["written"]:
            return "\n".join(result["written"])
        return super().render({k: v for k, v in result.items() if k not in HIDDEN})


HIDDEN = ("workloads", "tieout", "reasons", "exchange", "written", "service_levels")
LATER = ("service_level", "service_levels", "training", "changes")
"""What a report sealed by an earlier version does not hold: null there."""


def _with_difference(tieout: dict[str, Any]) -> dict[str, Any]:
    """Each tie-out as an object with its (largest) difference."""
    rows = tieout["invoice"]
    compared = [row["difference"] for row in rows if row.get("difference") is not None]
    largest = max(compared, key=lambda text: abs(Decimal(text)), default="0")
    return {
        "invoice": {"rows": rows, "difference": largest},
        "period": tieout["period"],
    }


def written_whole(path: str, content: bytes) -> str:
    """Writes a file whole or not at all; CannotRun says why it could not be written.

    What is no plain file, like /dev/stdout, is written into.
    """
    target = Path(path).expanduser()
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a pipe or /dev/stdout stays what it is
            return str(target)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except OSError as error:
        raise CannotRun(f"{target} cannot be written: {error.strerror}.") from error
    return str(target)
