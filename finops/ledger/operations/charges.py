"""Posting charges: the invoice exports of one delivery, in one transaction (method §3.1–3.3).

Rows go in by COPY in batches, so that an export of any length needs constant memory. A document
that cannot be read to its end is taken back whole; the delivery's other documents go on. Foreign
keys are checked at the end of the transaction: charges come before the snapshot and the document
that they point to, whose counts are known only when all rows have been read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

import psycopg
from django.db import DatabaseError, connections, transaction

from finops.core.amounts import FourAmounts, Money
from finops.core.period import rfc3339
from finops.ledger.models import (
    Delivery,
    Document,
    RejectedRow,
    Reread,
    Snapshot,
    SnapshotDocument,
)
from finops.ledger.models.charges import CATEGORIES
from finops.ledger.operations.charge_rows import copy_charges, row_of
from finops.ledger.operations.charge_rows import storable as storable
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.locks import lock
from finops.ledger.operations.rate_cards import Pricer, cards
from finops.ledger.operations.reach import Reach, Scope, keeps_sums
from finops.ledger.operations.snapshots import settle
from finops.ledger.which import atomic, ledger_name
from finops.sources.azure_cost import ACTUAL
from finops.sources.records import Account, ChargeRecord, Parsed, Refused, Rejection
from finops.sources.summing import LONGEST_NAME_CHARACTERS, Summing, is_summable
from finops.trail import operations as trail

BATCH_ROWS = 5000
UNRECOGNISED = "unrecognised"  # a line that looks like a GPU of no known model, to be reviewed
LONGEST_CURRENCY_CHARACTERS = 40
HALF_A_MONTH = timedelta(days=15)


@dataclass(frozen=True, slots=True)
class Offered:
    """One document of a delivery: its bytes in the store and how to read it.

    `again` says why a document that the ledger holds is read once more; of it only the charges of
    the scopes `only` are taken, or all. `rows` is how many rows a manifest says there are; `exported_at`
    is the export's own time by its manifest, which goes before what the file says of itself.
    """

    kept: Kept
    format: str
    parsed: Parsed
    again: str | None = None
    only: frozenset[Scope] | None = None
    rows: int | None = None
    exported_at: datetime | None = None

    def own_time(self) -> datetime | None:
        """The export's own time, once its records have been read."""
        return self.exported_at or self.parsed.account.exported_at


@dataclass(slots=True)
class _Lines:
    """What a snapshot holds so far."""

    snapshot_id: int
    start: datetime
    end: datetime
    charges: int = 0
    sums: int = 0
    documents: list[str] = field(default_factory=list)
    exported_at: datetime | None = None


@dataclass(slots=True)
class _Sums:
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
    lines: dict[Scope, _Lines] = field(default_factory=dict)


@dataclass(slots=True)
class _Delivery:
    """A delivery while it is posted: what there is so far, and how its charges are completed.

    `paired` are the scopes of which both views are there: the effective cost is the amortised
    view's alone.
    """

    price: Pricer
    paired: frozenset[Scope]
    reach: Reach
    scopes: dict[Scope, _Lines] = field(default_factory=dict)
    rereads: list[Reread] = field(default_factory=list)


def post_charges(
    offered: Iterable[Offered],
    *,
    by: str,
    at: datetime,
    origin: str,
    digests: Sequence[str],
    paired: frozenset[Scope] = frozenset(),
    reach: Reach | None = None,
) -> dict[str, Document | Refused | None]:
    """Posts the documents of one delivery; by digest the new Document, or why it was refused.

    None stands for a document the ledger already holds. A failure of the database itself raises,
    and Refused when a document to be read again cannot be; then nothing of the delivery is kept
    (method §3.1, §3.2). `reach` are the rules that the documents were read under, by default those
    of now.
    """
    outcome: dict[str, Document | Refused | None] = {}
    delivery = _Delivery(Pricer(cards()), paired, reach or Reach())
    with atomic():
        for sha256 in sorted(digests):
            lock("document", sha256)
        known = set(Document.objects.filter(pk__in=digests).values_list("pk", flat=True))
        for one in offered:
            sha256 = one.kept.sha256
            if one.again is not None:
                _read_again(one, delivery, by=by, at=at)
            else:
                outcome[sha256] = None if sha256 in known else _try(one, delivery, by=by, at=at)
        if delivery.scopes:
            _deliver(delivery, by=by, at=at, origin=origin)
    return outcome


def _read_again(one: Offered, delivery: _Delivery, *, by: str, at: datetime) -> None:
    """A document the ledger holds, once more into this delivery; its own row does not change."""
    sums = _Sums()
    _post_rows(one, delivery, sums)
    if not sums.lines:
        return
    _take_over(delivery.scopes, sums.lines, one)
    delivery.rereads.append(
        Reread(
            document_id=one.kept.sha256,
            at=at,
            by=by,
            reason=one.again or "",
            charges=sums.charges,
            rows_summed=sums.summed,
            totals=sums.total.as_json(),
        )
    )


