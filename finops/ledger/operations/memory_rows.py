"""Hours of caches and devices on their way into the ledger, as lines of COPY.

A row is posted only where it differs from the current one. Current rows are read as plain values,
those of all series of a batch at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson
from django.db import connections, models
from psycopg import sql

from finops.core.cache import CacheHourRow
from finops.core.device import DeviceHourRow
from finops.core.holders import Holders
from finops.core.period import instant_of
from finops.ledger.models import CacheHour, DeviceHour
from finops.ledger.which import ledger_name

from .bulk import text_field
from .copying import copy_lines

CACHE_COLUMNS = (
    "blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms", "active_block_ms",
    "reserved_block_ms", "peak_blocks", "peak_ms", "peak_running", "peak_waiting", "stale_ms", "levels_ms",
    "configuration",
)  # fmt: skip
DEVICE_COLUMNS = (
    "observed_ms", "used_byte_ms", "free_byte_ms", "reserved_byte_ms", "total_bytes",
    "peak_used_bytes", "peak_ms", "tenants", "shared", "labels", "holders",
)  # fmt: skip
JSON_COLUMNS = ("levels_ms", "configuration", "tenants", "labels", "holders")

Values = tuple[Any, ...]
"""A row's values, of JSON columns as Python holds them."""

DeviceKey = tuple[int, str]
"""Target and device."""

DeviceRows = tuple[DeviceKey, Mapping[str, str], Mapping[int, Holders], Sequence[DeviceHourRow]]
"""A device, the labels that stand beside it, who held it by hour, and its hours."""


def post_caches(
    fresh: Iterable[tuple[int, Sequence[CacheHourRow]]], since_ms: int, at: datetime
) -> None:
    """Posts the hours of series from an instant on that differ from the current ones."""
    told = {
        (key, row.hour_ms): (
            row.pool.blocks, row.pool.block_size, row.pool.pool_tokens, row.pool.max_model_len,
            row.observed_ms, row.active_block_ms, row.reserved_block_ms, row.peak_blocks,
            row.peak_ms, row.peak_running, row.peak_waiting, row.stale_ms, row.levels_ms, dict(row.pool.configuration),
        )
        for key, rows in fresh
        for row in rows
        if row.hour_ms >= since_ms
    }  # fmt: skip
    _post(CacheHour, ("series_id",), CACHE_COLUMNS, told, since_ms, at)


def post_devices(fresh: Iterable[DeviceRows], since_ms: int, at: datetime) -> None:
    """Posts the hours of devices from an instant on that differ from the current ones."""
    told = {
        (*key, row.hour_ms): (
            row.observed_ms, row.byte_ms.get("used"), row.byte_ms.get("free"),
            row.byte_ms.get("reserved"), row.total_bytes, row.peak_used_bytes, row.peak_ms,
            [list(one) for one in sorted(row.tenants)], row.shared, labels,
            holders.get(row.hour_ms, {}),
        )
        for key, labels, holders, rows in fresh
        for row in rows
        if row.hour_ms >= since_ms
    }  # fmt: skip
    _post(DeviceHour, ("target_id", "device"), DEVICE_COLUMNS, told, since_ms, at)


def _post(
    model: type[models.Model],
    key: Sequence[str],
    columns: Sequence[str],
    fresh: Mapping[tuple[Any, ...], Values],
    since_ms: int,
    at: datetime,
) -> None:
    if not fresh:
        return
    whose_all = dict.fromkeys(whose[:-1] for whose in fresh)
    keys = [list(column) for column in zip(*whose_all, strict=True)]
    current = _current(model, key, columns, keys, since_ms)
    posted_at = at.isoformat()
    lines = []
    for whose, values in fresh.items():
        old = current.get(whose)
        if old is None or old[1] != values:
            revision = 1 if old is None else old[0] + 1
            lines.append(_line((*whose[:-1], _hour(whose[-1]), revision, *values, posted_at)))
    copy_lines(model, (*key, "hour", "revision", *columns, "posted_at"), lines)


def _current(
    model: type[models.Model],
    key: Sequence[str],
    columns: Sequence[str],
    keys: Sequence[list[Any]],
    since_ms: int,
) -> dict[tuple[Any, ...], tuple[int, Values]]:
    """Revision and values of the newest rows from an instant on, by key and hour (ms)."""
    # Levels differ from row to row, and are milliseconds of an hour.
    parsed = {
        place: orjson.loads if name == "levels_ms" else _remembered
        for place, name in enumerate(columns)
        if name in JSON_COLUMNS
    }
    found = {}
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_newest(model, key, columns), [*keys, instant_of(since_ms)])
        for row in cursor.fetchall():
            revision, *values = row[len(key) + 1 :]
            for place, parse in parsed.items():
                values[place] = parse(values[place])
            found[row[: len(key) + 1]] = (revision, tuple(values))
    return found


# By the index of each key: the cost of asking must not grow with history.
_NEWEST = sql.SQL("""
SELECT {wanted}, (extract(epoch FROM newest.hour) * 1000)::bigint, newest.revision, {told}
FROM unnest({arrays}) AS wanted({names})
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (hour) *
    FROM {table} AS row
    WHERE {same} AND hour >= %s
    ORDER BY hour, revision DESC
) newest
""")
_TYPES = {"series_id": sql.SQL("bigint"), "target_id": sql.SQL("bigint"), "device": sql.SQL("text")}


def _newest(model: type[models.Model], key: Sequence[str], columns: Sequence[str]) -> sql.Composed:
    """The newest row of each hour, of some keys, from an instant on; JSON as text."""
    names = list(map(sql.Identifier, key))
    comma = sql.SQL(", ")
    told = [
        sql.SQL("newest.{}::text" if name in JSON_COLUMNS else "newest.{}").format(
            sql.Identifier(name)
        )
        for name in columns
    ]
    return _NEWEST.format(
        wanted=comma.join(sql.SQL("wanted.{}").format(name) for name in names),
        told=comma.join(told),
        arrays=comma.join(sql.SQL("%s::{}[]").format(_TYPES[name]) for name in key),
        names=comma.join(names),
        table=sql.Identifier(model._meta.db_table),
        same=sql.SQL(" AND ").join(sql.SQL("row.{0} = wanted.{0}").format(name) for name in names),
    )


@lru_cache(maxsize=4096)
def _remembered(text: str) -> Any:
    """JSON of a row; many rows have the same. Numbers beyond 64 bits stay whole."""
    return json.loads(text)


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # a number beyond 64 bits
        return json.dumps(value).encode()


@lru_cache(maxsize=256)
def _hour(hour_ms: int) -> str:
    return instant_of(hour_ms).isoformat()


def _line(values: Sequence[Any]) -> bytes:
    return "\t".join([_WRITTEN[type(value)](value) for value in values]).encode() + b"\n"


@lru_cache(maxsize=1 << 13)
def _as_text(value: str) -> str:
    return text_field(value).decode()


def _as_json(value: Any) -> str:
    return text_field(_json(value)).decode()


_WRITTEN: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "\\N",
    bool: lambda value: "t" if value else "f",
    int: str,
    str: _as_text,
    dict: _as_json,
    list: _as_json,
}
