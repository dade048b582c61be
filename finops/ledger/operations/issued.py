"""Amounts issued, as FOCUS InvoiceDetail tells them: an invoice's whole sum, or none (method §4).

The lines of one invoice may stand in several files of a delivery. So all of its files are read
before any is posted, and the last one that tells of an invoice posts its amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from finops.core.money import EXACT, add
from finops.core.period import month_of_span
from finops.ledger.models import Document, InvoiceAmount
from finops.ledger.operations.candidates import Candidate
from finops.ledger.operations.parsing import exported_at
from finops.sources.records import InvoiceDetailRecord, Refused, Rejection

MOST_DETAILS = 500_000
"""In one file: all are held in memory at once, about 300 bytes each."""

Place = tuple[str, str, str, str]  # issuer, invoice, billing month, currency


@dataclass(slots=True)
class Detail:
    """One detail of an invoice: what its lines of one file sum to."""

    amount: Decimal = Decimal(0)
    updated_at: datetime | None = None
    is_open: bool = False
    is_torn: bool = False  # one of its lines could not be read

    def take(self, line: InvoiceDetailRecord) -> None:
        self.is_open |= line.status == "Open"
        self.is_torn |= line.amount is None
        if line.status == "Issued" and line.amount is not None:  # a voided one asks for nothing
            self.amount = EXACT.add(self.amount, line.amount)
        self.updated_at = _later(self.updated_at, line.updated_at)


@dataclass(slots=True)
class Invoice:
    """One invoice as the files of a delivery tell it; `last` is the digest of the last of them."""

    last: str
    details: dict[str, Detail] = field(default_factory=dict)

    def take(self, sha256: str, name: str, detail: Detail) -> None:
        """A detail of a further file: by another name a part, by the same name the newer counts."""
        self.last = sha256
        held = self.details.get(name)
        if held and held.updated_at and detail.updated_at and held.updated_at > detail.updated_at:
            return
        self.details[name] = detail

    @property
    def is_open(self) -> bool:
        return any(one.is_open for one in self.details.values())

    @property
    def is_torn(self) -> bool:
        return any(one.is_torn for one in self.details.values())

    @property
    def amount(self) -> Decimal:
        return add([one.amount for one in self.details.values()])


@dataclass(slots=True)
class Told:
    """What the files of a delivery tell of invoices, and when each file was last brought up to date;
    `refused` are the files that could not be read, by digest."""

    invoices: dict[Place, Invoice] = field(default_factory=dict)
    updated_at: dict[str, datetime | None] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)

    def read(self, candidate: Candidate) -> None:
        """Takes a file's lines; Refused where it cannot be read."""
        sha256 = candidate.kept.sha256
        found: dict[Place, dict[str, Detail]] = {}
        rejected = placed = count = 0
        for line in candidate.parse().records:
            if isinstance(line, Rejection):
                rejected += 1
            elif isinstance(line, InvoiceDetailRecord):
                placed += line.amount is None
                name = line.detail or sha256  # a detail without a name is no other file's
                of_invoice = found.setdefault(_place(line), {})
                if name not in of_invoice:
                    count += 1
                    if count > MOST_DETAILS:
                        reason = f"more than {MOST_DETAILS} invoice details; split it"
                        raise Refused(f"{candidate.kept.name}: {reason}", line=line.line)
                    of_invoice[name] = Detail()
                of_invoice[name].take(line)
        self.updated_at[sha256] = None
        for place, details in found.items():
            invoice = self.invoices.setdefault(place, Invoice(sha256))
            for name, detail in details.items():
                # Of a rejected line that names no invoice, any may be the one that lacks it.
                detail.is_torn |= rejected > placed
                invoice.take(sha256, name, detail)
                self.updated_at[sha256] = _later(self.updated_at[sha256], detail.updated_at)


def told_by(candidates: Iterable[Candidate]) -> Told:
    """What the InvoiceDetail files among a delivery tell together, without those that cannot be read."""
    told = Told()
    for one in candidates:
        if one.kind is InvoiceDetailRecord:
            try:
                told.read(one)
            except Refused as refused:
                told.refused[one.kept.sha256] = refused
    return told


def post_amounts(document: Document, told: Told, *, by: str, at: datetime) -> list[str]:
    """Posts the amounts that this document is the last to tell; the warnings of what is not taken.

    Not taken are invoices with a line that is open or could not be read, and those that a document
    brought up to date later than this one has told already.
    """
    mine = {place: one for place, one in told.invoices.items() if one.last == document.sha256}
    still_open = [place for place, one in mine.items() if one.is_open]
    torn = [place for place, one in mine.items() if one.is_torn and place not in still_open]
    whole = [place for place in sorted(mine) if place not in {*still_open, *torn}]
    own = told.updated_at.get(document.sha256)
    older = [place for place in whole if own and _told_later(place, own)]
    InvoiceAmount.objects.bulk_create(
        InvoiceAmount(
            issuer=place[0],
            invoice=place[1],
            billing_period=place[2],
            currency=place[3],
            amount=mine[place].amount,
            document=document,
            at=at,
            by=by,
        )
        for place in whole
        if place not in older
    )
    return list(_warnings(still_open, torn, older))


def _warnings(open_: list[Place], torn: list[Place], older: list[Place]) -> Iterator[str]:
    if open_:
        yield f"{len(open_)} invoices are still open: their amounts are not taken yet"
    if torn:
        yield (
            f"{len(torn)} invoices have a line that could not be taken: without it their amounts are "
            f"not known, and are not taken ({_names(torn)})"
        )
    if older:
        yield (
            f"{len(older)} invoices were told by details brought up to date later: those amounts stay "
            f"({_names(older)})"
        )


def _names(places: list[Place]) -> str:
    shown = ", ".join(sorted({place[1] for place in places})[:5])
    return shown if len(places) <= 5 else f"{shown}, …"


def _told_later(place: Place, updated_at: datetime) -> bool:
    """Whether the amount that holds is by details brought up to date after an instant."""
    names = ("issuer", "invoice", "billing_period", "currency")
    held = InvoiceAmount.objects.filter(**dict(zip(names, place, strict=True)))
    newest = held.select_related("document").order_by("-pk").first()
    theirs = exported_at(newest.document) if newest and newest.document else None
    return theirs is not None and theirs > updated_at


def _place(line: InvoiceDetailRecord) -> Place:
    month = month_of_span(line.billing_period_start, line.billing_period_end)
    return line.issuer, line.invoice, month, line.currency


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)
