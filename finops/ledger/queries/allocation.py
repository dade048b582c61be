"""Rules and keys in force, and the places they give to charges and series (method §4)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from finops.core.allocation import (
    BUILT_IN_KEYS,
    OUT_OF_SCOPE,
    SHARED,
    WORKLOAD,
    Assigner,
    Place,
    Rule,
    SharedKey,
    in_order,
)
from finops.core.matching import Matcher
from finops.core.plainly import when
from finops.ledger.models import Rule as RuleRow
from finops.ledger.models import SharedKey as SharedKeyRow


def rules(subject: str, as_of: datetime | None = None) -> list[Rule]:
    """The rules in force on `series` or `charge`, in the order they are tried.

    The newest version of each number holds, as of an instant where one is given; retired rules
    are left out.
    """
    return in_order(_rule(row) for row in _newest(subject, as_of) if not row.retired)


def rule_rows(as_of: datetime | None = None) -> list[dict[str, Any]]:
    """The rules in force as plain values, charges first, in the order they are tried."""
    found = [*rules("charge", as_of), *rules("series", as_of)]
    return [rule_value(rule) for rule in found]


def rule_value(rule: Rule) -> dict[str, Any]:
    """One rule as plain values."""
    return {
        "number": rule.number,
        "version": rule.version,
        "order": rule.order,
        "subject": rule.subject,
        "place": rule.place.kind,
        "target": rule.place.target,
        "matchers": ",".join(map(str, rule.matchers)),
        "valid_from": when(rule.valid_from),
        "valid_to": when(rule.valid_to),
    }


def assign_series(as_of: datetime | None = None) -> Assigner:
    """From a series' labels (with `source`) and an hour to its place."""
    return Assigner(rules("series", as_of))


def assign_charges(as_of: datetime | None = None) -> Assigner:
    """From a charge's columns and its start to its place."""
    return Assigner(rules("charge", as_of))


def shared_keys(as_of: datetime | None = None) -> dict[str, SharedKey]:
    """The keys that shared charges are split by; the built-in ones are always there."""
    built_in = {name: SharedKey(name, name, {}) for name in BUILT_IN_KEYS}
    rows = SharedKeyRow.objects.all()
    if as_of is not None:
        rows = rows.filter(created_at__lte=as_of)
    kept = {row.name: _key(row) for row in rows}
    return built_in | kept


def _key(row: SharedKeyRow) -> SharedKey:
    return SharedKey(row.name, row.method, {slug: int(n) for slug, n in row.shares.items()})


def _newest(subject: str, as_of: datetime | None) -> Iterable[RuleRow]:
    rows = RuleRow.objects.filter(subject=subject).select_related("workload", "shared_key")
    if as_of is not None:
        rows = rows.filter(at__lte=as_of)
    newest: dict[int, RuleRow] = {}
    for row in rows.order_by("number", "version"):
        newest[row.number] = row
    return newest.values()


def place_of_row(row: RuleRow) -> Place:
    """The place a rule's row names."""
    if row.workload:
        return Place(WORKLOAD, row.workload.slug)
    if row.shared_key:
        return Place(SHARED, row.shared_key.name)
    return Place(OUT_OF_SCOPE)


def _rule(row: RuleRow) -> Rule:
    matchers = tuple(Matcher(name, op, value) for name, op, value in row.matchers)
    return Rule(
        number=row.number,
        version=row.version,
        order=row.order,
        subject=row.subject,
        place=place_of_row(row),
        matchers=matchers,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
    )
