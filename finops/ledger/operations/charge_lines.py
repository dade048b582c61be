"""Lines of invoice exports on their way to charges: refused, completed, summed, counted, told.

Nothing here asks the database, so that a worker can do it for a part of a delivery
(method §3.2, §3.3, §3.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from finops.core.amounts import FourAmounts, Money
from finops.core.period import month_of_span
from finops.ledger.operations.charge_rows import ending_of, storable
from finops.ledger.operations.pricing import Pricer
from finops.ledger.operations.reaching import Reaching, Scope
from finops.sources.azure_cost import ACTUAL
from finops.sources.bulk_table import Table
from finops.sources.gpu_shapes import UNRECOGNISED
from finops.sources.records import CHARGE_CATEGORIES, ChargeRecord, Refused, Rejection
from finops.sources.summing import LONGEST_NAME_CHARACTERS, Summing, is_summable

BATCH_ROWS = 5000
LONGEST_CURRENCY_CHARACTERS = 40

SnapshotOf = Callable[[Scope], int]
TakeTable = Callable[[Table], None]
Scoped = tuple[ChargeRecord, Scope]


@dataclass(slots=True)
class Lines:
    """What a snapshot holds so far."""

    snapshot_id: int
    start: datetime
    end: datetime
    charges: int = 0
    sums: int = 0
    exported_at: datetime | None = None


@dataclass(slots=True)
class Sums:
    """What one document gave so far."""

    charges: int = 0
    sums: int = 0
    summed: int = 0
    rejected: int = 0
    total: Money = field(default_factory=Money)
    gpu: Money = field(default_factory=Money)
    gpu_unrecognised: Money = field(default_factory=Money)
    priced: Money = field(default_factory=Money)
    cards: set[str] = field(default_factory=set)
    lines: dict[Scope, Lines] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completing:
    """How the lines of a delivery are completed, and which of them stay single lines.

    `paired` are the scopes of which both views are there: the effective cost is the amortised
    view's alone.
    """

    price: Pricer
    paired: frozenset[Scope]
    reach: Reaching


def batches(
    records: Iterator[Any],
    by: Completing,
    *,
    sums: bool,
    only: frozenset[Scope] | None = None,
    take_table: TakeTable | None = None,
) -> Iterator[tuple[list[Scoped], list[Rejection]]]:
    """The charges and rejections of a document, some thousand at a time.

    With `sums`, lines that nothing looks at one by one come as sums; of charges only those of the
    scopes `only`, or all. A table of sums is given to `take_table` as it comes, or told as charges.
    """
    summing = Summing() if sums else None
    for batch in _cut(records, take_table):
        charges: list[Scoped] = []
        rejections: list[Rejection] = []
        for record in batch:
            rejection = fault(record)
            if rejection is not None:
                rejections.append(rejection)
            elif isinstance(record, ChargeRecord):
                scope = scope_of(record)
                if only is not None and scope not in only:
                    continue
                charge = _completed(record, scope, by)
                if summing and is_summable(charge) and not by.reach(charge, scope):
                    summing.add(charge)
                else:
                    charges.append((charge, scope))
        if summing and summing.full:
            charges += _with_scopes(summing)
        yield charges, rejections
    if summing:
        yield _with_scopes(summing), []


def _with_scopes(summing: Summing) -> list[Scoped]:
    return [(record, scope_of(record)) for record in summing.taken()]


def _completed(record: ChargeRecord, scope: Scope, by: Completing) -> ChargeRecord:
    """The charge priced by a rate card, or without what the other view tells (method §3.5)."""
    if record.view == ACTUAL and record.effective_cost is not None and scope in by.paired:
        return replace(record, effective_cost=None)
    return by.price(record)


def scope_of(record: ChargeRecord) -> Scope:
    """What a charge's snapshot is a delivery of."""
    return _scope(
        record.issuer,
        record.billing_account,
        record.billing_period_start,
        record.billing_period_end,
    )


