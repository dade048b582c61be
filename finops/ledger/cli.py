"""The base of Headroom's own commands: `--json`, exit codes, and which ledger is meant.

A command implements `run(**options)` and gives the result as a dictionary, and whether all is well.
Exit codes: 0 fine, 1 it ran and found a problem (named in the result), 2 it could not run. Progress
goes to stderr; with `--json`, stdout holds one JSON document and nothing else.
"""

import getpass
import json
import os
import re
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections

from finops.core import signs
from finops.ledger import tables, which

CANNOT_RUN = 2
LONGEST_NAME = 150
_STEERING = {"Cc", "Cf", "Zl", "Zp"}  # kinds of signs: control, format, line and paragraph ends


class CannotRun(ValueError):
    """The command cannot do what was asked; the text says why, for the person who asked."""


def known(number: int | None) -> str:
    """A whole number as a line of text has it; one that nobody can tell is not 0."""
    return "not known" if number is None else f"{number:,}"


def whole_number(text: str) -> int:
    """A whole number in plain digits, for an argument: `int` reads the digits of every script."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    return int(text)


class Sentences(BaseCommand):
    """A command that fails with a sentence and an exit code, and no more."""

    requires_system_checks: list[str] = []
    suppressed_base_arguments = {
        "--version",
        "--settings",
        "--pythonpath",
        "--no-color",
        "--force-color",
        "--skip-checks",
    }

    exit_code = 0

    def run_from_argv(self, argv: list[str]) -> None:
        """Runs from the command line and ends the process with the exit code."""
        self._called_from_command_line = True
        parser = self.create_parser(argv[0], argv[1])
        try:
            options = vars(parser.parse_args(argv[2:]))
        except SystemExit as end:
            if end.code == CANNOT_RUN and "--json" in argv:
                text = "The arguments do not fit; how they should be is on stderr."
                self.stdout.write(to_json({"ok": False, "error": text}))
            raise
        try:
            self.execute(*options.pop("args", ()), **options)
        except CommandError as error:
            self.stderr.write(str(error))
            self.exit_code = error.returncode
        except KeyboardInterrupt:
            self.stderr.write("Interrupted.")
            self.exit_code = 130
        except BrokenPipeError:  # `| head` has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        finally:
            connections.close_all()
        if self.exit_code:
            sys.exit(self.exit_code)


class Command(Sentences, ABC):
    """What every command of the contract shares."""

    # True for commands that record what people hand over: they write to the own ledger, always.
    # The others read the own ledger once it holds a document, else the sample's.
    writes = False

    def arguments(self, parser: CommandParser) -> None:
        """Adds the command's own arguments."""

    @abstractmethod
    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        """Does the work: the result, and whether no problem was found."""

    def render(self, result: dict[str, Any]) -> str:
        """The result as text for people."""
        return "\n".join(lines(result))

    # Below: the same for all.

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
        parser.add_argument(
            "--sample", action="store_true", help="the sample organisation's ledger"
        )
        self.arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        as_json = options["json"]
        try:
            result, fine = self._run_on_ledger(options)
        except (CannotRun, CommandError) as error:
            self._refuse(str(error).strip(), as_json, error)
        except DatabaseError as error:  # its further lines hold the row that was refused
            self._refuse(str(error).strip().partition("\n")[0], as_json, error)
        except Exception as error:
            if options.get("traceback"):
                raise
            self._refuse(f"Unexpected {type(error).__name__}: {error}", as_json, error)
        else:
            self.exit_code = 0 if fine else 1
            text = to_json(result) if as_json else visible(self.render(result))
            self.stdout.write(writable(text))

    def _run_on_ledger(self, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        _name_whoever()
        _check_name(options.get("by"))
        _check_texts(options)
        self.prepare()
        name: which.LedgerName
        if options["sample"]:
            name = "sample"
        else:
            name = "default" if self.writes else which.chosen_ledger()
        with which.use_ledger(name):
            result, fine = self.run(**options)
        return (result | {"sample": True} if name == "sample" else result), fine

    def prepare(self) -> None:
        """Makes sure that the tables are there: those of the embedded database by making them."""
        if not os.environ.get("DATABASE_URL"):
            tables.migrate_all(self.say)
        elif missing := tables.pending("default") + tables.pending("sample"):
            raise CannotRun(
                f"The database lacks {len(missing)} changes of its tables (first: {missing[0]}). "
                "Run `./run migrate_all`, or start the service, which does it."
            )

    def _refuse(self, text: str, as_json: bool, cause: Exception) -> None:
        if as_json:
            self.stdout.write(writable(to_json({"ok": False, "error": text})))
        raise CommandError(writable(visible(text)), returncode=CANNOT_RUN) from cause

    def say(self, text: str) -> None:
        """A message for the person at the terminal, on stderr."""
        self.stderr.write(text, self.style.NOTICE)

    def progress(self, text: str) -> None:
        """Overwrites one line of the terminal; nothing when stderr is no terminal."""
        if self.stderr.isatty():
            # Not in the style of errors, which is what stderr has by itself.
            self.stderr.write(f"\r\x1b[K{writable(visible(text))}", str, ending="")
            self.stderr.flush()


def _name_whoever() -> None:
    """A container may run as a user that no file names: its number stands for it."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"user {os.getuid()}"


def _check_name(by: str | None) -> None:
    """Who acts is told in the trail and on reports: a name, not a text."""
    if by and (len(by) > LONGEST_NAME or not by.isprintable() or not by.strip()):
        raise CannotRun(f"--by takes a printable name of at most {LONGEST_NAME} characters")


def _check_texts(options: Mapping[str, Any]) -> None:
    """What is typed goes to pages and the trail; names of files are the files' own."""
    for name, value in options.items():
        for text in value if isinstance(value, list | tuple) else [value]:
            reason = signs.refusal(text) if isinstance(text, str) else None
            if reason and not os.path.exists(text):
                raise CannotRun(f"{name}: {reason}")


def to_json(value: object) -> str:
    """One JSON document; decimals and instants as strings (see `plain`). Signs that steer a
    terminal stand as JSON's own escapes."""
    return signs.shown(json.dumps(plain(value), ensure_ascii=False, indent=2))


def writable(text: str) -> str:
    """The text in UTF-8 whatever a file's name holds: bytes that are none become `\\udcXX`, which
    is JSON's own escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def visible(text: str) -> str:
    """The text as a terminal may show it: signs that steer one, or turn the writing's direction,
    stand as their escapes. A file's name or a cell can hold any."""
    return "".join(_shown(c) for c in text) if not text.isprintable() else text


def _shown(sign: str) -> str:
    if sign in "\n\t" or unicodedata.category(sign) not in _STEERING:
        return sign
    return sign.encode("unicode_escape").decode("ascii")


def plain(value: object) -> Any:
    """The value in JSON's types: decimals in plain notation, instants in RFC 3339 UTC with Z.

    A float is refused: it would stand for money, tokens or a ratio, none of which may be one.
    """
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, date | Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(part) for part in value]
    raise TypeError(f"{type(value).__name__} has no place in a result: {value!r}")


