"""Whether charge rules reach a line of an invoice export (method §4); knows no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from finops.core.allocation import OUT_OF_SCOPE, SHARED, WORKLOAD, Assigner, Place, Rule
from finops.core.matching import Columns
from finops.ledger.operations.charge_rows import storable
from finops.sources.records import ChargeRecord

_FIELDS = {"class": "charge_class"}

Scope = tuple[str, str, str]  # issuer, billing account, billing month


@dataclass(frozen=True, slots=True)
class _Columns:
    """A record's columns as rules see those of its charge."""

    record: ChargeRecord
    scope: Scope

    def get(self, name: str, /) -> str | None:
        """The text of a column or tag; None where the source has none."""
        if name.startswith("tag:"):
            return self.record.tags.get(name.removeprefix("tag:"))
        if name in ("issuer", "account", "billing_period"):
            return self.scope[("issuer", "account", "billing_period").index(name)]
        value = getattr(self.record, _FIELDS.get(name, name), None)
        return storable(value) if isinstance(value, str) else None


class Reaching:
    """Some charge rules, and whether they reach a line."""

    PLACES = (WORKLOAD, SHARED, OUT_OF_SCOPE)

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = list(rules)
        self._place_of = Assigner(self.rules)

    def __call__(self, record: ChargeRecord, scope: Scope) -> bool:
        """Whether a rule gives the line to a workload, a shared key, or out of scope."""
        return bool(self.rules) and self.place(record, scope).kind in self.PLACES

    def place(self, record: ChargeRecord, scope: Scope) -> Place:
        """The place of a line by the rules."""
        return self._place_of(columns_of(record, scope), record.charge_period_start)


def columns_of(record: ChargeRecord, scope: Scope) -> Columns:
    """A record's columns as rules see those of its charge."""
    return _Columns(record, scope)
