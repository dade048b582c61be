"""The tokens of everything in the ledger, as tests ask for them."""

from __future__ import annotations

from finops.core.period import Period
from finops.core.tokens import Tokens
from finops.ledger.queries.tokens import TokenLedger


def token_totals(period: Period) -> Tokens:
    """The tokens of a period of whole hours."""
    return TokenLedger(period).totals()
