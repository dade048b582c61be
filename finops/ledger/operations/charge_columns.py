"""A charge beside what its document says of it: which columns, in which order, how they are told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from finops.ledger.operations.charge_rows import COLUMNS, RECORD_NAMES, row_of
from finops.sources.records import ChargeRecord
from finops.sources.summing import DIMENSIONS

KEPT = frozenset(COLUMNS) - {"snapshot_id", "document_id", "line", "last_line", "line_count"}
SUMMED = frozenset(name for name in KEPT if RECORD_NAMES.get(name, name) in DIMENSIONS)
"""What all lines of a kept sum have in common."""
Row = dict[str, Any]


def said_by(record: ChargeRecord) -> Row:
    """A charge's columns as its document has them."""
    said = dict(zip(COLUMNS, row_of(record, 0, ""), strict=True))
    said["tags"] = json.loads(said["tags"])
    return said


def differing_columns(
    place: str, row: Row, said: Row, columns: Iterable[str] = KEPT
) -> Iterator[str]:
    """Where a row is not what is said of it; `place` names document and line."""
    for name in in_order(columns):
        if row[name] != said[name]:
            yield f"{place}: {name} is {shown(row[name])}, its document says {shown(said[name])}"


def in_order(names: Iterable[str]) -> list[str]:
    """Columns in the order of the table."""
    asked = set(names)
    return [name for name in COLUMNS if name in asked]


def shown(value: object) -> str:
    """A value in a sentence."""
    return "empty" if value is None else str(value)[:100]
