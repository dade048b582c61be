"""Sums of money on its four bases, kept apart by currency (method §3.3, §3.4, §3.9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from finops.core.money import EXACT, plain

BASES = ("billed", "effective", "list", "contracted")

FourAmounts = tuple[Decimal | None, Decimal | None, Decimal | None, Decimal | None]


def plus(total: Decimal | None, amount: Decimal | None) -> Decimal | None:
    """The exact sum of what is known; None only while nothing is known."""
    if amount is None:
        return total
    return amount if total is None else EXACT.add(total, amount)


@dataclass(slots=True)
class Money:
    """Sums by currency; each is (billed, effective, list, contracted), None where unknown.

    The bases are never added to each other, nor one currency to another.
    """

    by_currency: dict[str, FourAmounts] = field(default_factory=dict)

    def add(self, currency: str, amounts: FourAmounts) -> None:
        """Adds one charge or one sum of charges."""
        known = self.by_currency.get(currency)
        if known is None:
            self.by_currency[currency] = amounts
            return
        self.by_currency[currency] = (
            plus(known[0], amounts[0]),
            plus(known[1], amounts[1]),
            plus(known[2], amounts[2]),
            plus(known[3], amounts[3]),
        )

    def merge(self, other: Money) -> None:
        """Adds all sums of another."""
        for currency, amounts in other.by_currency.items():
            self.add(currency, amounts)

    def billed(self, currency: str) -> Decimal | None:
        """The sum billed in a currency; None when nothing is known of it."""
        return self.by_currency.get(currency, (None,) * 4)[0]

    def effective(self, currency: str) -> Decimal | None:
        """The amortised sum in a currency; None when nothing is known of it."""
        return self.by_currency.get(currency, (None,) * 4)[1]

    def as_json(self) -> dict[str, dict[str, str | None]]:
        """Decimal strings in plain notation by currency and basis; null where unknown."""
        return {
            currency: {
                basis: None if amount is None else plain(amount)
                for basis, amount in zip(BASES, amounts, strict=True)
            }
            for currency, amounts in sorted(self.by_currency.items())
        }


def total_of(sums: Iterable[Money]) -> Money:
    """The sum of sums."""
    total = Money()
    for money in sums:
        total.merge(money)
    return total
