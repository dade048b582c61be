"""What the ledger knows of training: a quarter's budget and what was spent of it (method §5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from .period import Period


@dataclass(frozen=True, slots=True)
class Budget:
    """The newest budget of a quarter: its amount, its document's digest, and who wrote it."""

    quarter: str
    amount: Decimal
    currency: str
    document: str | None
    note: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Burn:
    """What training charges of a quarter came to, from its start until an instant, as effective
    cost in the report's currency. Shared charges are left out: their keys are those of weeks."""

    period: Period
    until: datetime
    budget: Budget | None
    spent: Decimal = Decimal(0)
    charges: int = 0
    other_currencies: tuple[str, ...] = ()
