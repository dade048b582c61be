"""Arguments that several commands share: a period of whole hours, and who does it."""

from __future__ import annotations

import getpass
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


def add_by(parser: CommandParser) -> None:
    """`--by USER`: in whose name the ledger is written."""
    parser.add_argument("--by", default=_whoever(), metavar="USER", help="who does it")


def _whoever() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
