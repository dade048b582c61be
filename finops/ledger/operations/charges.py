"""Posting charges: the invoice exports of one delivery, in one transaction (method §3.1–3.3).

Rows go in by COPY in batches, so that an export of any length needs constant memory. A document
that cannot be read to its end is taken back whole; the delivery's other documents go on. Foreign
keys are checked at the end of the transaction: charges come before the snapshot and the document
that they point to, whose counts are known only when all rows have been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
from django.db import DatabaseError, connections, transaction

from finops.core.period import rfc3339
from finops.ledger.models import (
    Delivery,
    Document,
    RejectedRow,
    Reread,
    Snapshot,
)
from finops.ledger.operations.charge_copy import copy_charges, copy_lines, copy_text
from finops.ledger.operations.charge_lines import (
    BATCH_ROWS,
    Completing,
    Lines,
    Sums,
    batches,
    count,
    told_by,
)
from finops.ledger.operations.charge_rows import row_of
from finops.ledger.operations.charge_rows import storable as storable
from finops.ledger.operations.copying import Copying
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.locks import lock
from finops.ledger.operations.part_reading import Part, Rows, TableRows
from finops.ledger.operations.pricing import Pricer
from finops.ledger.operations.rate_cards import cards
from finops.ledger.operations.reach import Reach, keeps_sums
from finops.ledger.operations.reaching import Scope
from finops.ledger.operations.snapshots import settle
from finops.ledger.which import atomic, ledger_name
from finops.sources.bulk_table import Table
from finops.sources.records import Account, Parsed, Refused, Rejection
from finops.trail import operations as trail

COPIES_AT_ONCE = 4
"""Some thousand charges each, written as text: those of a piece of a bill, which come together."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One document of a delivery: its bytes in the store and how to read it.

    `again` says why a document that the ledger holds is read once more; of it only the charges of
    the scopes `only` are taken, or all. `rows` is how many rows a manifest says there are; `exported_at`
    is the export's own time by its manifest, which goes before what the file says of itself. `spooled`
    waits for whoever else reads it, instead of `parsed`.
    """

    kept: Kept
    format: str
    parsed: Parsed
    again: str | None = None
    only: frozenset[Scope] | None = None
    rows: int | None = None
    exported_at: datetime | None = None
    spooled: Callable[[], Part] | None = None

    def own_time(self) -> datetime | None:
        """The export's own time, once its records have been read."""
        return self.exported_at or self.parsed.account.exported_at


@dataclass(slots=True)
class _Delivery:
    """A delivery while it is posted: what there is so far, and how its charges are completed."""

    completing: Completing
    reach: Reach
    scopes: dict[Scope, Lines] = field(default_factory=dict)
    rereads: list[Reread] = field(default_factory=list)

    def snapshot_of(self, scope: Scope) -> int:
        """The key of a scope's snapshot, a new one where the delivery has none yet."""
        begun = self.scopes.get(scope)
        return begun.snapshot_id if begun else _next_snapshot_id()


def post_charges(
    offered: Iterable[Offered],
    *,
    by: str,
    at: datetime,
    origin: str,
    digests: Sequence[str],
    paired: frozenset[Scope] = frozenset(),
    reach: Reach | None = None,
    price: Pricer | None = None,
) -> dict[str, Document | Refused | None]:
    """Posts the documents of one delivery; by digest the new Document, or why it was refused.

    None stands for a document the ledger already holds. A failure of the database itself raises,
    and Refused when a document to be read again cannot be; then nothing of the delivery is kept
    (method §3.1, §3.2). `reach` are the rules that the documents were read under and `price` the
    rate cards, by default those of now.
    """
    outcome: dict[str, Document | Refused | None] = {}
    under = reach or Reach()
    delivery = _Delivery(Completing(price or Pricer(cards()), paired, under), under)
    with atomic():
        for sha256 in sorted(digests):
            lock("document", sha256)
        _hold_snapshots()
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
    sums = _post_rows(one, delivery, Sums())
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
            sums = _post_rows(one, delivery, Sums())
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


def _fill(document: Document, sums: Sums, rows: int | None) -> None:
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


def _post_rows(one: Offered, delivery: _Delivery, sums: Sums) -> Sums:
    """Posts a document's charges, the database beside the reading; what they come to."""
    with Copying(of_series=False, at_once=COPIES_AT_ONCE):
        return _post_each(one, delivery, sums)


def _post_each(one: Offered, delivery: _Delivery, sums: Sums) -> Sums:
    if one.spooled is not None:
        return _post_spooled(one, one.spooled(), delivery)
    found = batches(
        one.parsed.records,
        delivery.completing,
        sums=keeps_sums(one.kept),
        only=one.only,
        take_table=lambda table: _post_table(table, one, delivery, sums),
    )
    for charges, rejections in found:
        copy_charges(
            [
                row_of(charge, count(charge, scope, sums, delivery.snapshot_of), one.kept.sha256)
                for charge, scope in charges
            ]
        )
        if one.again is None:
            sums.rejected += len(rejections)
            keep_rejections(one.kept.sha256, rejections)
    return sums


def _post_table(table: Table, one: Offered, delivery: _Delivery, sums: Sums) -> None:
    """Posts the charges of a table: counted by the kind, written by the line."""
    lines = told_by(table, one.kept.sha256, sums, delivery.snapshot_of, one.only)
    copy_lines(table.fields, lines)


def _post_spooled(one: Offered, part: Part, delivery: _Delivery) -> Sums:
    """The same of a part that was read into the spool: its rows are written already."""
    one.parsed.account = part.account
    keys: dict[int, int] = {}
    for scope, lines in part.sums.lines.items():
        own, lines.snapshot_id = lines.snapshot_id, delivery.snapshot_of(scope)
        keys[own] = lines.snapshot_id
    for block in part.blocks():
        if isinstance(block, Rows):
            copy_text(block.of(keys[block.snapshot]))
        elif isinstance(block, TableRows):
            copy_lines(block.fields, [block.of(keys, one.kept.sha256)])
        else:
            keep_rejections(one.kept.sha256, block)
    return part.sums


def _hold_snapshots() -> None:
    """Holds the snapshots as an insert does, before their numbers are drawn: the rows come much
    later, and the trail fixes rows up to a number once nobody holds their table any more."""
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute("LOCK TABLE ledger_snapshot IN ROW EXCLUSIVE MODE")


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


def _take_over(scopes: dict[Scope, Lines], found: dict[Scope, Lines], one: Offered) -> None:
    """Adds what a posted document gave to what the delivery has so far."""
    exported = one.own_time()
    for scope, lines in found.items():
        known = scopes.setdefault(scope, lines)
        if known is not lines:
            known.charges += lines.charges
            known.sums += lines.sums
            known.start = min(known.start, lines.start)
            known.end = max(known.end, lines.end)
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
            catalogue_seen=made.reach.catalogue,
        )
        for (issuer, account, month), lines in sorted(scopes.items())
    ]
    Snapshot.objects.bulk_create(snapshots)
    settle(snapshots, by=by, at=at)
