"""Cells of billing files: what stands for null, exact numbers, instants, and maps of tags.

Real exports break every rule of their formats (`NULL` as text, naive times, JSON without braces);
this reads what can be read without guessing and raises ValueError with a reason for the rest.
"""

from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Final

from finops.core.money import parse_decimal

NULLS: Final = frozenset({"", "NULL", "null", "Null", "None"})
MAX_DIGITS: Final = 60
MAX_MAP_CHARACTERS: Final = 256 * 1024
FIRST_YEAR, LAST_YEAR = 2000, 2199

_INSTANT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?"
    r"(?: ?(Z|UTC|[+-]\d\d(?::?\d\d)?))?",
    re.ASCII,
)
_PAST_MIDNIGHT: Final = re.compile(r"(\d{4}-\d{2}-\d{2}[T ])(2[4-9]|3\d|4[0-7])(:.*)", re.ASCII)
_SLASHES: Final = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)(?: (\d\d?):(\d\d)(?::(\d\d))?)?", re.ASCII
)
_ATHENA_MAP: Final = re.compile(r"\{\s*([^={}\[\]\"']+=[^{}\[\]\"']*)\}")


def text_or_none(cell: str | None) -> str | None:
    """The cell without surrounding blanks, or None for what exporters write for null."""
    if cell is None:
        return None
    stripped = cell.strip()
    return None if stripped in NULLS else stripped


@lru_cache(maxsize=1 << 15)
def number(text: str) -> Decimal:
    """The exact value: `12.5`, `1.81E-8`, 28 and more digits (method §1).

    ValueError for NaN, infinity, separators, currency signs, and more than 60 digits or powers.
    """
    if not text.isascii():
        raise ValueError("not a number")
    value = parse_decimal(text)
    if len(text) <= MAX_DIGITS and "e" not in text and "E" not in text:
        return value  # plain notation: no more digits or decimals than characters
    digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
    if len(digits) > MAX_DIGITS or abs(exponent) > MAX_DIGITS:
        raise ValueError(f"a number of more than {MAX_DIGITS} digits")
    return value


@lru_cache(maxsize=1 << 15)
def instant(text: str) -> datetime:
    """The moment in UTC: `2026-05-01T00:00:00Z`, `…T10:00Z`, an offset, a date, or naive time.

    Naive times are UTC by the declared rule of FOCUS exports (facts: `2024-09-01 00:00:00`).
    ValueError when it is no date of the calendar, or a year no invoice can have.
    """
    found = _INSTANT.fullmatch(text)
    if not found:
        raise ValueError("not a date and time (YYYY-MM-DDTHH:MM:SSZ)")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micro = int((found.group(7) or "0").ljust(6, "0")[:6])
    zone = _zone(found.group(8))
    return _plausible(datetime(year, month, day, hour, minute, second, micro, tzinfo=zone))


def instant_past_midnight(text: str) -> tuple[datetime, bool]:
    """`instant`, and whether its hour runs past midnight: hours 24 to 47 are the next day's.

    The specification's own worked examples write `2023-02-01T30:00:00Z` for 06:00 of the 2nd.
    """
    found = _PAST_MIDNIGHT.fullmatch(text)
    if not found:
        return instant(text), False
    start, hour, rest = found.groups()
    return instant(f"{start}{int(hour) - 24:02d}{rest}") + timedelta(days=1), True


@lru_cache(maxsize=1 << 12)
def month_first_date(text: str) -> datetime:
    """A date as the United States write it, `4/1/25` or `04/01/2025 13:00`, in UTC.

    ValueError when it is written otherwise or is no date read this way.
    """
    found = _SLASHES.fullmatch(text)
    if not found:
        raise ValueError("not a date (M/D/YYYY)")
    month, day, year, hour, minute, second = (int(part or 0) for part in found.groups())
    year += 2000 if year < 100 else 0
    return _plausible(datetime(year, month, day, hour, minute, second, tzinfo=UTC))


def _zone(text: str | None) -> timezone:
    if text in (None, "Z", "UTC"):
        return UTC
    assert text is not None
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _plausible(moment: datetime) -> datetime:
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"the year must lie in {FIRST_YEAR} to {LAST_YEAR}")
    return moment.astimezone(UTC)


@lru_cache(maxsize=1 << 14)
def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    if len(text) > MAX_MAP_CHARACTERS:
        raise ValueError("a map of more than 256 KiB")
    return tuple(_flat(_value_of(text)))


def text_map(text: str) -> dict[str, str]:
    """Keys and values of a cell of tags, in any of the spellings of real exports.

    JSON objects; the same without braces (Azure); lists of `{"key": …, "value": …}`; the repr of
    Python; `{k=v, k2=v2}` (AWS maps). Values that are no text become text (`true`, `4`).
    ValueError when none fits.
    """
    return dict(_pairs(text))


def _value_of(text: str) -> object:
    """The cell's value by the first reading that fits."""
    for candidate in (text, "{" + text + "}"):
        try:
            return json.loads(candidate, parse_float=str)
        except (ValueError, RecursionError):
            continue
    athena = _ATHENA_MAP.fullmatch(text)
    if athena:
        parts = (part.partition("=") for part in athena.group(1).split(", "))
        return {key.strip(): value for key, _, value in parts}
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise ValueError("not a map of keys and values") from None


def _flat(value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [(str(key), _as_text(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_key_and_value(item) for item in value]
    if value is None:
        return []
    raise ValueError("not a map of keys and values")


def _key_and_value(item: object) -> tuple[str, str]:
    if isinstance(item, dict):
        lowered = {str(key).lower(): part for key, part in item.items()}
        if "key" in lowered:
            return str(lowered["key"]), _as_text(lowered.get("value"))
    if isinstance(item, list | tuple) and len(item) == 2:
        return str(item[0]), _as_text(item[1])
    raise ValueError("a list that holds no keys and values")


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
