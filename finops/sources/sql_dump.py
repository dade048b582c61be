"""Usage records out of a database dump (§6): LiteLLM's spend log, or a table that a mapping names.

A mapping is JSON: `{"table": "requests", "columns": {"tokens_in": "prompt_tokens", "at": "time"},
"constants": {"model": "legacy-13b"}}`. Columns that it does not name keep their own names, which
are read like the keys of usage records. Of all other tables nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from finops.sources import usage_records
from finops.sources.records import Account, Parsed, Refused, Rejection, UsageRecord
from finops.sources.sql_text import Dump, is_dump
from finops.sources.usage_records import Fault

PREFIX: Final = "sql:"
FORMATS: Final[tuple[str, ...]] = ("sql-dump",)
LITELLM: Final = "LiteLLM_SpendLogs"
MAX_MAPPING_BYTES: Final = 1 << 20
_HINT: Final = "write a mapping of its columns and give it: `ingest FILE --as sql:MAPPING.json`"
_OWN_CACHE: Final = "answers out of the gateway's own cache are left out: no engine worked for them"
Take = Callable[[dict[str, str | None]], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class TableMapping:
    """What a mapping says: the table, its columns' meanings, and what the table does not hold."""

    table: str
    columns: Mapping[str, str]
    constants: Mapping[str, str]

    def take(self, row: dict[str, str | None]) -> Mapping[str, Any]:
        """A row of the table under the names of usage records."""
        named = {self.columns.get(name, name): value for name, value in row.items()}
        return dict(self.constants) | named


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the document begins as a dump of PostgreSQL, MySQL or MariaDB."""
    return FORMATS[0] if is_dump(head) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """One record a request of LiteLLM's spend log; Refused where the dump has no such table."""
    account = Account(format)
    return Parsed(account, _records(Dump(path, name), LITELLM, _litellm(account), account))


def parse_with(path: Path, name: str, format: str, mapping: Path) -> Parsed:
    """One record a row of the mapping's table. Refused where it or the mapping cannot be read."""
    account, said = Account(format), mapping_of(mapping, name)
    return Parsed(account, _records(Dump(path, name), said.table, said.take, account))


def mapping_of(path: Path, name: str) -> TableMapping:
    """The mapping in a file; Refused says what is wrong with it."""
    try:
        content = path.read_bytes()
        value = orjson.loads(content) if len(content) <= MAX_MAPPING_BYTES else None
    except OSError as error:
        raise Refused(f"{name}: the mapping {path} cannot be read ({error.strerror})") from None
    except orjson.JSONDecodeError as error:
        raise Refused(f"{name}: the mapping is not JSON ({error.msg})") from None
    if not isinstance(value, dict) or not isinstance(value.get("table"), str):
        raise Refused(f'{name}: a mapping is an object with "table", and "columns" or "constants"')
    if unknown := set(value) - {"table", "columns", "constants"}:
        raise Refused(f"{name}: {min(unknown)!r} is no part of a mapping of a table")
    columns, constants = (value.get(part) or {} for part in ("columns", "constants"))
    for part in (columns, constants):
        if not isinstance(part, dict) or not all(isinstance(v, str) for v in part.values()):
            raise Refused(f"{name}: columns and constants of a mapping name texts by text")
    known = usage_records.KEYS
    for target in [*columns.values(), *constants]:
        if target not in known:
            raise Refused(f"{name}: {target[:80]!r} is none of {', '.join(sorted(known))}")
    return TableMapping(value["table"], columns, constants)


def _records(
    dump: Dump, table: str, take: Take, account: Account
) -> Iterator[UsageRecord | Rejection]:
    for line, values, columns in dump.rows(table):
        account.rows_read += 1
        try:
            if len(values) != len(columns):
                reason = f"the row has {len(values)} values, the table {len(columns)} columns"
                raise Fault(None, len(values), reason)
            row = take(dict(zip(columns, values, strict=True)))
            if row is None:
                account.rows_in_parent += 1
                continue
            yield usage_records.record(line, row)
        except Fault as fault:
            yield Rejection.of(line, fault.column, fault.value, fault.reason)
    if not any(one.rsplit(".", 1)[-1] == table or one == table for one in dump.tables):
        found = ", ".join(dump.tables) or "no table with rows"
        raise Refused(
            f"{dump.name}: no rows of a table {table}; found: {found}. For another, {_HINT}"
        )


def _litellm(account: Account) -> Take:
    """How a row of LiteLLM's spend log is taken: tokens by the end of the request, of its model;
    requests that failed without tokens, and answers out of the gateway's own cache, are not."""

    def take(row: dict[str, str | None]) -> Mapping[str, Any] | None:
        if row.get("cache_hit") in ("True", "true", "t"):
            if _OWN_CACHE not in account.warnings:
                account.warnings.append(_OWN_CACHE)
            return None
        if row.get("status") == "failure" and row.get("total_tokens") == "0":
            return None
        taken: dict[str, Any] = {
            "request_id": row.get("request_id"),
            "time": row.get("endTime") or row.get("startTime"),
            "model": row.get("model") or row.get("model_group") or None,
            "prompt_tokens": row.get("prompt_tokens"),
            "completion_tokens": row.get("completion_tokens"),
            "total_tokens": row.get("total_tokens"),
            "team": row.get("team_id") or None,
        }
        cached = _cached(row.get("metadata"))
        return taken if cached is None else taken | {"cached_tokens": cached}

    return take


def _cached(metadata: str | None) -> int | None:
    """Cached prompt tokens, where the log's metadata keeps the usage as the engine told it."""
    try:
        value = orjson.loads(metadata or "{}")
    except orjson.JSONDecodeError:
        return None
    for kept in ("usage_object", "additional_usage_values"):
        usage = value.get(kept) if isinstance(value, dict) else None
        details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        if type(cached) is int:
            return cached
    return None
