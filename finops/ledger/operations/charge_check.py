"""Charges against their documents: every line read a second time and compared column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from finops.ledger.models import Charge, Document, Snapshot
from finops.ledger.operations.charge_columns import (
    KEPT,
    SUMMED,
    Row,
    differing_columns,
    in_order,
    said_by,
    shown,
)
from finops.ledger.operations.charge_lines import fault, scope_of
from finops.ledger.operations.charge_rows import COLUMNS
from finops.ledger.operations.kept_sum_check import KeptSums
from finops.ledger.operations.own_hardware_check import own_hardware
from finops.ledger.operations.parsing import parse_again
from finops.ledger.operations.pricing import Pricer
from finops.ledger.operations.rate_cards import cards
from finops.ledger.operations.reaching import Scope
from finops.ledger.queries.snapshots import current_ids
from finops.sources.azure_cost import ACTUAL
from finops.sources.gpu_catalogue import catalogue_digest
from finops.sources.rate_card import FORMATS as RATE_CARDS
from finops.sources.records import ChargeRecord, Refused

BATCH_LINES = 2000
BY_CATALOGUE = frozenset(("instance_type", "gpu_model", "gpu_count"))
"""What the catalogue of GPUs says of a line, and no cell alone."""


def differing(older: Counter[str] | None = None) -> Iterator[str]:
    """Charges that are not what their document says when its bytes are read again.

    Names document, line, column and both values. What rate cards say of own hardware is priced by
    the month and not read off a line: `own_hardware` computes it again. A charge that was read by
    an older catalogue is no other for its GPUs, nor for tags that it has not yet; `older` counts
    those that count in a report, by their document.
    """
    price = _Pricing()
    older = Counter() if older is None else older
    held = Charge.objects.order_by().values("document_id").distinct()
    rows = Document.objects.filter(pk__in=held).exclude(format__in=RATE_CARDS)
    for document in rows.order_by("pk").iterator(chunk_size=100):
        try:
            yield from _document(document, price, older)
        except (Refused, OSError) as error:
            yield f"{document.name}: it cannot be read again: {error}"
    yield from own_hardware()


def older_reading(older: Mapping[str, int]) -> list[str]:
    """What `differing` counted, in sentences: no problem, but something to be read again."""
    return [
        f"{name}: {count} {'charge was' if count == 1 else 'charges were'} read by an older "
        "catalogue of GPUs, and today's says something else of them; `ingest` of the same file "
        "reads it again"
        for name, count in sorted(older.items())
    ]


class _Pricing:
    """Prices a line by the version of the card that its charge names."""

    def __init__(self) -> None:
        self._by_card = {card.label: Pricer([card]) for card in cards()}

    def __call__(self, record: ChargeRecord, card: str | None) -> ChargeRecord:
        price = self._by_card.get(card or "")
        return price(record) if price and record.rate_card is None else record


def _document(document: Document, price: _Pricing, older: Counter[str]) -> Iterator[str]:
    """A document's charges, line by line, also where it was taken in by sums: rules that say which
    lines are kept whole may have changed since."""
    found, scopes, sums = 0, _scopes(document), KeptSums(document)
    past = _read_before(scopes)
    current = past & set(current_ids()) if past else past
    snapshots = _by_scope(scopes, sums.snapshots)
    _, parsed = parse_again(document)
    records = (one for one in parsed.records if isinstance(one, ChargeRecord) and not fault(one))
    while batch := list(islice(records, BATCH_LINES)):
        rows = _rows(document, scopes, [record.line for record in batch])
        for record in batch:
            scope = scope_of(record)
            mine = rows.get((record.line, scope), ())
            for row in mine:
                found += 1
                is_past = row["snapshot_id"] in past
                yield from _differences(document, row, record, price, is_past=is_past)
                if row["snapshot_id"] in current and _is_read_otherwise(row, record):
                    older[document.name] += 1
            whole = {row["snapshot_id"] for row in mine if row["last_line"] is None}
            for snapshot in snapshots.get(scope, frozenset()) - whole:
                sums.add(record, snapshot)
    there = Charge.objects.filter(document=document).count()
    if there != found:
        yield f"{document.name}: {there - found} of its charges stand at no line that it has"
    yield from sums.differences()


def _by_scope(scopes: Mapping[int, Scope], wanted: frozenset[int]) -> dict[Scope, frozenset[int]]:
    """The snapshots with kept sums, by what they are a delivery of."""
    found: dict[Scope, frozenset[int]] = {}
    for snapshot, scope in scopes.items():
        if snapshot in wanted:
            found[scope] = found.get(scope, frozenset()) | {snapshot}
    return found


def _scopes(document: Document) -> dict[int, Scope]:
    """The snapshots that the charges of a document stand in, and what each is a delivery of."""
    ids = Charge.objects.filter(document=document).order_by().values("snapshot_id").distinct()
    rows = Snapshot.objects.filter(pk__in=ids)
    return {one.pk: (one.issuer, one.billing_account, one.billing_period) for one in rows}


def _read_before(ids: Iterable[int]) -> set[int]:
    """Those of some snapshots that another catalogue of GPUs was used for."""
    others = Snapshot.objects.filter(pk__in=ids).exclude(catalogue_seen=catalogue_digest())
    return set(others.values_list("pk", flat=True))


def _is_read_otherwise(row: Row, record: ChargeRecord) -> bool:
    said = said_by(record)
    return row["last_line"] is None and any(
        row[name] != said[name] for name in (*BY_CATALOGUE, "tags")
    )


def _rows(
    document: Document, scopes: Mapping[int, Scope], lines: Sequence[int]
) -> dict[tuple[int, Scope], list[Row]]:
    found: dict[tuple[int, Scope], list[Row]] = {}
    charges = Charge.objects.filter(document=document, snapshot__in=scopes, line__in=lines)
    for row in charges.order_by("line", "pk").values(*COLUMNS):
        found.setdefault((row["line"], scopes[row["snapshot_id"]]), []).append(row)
    return found


def _differences(
    document: Document, row: Row, record: ChargeRecord, price: _Pricing, *, is_past: bool
) -> Iterator[str]:
    """Where a charge is not what its line says; a kept sum only in what its lines share.

    What another catalogue said of it, of the past, is not compared with today's.
    """
    is_sum = row["last_line"] is not None
    if not is_sum:
        record = price(record, row["rate_card"])
    if record.view == ACTUAL and row["effective_cost"] is None:
        record = replace(record, effective_cost=None)  # the other view tells it (method §3.5)
    place = f"{document.name} line {record.line}"
    said, columns = said_by(record), SUMMED if is_sum else KEPT
    if is_past and not is_sum:
        more_tags = row["tags"].keys() <= said["tags"].keys()
        columns = columns - BY_CATALOGUE - ({"tags"} if more_tags else frozenset())
    yield from differing_columns(place, row, said, columns)
    if is_sum:
        yield from _beyond(document, row)


def _beyond(document: Document, row: Row) -> Iterator[str]:
    """What a kept sum tells beyond its dimensions and amounts: it has nothing else."""
    amounts = {"billed_cost", "effective_cost", "list_cost", "contracted_cost"}
    for name in in_order(KEPT - SUMMED - amounts):
        if row[name] not in (None, {}):
            yield f"{document.name} line {row['line']}: {name} is {shown(row[name])} in a kept sum"
