"""Kept sums that no longer hold only what nothing looks at: their documents are read again (§3.2, §4).

A rule that reaches lines inside sums, or another catalogue of GPUs, makes a new generation of the
snapshot from the same documents. It becomes current in one step; the older one stays readable, so
that reports sealed on it still resolve. Doing it twice changes nothing, and killed it leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Max, Min

from finops.core.allocation import Assigner, Rule
from finops.core.amounts import Money
from finops.ledger.models import Charge, Document, Snapshot, SnapshotDocument
from finops.ledger.models import Rule as RuleRow
from finops.ledger.operations.charge_lines import scope_of
from finops.ledger.operations.charges import Offered, post_charges
from finops.ledger.operations.locks import lock
from finops.ledger.operations.parsing import exported_at
from finops.ledger.operations.rate_cards import OWN_HARDWARE
from finops.ledger.operations.reach import Reach, parse_again
from finops.ledger.operations.reaching import Scope, columns_of
from finops.ledger.queries.allocation import rules
from finops.ledger.queries.money import COLUMNS
from finops.ledger.queries.preview import Move, preview
from finops.ledger.queries.snapshots import current_ids, with_verdict
from finops.ledger.which import atomic
from finops.sources.azure_cost import ACTUAL, AMORTISED, FORMAT
from finops.sources.gpu_catalogue import catalogue_digest
from finops.sources.records import ChargeRecord
from finops.sources.summing import is_summable

REACHED = "a rule reaches lines of its kept sums"
CATALOGUE = "the catalogue of GPUs is another one"
KNOWN = (
    "account",
    "account_name",
    "sub_account",
    "sub_account_name",
    "provider",
    "issuer",
    "service",
    "service_category",
    "category",
    "class",
    "pricing_category",
    "commitment",
    "commitment_name",
    "commitment_status",
    "invoice",
    "currency",
    "billing_period",
    "gpu_model",
    "rate_card",
)
"""What a kept sum says of each of its lines; a rule may reach them by anything else."""


def sum_again(*, by: str, at: datetime) -> int:
    """Reads again the documents whose kept sums a newer rule or catalogue reaches into.

    How many documents were read; 0 when every sum still holds only what nothing looks at.
    """
    with atomic():
        lock("kept sums", "again")
        reach = Reach()
        return _read(_due(reach), reach, by=by, at=at)


def read_anew(digests: Iterable[str], *, by: str, at: datetime) -> int:
    """Reads documents again, kept sums or not, that another catalogue of GPUs was used for.

    With each document those that make a current snapshot with it. How many were read; 0 when all
    were read by today's catalogue. Refused when one cannot be read any more.
    """
    with atomic():
        lock("kept sums", "again")
        reach = Reach()
        older = _read_before(digests, reach.catalogue)
        snapshots = with_verdict().filter(pk__in=older.values("snapshot")).order_by("pk")
        return _read({one.pk: (one, CATALOGUE) for one in snapshots}, reach, by=by, at=at)


def read_before(digests: Iterable[str]) -> list[str]:
    """Those of some documents whose current charges another catalogue of GPUs was used for."""
    parts = _read_before(digests, catalogue_digest()).order_by("document_id")
    return list(parts.values_list("document_id", flat=True).distinct())


def _read_before(digests: Iterable[str], catalogue: str) -> Any:
    """The parts of current snapshots of invoices: own hardware is not read off lines."""
    older = with_verdict().filter(verdict="current").exclude(catalogue_seen=catalogue)
    older = older.exclude(issuer=OWN_HARDWARE)
    return SnapshotDocument.objects.filter(
        document__in=list(digests), snapshot__in=older.values("pk")
    )


def _read(due: Mapping[int, tuple[Snapshot, str]], reach: Reach, *, by: str, at: datetime) -> int:
    """Posts the documents of snapshots again, in one delivery; how many."""
    offered = list(_offered(due, reach))
    if offered:
        post_charges(
            offered,
            by=by,
            at=at,
            origin="kept sums",
            digests=[],
            paired=_paired(one for one, _ in due.values()),
            reach=reach,
        )
    return len(offered)


def _paired(snapshots: Iterable[Snapshot]) -> frozenset[Scope]:
    """The scopes of which a snapshot holds both views: one of them tells no effective cost (§3.5)."""
    found = set()
    for one in snapshots:
        parts = Document.objects.filter(snapshots__snapshot=one, format=FORMAT)
        if set(parts.values_list("version", flat=True)) >= {ACTUAL, AMORTISED}:
            found.add((one.issuer, one.billing_account, one.billing_period))
    return frozenset(found)


def is_due() -> bool:
    """Whether `sum_again` would read any document."""
    return bool(_due(Reach()))


def _with_sums() -> Any:
    return with_verdict().filter(verdict="current", rules_seen__isnull=False)


def _due(reach: Reach) -> dict[int, tuple[Snapshot, str]]:
    """The current snapshots whose sums must be made anew, and why."""
    found = {}
    for snapshot in _with_sums().order_by("pk"):
        if snapshot.catalogue_seen != reach.catalogue:
            found[snapshot.pk] = (snapshot, CATALOGUE)
            continue
        newer = _newer(snapshot.rules_seen)
        if newer and _may_reach(newer, snapshot):
            found[snapshot.pk] = (snapshot, REACHED)
    return found


def _newer(seen: int) -> list[Rule]:
    """The rules in force whose version came after the sums were made."""
    numbers = set(
        RuleRow.objects.filter(subject="charge", pk__gt=seen).values_list("number", flat=True)
    )
    return [rule for rule in rules("charge") if rule.number in numbers]


def _may_reach(newer: Iterable[Rule], snapshot: Snapshot) -> bool:
    """Whether a rule may reach lines of a snapshot's sums, by what the sums tell of them."""
    columns = [COLUMNS[name] for name in KNOWN]
    sums = Charge.objects.filter(snapshot=snapshot, last_line__isnull=False).order_by()
    kinds = sums.values_list(*columns).annotate(first=Min("charge_start"), last=Max("charge_start"))
    newer = list(newer)
    return any(
        _fits(rule, dict(zip(KNOWN, told, strict=True)), first, last)
        for *told, first, last in kinds.iterator(chunk_size=2000)
        for rule in newer
    )


