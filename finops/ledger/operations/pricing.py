"""Pricing of usage without a cost by rate cards (method §3.10); knows no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from finops.core.rate_card import Card, Usage, price
from finops.sources.records import ChargeRecord


class Pricer:
    """Prices usage that has no cost of its own, by the cards there are."""

    def __init__(self, known: Sequence[Card]) -> None:
        self._cards = known

    def __call__(self, record: ChargeRecord) -> ChargeRecord:
        """The record, priced when it is usage without any cost and a rate fits.

        A charge has one currency: what the document tells in another one than the card's (a list
        cost, prices of a unit) is unknown on it (method §3.9).
        """
        is_unpriced = record.billed_cost is None and record.effective_cost is None
        if not self._cards or not is_unpriced or record.category != "Usage" or record.view:
            return record
        priced = price(_usage(record), self._cards)
        if priced is None:
            return record
        if priced.currency != record.currency:
            record = replace(
                record,
                list_cost=None,
                contracted_cost=None,
                list_unit_price=None,
                contracted_unit_price=None,
            )
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
