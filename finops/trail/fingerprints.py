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
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.apps import apps
from django.db import connections, models, router, transaction
from psycopg import sql

from finops.trail.guards import GUARDED_APPS
from finops.trail.models import Entry
from finops.trail.operations import record

ACTION = "rows fixed"
ROWS_A_DIGEST = 10_000
KEYS_A_DIGEST = 200
KEY_LENGTH = 12
LOWEST = -(2**63)
"""The lowest number that a key can be."""
CHANGES = {"ledger_source": {"active", "probe"}}
"""Columns that are set anew in the course of things, by table."""

Detail = dict[str, Any]


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
    """Others were writing to all tables that have new rows; none could be fixed."""


def fix_rows(*, by: str, at: datetime, wait_seconds: float = 20) -> Entry | None:
    """Fixes what is new since the last time, in one entry of the trail; None when nothing is.

    Tables that one who began before goes on writing to for `wait_seconds` are left to the next
    time, and named in the entry as `left`. Raises Busy when nothing else is new.
    """
    database = router.db_for_write(Entry)
    fixed = fixed_tables()
    numbered = [one for one in fixed if one.is_numbered]
    highest, left = _settled(database, numbered, wait_seconds)
    known = _known()
    found = {one.table: new for one in fixed if (new := _new(database, one, known, highest))}
    if not found and left:
        raise Busy(f"others are writing to {', '.join(left)}; try again later")
    if not found:
        return None
    detail = {"tables": found} | ({"left": left} if left else {})
    return record(at=at, actor=by, action=ACTION, subject="ledger", detail=detail)


def _settled(
    database: str, numbered: Sequence[Fixed], wait_seconds: float
) -> tuple[dict[str, int], list[str]]:
    """The highest number of each table up to which no row will come any more, and the tables of
    which that cannot be said yet.

    Whoever writes holds the table before a number is drawn, and until the row can be seen. So a
    lower number than one that is seen can only be missing when its writer holds the table still;
    who takes hold of it later draws higher ones. Nobody is kept from writing, neither now nor
    while digests are computed.
    """
    highest = _highest_numbers(database, numbered)
    writers = _writers(database, list(highest))
    until = time.monotonic() + wait_seconds
    while writers and time.monotonic() < until:
        time.sleep(0.2)
        writers &= _writers(database, list(highest))
    left = {table for table, _ in writers}
    return {table: last for table, last in highest.items() if table not in left}, sorted(left)


def _highest_numbers(database: str, numbered: Sequence[Fixed]) -> dict[str, int]:
    query = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {}, max({}) FROM {}").format(
            sql.Literal(one.table), sql.Identifier(one.key), sql.Identifier(one.table)
        )
        for one in numbered
    )
    with connections[database].cursor() as cursor:
        cursor.execute(query)
        return {table: last for table, last in cursor.fetchall() if last is not None}


