"""Charges as rows of their table: which columns, and what of a text can be stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from django.db import connections

from finops.ledger.operations.bulk_text import text_field
from finops.ledger.which import ledger_name
from finops.sources.bulk_table import LINE
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
_OF_LINES = {"charge_period_start": "charge_start", "charge_period_end": "charge_end"}
"""Columns of the table that a record calls otherwise."""
_OF_KIND = (
    "snapshot_id",
    "document_id",
    "billing_period_start",
    "billing_period_end",
    "category",
    "currency",
    *(name for name in TEXTS if name in DIMENSIONS),
    "tags",
)
SUM_COLUMNS = (*(_OF_LINES.get(name, name) for name in LINE), *_OF_KIND)
"""The columns of a kept sum: first those that its line tells, then those that its kind shares."""
COPY_SUMS = f"COPY ledger_charge ({', '.join(SUM_COLUMNS)}) FROM STDIN"
COPY = f"COPY ledger_charge ({', '.join(COLUMNS)}) FROM STDIN"
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


def copy_charges(rows: list[tuple[Any, ...]]) -> None:
    """Adds rows of `row_of` to the ledger in use, all at once."""
    if not rows:
        return
    with connections[ledger_name()].cursor() as cursor, cursor.copy(COPY) as copy:
        for row in rows:
            copy.write_row(row)


def ending_of(record: ChargeRecord, snapshot_id: int, sha256: str) -> str:
    """What the lines of sums like this one end in: the columns that they share, in COPY's text form."""
    row = dict(zip(COLUMNS, row_of(record, snapshot_id, sha256), strict=True))
    cells = (row[name] for name in _OF_KIND)
    fields = (r"\N" if cell is None else text_field(str(cell)).decode() for cell in cells)
    return "\t" + "\t".join(fields) + "\n"


def copy_sums(parts: Iterable[str]) -> None:
    """Adds kept sums that were written as lines, each with an ending of `ending_of`."""
    with connections[ledger_name()].cursor() as cursor, cursor.copy(COPY_SUMS) as copy:
        for part in parts:
            copy.write(part)


def copy_text(lines: bytes) -> None:
    """Adds rows that were written as lines of COPY's text form to the ledger in use."""
    with connections[ledger_name()].cursor() as cursor, cursor.copy(COPY) as copy:
        copy.write(lines)
