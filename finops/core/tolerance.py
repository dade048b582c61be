"""How far an invoice may lie from the sum of its lines (method §4; FOCUS 1.4 rounding variance).

`max(100 × subunit, √rows × 0.5 × subunit)`, the subunit being the currency's smallest coin.
"""

from __future__ import annotations

from decimal import Decimal

from finops.core.money import WIDE

# ISO 4217 minor units other than 2.
_MINOR_UNITS = {
    **dict.fromkeys(
        [
            "BIF",
            "CLP",
            "DJF",
            "GNF",
            "ISK",
            "JPY",
            "KMF",
            "KRW",
            "PYG",
            "RWF",
            "UGX",
            "UYI",
            "VND",
            "VUV",
            "XAF",
            "XOF",
            "XPF",
        ],
        0,
    ),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
    **dict.fromkeys(["CLF", "UYW"], 4),
}


def subunit(currency: str) -> Decimal:
    """The smallest coin of a currency by ISO 4217; 0.01 for what the list does not name."""
    return Decimal(1).scaleb(-_MINOR_UNITS.get(currency.upper(), 2))


def tolerance(rows: int, currency: str) -> Decimal:
    """The largest difference that rounding of so many rows explains, to 60 digits."""
    smallest = subunit(currency)
    by_rows = WIDE.multiply(WIDE.sqrt(Decimal(rows)), WIDE.multiply(smallest, Decimal("0.5")))
    return max(100 * smallest, by_rows)


def is_within(difference: Decimal, rows: int, currency: str) -> bool:
    """Whether a difference lies within the tolerance, decided exactly, without a square root."""
    smallest = subunit(currency)
    size = abs(difference)
    return size <= 100 * smallest or (2 * size / smallest) ** 2 <= rows