_WRITERS = """
SELECT relation.relname, held.virtualtransaction
FROM pg_locks held JOIN pg_class relation ON relation.oid = held.relation
WHERE held.locktype = 'relation' AND held.granted AND held.pid IS DISTINCT FROM pg_backend_pid()
  AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation.oid = ANY(%s::regclass[])
  AND held.mode IN
    ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


def _writers(database: str, tables: Sequence[str]) -> set[tuple[str, str]]:
    """Tables and the transactions of others that hold them as one who writes does."""
    with connections[database].cursor() as cursor:
        cursor.execute(_WRITERS, [list(tables)])
        return {(table, transaction) for table, transaction in cursor.fetchall()}


def _entries() -> Iterator[Entry]:
    return Entry.objects.filter(action=ACTION).order_by("number").iterator(chunk_size=20)


def _known() -> dict[tuple[str, tuple[str, ...]], Any]:
    """Up to which number, or of which keys, rows are fixed, by table and columns.

    Numbers count as far as ranges follow each other: what lies beyond a hole, as earlier versions
    left them, is fixed once more.
    """
    known: dict[tuple[str, tuple[str, ...]], Any] = {}
    for entry in _entries():
        for table, said in entry.detail["tables"].items():
            place = table, tuple(said["columns"])
            for first, last, *_ in said.get("ranges", ()):
                upto = known.get(place)
                if first is None or (upto is not None and first <= upto + 1):
                    known[place] = last if upto is None else max(upto, last)
            if "groups" in said:
                keys = known.setdefault(place, set())
                keys.update(key for _, *group in said["groups"] for key in group)
    return known


def _new(
    database: str, one: Fixed, known: Mapping[Any, Any], highest: Mapping[str, int]
) -> Detail | None:
    columns = list(one.columns)
    if one.is_numbered:
        after = known.get((one.table, one.columns))
        ranges = [list(found) for found in _ranges(database, one, after, highest.get(one.table))]
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


def _ranges(
    database: str, one: Fixed, after: int | None, highest: int | None
) -> Iterator[tuple[int | None, int, int, str]]:
    """First and last number, rows and digest of what lies beyond a number.

    One range begins where the one before it ends, the very first (None) below every number, and a
    stretch without rows belongs to the next range: numbers that were drawn and never written are
    ordinary, and a row slipped in among them must lie in a range.
    """
    first = None if after is None else after + 1
    while highest is not None and (there := _lowest(database, one, first, highest)) is not None:
        end = min(there + ROWS_A_DIGEST - 1, highest)
        yield first, end, *_range(database, one, first, end)
        first = end + 1


def _lowest(database: str, one: Fixed, first: int | None, last: int) -> int | None:
    with connections[database].cursor() as cursor:
        query = "SELECT min({key}) FROM {table} WHERE {key} BETWEEN %s AND %s"
        cursor.execute(_composed(query, one), [_number(first), last])
        (found,) = cursor.fetchone()
        return None if found is None else int(found)


def _number(first: int | None) -> int:
    return LOWEST if first is None else first


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


def _range(database: str, one: Fixed, first: int | None, last: int) -> tuple[int, str]:
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(_PLAIN)
        cursor.execute(_composed(_RANGE, one), [_number(first), last])
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
    wanted = None if only is None else frozenset(only)
    tables = {one.table: one for one in fixed_tables()}
    now = _Now(router.db_for_read(Entry))
    for entry in _entries():
        when = f"as fixed on {entry.at:%Y-%m-%d %H:%M} UTC (entry {entry.number} of the trail)"
        for table, said in entry.detail["tables"].items():
            if wanted is not None and table not in wanted:
                continue
            one = tables.get(table)
            if one is None or not set(said["columns"]) <= now.columns(table):
                yield f"{table}: the table lacks columns that were fixed, {when}"
                continue
            asked = Fixed(table, one.key, one.is_numbered, tuple(said["columns"]))
            yield from (f"{table}: {found} {when}" for found in _differences(now, asked, said))


class _Now:
    """The tables as they are now: what many entries ask for is read once in a run."""

    def __init__(self, database: str) -> None:
        self.database = database
        self._columns: dict[str, set[str]] = {}
        self._keyed: dict[Fixed, dict[str, str]] = {}

    def columns(self, table: str) -> set[str]:
        """The names of a table's columns; none when there is no such table."""
        if table not in self._columns:
            connection = connections[self.database]
            with connection.cursor() as cursor:
                told = connection.introspection.get_table_description(cursor, table)
            self._columns[table] = {one.name for one in told}
        return self._columns[table]

    def keyed(self, one: Fixed) -> dict[str, str]:
        """The digest of each row of a table without numbers, by the beginning of its key."""
        if one not in self._keyed:
            found: dict[str, str] = {}
            for key, digest in _row_digests(self.database, one):
                found[key[:KEY_LENGTH]] = found.get(key[:KEY_LENGTH], "") + digest
            self._keyed[one] = found
        return self._keyed[one]


def _differences(now: _Now, one: Fixed, said: Detail) -> Iterator[str]:
    for first, last, rows, digest in said.get("ranges", ()):
        found, is_now = _range(now.database, one, first, last)
        stretch = f"from {'the first' if first is None else first} to {last}"
        if found != rows:
            yield f"{rows} rows {stretch} are now {found}, not"
        elif is_now != digest:
            yield f"a row {stretch} is not"
    if "groups" in said:
        yield from _changed_groups(now.keyed(one), said["groups"])


def _changed_groups(there: Mapping[str, str], groups: Iterable[Sequence[str]]) -> Iterator[str]:
    for digest, *keys in groups:
        gone = [key for key in keys if key not in there]
        if gone:
            yield f"the row {gone[0]}… is gone, not"
        elif _together(there[key] for key in keys) != digest:
            yield f"a row of {keys[0]}… to {keys[-1]}… is not"
