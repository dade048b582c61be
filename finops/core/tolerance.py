"""How far an invoice may lie from the sum of its lines (method §4; FOCUS 1.4 rounding variance).

`max(100 × subunit, √rows × 0.5 × subunit)`, the subunit being the currency's smallest coin. Lines of
tax do not count as rows, and an invoice of tax alone has no tolerance: it is not for tax lines.
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


def tolerance(rows: int, currency: str, tax_rows: int = 0) -> Decimal:
    """The largest difference that rounding of so many rows explains, to 60 digits.

    `tax_rows` of them are lines of tax.
    """
    if rows and rows == tax_rows:
        return Decimal(0)
    smallest = subunit(currency)
    by_rows = WIDE.multiply(
        WIDE.sqrt(Decimal(rows - tax_rows)), WIDE.multiply(smallest, Decimal("0.5"))
    )
    return max(100 * smallest, by_rows)


def is_within(difference: Decimal, rows: int, currency: str, tax_rows: int = 0) -> bool:
    """Whether a difference lies within the tolerance, decided exactly, without a square root."""
    if rows and rows == tax_rows:
        return difference == 0
    smallest = subunit(currency)
    size = abs(difference)
    return size <= 100 * smallest or (2 * size / smallest) ** 2 <= rows - tax_rows
