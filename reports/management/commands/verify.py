"""`verify [F]`: recomputes the digests of reports and seals and their chain; or of one record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from finops.core.canonical import canonical_bytes, digest
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from reports.models import Report, Seal
from reports.queries.standing import verify_seals


class Command(Base):
    """Exit 1 names what does not fit."""

    help = "Check seals and reports, or one record written by `report --record`."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", metavar="F")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["file"]:
            return _verify_file(Path(options["file"]))
        problems = verify_seals()
        counts = {"reports": Report.objects.count(), "seals": Seal.objects.count()}
        return {"ok": not problems, "checked": counts, "problems": problems}, not problems


def _verify_file(path: Path) -> tuple[dict[str, Any], bool]:
    try:
        content = path.read_bytes()
        value = json.loads(content)
    except (OSError, ValueError) as error:
        raise CannotRun(f"{path}: not a record: {error}") from error
    problems = []
    found = digest(content)
    if canonical_bytes(value) != content:
        problems.append("the file is not in canonical form")
    seal = Seal.objects.filter(digest=found).select_related("report").first()
    if seal is None:
        problems.append("no seal in this ledger has this digest")
    week = value.get("week") if isinstance(value, dict) else None
    return {"ok": not problems, "digest": found, "week": week, "problems": problems}, not problems
