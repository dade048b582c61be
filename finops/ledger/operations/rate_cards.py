"""Rate cards: kept by version, and what they price (method §3.10).

What a card prices is effective, never billed, and carries the card's name and version.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from finops.core.period import Period
from finops.core.rate_card import Card, Owned, hours_text, own_cost
from finops.ledger.models import Document, RateCard
from finops.ledger.operations.locks import lock
from finops.sources.rate_card import card_of
from finops.sources.records import ChargeRecord, RateCardRecord

OWN_HARDWARE = "Own hardware"


def keep_card(document: Document, record: RateCardRecord, *, by: str, at: datetime) -> RateCard:
    """Adds a version of a card, inside the ledger's transaction."""
    card = record.card
    lock("rate card", card.name)
    newest = RateCard.objects.filter(name=card.name).order_by("-version").first()
    return RateCard.objects.create(
        name=card.name,
        version=newest.version + 1 if newest else 1,
        currency=card.currency,
        valid_from=card.valid_from,
        valid_to=card.valid_to,
        content=dict(record.content),
        document=document,
        at=at,
        by=by,
    )


def cards() -> list[Card]:
    """All versions of all cards, newest first."""
    return [card_of(row.content, row.version) for row in RateCard.objects.order_by("-pk")]


def own_charges(card: Card, until: datetime) -> Iterator[ChargeRecord]:
    """The charges of a card's own hardware, one a month and item, up to the month of an instant."""
    for number, owned in enumerate(card.owned, start=1):
        for month in _months(max(owned.in_service, card.valid_from), until):
            found = own_cost(owned, card, month)
            if found:
                yield _own_charge(number, owned, card, month, *found)


def _months(start: datetime, until: datetime) -> Iterator[Period]:
    first = start.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    while first <= until:
        following = (first + timedelta(days=32)).replace(day=1)
        yield Period(first, following)
        first = following


def _own_charge(
    number: int,
    owned: Owned,
    card: Card,
    month: Period,
    span: Period,
    cost: Decimal,
    hours: Fraction,
) -> ChargeRecord:
    quantity = hours_text(hours)
    return ChargeRecord(
        line=number,
        issuer=OWN_HARDWARE,
        billing_account=card.name,
        billing_account_name=None,
        billing_period_start=month.start,
        billing_period_end=month.end,
        charge_period_start=span.start,
        charge_period_end=span.end,
        category="Usage",
        currency=card.currency,
        billed_cost=None,
        effective_cost=cost,
        description=(
            f"{owned.name}: {owned.capex} over {owned.life_months} months, {owned.power_kw} kW × "
            f"PUE {owned.pue} × {owned.tariff_per_kwh} a kWh"
        ),
        provider=OWN_HARDWARE,
        service=OWN_HARDWARE,
        resource=owned.name,
        resource_name=owned.name,
        gpu_model=owned.gpu_model,
        gpu_count=owned.gpus,
        pricing_quantity=quantity,
        pricing_unit="Hours",
        consumed_quantity=quantity,
        consumed_unit="Hours",
        rate_card=card.label,
    )