def _try(one: Offered, delivery: _Delivery, *, by: str, at: datetime) -> Document | Refused:
    """One document behind a savepoint, so that refusing it leaves nothing of it."""
    connection = connections[ledger_name()]
    try:
        with transaction.atomic(using=ledger_name()), connection.wrap_database_errors:
            sums = _Sums()
            _post_rows(one, delivery, sums)
            document = document_of(one.kept, one.format, one.parsed.account, by=by, at=at)
            _fill(document, sums, one.rows)
            if (exported := one.own_time()) is not None:
                document.account["exported_at"] = rfc3339(exported)
            document.save(force_insert=True)
    except Refused as refused:
        return refused
    except DatabaseError as error:
        if not isinstance(error.__cause__, psycopg.DataError | psycopg.IntegrityError):
            raise
        return Refused(f"{one.kept.name}: {' '.join(str(error).split())[:500]}")
    _take_over(delivery.scopes, sums.lines, one)
    return document


def document_of(kept: Kept, format: str, account: Account, *, by: str, at: datetime) -> Document:
    """The row of a document that has been read, its counts of postings still zero."""
    return Document(
        sha256=kept.sha256,
        size_bytes=kept.size_bytes,
        name=storable(kept.name),
        origin=storable(kept.origin),
        format=format,
        version=account.version or "",
        rows_read=account.rows_read,
        account={
            "unknown_columns": list(account.unknown_columns),
            "missing_columns": list(account.missing_columns),
            "warnings": list(account.warnings),
            "incomplete": account.incomplete,
            "rows_in_parent": account.rows_in_parent,
        }
        | ({"archive_sha256": kept.archive} if kept.archive else {})
        | ({"adds_to_others": True} if account.adds_to_others else {}),
        received_at=at,
        received_by=by,
    )


def _fill(document: Document, sums: _Sums, rows: int | None) -> None:
    """The counts and control totals of a read document; every row must be accounted for."""
    in_parent = int(document.account["rows_in_parent"])
    if document.rows_read != sums.charges + sums.summed + sums.rejected + in_parent:
        raise Refused(
            f"{document.name}: {document.rows_read} rows were read, but {sums.charges} charges, "
            f"{sums.summed} lines in sums, {in_parent} splits and {sums.rejected} rejections came "
            "of them"
        )
    if rows is not None and document.rows_read != rows:
        raise Refused(
            f"{document.name}: its manifest says {rows} rows, {document.rows_read} are in the file"
        )
    document.charges, document.rows_rejected = sums.charges, sums.rejected
    document.account["rows_summed"], document.account["sums"] = sums.summed, sums.sums
    document.account["totals"] = sums.total.as_json()
    document.account["gpu_totals"] = sums.gpu.as_json()
    document.account["gpu_unrecognised_totals"] = sums.gpu_unrecognised.as_json()
    if sums.cards:
        document.account["priced_totals"] = sums.priced.as_json()
        names = ", ".join(sorted(sums.cards))
        document.account["warnings"].append(f"priced by rate card, not invoiced: {names}")


def _post_rows(one: Offered, delivery: _Delivery, sums: _Sums) -> None:
    summing = Summing() if keeps_sums(one.kept) else None
    for batch in _batches(one.parsed.records):
        charges: list[tuple[ChargeRecord, Scope]] = []
        rejections: list[Rejection] = []
        for record in batch:
            rejection = _fault(record)
            if rejection is not None:
                rejections.append(rejection)
            elif isinstance(record, ChargeRecord):
                scope = scope_of(record)
                if one.only is not None and scope not in one.only:
                    continue
                charge = _completed(record, scope, delivery)
                if summing and is_summable(charge) and not delivery.reach(charge, scope):
                    summing.add(charge)
                else:
                    charges.append((charge, scope))
        if summing and summing.full:
            charges += _with_scopes(summing)
        _post_batch(charges, one, delivery, sums)
        if one.again is None:
            sums.rejected += len(rejections)
            keep_rejections(one.kept.sha256, rejections)
    if summing:
        _post_batch(_with_scopes(summing), one, delivery, sums)


def _with_scopes(summing: Summing) -> list[tuple[ChargeRecord, Scope]]:
    return [(record, scope_of(record)) for record in summing.taken()]


def _post_batch(
    charges: Sequence[tuple[ChargeRecord, Scope]],
    one: Offered,
    delivery: _Delivery,
    sums: _Sums,
) -> None:
    copy_charges(
        [
            row_of(charge, _count(charge, scope, delivery.scopes, sums), one.kept.sha256)
            for charge, scope in charges
        ]
    )


def _completed(record: ChargeRecord, scope: Scope, delivery: _Delivery) -> ChargeRecord:
    """The charge priced by a rate card, or without what the other view tells (method §3.5)."""
    if record.view == ACTUAL and record.effective_cost is not None and scope in delivery.paired:
        return replace(record, effective_cost=None)
    return delivery.price(record)


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
    return storable(issuer), storable(account), _month(start, end)


