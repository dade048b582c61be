"""A table of an evidence pack: rows of text, whole numbers or nothing (method §11)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from finops.core.money import plain
from finops.core.period import rfc3339


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its name, its columns, and rows of text, whole numbers or None."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def _text(value: Any) -> Any:
    """A value as it stands in a table: instants RFC 3339, decimals plain, None empty."""
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return plain(value)


def table(name: str, columns: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> Table:
    """A table whose rows are made text."""
    return Table(name, columns, [tuple(_text(value) for value in row) for row in rows])
