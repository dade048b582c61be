"""Charges into the ledger in use by COPY: rows, and lines that were written as COPY reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connections

from finops.ledger.operations.charge_rows import COLUMNS, columns_of
from finops.ledger.which import ledger_name


def copy_charges(rows: list[tuple[Any, ...]]) -> None:
    """Adds rows of `charge_rows.row_of`, all at once."""
    if not rows:
        return
    with connections[ledger_name()].cursor() as cursor, cursor.copy(_copy(COLUMNS)) as copy:
        for row in rows:
            copy.write_row(row)


def copy_lines(fields: Sequence[str], parts: Iterable[str]) -> None:
    """Adds charges that were written as lines: what the `fields` tell, then an ending."""
    statement = _copy(columns_of(fields))
    with connections[ledger_name()].cursor() as cursor, cursor.copy(statement) as copy:
        for part in parts:
            copy.write(part)


def copy_text(lines: bytes) -> None:
    """Adds rows of `charge_rows.row_of` that were written as lines."""
    with connections[ledger_name()].cursor() as cursor, cursor.copy(_copy(COLUMNS)) as copy:
        copy.write(lines)


def _copy(columns: Sequence[str]) -> str:
    return f"COPY ledger_charge ({', '.join(columns)}) FROM STDIN"
