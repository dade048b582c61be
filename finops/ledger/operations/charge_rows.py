"""Charges as rows of their table: which columns, and what of a text can be stored; no database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from finops.ledger.operations.bulk_text import text_field
from finops.sources.records import ChargeRecord
from finops.sources.summing import DIMENSIONS

TEXTS = (
    "billing_account_name",
    "sub_account",
    "sub_account_name",
    "provider",
    "service",
    "service_category",
    "sku",
    "sku_price",
    "resource",
    "resource_name",
    "resource_type",
    "region",
    "instance_type",
    "gpu_model",
    "description",
    "frequency",
    "pricing_category",
    "pricing_unit",
    "consumed_unit",
    "commitment",
    "commitment_name",
    "commitment_status",
    "invoice",
    "charge_class",
    "rate_card",
)
NUMBERS = (
    "billed_cost",
    "effective_cost",
    "list_cost",
    "contracted_cost",
    "gpu_count",
    "pricing_quantity",
    "consumed_quantity",
    "list_unit_price",
    "contracted_unit_price",
)
COLUMNS = (
    "snapshot_id",
    "document_id",
    "line",
    "last_line",
    "line_count",
    "charge_start",
    "charge_end",
    "billing_period_start",
    "billing_period_end",
    "category",
    "currency",
    *NUMBERS,
    *TEXTS,
    "tags",
)
RECORD_NAMES = {"charge_start": "charge_period_start", "charge_end": "charge_period_end"}
"""Columns of the table that a record calls otherwise."""
_COLUMN_NAMES = {field: column for column, field in RECORD_NAMES.items()}
_OF_SUMS = (
    "snapshot_id",
    "document_id",
    "billing_period_start",
    "billing_period_end",
    "category",
    "currency",
    *(name for name in TEXTS if name in DIMENSIONS),
    "tags",
)
_OF_THE_TABLE = ("last_line", "line_count")  # its defaults say that a line is kept whole
MOST_ENDINGS = 5000
_endings: dict[tuple[object, ...], str] = {}
"""Of kept sums of late: a bill's kinds come again in each of its tables."""
_PLACE = attrgetter(
    "line",
    "last_line",
    "line_count",
    "charge_period_start",
    "charge_period_end",
    "billing_period_start",
    "billing_period_end",
    "category",
    "currency",
)
_NUMBERS = attrgetter(*NUMBERS)
_TEXTS = attrgetter(*TEXTS)


def row_of(record: ChargeRecord, snapshot_id: int, sha256: str) -> tuple[Any, ...]:
    """A charge as a row of the table, with what cannot be stored shown as replaced."""
    texts = _TEXTS(record)
    if not _is_storable("".join(filter(None, texts))):
        texts = tuple(None if text is None else storable(text) for text in texts)
    if not record.tags:
        return (snapshot_id, sha256, *_PLACE(record), *_NUMBERS(record), *texts, "{}")
    tags = json.dumps(dict(record.tags), ensure_ascii=False)
    if "\\u0000" in tags or not _is_storable(tags):
        cleaned = {storable(name): storable(value) for name, value in record.tags.items()}
        tags = json.dumps(cleaned, ensure_ascii=False)
    return (snapshot_id, sha256, *_PLACE(record), *_NUMBERS(record), *texts, tags)


def _is_storable(text: str) -> bool:
    """Postgres keeps no NUL and no half of a surrogate pair, which JSON cells can hold."""
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def storable(text: str) -> str:
    """The text with what cannot be stored shown as the replacement character."""
    if _is_storable(text):
        return text
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


@lru_cache(maxsize=8)
def shared_columns(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that lines of a table of charges share, after the `fields` that each tells.

    A kept sum has nothing but its dimensions; of a line kept whole each column is told.
    """
    told = {_COLUMN_NAMES.get(name, name) for name in fields}
    columns = _OF_SUMS if "last_line" in fields else COLUMNS
    return tuple(name for name in columns if name not in told and name not in _OF_THE_TABLE)


def columns_of(fields: Sequence[str]) -> tuple[str, ...]:
    """All columns of such lines, in their order."""
    own = (_COLUMN_NAMES.get(name, name) for name in fields)
    return (*own, *shared_columns(tuple(fields)))


def ending_of(record: ChargeRecord, snapshot_id: int, sha256: str, fields: Sequence[str]) -> str:
    """What such lines like this charge end in: the columns that they share, in COPY's text form."""
    names = tuple(fields)
    if record.tags or "last_line" not in names:  # of a sum nothing is told but texts and instants
        return _ending(record, snapshot_id, sha256, names)
    key = (snapshot_id, sha256, names, _told_by(names)(record))
    known = _endings.get(key)
    if known is None:
        if len(_endings) >= MOST_ENDINGS:
            _endings.clear()
        known = _endings[key] = _ending(record, snapshot_id, sha256, names)
    return known


def _ending(record: ChargeRecord, snapshot_id: int, sha256: str, fields: tuple[str, ...]) -> str:
    row = dict(zip(COLUMNS, row_of(record, snapshot_id, sha256), strict=True))
    cells = (row[name] for name in shared_columns(fields))
    told = (r"\N" if cell is None else text_field(str(cell)).decode() for cell in cells)
    return "\t" + "\t".join(told) + "\n"


@lru_cache(maxsize=8)
def _told_by(fields: tuple[str, ...]) -> attrgetter[tuple[object, ...]]:
    """What of a kept sum its ending is made of, beside snapshot and document."""
    names = set(shared_columns(fields)) - {"snapshot_id", "document_id", "tags"}
    return attrgetter(*(RECORD_NAMES.get(name, name) for name in sorted(names)))
