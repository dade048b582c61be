"""`explain SERIES HOUR`: the readings behind one ledger row."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.period import hour_of, parse_instant
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.queries.explain import Unknown, explain, series_named


class Command(Base):
    """Leads a row back to its readings and documents."""

    help = "The readings behind one ledger row, the arithmetic, the document digests."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("series", help='number, or metric{label="value",…}')
        parser.add_argument("hour", help="2026-11-29T14:00:00Z")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            series = series_named(options["series"])
            return explain(series, hour_of(parse_instant(options["hour"]))), True
        except (Unknown, ValueError) as error:
            raise CannotRun(str(error)) from error
