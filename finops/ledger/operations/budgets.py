"""Setting the budget of training for a quarter (method §5): dated, append-only, in the trail."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from finops.core.money import plain
from finops.core.training import quarter_of
from finops.ledger.models import TrainingBudget
from finops.ledger.queries.training import zone
from finops.ledger.which import atomic
from finops.trail.operations import record

from .papers import amount_over_zero, check_currency, papers, row_of_paper
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
    value = amount_over_zero(amount, "budget")
    check_currency(currency)
    note = note.strip()
    if len(note) > LONGEST_TEXT or not note.isprintable():
        raise NotAccepted(f"a note is printable text of at most {LONGEST_TEXT} characters")
    (kept,) = papers([document]) if document is not None else [None]
    with atomic():
        row = TrainingBudget.objects.create(
            quarter=quarter,
            amount=value,
            currency=currency,
            document=row_of_paper(kept, EVIDENCE, by=by, at=at) if kept else None,
            note=note,
            at=at,
            by=by,
        )
        record(at=at, actor=by, action="training budget set", subject=f"training {quarter}",
               detail={"amount": plain(value), "currency": currency}
               | ({"document": kept.sha256} if kept else {}))  # fmt: skip
    return row
