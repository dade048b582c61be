"""Fingerprints of rows: digests that the trail keeps, so that a changed row shows for ever after.

Most of the ledger can be computed again from its documents. What people decided and what was
derived long ago cannot, and none of it is safe from one who may switch triggers off. So from time
to time every row that is new since the last time is fixed: the SHA-256 of its columns goes, with
those of its neighbours, into a digest, and the digests into an entry of the trail. The trail's head
is printed with each seal.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.apps import apps
from django.db import connections, models, router, transaction
from django.db.utils import OperationalError
from psycopg import sql

from finops.trail.guards import GUARDED_APPS
from finops.trail.models import Entry
from finops.trail.operations import record

ACTION = "rows fixed"
ROWS_A_DIGEST = 10_000
KEYS_A_DIGEST = 200
KEY_LENGTH = 12
CHANGES = {"ledger_source": {"active", "probe"}}
"""Columns that are set anew in the course of things, by table."""

Detail = dict[str, Any]
Database = Any


@dataclass(frozen=True, slots=True)
class Fixed:
    """A table whose rows are fixed: its key and the columns that count."""

    table: str
    key: str
    is_numbered: bool
    columns: tuple[str, ...]


def fixed_tables() -> list[Fixed]:
    """All tables of the ledger and the reports; the trail fixes itself by its chain."""
    found = [
        _fixed(model)
        for app in GUARDED_APPS
        for model in apps.get_app_config(app).get_models()
        if model is not Entry
    ]
    return sorted(found, key=lambda one: one.table)


def _fixed(model: type[models.Model]) -> Fixed:
    meta = model._meta
    columns = [str(field.column) for field in meta.concrete_fields]
    skipped = CHANGES.get(meta.db_table, set())
    return Fixed(
        meta.db_table,
        str(meta.pk.column),
        isinstance(meta.pk, models.IntegerField),
        tuple(c for c in columns if c not in skipped),
    )


class Busy(RuntimeError):
    """Others write all the time: no instant was found at which all rows stand still."""


def fix_rows(*, by: str, at: datetime, wait_seconds: float = 20) -> Entry | None:
    """Fixes what is new since the last time, in one entry of the trail; None when nothing is.

    All tables are looked at in one instant at which nobody writes. Raises Busy when none comes
    within `wait_seconds`.
    """
    database = router.db_for_write(Entry)
    fixed = fixed_tables()
    with transaction.atomic(using=database):
        _stand_still(database, [one.table for one in fixed], wait_seconds)
        known = _known()
        found = {one.table: new for one in fixed if (new := _new(database, one, known))}
        if not found:
            return None
        return record(at=at, actor=by, action=ACTION, subject="ledger", detail={"tables": found})


def _stand_still(database: str, tables: Sequence[str], wait_seconds: float) -> None:
    """Keeps others from writing until the transaction ends; never waits in a queue that would
    hold them up."""
    names = sql.SQL(", ").join(map(sql.Identifier, tables))
    until = time.monotonic() + wait_seconds
    while True:
        with suppress(OperationalError), transaction.atomic(using=database):
            with connections[database].cursor() as cursor:
                cursor.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE NOWAIT").format(names))
            return
        if time.monotonic() > until:
            raise Busy("others are writing to the ledger; try again later")
        time.sleep(0.2)


def _entries() -> Iterator[Entry]:
    return Entry.objects.filter(action=ACTION).order_by("number").iterator(chunk_size=20)


def _known() -> dict[tuple[str, tuple[str, ...]], Any]:
    """Up to which number, or of which keys, rows are fixed, by table and columns."""
    known: dict[tuple[str, tuple[str, ...]], Any] = {}
    for entry in _entries():
        for table, said in entry.detail["tables"].items():
            place = table, tuple(said["columns"])
            if "ranges" in said:
                known[place] = max(known.get(place, 0), said["ranges"][-1][1])
            else:
                keys = known.setdefault(place, set())
                keys.update(key for _, *group in said["groups"] for key in group)
    return known


def _new(database: str, one: Fixed, known: Mapping[Any, Any]) -> Detail | None:
    columns = list(one.columns)
    if one.is_numbered:
        after = known.get((one.table, one.columns), 0)
        ranges = [list(found) for found in _ranges(database, one, after)]
        return {"columns": columns, "ranges": ranges} if ranges else None
    before = known.get((one.table, one.columns), set())
    rows = {
        k[:KEY_LENGTH]: d for k, d in _row_digests(database, one) if k[:KEY_LENGTH] not in before
    }
    keys = iter(sorted(rows))
    groups = []
    while group := list(islice(keys, KEYS_A_DIGEST)):
        groups.append([_together(rows[key] for key in group), *group])
    return {"columns": columns, "groups": groups} if groups else None


def _ranges(database: str, one: Fixed, after: int) -> Iterator[tuple[int, int, int, str]]:
    """First and last number, rows and digest of what lies beyond a number."""
    with connections[database].cursor() as cursor:
        query = "SELECT min({key}), max({key}) FROM {table} WHERE {key} > %s"
        cursor.execute(_composed(query, one), [after])
        first, last = cursor.fetchone()
    if last is None:
        return
    for start in range(first, last + 1, ROWS_A_DIGEST):
        end = min(start + ROWS_A_DIGEST - 1, last)
        rows, digest = _range(database, one, start, end)
        if rows:
            yield start, end, rows, digest


_RANGE = """
SELECT count(*), encode(sha256(coalesce(string_agg(
  sha256(convert_to(ROW({columns})::text, 'UTF8')), ''::bytea ORDER BY {key}), ''::bytea)), 'hex')
