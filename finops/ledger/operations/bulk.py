"""Posting many rows at once by COPY: several times as quick as INSERT through the models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from django.db import IntegrityError, connections, models, transaction
from psycopg import sql
from psycopg.types.json import Jsonb

from finops.ledger.operations.bulk_binary import BEGINNING, END
from finops.ledger.operations.bulk_text import text_field as text_field
from finops.ledger.which import ledger_name

_INCOMING = "headroom_incoming"
Line = bytes
"""One row in COPY's text form, with its newline; or in its binary form (`bulk_binary`)."""


def copy_lines(model: type[models.Model], names: Sequence[str], lines: Sequence[Line]) -> None:
    """Inserts rows that were written as lines of COPY's text form, columns in the order named.

    As `copy_rows`, for very many rows: no object is made of any.
    """
    if lines:
        connection = connections[ledger_name()]
        with connection.wrap_database_errors, connection.cursor() as cursor:
            feed(cursor, model._meta.db_table, names, lines)


def copy_new_lines(
    model: type[models.Model],
    names: Sequence[str],
    lines: Sequence[Line],
    *,
    is_binary: bool = False,
) -> None:
    """The same, without the rows that a unique constraint holds already. In a transaction only.

    Such rows are rare, so all are tried at once first.
    """
    if not lines:
        return
    connection = connections[ledger_name()]
    with connection.wrap_database_errors, connection.cursor() as cursor:

        def fill(table: str) -> None:
            feed(cursor, table, names, lines, is_binary=is_binary)

        try:
            with transaction.atomic(using=ledger_name()), connection.wrap_database_errors:
                fill(model._meta.db_table)
        except IntegrityError:
            fill_through_table(cursor, model, fill)


def feed(
    cursor: Any,
    table: str,
    names: Sequence[str],
    lines: Sequence[Line],
    *,
    is_binary: bool = False,
) -> None:
    """Inserts lines by a cursor of Django's or of the driver's own."""
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    form = sql.SQL(" (FORMAT binary)" if is_binary else "")
    statement = sql.SQL("COPY {} ({}) FROM STDIN{}").format(sql.Identifier(table), columns, form)
    with cursor.copy(statement) as copy:
        if is_binary:
            copy.write(BEGINNING)
        for start in range(0, len(lines), 500):
            copy.write(b"".join(lines[start : start + 500]))
        if is_binary:
            copy.write(END)


def copy_rows(rows: Sequence[models.Model]) -> None:
    """Inserts new rows of one model into the ledger in use; the database gives the keys.

    The rows' own keys stay unset, and no signal is sent. A broken constraint raises
    django.db.IntegrityError, as an INSERT would.
    """
    if rows:
        _copy(rows, type(rows[0])._meta.db_table)


def fill_through_table(cursor: Any, model: type[models.Model], fill: Callable[[str], None]) -> None:
    """Fills a temporary table, then takes from it the rows that are not there yet."""
    table = model._meta.db_table
    columns = sql.SQL(", ").join(map(sql.Identifier, _columns(model)))
    names = {
        "columns": columns,
        "table": sql.Identifier(table),
        "incoming": sql.Identifier(_INCOMING),
    }
    cursor.execute(
        sql.SQL("CREATE TEMP TABLE {incoming} AS SELECT {columns} FROM {table} WITH NO DATA").format(**names)
    )  # fmt: skip
    fill(_INCOMING)
    cursor.execute(
        sql.SQL("INSERT INTO {table} ({columns}) SELECT {columns} FROM {incoming} ON CONFLICT DO NOTHING").format(**names)
    )  # fmt: skip
    cursor.execute(sql.SQL("DROP TABLE {incoming}").format(**names))


def _copy(rows: Sequence[models.Model], table: str) -> None:
    fields = _fields(type(rows[0]))
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in _columns(type(rows[0])))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), columns)
    values = attrgetter(*(field.attname for field in fields))
    prepared = [(i, as_) for i, field in enumerate(fields) if (as_ := _preparing(field))]
    connection = connections[ledger_name()]
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        for row in rows:
            line = list(values(row))
            for index, prepare in prepared:
                line[index] = None if line[index] is None else prepare(line[index])
            copy.write_row(line)


def _fields(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    return [f for f in model._meta.concrete_fields if not isinstance(f, models.AutoField)]


def _columns(model: type[models.Model]) -> list[str]:
    return [str(field.column) for field in _fields(model)]


def _preparing(field: models.Field[Any, Any]) -> Callable[[Any], object] | None:
    if isinstance(field, models.JSONField):
        return Jsonb
    if isinstance(field, models.BinaryField):
        return bytes
    return None
