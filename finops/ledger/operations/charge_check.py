"""Charges against their documents: every line read a second time and compared column by column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from finops.ledger.models import Charge, Document, Snapshot
from finops.ledger.operations.charge_lines import scope_of
from finops.ledger.operations.charge_rows import COLUMNS, row_of
from finops.ledger.operations.parsing import parse_again
from finops.ledger.operations.pricing import Pricer
from finops.ledger.operations.rate_cards import cards
from finops.ledger.operations.reaching import Scope
from finops.sources.azure_cost import ACTUAL
from finops.sources.rate_card import FORMATS as RATE_CARDS
from finops.sources.records import ChargeRecord, Refused
from finops.sources.summing import DIMENSIONS

BATCH_LINES = 2000
NAMES = {"charge_start": "charge_period_start", "charge_end": "charge_period_end"}
"""Columns of the table that a record calls otherwise."""
KEPT = frozenset(COLUMNS) - {"snapshot_id", "document_id", "line", "last_line", "line_count"}
SUMMED = frozenset(name for name in KEPT if NAMES.get(name, name) in DIMENSIONS)
"""What all lines of a kept sum have in common."""
Row = dict[str, Any]


def differing() -> Iterator[str]:
    """Charges that are not what their document says when its bytes are read again.

    Names document, line, column and both values. What rate cards say of own hardware is priced by
    the month and not read off a line: such documents are left to their control totals.
    """
    price = _Pricing()
    held = Charge.objects.order_by().values("document_id").distinct()
    rows = Document.objects.filter(pk__in=held).exclude(format__in=RATE_CARDS)
    for document in rows.order_by("pk").iterator(chunk_size=100):
        try:
            yield from _document(document, price)
        except (Refused, OSError) as error:
            yield f"{document.name}: it cannot be read again: {error}"


class _Pricing:
    """Prices a line by the version of the card that its charge names."""

    def __init__(self) -> None:
        self._by_card = {card.label: Pricer([card]) for card in cards()}

    def __call__(self, record: ChargeRecord, card: str | None) -> ChargeRecord:
        price = self._by_card.get(card or "")
        return price(record) if price and record.rate_card is None else record


def _document(document: Document, price: _Pricing) -> Iterator[str]:
    """A document's charges, line by line, also where it was taken in by sums: rules that say which
    lines are kept whole may have changed since."""
    found, scopes = 0, _scopes(document)
    _, parsed = parse_again(document)
    records = (one for one in parsed.records if isinstance(one, ChargeRecord))
    while batch := list(islice(records, BATCH_LINES)):
        rows = _rows(document, scopes, [record.line for record in batch])
        for record in batch:
            for row in rows.get((record.line, scope_of(record)), ()):
                found += 1
                yield from _differences(document, row, record, price)
    there = Charge.objects.filter(document=document).count()
    if there != found:
        yield f"{document.name}: {there - found} of its charges stand at no line that it has"


def _scopes(document: Document) -> dict[int, Scope]:
    """The snapshots that the charges of a document stand in, and what each is a delivery of."""
    ids = Charge.objects.filter(document=document).order_by().values("snapshot_id").distinct()
    rows = Snapshot.objects.filter(pk__in=ids)
    return {one.pk: (one.issuer, one.billing_account, one.billing_period) for one in rows}


def _rows(
    document: Document, scopes: Mapping[int, Scope], lines: Sequence[int]
) -> dict[tuple[int, Scope], list[Row]]:
    found: dict[tuple[int, Scope], list[Row]] = {}
    charges = Charge.objects.filter(document=document, snapshot__in=scopes, line__in=lines)
    for row in charges.order_by("line", "pk").values(*COLUMNS):
        found.setdefault((row["line"], scopes[row["snapshot_id"]]), []).append(row)
    return found


def _differences(
    document: Document, row: Row, record: ChargeRecord, price: _Pricing
) -> Iterator[str]:
    """Where a charge is not what its line says; a kept sum only in what its lines share."""
    is_sum = row["last_line"] is not None
    if not is_sum:
        record = price(record, row["rate_card"])
    if record.view == ACTUAL and row["effective_cost"] is None:
        record = replace(record, effective_cost=None)  # the other view tells it (method §3.5)
    said = dict(zip(COLUMNS, row_of(record, 0, ""), strict=True))
    said["tags"] = json.loads(said["tags"])
    for name in _in_order(SUMMED if is_sum else KEPT):
        if row[name] != said[name]:
            yield (
                f"{document.name} line {record.line}: {name} is {_shown(row[name])}, its document "
                f"says {_shown(said[name])}"
            )
    if is_sum:
        yield from _beyond(document, row)


def _beyond(document: Document, row: Row) -> Iterator[str]:
    """What a kept sum tells beyond its dimensions and amounts: it has nothing else."""
    amounts = {"billed_cost", "effective_cost", "list_cost", "contracted_cost"}
    for name in _in_order(KEPT - SUMMED - amounts):
        if row[name] not in (None, {}):
            yield f"{document.name} line {row['line']}: {name} is {_shown(row[name])} in a kept sum"


def _in_order(names: Iterable[str]) -> list[str]:
    return [name for name in COLUMNS if name in names]


def _shown(value: object) -> str:
    return "empty" if value is None else str(value)[:100]
