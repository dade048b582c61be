"""`snapshot list|decide`: deliveries that wait: more parts, or a replacement (method §3.2)?"""

from __future__ import annotations

import getpass
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import CommandParser

from finops.ledger.cli import CannotRun, whole_number
from finops.ledger.cli import Command as Base
from finops.ledger.operations.snapshots import VERDICTS, decide
from finops.ledger.queries.snapshots import with_verdict


class Command(Base):
    """Lists all snapshots with their verdicts, or records a person's decision on one."""

    help = "List snapshots of invoice exports, or decide on one that waits."

    def arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listed = actions.add_parser("list")
        decision = actions.add_parser("decide")
        for action in (listed, decision):
            for name in ("--json", "--sample"):  # may stand after the action as well
                action.add_argument(name, action="store_true", default=SUPPRESS)
        decision.add_argument("id", type=whole_number)
        decision.add_argument("verdict", choices=VERDICTS)
        decision.add_argument("--reason", required=True)
        decision.add_argument("--by", default=None, help="who decides")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        problems: list[str] = []
        if options["action"] == "decide":
            try:
                problems = decide(
                    options["id"],
                    options["verdict"],
                    options["by"] or getpass.getuser(),
                    options["reason"],
                )
            except ValueError as error:
                raise CannotRun(str(error)) from None
        rows = [_row(one) for one in with_verdict().order_by("pk")]
        return {"snapshots": rows, "ok": True} | ({"warnings": problems} if problems else {}), True


def _row(snapshot: Any) -> dict[str, Any]:
    return {
        "id": snapshot.pk,
        "issuer": snapshot.issuer,
        "billing_account": snapshot.billing_account,
        "billing_period": snapshot.billing_period,
        "verdict": snapshot.verdict,
        "charges": snapshot.charges,
        "charge_start": snapshot.charge_start,
        "charge_end": snapshot.charge_end,
        "arrived_at": snapshot.arrived_at,
        "exported_at": snapshot.exported_at,
    }
