"""Kept sums against their documents: every line that is not a charge of its own, added up again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import attrgetter
from typing import Any

from finops.core.money import EXACT
from finops.ledger.models import Charge, Document
from finops.ledger.operations.charge_columns import SUMMED, in_order, shown
from finops.ledger.operations.charge_rows import RECORD_NAMES, storable
from finops.sources.azure_cost import ACTUAL
from finops.sources.records import ChargeRecord
from finops.sources.summing import AMOUNTS

SHARED = in_order(SUMMED)
_SHARED = attrgetter(*(RECORD_NAMES.get(name, name) for name in SHARED))
_AMOUNTS = attrgetter(*AMOUNTS)
Key = tuple[Any, ...]


@dataclass(slots=True)
class Added:
    """Lines that have all dimensions in common."""

    first: int
    last: int
    lines: int
    amounts: list[Decimal | None]

    def add(self, first: int, last: int, lines: int, amounts: Key) -> None:
        """Adds lines; which amounts are known is the same for all of them."""
        self.first, self.last = min(self.first, first), max(self.last, last)
        self.lines += lines
        self.amounts = [
            None if one is None or other is None else EXACT.add(one, other)
            for one, other in zip(self.amounts, amounts, strict=True)
        ]


class KeptSums:
    """What the kept sums of one document must come to, by snapshot, while its lines are read."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._rows = Charge.objects.filter(document=document, last_line__isnull=False)
        ids = self._rows.order_by().values_list("snapshot_id", flat=True).distinct()
        self._sums: dict[int, dict[Key, Added]] = {one: {} for one in ids}
        paired = self._rows.filter(effective_cost__isnull=True).order_by()
        self._paired = set(paired.values_list("snapshot_id", flat=True).distinct())

    @property
    def snapshots(self) -> frozenset[int]:
        """The snapshots in which the document has sums."""
        return frozenset(self._sums)

    def add(self, record: ChargeRecord, snapshot: int) -> None:
        """Adds a line that is no charge of its own in a snapshot."""
        if record.view == ACTUAL and snapshot in self._paired:
            record = replace(record, effective_cost=None)  # the other view tells it (method §3.5)
        _add(self._sums[snapshot], _SHARED(record), record.line, record.line, 1, _AMOUNTS(record))

    def differences(self) -> Iterator[str]:
        """Sums that are not what their lines come to; names the first line and both values."""
        for snapshot, found in self._sums.items():
            said = _storable(found)
            there: dict[Key, Added] = {}
            rows = self._rows.filter(snapshot=snapshot).order_by("pk")
            names = (*SHARED, "line", "last_line", "line_count", *AMOUNTS)
            for row in rows.values(*names).iterator(chunk_size=2000):
                key = tuple(row[name] for name in SHARED)
                amounts = tuple(row[name] for name in AMOUNTS)
                _add(there, key, row["line"], row["last_line"], row["line_count"], amounts)
            yield from self._compare(there, said)

    def _compare(self, there: Mapping[Key, Added], said: Mapping[Key, Added]) -> Iterator[str]:
        name = self._document.name
        for key, one in there.items():
            lines = said.get(key)
            if lines is None:
                yield f"{name} line {one.first}: no lines of it make the sum that is kept"
                continue
            for what, is_now, must in _pairs(one, lines):
                if is_now != must:
                    yield (
                        f"{name} line {lines.first}: {what} of a kept sum is {shown(is_now)}, its "
                        f"lines come to {shown(must)}"
                    )
        for key in said.keys() - there.keys():
            lines = said[key]
            yield f"{name} line {lines.first}: {lines.lines} lines stand in no charge and no sum"


def _pairs(one: Added, other: Added) -> Iterator[tuple[str, Any, Any]]:
    for name in ("first", "last", "lines"):
        yield (
            f"the {name} line" if name != "lines" else "the number of lines",
            getattr(one, name),
            getattr(other, name),
        )
    for name, is_now, must in zip(AMOUNTS, one.amounts, other.amounts, strict=True):
        yield name, is_now, must


def _add(
    sums: dict[Key, Added], shared: Key, first: int, last: int, lines: int, amounts: Key
) -> None:
    key = (*shared, *(amount is None for amount in amounts))
    known = sums.get(key)
    if known is None:
        sums[key] = Added(first, last, lines, list(amounts))
    else:
        known.add(first, last, lines, amounts)


def _storable(sums: Mapping[Key, Added]) -> dict[Key, Added]:
    """The same with texts as the table can hold them."""
    found: dict[Key, Added] = {}
    for key, one in sums.items():
        plain = tuple(storable(part) if isinstance(part, str) else part for part in key)
        if plain in found:
            found[plain].add(one.first, one.last, one.lines, tuple(one.amounts))
        else:
            found[plain] = one
    return found
