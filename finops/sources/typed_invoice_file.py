"""An invoice that a script hands over as JSON, for vendors without an export (`invoice-enter`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from decimal import Decimal
from typing import Any, Final

from finops.core.money import parse_decimal
from finops.sources import currencies
from finops.sources.typed_invoice import NotUsable, TypedInvoice, TypedLine

LARGEST_BYTES: Final = 1 << 20
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INVOICE: Final = frozenset(one.name for one in fields(TypedInvoice))
_LINE: Final = frozenset(one.name for one in fields(TypedLine))
_REQUIRED: Final = ("issuer", "invoice", "billing_account", "billing_period", "currency", "lines")
_REQUIRED_OF_LINE: Final = ("service", "start", "end", "amount")


def read(content: bytes) -> TypedInvoice:
    """The invoice that a JSON object tells, not checked yet. ValueError names what is wrong.

    `{"issuer", "invoice", "billing_account", "billing_period": "2026-10", "currency", "tax"?,
    "credits"?, "lines": [{"service", "start": "2026-10-01", "end", "amount", "gpu_model"?,
    "gpu_count"?, "hours"?}]}`; amounts and counts are text, as they are printed.
    """
    if len(content) > LARGEST_BYTES:
        raise ValueError("an invoice of over 1 MiB")
    try:
        value = json.loads(content, parse_float=str, parse_int=str, object_pairs_hook=_once)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    given = _object(value, "the invoice", _INVOICE, _REQUIRED)
    lines = given.get("lines")
    if not isinstance(lines, list):
        raise ValueError("lines is no list")
    words = {name: _text(given, name, "") for name in _REQUIRED if name != "lines"}
    words["currency"] = currencies.in_capitals(words["currency"])
    return TypedInvoice(
        **words,
        lines=tuple(_line(one, f"lines[{at}]") for at, one in enumerate(lines)),
        tax=_number(given, "tax", "") or Decimal(0),
        credits=_text(given, "credits", "") if given.get("credits") is not None else "",
    )


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object's values; ValueError where a name is given twice, for nobody knows which is meant."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:40]!r} is given more than once in one object")
        found[name] = value
    return found


def place(error: NotUsable) -> str:
    """Where in the file an unusable value stands: `lines[1].amount`."""
    return error.field if error.line is None else f"lines[{error.line}].{error.field}"


def _line(value: object, at: str) -> TypedLine:
    given = _object(value, at, _LINE, _REQUIRED_OF_LINE)
    return TypedLine(
        service=_text(given, "service", at),
        start=_day(given, "start", at),
        end=_day(given, "end", at),
        amount=_number(given, "amount", at) or Decimal(0),
        gpu_model=_text(given, "gpu_model", at) if given.get("gpu_model") is not None else "",
        gpu_count=_number(given, "gpu_count", at),
        hours=_number(given, "hours", at),
    )


def _object(
    value: object, what: str, known: frozenset[str], required: tuple[str, ...]
) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    if unknown := set(value) - known:
        raise ValueError(f"{what}: {min(unknown)[:40]!r} is not one of {', '.join(sorted(known))}")
    if missing := [name for name in required if value.get(name) is None]:
        raise ValueError(f"{what}: {missing[0]} is missing")
    return value


def _text(given: Mapping[str, Any], name: str, at: str) -> str:
    value = given[name]
    if not isinstance(value, str):
        raise ValueError(f"{_named(at, name)} is no text")
    return value


def _number(given: Mapping[str, Any], name: str, at: str) -> Decimal | None:
    if given.get(name) is None:
        return None
    try:
        return parse_decimal(_text(given, name, at))
    except ValueError as error:
        raise ValueError(f"{_named(at, name)}: {error}") from None


def _day(given: Mapping[str, Any], name: str, at: str) -> date:
    text = _text(given, name, at)
    try:
        if not _DAY.fullmatch(text):  # Python also reads weeks: 2026-W44-6
            raise ValueError(text)
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{_named(at, name)}: not a day like 2026-10-31: {text[:40]!r}") from None


def _named(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name