FROM {table} WHERE {key} BETWEEN %s AND %s
"""
_ROWS = """
SELECT {key}::text, encode(sha256(convert_to(ROW({columns})::text, 'UTF8')), 'hex') FROM {table}
"""
_PLAIN = (
    "SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL bytea_output = 'hex'"
)
"""How a row is written must not depend on who asks."""


def _composed(query: str, one: Fixed) -> sql.Composed:
    return sql.SQL(query).format(
        key=sql.Identifier(one.key),
        table=sql.Identifier(one.table),
        columns=sql.SQL(", ").join(map(sql.Identifier, one.columns)),
    )


def _range(database: str, one: Fixed, first: int, last: int) -> tuple[int, str]:
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(_PLAIN)
        cursor.execute(_composed(_RANGE, one), [first, last])
        rows, digest = cursor.fetchone()
        return int(rows), str(digest)


def _row_digests(database: str, one: Fixed) -> list[tuple[str, str]]:
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(_PLAIN)
        cursor.execute(_composed(_ROWS, one))
        return list(cursor.fetchall())


def _together(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def changed_rows(only: Iterable[str] | None = None) -> Iterator[str]:
    """What is not as it was when it was fixed; one sentence for each group of rows.

    `only`: the tables to look at; None for all.
    """
    database = router.db_for_read(Entry)
    tables = {one.table: one for one in fixed_tables()}
    wanted = set(tables) if only is None else set(only)
    for entry in _entries():
        for table, said in entry.detail["tables"].items():
            if only is not None and table not in wanted:
                continue
            when = f"as fixed on {entry.at:%Y-%m-%d %H:%M} UTC (entry {entry.number} of the trail)"
            one = tables.get(table)
            if one is None or not set(said["columns"]) <= _columns(database, table):
                yield f"{table}: the table lacks columns that were fixed, {when}"
                continue
            asked = Fixed(table, one.key, one.is_numbered, tuple(said["columns"]))
            yield from (f"{table}: {found} {when}" for found in _differences(database, asked, said))


def _columns(database: str, table: str) -> set[str]:
    with connections[database].cursor() as cursor:
        return {
            one.name
            for one in connections[database].introspection.get_table_description(cursor, table)
        }


def _differences(database: str, one: Fixed, said: Detail) -> Iterator[str]:
    for first, last, rows, digest in said.get("ranges", ()):
        found, is_now = _range(database, one, first, last)
        if found != rows:
            yield f"{rows} rows from {first} to {last} are now {found}, not"
        elif is_now != digest:
            yield f"a row from {first} to {last} is not"
    if "groups" in said:
        yield from _changed_groups(_row_digests(database, one), said["groups"])


def _changed_groups(
    rows: Iterable[tuple[str, str]], groups: Iterable[Sequence[str]]
) -> Iterator[str]:
    there: dict[str, str] = {}
    for key, digest in rows:
        there[key[:KEY_LENGTH]] = there.get(key[:KEY_LENGTH], "") + digest
    for digest, *keys in groups:
        gone = [key for key in keys if key not in there]
        if gone:
            yield f"the row {gone[0]}… is gone, not"
        elif _together(there[key] for key in keys) != digest:
            yield f"a row of {keys[0]}… to {keys[-1]}… is not"
