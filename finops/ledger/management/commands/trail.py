"""`trail`: who did what, newest first; `--verify` recomputes the chain, `--fix-rows` adds to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger.cli import CannotRun, whole_number
from finops.ledger.cli import Command as Base
from finops.trail import queries
from finops.trail.fingerprints import Busy, fix_rows
from finops.trail.operations import verify

MOST_SHOWN = 100_000


def _fix_rows(by: str | None) -> None:
    if not by:
        raise CannotRun("--fix-rows needs --by USER: it writes an entry of the trail")
    try:
        fix_rows(by=by, at=timezone.now())
    except Busy as busy:
        raise CannotRun(str(busy)) from None


class Command(Base):
    """Shows or verifies the trail of the ledger in use."""

    help = "Show who did what, or verify that nobody changed the record of it."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--verify", action="store_true", help="recompute the chain of digests")
        parser.add_argument(
            "--fix-rows",
            action="store_true",
            help="keep a fingerprint of all new rows, so that a later change of one shows",
        )
        parser.add_argument("--by", metavar="USER", help="who does it (with --fix-rows)")
        parser.add_argument(
            "--limit", type=whole_number, default=50, help="how many entries to show"
        )

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if not 1 <= options["limit"] <= MOST_SHOWN:
            raise CannotRun(f"--limit must be from 1 to {MOST_SHOWN}, not {options['limit']}")
        if options["fix_rows"]:
            _fix_rows(options["by"])
        head = queries.head()
        result: dict[str, Any] = {
            "entries": head[0] if head else 0,
            "head": head[1] if head else None,
        }
        if options["verify"]:
            problems = verify()
            return result | {"problems": problems, "ok": not problems}, not problems
        return result | {"newest": queries.entries(limit=options["limit"])}, True

    def render(self, result: dict[str, Any]) -> str:
        """The newest entries for people: of fixed rows how many, not every digest."""
        newest = [
            replace(one, detail=queries.brief(one.detail)) for one in result.get("newest", ())
        ]
        return super().render(result | ({"newest": newest} if newest else {}))
