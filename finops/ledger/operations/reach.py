"""Which lines of a document are kept whole and which go into kept sums (method §3.3, §4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Max

from finops.core.allocation import OUT_OF_SCOPE, SHARED, WORKLOAD, Assigner, Place, Rule
from finops.ledger.models import Document
from finops.ledger.models import Rule as RuleRow
from finops.ledger.operations import parsing
from finops.ledger.operations.charge_rows import storable
from finops.ledger.operations.documents import Kept
from finops.ledger.queries.allocation import rules
from finops.sources import focus, focus_bulk
from finops.sources.gpu_shapes import catalogue_digest
from finops.sources.records import ChargeRecord, Parsed, Refused

_FIELDS = {"class": "charge_class"}

Scope = tuple[str, str, str]  # issuer, billing account, billing month


@dataclass(frozen=True, slots=True)
class _Columns(Mapping[str, str | None]):
    """A record's columns as rules see those of its charge."""

    record: ChargeRecord
    scope: Scope

    def get(self, name: str, default: Any = None) -> Any:
        """The text of a column or tag; None where the source has none."""
        if name.startswith("tag:"):
            return self.record.tags.get(name.removeprefix("tag:"), default)
        if name in ("issuer", "account", "billing_period"):
            return self.scope[("issuer", "account", "billing_period").index(name)]
        value = getattr(self.record, _FIELDS.get(name, name), default)
        return storable(value) if isinstance(value, str) else default

    def __getitem__(self, name: str) -> str | None:
        raise NotImplementedError

    def __iter__(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class Reach:
    """The charge rules in force at one moment, and whether they reach a line."""

    PLACES = (WORKLOAD, SHARED, OUT_OF_SCOPE)

    def __init__(self) -> None:
        newest = RuleRow.objects.filter(subject="charge").aggregate(newest=Max("pk"))["newest"]
        self.seen: int = newest or 0
        self.catalogue = catalogue_digest()
        self.rules: list[Rule] = rules("charge")
        self._place_of = Assigner(self.rules)

    def __call__(self, record: ChargeRecord, scope: Scope) -> bool:
        """Whether a rule gives the line to a workload, a shared key, or out of scope."""
        return bool(self.rules) and self.place(record, scope).kind in self.PLACES

    def place(self, record: ChargeRecord, scope: Scope) -> Place:
        """The place of a line by the rules."""
        return self._place_of(columns_of(record, scope), record.charge_period_start)


def columns_of(record: ChargeRecord, scope: Scope) -> Mapping[str, str | None]:
    """A record's columns as rules see those of its charge; only `get` is answered."""
    return _Columns(record, scope)


def keeps_sums(kept: Kept) -> bool:
    """Whether a document has so many lines that most of them are kept as sums.

    The setting SUM_LINES_ABOVE says how many; 0 means any document.
    """
    limit = settings.SUM_LINES_ABOVE
    try:
        return not limit or focus_bulk.has_more_lines(kept.path, kept.name, limit)
    except Refused:
        return False  # whoever reads it says so


def parse(kept: Kept, format: str, reach: Reach, parsed: Parsed | None = None) -> Parsed:
    """A fresh reading of a document whose lines are kept as sums, in bulk where there is a way.

    `parsed` is how it is read otherwise, by default by its format.
    """
    if format in focus.FORMATS:
        threads = settings.BULK_THREADS
        return focus_bulk.parse(kept.path, kept.name, format, reach.rules, threads)
    return parsed or parsing.parse(kept, format)


def parse_again(document: Document, reach: Reach) -> tuple[Kept, Parsed]:
    """A document as it was read when it came, from the same bytes, under the rules of now."""
    kept, parsed = parsing.parse_again(document)
    return kept, parse(kept, document.format, reach, parsed) if keeps_sums(kept) else parsed
