"""What rate cards say of own hardware, computed a second time, month by month (method §3.10)."""

from __future__ import annotations

from collections.abc import Iterator

from finops.ledger.models import Charge, Snapshot
from finops.ledger.operations.catching_up import clipped
from finops.ledger.operations.charge_columns import Row, differing_columns, said_by
from finops.ledger.operations.charge_lines import scope_of
from finops.ledger.operations.charge_rows import COLUMNS
from finops.ledger.operations.rate_cards import OWN_HARDWARE, own_charges

Key = tuple[str, int]  # the card's document and the number of the item on it


def own_hardware() -> Iterator[str]:
    """Charges of own hardware that are not what the cards known at their delivery come to."""
    for snapshot in Snapshot.objects.filter(issuer=OWN_HARDWARE).order_by("pk"):
        place = f"own hardware of {snapshot.billing_account} in {snapshot.billing_period}"
        expected = _expected(snapshot)
        rows = Charge.objects.filter(snapshot=snapshot).order_by("line", "pk").values(*COLUMNS)
        for row in rows:
            said = expected.pop((row["document_id"], row["line"]), None)
            if said is None:
                yield f"{place}: no card has item {row['line']}, which is charged"
            else:
                yield from differing_columns(f"{place}, item {row['line']}", row, said)
        for _, line in sorted(expected):
            yield f"{place}: item {line} of a card is not charged"


def _expected(snapshot: Snapshot) -> dict[Key, Row]:
    """What the month's charges must be."""
    scope = (snapshot.issuer, snapshot.billing_account, snapshot.billing_period)
    at = snapshot.arrived_at
    return {
        (card_row.document_id, record.line): said_by(record)
        for card_row, card in clipped(at)
        if card.name == snapshot.billing_account
        for record in own_charges(card, at)
        if scope_of(record) == scope
    }