@lru_cache(maxsize=1 << 10)
def _scope(issuer: str, account: str, start: datetime, end: datetime) -> Scope:
    return storable(issuer), storable(account), month_of_span(start, end)


def _cut(records: Iterator[Any], take_table: TakeTable | None) -> Iterator[list[Any]]:
    """Records some thousand at a time; a table is read at once, for it is gone with the next."""
    batch: list[Any] = []
    for record in records:
        if not isinstance(record, Table):
            batch.append(record)
        elif take_table is not None:
            take_table(record)
        else:
            for one in record.records():
                batch.append(one)
                if len(batch) >= BATCH_ROWS:
                    yield batch
                    batch = []
        if len(batch) >= BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def fault(record: object) -> Rejection | None:
    """Why a record cannot be a charge; the table's own constraints say the same."""
    if isinstance(record, Rejection):
        return record
    if not isinstance(record, ChargeRecord):
        raise Refused(f"charges and {type(record).__name__} in one document")
    if record.category not in CHARGE_CATEGORIES:
        return _reject(record, "ChargeCategory", record.category, "not a charge category")
    if not 0 < len(record.currency) <= LONGEST_CURRENCY_CHARACTERS:
        return _reject(record, "BillingCurrency", record.currency, "not a currency")
    if record.charge_period_end < record.charge_period_start:
        ends = record.charge_period_end.isoformat()
        return _reject(record, "ChargePeriodEnd", ends, "the charge ends before it starts")
    for column, name in (("issuer", record.issuer), ("billing account", record.billing_account)):
        if len(name) > LONGEST_NAME_CHARACTERS:
            return _reject(record, column, name, f"over {LONGEST_NAME_CHARACTERS} characters long")
    return None


def _reject(record: ChargeRecord, column: str, value: str, reason: str) -> Rejection:
    return Rejection.of(record.line, column, value, reason)


def count(
    record: ChargeRecord, scope: Scope, sums: Sums, snapshot_of: SnapshotOf, rows: int = 1
) -> int:
    """Adds a charge to the document's sums; returns the snapshot it belongs to.

    `snapshot_of` gives the snapshot of a scope that is new to the document. A record can stand for
    several charges that it is the total of: `line_count` lines kept whole, or `rows` of kept sums.
    """
    amounts: FourAmounts = (
        record.billed_cost,
        record.effective_cost,
        record.list_cost,
        record.contracted_cost,
    )
    is_sum = record.last_line is not None
    if is_sum:
        sums.sums += rows
        sums.summed += record.line_count
    else:
        sums.charges += record.line_count
    sums.total.add(record.currency, amounts)
    if record.gpu_model is not None:
        known = record.gpu_model != UNRECOGNISED
        (sums.gpu if known else sums.gpu_unrecognised).add(record.currency, amounts)
    if record.rate_card is not None:
        sums.priced.add(record.currency, amounts)
        sums.cards.add(record.rate_card)
    lines = sums.lines.get(scope)
    if lines is None:
        lines = sums.lines[scope] = Lines(
            snapshot_of(scope), record.charge_period_start, record.charge_period_end
        )
    lines.charges += record.line_count
    lines.sums += rows if is_sum else 0
    lines.start = min(lines.start, record.charge_period_start)
    lines.end = max(lines.end, record.charge_period_end)
    return lines.snapshot_id


def told_by(
    table: Table,
    sha256: str,
    sums: Sums,
    snapshot_of: SnapshotOf,
    only: frozenset[Scope] | None = None,
) -> Iterator[str]:
    """The charges of a document's table as lines, of the scopes `only` or all.

    All are counted at once, by the kind; the lines come as they are asked for.
    """
    endings: dict[int, str] = {}
    for kind in table.kinds:
        scope = scope_of(kind.total)
        if only is None or scope in only:
            snapshot = count(kind.total, scope, sums, snapshot_of, kind.sums)
            endings[kind.key] = ending_of(kind.total, snapshot, sha256, table.fields)
    return table.lines(endings) if endings else iter(())
