"""How figures are shown: the one rounding, half to even, and the typography (method §1).

Values arrive as the statement holds them: decimals as text, whole numbers as int, None for what is
not known. Nothing here is added up or stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from finops.core.money import EXACT, plain, round_half_even

COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
THIN = "\u202f"  # narrow no-break space: groups digits, joins a number and its unit
MINUS = "\u2212"
NOT_AVAILABLE = "n/a"
GIB = 2**30
SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))


def decimal(value: Any) -> Decimal | None:
    """The exact value, or None for what is not a number (a binary float is refused)."""
    if value is None or value == "" or isinstance(value, bool):
        return None
    if isinstance(value, float):
        raise TypeError("a binary float is not an exact figure")
    try:
        found = Decimal(value)
    except (InvalidOperation, ValueError, TypeError):
        return None
    return found if found.is_finite() else None


def grouped(value: Decimal, decimals: int) -> str:
    """The value rounded half to even, digits in groups of three, with a true minus sign."""
    rounded = round_half_even(value, decimals)
    text = f"{abs(rounded):,f}".replace(",", THIN)
    return MINUS + text if rounded < 0 else text


def grouped_text(text: Any) -> str:
    """A sentence whose numbers are grouped as the tables group theirs, not by commas."""
    return COMMA.sub(THIN, str(text))


def money(value: Any, decimals: int = 2) -> str:
    """An amount with two decimals: `12 345.60`."""
    exact = decimal(value)
    return NOT_AVAILABLE if exact is None else grouped(exact, decimals)


def price(value: Any) -> str:
    """A unit price with at least two decimals and at least three significant digits."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    return grouped(exact, price_decimals(exact))


def price_decimals(exact: Decimal) -> int:
    """The decimals at which a price keeps three significant digits, between 2 and 8."""
    return 2 if exact == 0 else min(8, max(2, 2 - exact.adjusted()))


def rate(value: Any) -> str:
    """An exchange rate with at least six decimals and six significant digits."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    return grouped(exact, 6 if exact == 0 else min(12, max(6, 5 - exact.adjusted())))


def whole(value: Any) -> str:
    """A count with grouped digits: `1 494 578`."""
    exact = decimal(value)
    return NOT_AVAILABLE if exact is None else grouped(exact, 0)


def hours(value: Any) -> str:
    """Hours with one decimal: `1 344.5`."""
    exact = decimal(value)
    return NOT_AVAILABLE if exact is None else grouped(round_half_even(exact, 1), 1)


def short(value: Any) -> str:
    """A large count in words: `1.49 million`; small ones in full."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    for size, name in SCALES:
        # 999 999 999 must read "1.00 billion", not "1 000 million".
        scaled = round_half_even(exact / size, 2)
        if abs(scaled) >= 1:
            digits = scaled.adjusted()
            return f"{grouped(scaled, max(0, 2 - digits))} {name}"
    return grouped(exact, 0)


def percent(value: Any, decimals: int = 1, sign: bool = False) -> str:
    """A ratio as a percentage: `0.4231` → `42.3 %`; with `sign`, gains carry a plus."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    text = grouped(exact * 100, decimals)
    plus = "+" if sign and round_half_even(exact * 100, decimals) > 0 else ""
    return f"{plus}{text}{THIN}%"


def coverage(value: Any) -> str:
    """A coverage ratio; never rounded up to 100 % when something is missing."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    if exact < 1 and round_half_even(exact * 100, 2) >= 100:
        return f">{THIN}99.99{THIN}%"
    return percent(exact, 2)


def gib(value: Any) -> str:
    """Bytes as GiB with one decimal; as MiB where that would read as nothing."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    size, unit = _unit_of(exact)
    return f"{grouped(exact / size, 1)}{THIN}{unit}"


def signed_gib(value: Any) -> str:
    """The same with its sign: the remainder of a memory table."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    size, unit = _unit_of(exact)
    return f"{signed(exact / size, 1)}{THIN}{unit}"


def as_gib(value: int) -> Decimal:
    """GiB as `gib` prints them: rounded to a decimal of its unit."""
    size, _ = _unit_of(Decimal(value))
    return round_half_even(Decimal(value) / size, 1) * size / GIB


