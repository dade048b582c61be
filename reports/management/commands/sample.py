"""`sample WEEK --rows N --seed S`: rows for an auditor's walk-through, by a recorded seed."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.management.base import CommandParser

from finops.ledger.cli import whole_number
from reports import walkthrough
from reports.evidence.sealed import Gone
from reports.lineage import sampled
from reports.operations.drawing import drawn
from reports.operations.refused import NotAllowed
from reports.queries.standing import standing

from ._shared import ReportCommand


class Command(ReportCommand):
    """Exit 1 when a sampled row does not lead to a whole document."""

    help = "Pick rows behind a week's figures and follow each to its document."
    takes_revision = True
    permission = "audit"

    def more_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rows", type=whole_number, default=10, metavar="N", help="of each kind"
        )
        parser.add_argument("--seed", help="any text; one is drawn when none is given")

    def act(self, **options: Any) -> tuple[dict[str, Any], bool]:
        stand = standing(self.found(options["week"], options["revision"]))
        seed = options["seed"] or secrets.token_hex(8)
        count = max(1, min(options["rows"], 1000))
        try:
            found = walkthrough.steps(sampled(stand, count, seed))
        except Gone as error:
            raise NotAllowed(str(error)) from error
        drawn(stand, found, seed=seed, count=count, by=self.by, at=self.at)
        ok = walkthrough.is_whole(found)
        return {"ok": ok, "week": stand.week, "revision": stand.revision, "digest": stand.digest,
                "seed": seed, "rows": found}, ok  # fmt: skip
