"""Actual and amortised exports of one scope: paired, never added (method §3.5).

An actual export tells what is billed, an amortised one what is effective. When one of them comes, the
other's current document is read again beside it, so that one snapshot holds both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from finops.core.money import EXACT, plain
from finops.ledger.models import Document
from finops.ledger.operations.charge_lines import scope_of
from finops.ledger.operations.charges import Offered
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.locks import lock
from finops.ledger.operations.parsing import exported_at, parse, parse_again
from finops.ledger.operations.reaching import Scope
from finops.ledger.queries.snapshots import with_verdict
from finops.sources.azure_cost import ACTUAL, AMORTISED, EITHER, FORMAT, FORMATS
from finops.sources.records import ChargeRecord, Refused

OTHER = {ACTUAL: AMORTISED, AMORTISED: ACTUAL}
FORCED = {ACTUAL: f"{FORMAT}-actual", AMORTISED: f"{FORMAT}-amortized"}
AGAIN = "the other view of the same money came"


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read the delivery's documents: their formats, what is refused, what is read again."""

    formats: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, Refused] = field(default_factory=dict)
    again: tuple[Offered, ...] = ()
    paired: frozenset[Scope] = frozenset()


@dataclass(slots=True)
class _Look:
    kept: Kept
    view: str
    scopes: frozenset[Scope]
    total: Decimal
    rows: int


def is_of_two_views(format: str) -> bool:
    """Whether documents of a format may tell the same money twice."""
    return format in FORMATS


def plan(offered: Mapping[str, tuple[Kept, str]]) -> Plan:
    """The plan for the documents of a delivery that are of two views.

    To be made inside the delivery's transaction: another delivery of the other view waits. Refused
    when a document to be read again is not readable any more.
    """
    lock("pairing", FORMAT)
    looks: dict[str, _Look] = {}
    refused: dict[str, Refused] = {}
    for sha256, (kept, format) in offered.items():
        try:
            looks[sha256] = _look(kept, format)
        except Refused as unreadable:
            refused[sha256] = unreadable
    refused |= _not_to_tell(looks)
    known = {one.view for one in looks.values()} - {EITHER}
    if len(known) == 1:
        view = known.pop()
        looks = {
            sha256: replace(one, view=view) if one.view == EITHER else one
            for sha256, one in looks.items()
        }
    looks = {sha256: one for sha256, one in looks.items() if sha256 not in refused}
    here = {view: _scopes(looks, view) for view in OTHER}
    paired = set(here[ACTUAL] & here[AMORTISED])
    again: dict[str, tuple[Document, set[Scope]]] = {}
    for view, other in OTHER.items():
        for scope in sorted(here[view] - here[other]):
            for document in _current(scope, other):
                again.setdefault(document.sha256, (document, set()))[1].add(scope)
                paired.add(scope)
    formats = {s: FORCED[one.view] for s, one in looks.items() if one.view in FORCED}
    return Plan(formats, refused, tuple(_offer(*one) for one in again.values()), frozenset(paired))


def _look(kept: Kept, format: str) -> _Look:
    parsed = parse(kept, format)
    scopes, total, rows = set[Scope](), Decimal(0), 0
    for record in parsed.records:
        if isinstance(record, ChargeRecord):
            scopes.add(scope_of(record))
            cost = record.billed_cost if record.effective_cost is None else record.effective_cost
            total = EXACT.add(total, cost or Decimal(0))
            rows += 1
    return _Look(kept, parsed.account.version or EITHER, frozenset(scopes), total, rows)


def _not_to_tell(looks: Mapping[str, _Look]) -> dict[str, Refused]:
    """Documents without any commitment, where both views are here or two files are alike."""
    known = {one.view for one in looks.values()} - {EITHER}
    refused, seen = {}, dict[tuple[frozenset[Scope], Decimal, int], str]()
    for sha256, one in looks.items():
        name = one.kept.name
        if one.view != EITHER or not one.rows:
            continue
        if len(known) == 2:
            refused[sha256] = Refused(
                f"{name}: actual or amortised? Nothing in it tells, and both are in this delivery; "
                f"say --as {FORMATS[1]} or --as {FORMATS[2]}"
            )
            continue
        twin = seen.setdefault((one.scopes, one.total, one.rows), name)
        if twin != name:
            refused[sha256] = Refused(
                f"{name}: {one.rows} charges of {plain(one.total)}, as in {twin}: the two views of "
                "the same money, which no commitment tells apart. One of them is enough"
            )
    return refused


def _scopes(looks: Mapping[str, _Look], view: str) -> set[Scope]:
    return {scope for one in looks.values() if one.view == view for scope in one.scopes}


def _current(scope: Scope, view: str) -> list[Document]:
    issuer, account, month = scope
    snapshots = with_verdict().filter(
        issuer=issuer, billing_account=account, billing_period=month, verdict="current"
    )
    return list(
        Document.objects.filter(
            snapshots__snapshot__in=list(snapshots.values_list("pk", flat=True)),
            format=FORMAT,
            version=view,
        ).distinct()
    )


def _offer(document: Document, only: set[Scope]) -> Offered:
    kept, parsed = parse_again(document)
    return Offered(
        kept,
        document.format,
        parsed,
        again=AGAIN,
        only=frozenset(only),
        exported_at=exported_at(document),
    )
