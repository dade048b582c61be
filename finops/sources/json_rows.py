"""Rows of a billing export given as JSON: one object a line, a list, or pages of an API.

Numbers keep the digits they are written with; none passes through a binary float. Of a list the
first object is called line 2, as if the names of the columns stood on line 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from finops.sources.files import byte_lines, read_whole
from finops.sources.records import Refused

LARGEST_BYTES: Final = 64 * 1024 * 1024
_LISTS: Final = ("data", "items", "results", "records", "rows", "value")
Cells = list[str | None]


def looks_like_json(start: bytes) -> bool:
    """Whether a document starts as a JSON object or list does."""
    return start.lstrip()[:1] in (b"{", b"[")


def json_rows(path: Path, name: str) -> Iterator[tuple[int, Cells]]:
    """Line 1 with the names of all columns, then each row with its line.

    Refused when it is no JSON, holds no list of objects, or it is over 64 MiB unpacked.
    """
    lines = _lines(path, name)
    if lines is None:
        lines = list(_listed(path, name))
    columns: dict[str, None] = {}
    for _, fields in lines:
        columns.update(dict.fromkeys(fields))
    yield 1, list(columns)
    for line, fields in lines:
        yield line, [_text(fields.get(column)) for column in columns]


def _lines(path: Path, name: str) -> list[tuple[int, dict[str, Any]]] | None:
    """The objects of JSON lines; None when the document is no JSON lines."""
    found: list[tuple[int, dict[str, Any]]] = []
    size = 0
    for line, content in byte_lines(path, name):
        if not content.strip():
            continue
        size += len(content)
        value = _value(content)
        if not isinstance(value, dict) or _pages(value) is not None:
            if found:
                raise Refused(f"{name}: line {line}: not a JSON object", line=line)
            return None
        if size > LARGEST_BYTES:
            raise Refused(f"{name}: more than {LARGEST_BYTES} bytes of JSON; hand over CSV")
        found.append((line, value))
    return found


def _listed(path: Path, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    value = _value(read_whole(path, name, LARGEST_BYTES))
    rows = _pages(value) if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise Refused(f"{name}: not a list of JSON objects")
    for at, one in enumerate(rows, start=2):
        if not isinstance(one, dict):
            raise Refused(f"{name}: entry {at - 1} of the list is no JSON object")
        yield at, one


def _pages(value: dict[str, Any]) -> list[Any] | None:
    """The list of rows of an API's page."""
    return next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)


def _value(content: bytes) -> Any:
    try:
        return json.loads(content, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
