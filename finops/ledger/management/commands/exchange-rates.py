"""`exchange-rates`: the newest rate of each currency, with its day and document (method §3.9)."""  # noqa: N999 - the command's name

from __future__ import annotations

from datetime import date
from typing import Any

from django.core.management.base import CommandParser

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.queries.exchange_rates import rates_on


class Command(Base):
    """Of a day without a rate, a weekend, the rate of the last day before it counts."""

    help = "List exchange rates."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--on", metavar="YYYY-MM-DD", help="as of a day (else the newest)")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            day = date.fromisoformat(options["on"]) if options["on"] else None
        except ValueError:
            raise CannotRun(f"{options['on']!r} is no day like 2026-11-27") from None
        return {"rates": [_row(one) for one in rates_on(day)], "ok": True}, True


def _row(one: Any) -> dict[str, Any]:
    return {
        "base": one.base,
        "currency": one.currency,
        "date": one.date,
        "rate": one.rate,
        "document": one.document_id,
    }
