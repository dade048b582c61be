"""`training-budget set | list`: what training may cost in a quarter (method §5)."""  # noqa: N999 - the command's name

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from finops.ledger import cli
from finops.ledger.operations.budgets import set_budget
from finops.ledger.queries.training import budget_rows
from finops.ledger.verbs import refusals, verb, who


class Command(cli.Command):
    """Sets the budget of a quarter, or lists what was ever set."""

    help = "Set the budget of training for a quarter, or list the budgets."
    writes = True  # a budget belongs to the own ledger from its first day

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="set|list")
        one = verb(verbs, "set", "set the budget of a quarter; the newest one holds")
        one.add_argument("quarter", help="like 2026-Q4")
        one.add_argument("amount")
        one.add_argument("--currency", default="USD")
        one.add_argument("--document", metavar="FILE", help="what says the budget")
        one.add_argument("--note", default="")
        verb(verbs, "list", "list the budgets, newest first", acts=False)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["verb"] == "set":
            document = options["document"]
            with refusals():
                set_budget(
                    options["quarter"],
                    amount=options["amount"],
                    currency=options["currency"],
                    document=Path(document) if document else None,
                    note=options["note"],
                    by=who(options),
                    at=datetime.now(UTC),
                )
        return {"budgets": budget_rows(), "ok": True}, True
