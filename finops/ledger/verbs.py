"""Verbs of commands, like `rule add`: what they share, and how what is refused is told."""

from __future__ import annotations

import getpass
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from finops.core.period import parse_instant
from finops.ledger import cli
from finops.ledger.operations.workloads import NotAccepted


def verb(verbs: Any, name: str, help_text: str, *, acts: bool = True) -> ArgumentParser:
    """The parser of one verb; `--json`, `--sample` and, where it acts, `--by` may follow it."""
    parser: ArgumentParser = verbs.add_parser(name, help=help_text)
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help=SUPPRESS)
    parser.add_argument("--sample", action="store_true", default=SUPPRESS, help=SUPPRESS)
    if acts:
        parser.add_argument("--by", metavar="USER", help="who does it (else the system's user)")
    return parser


def who(options: dict[str, Any]) -> str:
    """Who acts."""
    return str(options.get("by") or getpass.getuser())


def instant(options: dict[str, Any], name: str) -> datetime | None:
    """An instant given as an option, None where it was not given."""
    text = options.get(name)
    if not text:
        return None
    try:
        return parse_instant(text)
    except ValueError as error:
        raise cli.CannotRun(str(error)) from None


@contextmanager
def refusals() -> Iterator[None]:
    """What an operation refuses becomes a sentence for the person who asked."""
    try:
        yield
    except NotAccepted as error:
        raise cli.CannotRun(str(error)) from None
