"""What falls due without a new invoice: usage that a card now prices, another month of own hardware.

Each is a delivery in which the documents are read again. Doing it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from django.db.models import Q

from finops.core.rate_card import Card, Usage, price
from finops.ledger.models import Charge, Document, RateCard
from finops.ledger.operations.charge_lines import scope_of
from finops.ledger.operations.charges import Offered, post_charges
from finops.ledger.operations.locks import lock
from finops.ledger.operations.parsing import exported_at, kept_of
from finops.ledger.operations.rate_cards import OWN_HARDWARE, cards, own_charges
from finops.ledger.operations.reach import Reach, parse_again
from finops.ledger.operations.reaching import Scope
from finops.ledger.queries.snapshots import with_verdict
from finops.ledger.which import atomic
from finops.sources.rate_card import FORMATS
from finops.sources.records import Account, Parsed

PRICED = "a rate card prices it differently now"
NEXT = "own hardware by the month"


def catch_up(*, by: str, at: datetime) -> int:
    """Reads again what rate cards price anew, and adds own hardware up to this month.

    How many documents were read again. Safe at any time; two at once wait for each other.
    """
    with atomic():
        lock("rate cards", "catch up")
        known, reach = cards(), Reach()
        offered = [*_repriced(known, reach), *_own(at)] if known else []
        if offered:
            post_charges(offered, by=by, at=at, origin="rate cards", digests=[], reach=reach)
    return len(offered)


def _repriced(known: list[Card], reach: Reach) -> list[Offered]:
    """The documents of current snapshots with a charge that is priced otherwise than it would be."""
    current = with_verdict().filter(verdict="current").exclude(issuer=OWN_HARDWARE)
    lines = Charge.objects.filter(
        Q(effective_cost__isnull=True) | Q(rate_card__isnull=False),
        snapshot__in=list(current.values_list("pk", flat=True)),
        billed_cost__isnull=True,
        category="Usage",
    ).select_related("snapshot")
    due = {line.snapshot_id for line in lines.iterator(chunk_size=2000) if _differs(line, known)}
    only: dict[str, set[Scope]] = {}
    for one in current.filter(pk__in=due):
        scope = (one.issuer, one.billing_account, one.billing_period)
        for sha256 in one.parts.values_list("document_id", flat=True):
            only.setdefault(sha256, set()).add(scope)
    found = []
    for document in Document.objects.filter(pk__in=only).order_by("pk"):
        kept, parsed = parse_again(document, reach)
        scopes = frozenset(only[document.sha256])
        own = exported_at(document)
        found.append(
            Offered(kept, document.format, parsed, again=PRICED, only=scopes, exported_at=own)
        )
    return found


def _differs(line: Charge, known: list[Card]) -> bool:
    usage = Usage(
        at=line.charge_start,
        provider=line.provider,
        issuer=line.snapshot.issuer,
        gpu_model=line.gpu_model,
        gpu_count=line.gpu_count,
        skus=(line.sku, line.sku_price),
        quantities=(
            (line.consumed_quantity, line.consumed_unit),
            (line.pricing_quantity, line.pricing_unit),
        ),
    )
    now = price(usage, known)
    if now is None:
        return line.rate_card is not None
    return (now.amount, now.card) != (line.effective_cost, line.rate_card)


def _own(at: datetime) -> Iterator[Offered]:
    """Months of own hardware that no current snapshot holds as the cards now have it."""
    records = {row.document_id: (row, list(own_charges(card, at))) for row, card in clipped(at)}
    wanted: dict[Scope, set[str]] = {}
    for sha256, (_, charges) in records.items():
        for charge in charges:
            wanted.setdefault(scope_of(charge), set()).add(sha256)
    held = _held()
    due = frozenset(scope for scope, digests in wanted.items() if held.get(scope) != digests)
    for row, charges in records.values():
        mine = [charge for charge in charges if scope_of(charge) in due]
        if mine:
            parsed = Parsed(Account(FORMATS[0]), iter(mine))
            yield Offered(kept_of(row.document), FORMATS[0], parsed, again=NEXT, only=due)


def _held() -> dict[Scope, set[str]]:
    held: dict[Scope, set[str]] = {}
    current = with_verdict().filter(verdict="current", issuer=OWN_HARDWARE)
    for one in current.prefetch_related("parts"):
        scope = (one.issuer, one.billing_account, one.billing_period)
        held.setdefault(scope, set()).update(part.document_id for part in one.parts.all())
    return held


def clipped(at: datetime) -> list[tuple[RateCard, Card]]:
    """Every version known at an instant that has own hardware, in force until a newer one of its
    name begins."""
    begun: dict[str, datetime] = {}
    found = []
    known = {(card.name, card.version): card for card in cards()}
    for row in RateCard.objects.filter(at__lte=at).select_related("document").order_by("-pk"):
        card = known[row.name, row.version]
        ends = [one for one in (card.valid_to, begun.get(row.name)) if one is not None]
        if ends:
            card = replace(card, valid_to=min(ends))
        begun[row.name] = min(card.valid_from, begun.get(row.name, card.valid_from))
        if card.owned:
            found.append((row, card))
    return found
