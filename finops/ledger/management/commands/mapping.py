"""`mapping NAME --file M.json`: saves how to read a CSV of no known format; `mapping` lists them."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.models import CsvMapping
from finops.ledger.operations.mappings import save_mapping

LARGEST_BYTES = 1 << 20


class Command(Base):
    """A saved mapping is used by `ingest --as csv:NAME`; each change is a new version."""

    help = "Save a mapping of CSV columns to FOCUS columns, or list the mappings."
    writes = True

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="name of the mapping")
        parser.add_argument("--file", help="JSON with columns, constants, dates, decimal")
        parser.add_argument("--by", default=None, help="who saves it")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["file"]:
            if not options["name"]:
                raise CannotRun("a mapping needs a name: mapping NAME --file M.json")
            try:
                save_mapping(
                    options["name"],
                    _content(Path(options["file"])),
                    by=options["by"] or getpass.getuser(),
                    at=timezone.now(),
                )
            except ValueError as error:
                raise CannotRun(str(error)) from None
        rows = CsvMapping.objects.order_by("name", "-version")
        if options["name"]:
            rows = rows.filter(name=options["name"])
            if not rows.exists():
                raise CannotRun(f"there is no mapping {options['name']!r}")
        return {"mappings": [_row(row) for row in rows], "ok": True}, True


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise CannotRun(f"{path}: not a file")  # a device may have no end
        if path.stat().st_size > LARGEST_BYTES:
            raise CannotRun(f"{path}: more than 1 MiB is no mapping")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise CannotRun(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise CannotRun(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(value, dict):
        raise CannotRun(f"{path}: not a JSON object")
    return value


def _row(row: CsvMapping) -> dict[str, Any]:
    return {
        "name": row.name,
        "version": row.version,
        "at": row.at,
        "by": row.by,
        "mapping": row.content,
    }
