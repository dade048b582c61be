"""`totals --from T --to T [--by KEY]`: tokens and money of a period, exact."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from finops.ledger.arguments import add_period, period_of
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.queries.totals import KEYS, as_json, totals

MOST_YEARS = {"hour": 10, "day": 100}  # of rows, one each, whether anything happened or not


class Command(Base):
    """Adds up a period."""

    help = "Tokens and money of a period, by workload, series, account, invoice, day and others."

    def arguments(self, parser: CommandParser) -> None:
        add_period(parser)
        parser.add_argument("--by", choices=KEYS)
        parser.add_argument("--basis", choices=("incurred", "invoiced"), default="incurred")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        period = period_of(options)
        most = MOST_YEARS.get(options["by"] or "")
        if most and period.end - period.start > timedelta(days=366 * most):
            raise CannotRun(
                f"--by {options['by']} takes at most {most} years at a time; ask for less, or leave "
                "--by out for the sum."
            )
        tokens, money, rows = totals(period, options["by"], options["basis"])
        result = {"from": period.start, "to": period.end} | as_json(tokens, money)
        result["rows"] = [
            {"key": row.key, "labels": row.labels} | as_json(row.tokens, row.money) for row in rows
        ]
        return result, True
