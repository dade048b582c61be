"""Setting the budget of training for a quarter (method §5): dated, append-only, in the trail."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

from finops.core.money import parse_decimal, plain
from finops.core.training import quarter_of
from finops.ledger.models import Document, TrainingBudget
from finops.ledger.queries.training import zone
from finops.ledger.which import atomic
from finops.trail.operations import record

from .documents import Kept, keep
from .papers import refuse_data
from .workloads import LONGEST_TEXT, NotAccepted

EVIDENCE = "budget-evidence"


def set_budget(
    quarter: str,
    *,
    amount: str,
    currency: str,
    by: str,
    at: datetime,
    document: Path | None = None,
    note: str = "",
) -> TrainingBudget:
    """A new budget of a calendar quarter; an earlier one of the same quarter stays and is replaced.

    NotAccepted says what is wrong with it.
    """
    try:
        quarter_of(quarter, zone())
    except ValueError as error:
        raise NotAccepted(str(error)) from None
    value = _amount(amount)
    if not (
        currency.isascii() and currency.isalpha() and currency.isupper() and len(currency) == 3
    ):
        raise NotAccepted(f"a currency is a code like USD, not {currency[:20]!r}")
    note = note.strip()
    if len(note) > LONGEST_TEXT or not note.isprintable():
        raise NotAccepted(f"a note is printable text of at most {LONGEST_TEXT} characters")
    kept = _kept(document) if document is not None else None
    with atomic():
        row = TrainingBudget.objects.create(
            quarter=quarter,
            amount=value,
            currency=currency,
            document=_row(kept, by, at) if kept else None,
            note=note,
            at=at,
            by=by,
        )
        record(at=at, actor=by, action="training budget set", subject=f"training {quarter}",
               detail={"amount": plain(value), "currency": currency}
               | ({"document": kept.sha256} if kept else {}))  # fmt: skip
    return row


def _amount(text: str) -> Decimal:
    try:
        value = parse_decimal(text)
    except ValueError as error:
        raise NotAccepted(f"the budget is {error}") from None
    if value <= 0:
        raise NotAccepted(f"a budget is more than zero, not {text.strip()[:40]}")
    return value


def _kept(path: Path) -> Kept:
    if not path.is_file():
        raise NotAccepted(f"{path}: there is no such file")
    kept = keep(path, path.name, str(path.absolute()))
    try:
        refuse_data(kept)
    except ValueError as error:
        raise NotAccepted(str(error)) from None
    return kept


def _row(kept: Kept, by: str, at: datetime) -> Document:
    """The ledger's row of the budget's document, made when it holds none yet."""
    row, _ = Document.objects.get_or_create(
        sha256=kept.sha256,
        defaults={
            "size_bytes": kept.size_bytes,
            "name": kept.name,
            "origin": kept.origin,
            "format": EVIDENCE,
            "received_at": at,
            "received_by": by,
        },
    )
    return row
