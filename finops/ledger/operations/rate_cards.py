"""Rate cards: kept by version, and what they price (method §3.10).

What a card prices is effective, never billed, and carries the card's name and version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from finops.core.period import Period
from finops.core.rate_card import Card, Owned, Usage, hours_text, own_cost, price
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


class Pricer:
    """Prices usage that has no cost of its own, by the cards there are."""

    def __init__(self, known: Sequence[Card]) -> None:
        self._cards = known

    def __call__(self, record: ChargeRecord) -> ChargeRecord:
        """The record, priced when it is usage without any cost and a rate fits."""
        is_unpriced = record.billed_cost is None and record.effective_cost is None
        if not self._cards or not is_unpriced or record.category != "Usage" or record.view:
            return record
        priced = price(_usage(record), self._cards)
        if priced is None:
            return record
        return replace(
            record,
            effective_cost=priced.amount,
            currency=priced.currency,
            rate_card=priced.card,
        )


def _usage(record: ChargeRecord) -> Usage:
    return Usage(
        at=record.charge_period_start,
        provider=record.provider,
        issuer=record.issuer,
        gpu_model=record.gpu_model,
        gpu_count=record.gpu_count,
        skus=(record.sku, record.sku_price),
        quantities=(
            (record.consumed_quantity, record.consumed_unit),
            (record.pricing_quantity, record.pricing_unit),
        ),
    )


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
