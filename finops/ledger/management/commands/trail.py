"""`trail`: who did what, newest first; `--verify` recomputes the chain of digests."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.trail import queries
from finops.trail.operations import verify

MOST_SHOWN = 100_000


class Command(Base):
    """Shows or verifies the trail of the ledger in use."""

    help = "Show who did what, or verify that nobody changed the record of it."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--verify", action="store_true", help="recompute the chain of digests")
        parser.add_argument("--limit", type=int, default=50, help="how many entries to show")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if not 1 <= options["limit"] <= MOST_SHOWN:
            raise CannotRun(f"--limit must be from 1 to {MOST_SHOWN}, not {options['limit']}")
        head = queries.head()
        result: dict[str, Any] = {
            "entries": head[0] if head else 0,
            "head": head[1] if head else None,
        }
        if options["verify"]:
            problems = verify()
            return result | {"problems": problems, "ok": not problems}, not problems
        return result | {"newest": queries.entries(limit=options["limit"])}, True
