"""Exact money: parsing, splitting, parts of a charge over time, and one rounding at the end.

Amounts are `Decimal` in a wide context whose inexact results raise, so that nothing is rounded
unless a function of this module is asked to round (method §1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import (
    ROUND_DOWN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
)

LARGEST_EXPONENT = 60
EXACT = Context(prec=400, traps=[InvalidOperation, DivisionByZero, Overflow, Inexact])
WIDE = Context(
    prec=60, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation, DivisionByZero, Overflow]
)
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
MICROSECOND = timedelta(microseconds=1)
PART_DIGITS = 4


def parse_decimal(text: str) -> Decimal:
    """The exact value of a number as invoices write it: `12.5`, `1.81E-8`, `-3`.

    Raises ValueError for NaN, infinity, thousands separators, digits of other scripts (which
    `Decimal` reads, and readers of a report do not), and exponents or lengths no amount of money can
    have (method §1; FOCUS NumericFormat).
    """
    text = text.strip()
    if not NUMBER.fullmatch(text):
        raise ValueError(f"not a number: {text[:40]!r}")
    value = Decimal(text)
    if len(text) <= LARGEST_EXPONENT and "e" not in text and "E" not in text:
        return value  # plain notation: within every bound below
    if abs(value.adjusted()) > LARGEST_EXPONENT and value != 0:
        raise ValueError(f"number out of range: {text[:40]!r}")
    if -int(value.as_tuple().exponent) > 2 * LARGEST_EXPONENT or len(value.as_tuple().digits) > 120:
        raise ValueError(f"number with too many digits: {text[:40]!r}")
    return value


def whole_or_none(text: str) -> int | None:
    """The whole number that a label writes in plain digits; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def plain(value: Decimal) -> str:
    """Plain notation without an exponent; the digits as they are, negative zero as zero."""
    return format(value if value else abs(value), "f")


def grouped(value: int) -> str:
    """A whole number for sentences, its thousands set apart as on every page."""
    return f"{value:,}".replace(",", "\u202f")


def add(values: Sequence[Decimal] | list[Decimal]) -> Decimal:
    """The exact sum; raises decimal.Inexact rather than lose a digit."""
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return total


def scale_of(value: Decimal) -> int:
    """How many decimals the value is written with; 0 for whole numbers."""
    return max(0, -int(value.as_tuple().exponent))


def round_half_even(value: Decimal, decimals: int) -> Decimal:
    """The value rounded half to even to so many decimals."""
    wide = Context(prec=400, rounding=ROUND_HALF_EVEN)
    return value.quantize(Decimal(1).scaleb(-decimals), context=wide)


def divide(numerator: Decimal, denominator: Decimal) -> Decimal:
    """The quotient to 60 significant digits; raises ZeroDivisionError for a zero denominator."""
    return WIDE.divide(numerator, denominator)


def _microseconds(span: timedelta) -> int:
    return span // MICROSECOND


def part(
    cost: Decimal, start: datetime, end: datetime, since: datetime, until: datetime
) -> Decimal:
    """What of a charge over [start, end) falls into [since, until) (method §3.7).

    `Q(c × (t1−s)/T) − Q(c × (t0−s)/T)`, Q rounding half to even to the charge's own decimals plus
    four; parts over any partition telescope to the charge exactly. A zero-length charge belongs
    wholly to the period that holds its start.
    """
    if end == start:
        return cost if since <= start < until else Decimal(0)
    decimals = scale_of(cost) + PART_DIGITS
    total = _microseconds(end - start)

    def up_to(instant: datetime) -> Decimal:
        elapsed = _microseconds(min(max(instant, start), end) - start)
        if elapsed == total:
            return cost
        wide = Context(prec=400, rounding=ROUND_HALF_EVEN)
        product = wide.multiply(cost, Decimal(elapsed))
        return round_half_even(wide.divide(product, Decimal(total)), decimals)

    return EXACT.subtract(up_to(until), up_to(since))


def split(amount: Decimal, weights: Sequence[int | Decimal]) -> list[Decimal]:
    """Shares of an amount by weights, by largest remainder on the last digit (method §4).

    The shares sum to the amount exactly; they have four decimals more than it. Ties go to the earlier
    weight. Raises ValueError when the weights are negative or sum to zero.
    """
    exact = [Decimal(weight) for weight in weights]
    total = add(exact)
    if any(weight < 0 for weight in exact) or total <= 0:
        raise ValueError("weights must not be negative and must not all be zero")
    places = scale_of(amount) + PART_DIGITS
    unit = Decimal(1).scaleb(-places)
    wide = Context(prec=400, rounding=ROUND_DOWN)
    ideal = [wide.divide(wide.multiply(amount, weight), total) for weight in exact]
    floors = [wide.quantize(value, unit) for value in ideal]
    rest = EXACT.subtract(amount, add(floors))  # the default context would keep only 28 digits
    missing = int(wide.divide(rest, unit))
    order = sorted(range(len(exact)), key=lambda i: (-abs(wide.subtract(ideal[i], floors[i])), i))
    for index in order[: abs(missing)]:
        floors[index] = EXACT.add(floors[index], unit if missing > 0 else -unit)
    floors[order[0]] = EXACT.add(floors[order[0]], EXACT.subtract(amount, add(floors)))
    return floors