def instant(value: datetime) -> str:
    """An aware datetime as `2026-11-29T14:00:00Z`, with fractions only where there are any."""
    if value.tzinfo is None:
        raise TypeError(f"{value!r} has no time zone")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def lines(value: object, indent: str = "") -> list[str]:
    """A result for people: names and values, a list of like rows as a table."""
    value = plain(value)
    if isinstance(value, dict):
        return [line for key, part in value.items() for line in _named(key, part, indent)]
    if isinstance(value, list):
        if value and all(isinstance(row, dict) and _flat(row) for row in value):
            return [indent + line for line in table(value)]
        return [line for part in value for line in (lines(part, indent + "  ") or [""])]
    return [indent + _text(value)]


def _named(key: str, part: object, indent: str) -> list[str]:
    if isinstance(part, dict | list) and part:
        return [f"{indent}{key}:", *lines(part, indent + "  ")]
    return [f"{indent}{key}: {_text(part)}"]


def _flat(row: dict[str, Any]) -> bool:
    return not any(isinstance(part, dict | list) and part for part in row.values())


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows of plain values as aligned columns; numbers to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(row.get(name)) for name in names] for row in rows]
    widths = [max(len(name), *(len(row[at]) for row in cells)) for at, name in enumerate(names)]
    right = [all(not isinstance(row.get(name), str) for row in rows) for name in names]

    def line(parts: list[str]) -> str:
        padded = (
            part.rjust(width) if to_right else part.ljust(width)
            for part, width, to_right in zip(parts, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line(names), *(line(row) for row in cells)]


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value) if value not in ([], {}) else "none"
