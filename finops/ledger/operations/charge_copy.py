"""Charges into the ledger in use by COPY: rows, and lines that were written as COPY reads them.

Inside a `Copying` the database takes them in beside the work, so that a refusal may come later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from finops.ledger.operations.charge_rows import COLUMNS, columns_of
from finops.ledger.operations.copying import beside


def copy_charges(rows: list[tuple[Any, ...]]) -> None:
    """Adds rows of `charge_rows.row_of`, all at once."""

    def write(cursor: Any) -> None:
        with cursor.copy(_copy(COLUMNS)) as copy:
            for row in rows:
                copy.write_row(row)

    if rows:
        beside(write)


def copy_lines(fields: Sequence[str], parts: Iterable[str]) -> None:
    """Adds charges that were written as lines: what the `fields` tell, then an ending.

    While one part is taken in the next one is asked for.
    """
    statement = _copy(columns_of(fields))
    for part in parts:
        beside(_writing(statement, part))


def copy_text(lines: bytes) -> None:
    """Adds rows of `charge_rows.row_of` that were written as lines."""
    beside(_writing(_copy(COLUMNS), lines))


def _writing(statement: str, lines: str | bytes) -> Callable[[Any], None]:
    def write(cursor: Any) -> None:
        with cursor.copy(statement) as copy:
            copy.write(lines)

    return write


def _copy(columns: Sequence[str]) -> str:
    return f"COPY ledger_charge ({', '.join(columns)}) FROM STDIN"