def _batches(records: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(records, BATCH_ROWS)):
        yield batch


def _fault(record: object) -> Rejection | None:
    """Why a record cannot be a charge; the table's own constraints say the same."""
    if isinstance(record, Rejection):
        return record
    if not isinstance(record, ChargeRecord):
        raise Refused(f"charges and {type(record).__name__} in one document")
    if record.category not in CATEGORIES:
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


def _count(record: ChargeRecord, scope: Scope, scopes: dict[Scope, _Lines], sums: _Sums) -> int:
    """Adds a charge to the document's sums; returns the snapshot it belongs to."""
    amounts: FourAmounts = (
        record.billed_cost,
        record.effective_cost,
        record.list_cost,
        record.contracted_cost,
    )
    is_sum = record.last_line is not None
    if is_sum:
        sums.sums += 1
        sums.summed += record.line_count
    else:
        sums.charges += 1
    sums.total.add(record.currency, amounts)
    if record.gpu_model is not None:
        known = record.gpu_model != UNRECOGNISED
        (sums.gpu if known else sums.gpu_unrecognised).add(record.currency, amounts)
    if record.rate_card is not None:
        sums.priced.add(record.currency, amounts)
        sums.cards.add(record.rate_card)
    lines = sums.lines.get(scope)
    if lines is None:
        begun = scopes.get(scope)
        lines = sums.lines[scope] = _Lines(
            begun.snapshot_id if begun else _next_snapshot_id(),
            record.charge_period_start,
            record.charge_period_end,
        )
    lines.charges += record.line_count
    lines.sums += is_sum
    lines.start = min(lines.start, record.charge_period_start)
    lines.end = max(lines.end, record.charge_period_end)
    return lines.snapshot_id


def billing_month(record: ChargeRecord) -> str:
    """The month of a charge's billing period, `YYYY-MM`.

    The middle of the period decides (at most half a month after its start): a provider that bills
    in its own time zone starts the month some hours early or late in UTC.
    """
    return _month(record.billing_period_start, record.billing_period_end)


def _month(start: datetime, end: datetime) -> str:
    middle = start + max(timedelta(), min((end - start) / 2, HALF_A_MONTH))
    return f"{middle.year:04d}-{middle.month:02d}"


def _next_snapshot_id() -> int:
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence('ledger_snapshot', 'id'))")
        return int(cursor.fetchone()[0])


def keep_rejections(sha256: str, rejections: Iterable[Rejection]) -> None:
    """Keeps the rows of a document that could not be taken, each with its reason."""
    RejectedRow.objects.bulk_create(
        (
            RejectedRow(
                document_id=sha256,
                line=one.line,
                column=storable(one.column or ""),
                value=storable(one.value),
                reason=storable(one.reason),
            )
            for one in rejections
        ),
        batch_size=BATCH_ROWS,
    )


def _take_over(scopes: dict[Scope, _Lines], found: dict[Scope, _Lines], one: Offered) -> None:
    """Adds what a posted document gave to what the delivery has so far."""
    exported = one.own_time()
    for scope, lines in found.items():
        known = scopes.setdefault(scope, lines)
        if known is not lines:
            known.charges += lines.charges
            known.sums += lines.sums
            known.start = min(known.start, lines.start)
            known.end = max(known.end, lines.end)
        known.documents.append(one.kept.sha256)
        if exported is not None:
            known.exported_at = max(exported, known.exported_at or exported)


def _deliver(made: _Delivery, *, by: str, at: datetime, origin: str) -> None:
    """Makes the delivery's snapshots and settles which of them are current."""
    scopes = made.scopes
    delivery = Delivery.objects.create(at=at, by=by, origin=origin)
    for reread in made.rereads:
        reread.delivery = delivery
        reread.save(force_insert=True)
        detail = {"reason": reread.reason, "charges": reread.charges + reread.rows_summed}
        trail.record(
            at=at, actor=by, action="document.reread", subject=reread.document_id, detail=detail
        )
    snapshots = [
        Snapshot(
            id=lines.snapshot_id,
            delivery=delivery,
            issuer=issuer,
            billing_account=account,
            billing_period=month,
            exported_at=lines.exported_at,
            arrived_at=at,
            charge_start=lines.start,
            charge_end=lines.end,
            charges=lines.charges,
            rules_seen=made.reach.seen if lines.sums else None,
            catalogue_seen=made.reach.catalogue if lines.sums else "",
        )
        for (issuer, account, month), lines in sorted(scopes.items())
    ]
    Snapshot.objects.bulk_create(snapshots)
    SnapshotDocument.objects.bulk_create(
        SnapshotDocument(snapshot_id=lines.snapshot_id, document_id=sha256)
        for lines in scopes.values()
        for sha256 in lines.documents
    )
    settle(snapshots, by=by, at=at)