def _unit_of(exact: Decimal) -> tuple[int, str]:
    """GiB; MiB for what is not zero and would be shown as 0.0 GiB."""
    return (1 << 20, "MiB") if 0 < abs(exact) * 20 < GIB else (GIB, "GiB")


def mib(value: Any) -> str:
    """Bytes as whole MiB, as nvidia-smi prints them."""
    exact = decimal(value)
    return NOT_AVAILABLE if exact is None else f"{grouped(exact / (1 << 20), 0)}{THIN}MiB"


def gb(value: Any) -> str:
    """Bytes as GB of 10^9, with one decimal, as invoices and some consoles count."""
    exact = decimal(value)
    return NOT_AVAILABLE if exact is None else f"{grouped(exact / 10**9, 1)}{THIN}GB"


def signed(value: Any, decimals: int = 2) -> str:
    """A difference: a plus for gains, a true minus for losses, plain zero."""
    exact = decimal(value)
    if exact is None:
        return NOT_AVAILABLE
    text = grouped(exact, decimals)
    return f"+{text}" if round_half_even(exact, decimals) > 0 else text


def ratio_change(now: Any, before: Any) -> Decimal | None:
    """(now − before) ÷ before, None when either is unknown or before is zero."""
    new, old = decimal(now), decimal(before)
    return None if new is None or old is None or old == 0 else (new - old) / old


def instant(value: Any, zone: str = "UTC") -> str:
    """An RFC 3339 text or datetime as `Mon 16 Nov 2026, 00:00 UTC`."""
    when = as_datetime(value)
    if when is None:
        return NOT_AVAILABLE
    local = when.astimezone(ZoneInfo(zone))
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M} {local:%Z}"


def day(value: Any, zone: str = "UTC") -> str:
    """An instant's date: `16 Nov 2026`."""
    when = as_datetime(value)
    if when is None:
        return NOT_AVAILABLE
    local = when.astimezone(ZoneInfo(zone))
    return f"{local.day} {local:%b %Y}"


def clock(value: Any, zone: str = "UTC") -> str:
    """An instant's time of day: `00:00 UTC`."""
    when = as_datetime(value)
    if when is None:
        return NOT_AVAILABLE
    local = when.astimezone(ZoneInfo(zone))
    return f"{local:%H:%M} {local:%Z}"


def lag(seconds: Any) -> str:
    """How late, in the largest unit that fits: `2 h 05 min`, `3 d 4 h`."""
    exact = decimal(seconds)
    if exact is None:
        return NOT_AVAILABLE
    minutes = int(exact) // 60
    if minutes >= 24 * 60:
        return f"{minutes // 1440}{THIN}d {minutes % 1440 // 60}{THIN}h"
    return (
        f"{minutes // 60}{THIN}h {minutes % 60:02}{THIN}min"
        if minutes >= 60
        else f"{minutes}{THIN}min"
    )


def as_datetime(value: Any) -> datetime | None:
    """The aware datetime of an RFC 3339 text or a datetime."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if not value:
        return None
    return datetime.fromisoformat(str(value).replace("Z", "+00:00")).astimezone(UTC)


def footing(
    values: Sequence[Any],
    total: Any,
    decimals: int = 2,
    printed: str = "the rows add up to {gap} against the total",
) -> str:
    """Why rounded parts do not add up to the rounded total; empty when they do (method §1).

    `printed` says what parts of what; the signed difference of the printed figures is put into it.
    """
    known = [decimal(value) for value in values]
    parts = [part for part in known if part is not None]
    whole_sum = decimal(total)
    if whole_sum is None or len(parts) < len(known):
        return ""
    rounded = sum((round_half_even(part, decimals) for part in parts), Decimal(0))
    gap = rounded - round_half_even(whole_sum, decimals)
    if gap == 0:
        return ""
    apart = whole_sum
    for part in parts:
        apart = EXACT.subtract(apart, part)
    exact = f"differ by {plain(apart.copy_abs())}" if apart else "add up without a difference"
    return (
        f"Each figure is rounded on its own; as printed {printed.format(gap=signed(gap, decimals))}. "
        f"The exact amounts {exact}."
    )
