"""Invoices that people type in: posted as a document of their own, with the amount issued.

The document goes the way of every delivery (method §3.1, §3.2). The same invoice typed in again
replaces the one before, also when its account, month or currency was wrong; the older stays readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from finops.ledger.models import Charge, Document, Snapshot, SnapshotDecision
from finops.ledger.operations import delivering, documents
from finops.ledger.operations.candidates import Candidate, Outcome, look
from finops.ledger.operations.invoices import set_invoice_amount
from finops.ledger.operations.locks import lock
from finops.ledger.operations.manifest_files import Verdict
from finops.ledger.operations.reaching import Scope
from finops.ledger.queries.snapshots import with_verdict
from finops.ledger.queries.tieout import TYPED_IN, InvoiceDetail
from finops.ledger.which import atomic
from finops.sources.records import Refused
from finops.sources.typed_invoice import NotUsable, TypedInvoice, credited_by


def enter(invoice: TypedInvoice, paper: Document, *, by: str, at: datetime) -> Document:
    """Posts the invoice and sets its issued amount, inside the caller's transaction.

    Gives the document of its lines; `paper` is what it was read from. NotUsable names the field of
    a value that cannot be booked, or that an export has booked already.
    """
    invoice.check()
    scope = (invoice.issuer, invoice.billing_account, invoice.billing_period)
    with atomic():
        lock("typed invoices")
        before = _typed_before(invoice)
        for one in sorted({scope, *map(_scope, before)}):
            lock("scope", *one)
        _refuse_exported(invoice, scope)
        document = _post(invoice, scope, paper, by=by, at=at)
        _take_out(invoice, [one for one in before if _scope(one) != scope], document, by, at)
        _set_to_nothing(invoice, before, by, at)
        set_invoice_amount(
            issuer=invoice.issuer,
            invoice=invoice.invoice,
            billing_period=invoice.billing_period,
            amount=invoice.total(),
            currency=invoice.currency,
            by=by,
            at=at,
            document=paper,
        )
    return document


def credited(document: Document | None) -> str | None:
    """The number of the invoice that a typed-in credit note credits; None for anything else, and
    where its bytes are gone."""
    if document is None or document.origin != TYPED_IN:
        return None
    try:
        return credited_by(documents.stored(document.sha256).read_bytes())
    except OSError:
        return None


def detail_json(detail: InvoiceDetail) -> dict[str, Any]:
    """An invoice of the tie-out as commands print it, with the invoice that a credit note credits."""
    return detail.as_json() | {"credits_invoice": credited(detail.typed_in)}


def _scope(snapshot: Snapshot) -> Scope:
    return snapshot.issuer, snapshot.billing_account, snapshot.billing_period


def _typed_before(invoice: TypedInvoice) -> list[Snapshot]:
    """Snapshots that count and hold this invoice as it was typed in before."""
    parts = {
        "parts__document__origin": TYPED_IN,
        "parts__document__name": invoice.name(),
        "issuer": invoice.issuer,
    }
    return list(with_verdict().filter(verdict="current", **parts).order_by("pk").distinct())


def _refuse_exported(invoice: TypedInvoice, scope: Scope) -> None:
    """NotUsable where an export tells the invoice, or the account's month: it would count twice."""
    current = with_verdict().filter(verdict="current", issuer=invoice.issuer)
    exported = current.exclude(parts__document__origin=TYPED_IN)
    there = exported.filter(billing_account=scope[1], billing_period=scope[2]).first()
    if there is not None:
        name = there.parts.values_list("document__name", flat=True).first()
        raise NotUsable(
            "billing_account",
            f"the charges of {scope[1]} in {scope[2]} came with {name}; an invoice beside them "
            "would count twice",
        )
    lines = Charge.objects.filter(snapshot__in=list(exported), invoice=invoice.invoice)
    line = lines.select_related("document").first()
    if line is not None:
        raise NotUsable(
            "invoice",
            f"the lines of {invoice.invoice} came with {line.document.name}; typed in as well they "
            "would count twice",
        )


def _post(
    invoice: TypedInvoice, scope: Scope, paper: Document, *, by: str, at: datetime
) -> Document:
    """The document of the lines, posted and found to be what was typed; else nothing of it stays."""
    content = invoice.document(by=by, at=at, paper=paper.sha256)
    kept = documents.keep_bytes(content, invoice.name(), TYPED_IN)
    found: Outcome | Candidate = look(kept, "focus", Verdict())
    try:
        if isinstance(found, Candidate):
            posted = delivering.post_charges([found], [], by=by, at=at, tell=lambda text: None)
            found = posted[kept.sha256]
        if not isinstance(found, Document):
            reason = found if isinstance(found, Refused) else "it was typed in this very moment"
            raise NotUsable("invoice", f"it cannot be kept: {reason}")
        _check_posted(invoice, scope, found)
    except NotUsable:
        documents.forget(kept, is_known=lambda sha256: False)  # its moment makes it nobody else's
        raise
    return found


def _check_posted(invoice: TypedInvoice, scope: Scope, document: Document) -> None:
    """NotUsable unless the ledger now holds what was typed: what is read as "nothing" (an invoice
    called null) would else lie elsewhere."""
    lines = Charge.objects.filter(
        document=document,
        invoice=invoice.invoice,
        currency=invoice.currency,
        snapshot__issuer=scope[0],
        snapshot__billing_account=scope[1],
        snapshot__billing_period=scope[2],
    )
    billed = lines.aggregate(total=Sum("billed_cost"))["total"]
    verdicts = with_verdict().filter(parts__document=document).values_list("verdict", flat=True)
    if document.rows_rejected:
        row = document.rejected_rows.order_by("line").first()
        raise NotUsable("invoice", f"it cannot be read back: {row.reason if row else ''}")
    if billed != invoice.total() or set(verdicts) != {"current"}:
        raise NotUsable("invoice", "read back it is not what was typed; use other names")


def _take_out(
    invoice: TypedInvoice, others: Iterable[Snapshot], document: Document, by: str, at: datetime
) -> None:
    """Under another account or month the same invoice counts no more."""
    for other in others:
        reason = f"typed in again: {document.sha256[:12]} for {invoice.billing_account}, {invoice.billing_period}"
        SnapshotDecision.objects.create(
            snapshot=other, verdict="superseded", at=at, by=by, reason=reason
        )


def _set_to_nothing(
    invoice: TypedInvoice, before: Iterable[Snapshot], by: str, at: datetime
) -> None:
    """Where the invoice stood before in another month or currency, nothing was issued."""
    lines = Charge.objects.filter(snapshot__in=list(before), invoice=invoice.invoice)
    names = ("snapshot__billing_period", "currency")
    places = set(lines.order_by().values_list(*names).distinct())
    for month, currency in sorted(places - {(invoice.billing_period, invoice.currency)}):
        set_invoice_amount(
            issuer=invoice.issuer,
            invoice=invoice.invoice,
            billing_period=month,
            amount=Decimal(0),
            currency=currency,
            by=by,
            at=at,
        )
