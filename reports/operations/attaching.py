"""Invoices that people enter by hand: the amount, and the paper it stands on, kept by digest."""

from __future__ import annotations

from datetime import datetime
from typing import BinaryIO, cast

from django.core.files.uploadedfile import UploadedFile

from finops.ledger import signals
from finops.ledger.models import Document, InvoiceAmount
from finops.ledger.operations import typed_invoices
from finops.ledger.operations.documents import keep_stream
from finops.ledger.operations.invoices import set_invoice_amount
from finops.ledger.operations.papers import refuse_data
from finops.ledger.which import atomic
from finops.sources.typed_invoice import NotUsable, TypedInvoice

from .uploads import clean_name

FORMAT = "invoice-paper"


def enter_amount(
    values: dict[str, str], attached: UploadedFile | None, *, by: str, at: datetime
) -> InvoiceAmount:
    """Keeps the invoice, when there is one, and its amount; both or neither. ValueError says what
    cannot be kept."""
    with atomic():
        document = None
        if attached is not None:
            document = _paper(cast(BinaryIO, attached), attached.name or "", by=by, at=at)
        return set_invoice_amount(**values, by=by, at=at, document=document)


def enter_invoice(
    invoice: TypedInvoice, attached: BinaryIO, name: str, *, by: str, at: datetime
) -> Document:
    """Keeps the paper, posts the lines that a person read from it and sets the amount issued; all
    or nothing. Gives the document of the lines. NotUsable (a ValueError) names the field."""
    with atomic():
        try:
            paper = _paper(attached, name, by=by, at=at)
        except ValueError as error:
            raise NotUsable("attached", str(error)) from None
        document = typed_invoices.enter(invoice, paper, by=by, at=at)
    signals.tell_of_arrival(at)
    return document


def _paper(attached: BinaryIO, name: str, *, by: str, at: datetime) -> Document:
    """The document of the attached bytes; the same bytes again are the same document."""
    if not attached.read(1):
        raise ValueError("the attached file is empty")
    attached.seek(0)
    name = clean_name(name or "invoice")
    kept = keep_stream(attached, name, "attached")
    refuse_data(kept)
    document, _ = Document.objects.get_or_create(
        sha256=kept.sha256,
        defaults={
            "size_bytes": kept.size_bytes,
            "name": name,
            "origin": "attached",
            "format": FORMAT,
            "received_at": at,
            "received_by": by,
        },
    )
    return document
