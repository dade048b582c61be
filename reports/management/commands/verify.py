"""`verify [F]`: recomputes the digests of reports and seals and their chain; or checks one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.trail.fingerprints import changed_rows
from finops.trail.guards import guarded_tables, missing_guards
from reports.evidence.checking import NotFinished, check_file
from reports.models import Report, Seal
from reports.operations.watching import note_guards
from reports.queries.verifying import verify_seals


class Command(Base):
    """Exit 1 names what does not fit."""

    help = "Check seals and reports, or one file: a record, a statement, a pack or a PDF."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", metavar="F")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["file"] is not None:  # an empty name is a slip, and no whole ledger
            return _verify_file(Path(options["file"]))
        note_guards(timezone.now())
        said = [table for table in guarded_tables() if table.startswith("reports_")]
        problems = [*verify_seals(), *changed_rows(said), *missing_guards()]
        counts = {"reports": Report.objects.count(), "seals": Seal.objects.count()}
        return {"ok": not problems, "checked": counts, "problems": problems}, not problems


def _verify_file(path: Path) -> tuple[dict[str, Any], bool]:
    if path.exists() and not path.is_file():
        raise CannotRun(f"{path}: not a file")  # a device may have no end
    try:
        found = check_file(path)
    except (OSError, ValueError, NotFinished) as error:
        raise CannotRun(f"{path}: {error}") from error
    return {"ok": not found["problems"], **found}, not found["problems"]