def _fits(rule: Rule, columns: Mapping[str, str | None], first: datetime, last: datetime) -> bool:
    is_unused = (columns["commitment_status"] or "").casefold() == "unused"
    if is_unused and not rule.names_a_commitment:
        return False
    if (rule.valid_to and rule.valid_to <= first) or (rule.valid_from and rule.valid_from > last):
        return False
    return all(m.holds(columns) for m in rule.matchers if m.name in columns)


def _offered(due: Mapping[int, tuple[Snapshot, str]], reach: Reach) -> Iterator[Offered]:
    for document, scopes, reason in _documents(due.values()):
        kept, parsed = parse_again(document, reach)
        yield Offered(
            kept,
            document.format,
            parsed,
            again=reason,
            only=frozenset(scopes),
            exported_at=exported_at(document),
        )


def _documents(
    due: Iterable[tuple[Snapshot, str]],
) -> Iterator[tuple[Document, set[Scope], str]]:
    """Every document of the snapshots, with the scopes that it has part in."""
    scopes: dict[str, set[Scope]] = {}
    reasons: dict[str, str] = {}
    for snapshot, reason in due:
        scope = (snapshot.issuer, snapshot.billing_account, snapshot.billing_period)
        for sha256 in snapshot.parts.values_list("document_id", flat=True):
            scopes.setdefault(sha256, set()).add(scope)
            reasons[sha256] = reason
    for document in Document.objects.filter(pk__in=scopes).order_by("pk"):
        yield document, scopes[document.sha256], reasons[document.sha256]


# -- what a rule would move ------------------------------------------------------------------------


def would_move(new: Rule) -> dict[str, Any]:
    """What `preview` tells, and the lines inside kept sums (their charges are lines)."""
    inside = moves(new) if new.subject == "charge" else {}
    return preview(new, more=inside)


def moves(new: Rule) -> dict[Move, tuple[int, Money]]:
    """Lines inside kept sums that change their place if a rule is kept: how many, and their money.

    Reads the documents of the sums that the rule may reach.
    """
    reach = Reach()
    after = Assigner([*(rule for rule in reach.rules if rule.number != new.number), new])
    held = [(one, REACHED) for one in _with_sums() if _may_reach([new], one)]
    reach.rules = [*reach.rules, new]
    found: dict[Move, tuple[int, Money]] = {}
    for document, scopes, _ in _documents(held):
        for record, scope in _single_lines(document, scopes, reach):
            columns = columns_of(record, scope)
            move = reach.place(record, scope), after(columns, record.charge_period_start)
            if move[0] == move[1]:
                continue
            count, money = found.get(move, (0, Money()))
            money.add(record.currency, (record.billed_cost, record.effective_cost,
                                        record.list_cost, record.contracted_cost))  # fmt: skip
            found[move] = count + 1, money
    return found


def _single_lines(
    document: Document, scopes: set[Scope], reach: Reach
) -> Iterator[tuple[ChargeRecord, Scope]]:
    """The lines of a document that the rules reach and that stand in a sum now."""
    rows = Charge.objects.filter(document=document, last_line__isnull=True)
    whole = set(rows.filter(snapshot__in=current_ids()).values_list("line", flat=True))
    for record in parse_again(document, reach)[1].records:
        if isinstance(record, ChargeRecord) and is_summable(record) and record.line not in whole:
            scope = scope_of(record)
            if scope in scopes:
                yield record, scope
