"""`exchange-rates`: each currency's rate with its day and document, or as reports convert (§3.9)."""  # noqa: N999 - the command's name

from __future__ import annotations

from datetime import date
from typing import Any

from django.core.management.base import CommandParser

from finops.core.exchange import Rate
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.queries.exchange_rates import cross_rates, rates_on


class Command(Base):
    """Of a day without a rate, a weekend, the rate of the last day before it counts. With `--to`, what
    one unit of each currency is worth in another one, as reports convert it."""

    help = "List exchange rates."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--on", metavar="YYYY-MM-DD", help="as of a day (else the newest)")

        parser.add_argument(
            "--to", metavar="CODE", help="cross rates to this currency, as reports use them"
        )

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            day = date.fromisoformat(options["on"]) if options["on"] else None
        except ValueError:
            raise CannotRun(f"{options['on']!r} is no day like 2026-11-27") from None
        if options["to"]:
            return self._to(str(options["to"]), day)
        return {"rates": [_row(one) for one in rates_on(day)], "ok": True}, True

    def _to(self, target: str, day: date | None) -> tuple[dict[str, Any], bool]:
        found = cross_rates(target, day)
        if not found:
            raise CannotRun(f"there is no rate to {target} on {day or 'any day'}")
        return {"rates": [_cross(one) for one in found], "ok": True}, True


def _cross(one: Rate) -> dict[str, Any]:
    return {
        "from": one.source,
        "to": one.target,
        "date": one.day,
        "rate": one.value,
        "from_per_eur": one.source_per_base,
        "to_per_eur": one.target_per_base,
        "documents": list(one.documents),
    }


def _row(one: Any) -> dict[str, Any]:
    return {
        "base": one.base,
        "currency": one.currency,
        "date": one.date,
        "rate": one.rate,
        "document": one.document_id,
    }
