"""Arguments that several commands share: a period of whole hours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from finops.core.period import Period, hour_of, parse_instant
from finops.ledger.cli import CannotRun


def add_period(parser: CommandParser) -> None:
    """`--from T --to T`."""
    parser.add_argument("--from", dest="since", required=True, metavar="T", help="start, RFC 3339")
    parser.add_argument("--to", dest="until", required=True, metavar="T", help="end, not included")


def period_of(options: Mapping[str, Any]) -> Period:
    """The period of `add_period`. Raises CannotRun unless both ends are whole hours in order."""
    try:
        period = Period(parse_instant(options["since"]), parse_instant(options["until"]))
    except ValueError as error:
        raise CannotRun(str(error)) from error
    for name, instant in (("--from", period.start), ("--to", period.end)):
        if instant != hour_of(instant):
            raise CannotRun(f"{name} must be a whole UTC hour, not {instant.isoformat()}")
    return period
