"""Rate cards as JSON: prices by match and unit, and own hardware (method §3.10)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from finops.core.rate_card import Card, Owned, Rate
from finops.sources import currencies
from finops.sources.cells import instant, number
from finops.sources.files import read_whole
from finops.sources.records import Account, Parsed, RateCardRecord, Refused

FORMATS: Final[tuple[str, ...]] = ("rate-card",)
LARGEST_BYTES: Final = 4 * 1024 * 1024
LONGEST_NAME: Final = 120
LONGEST_LIFE_MONTHS: Final = 600

_MATCH: Final = ("gpu_model", "provider", "sku")


def recognises(head: bytes, name: str) -> str | None:
    """`rate-card` for a JSON object that names one."""
    return FORMATS[0] if head.lstrip().startswith(b"{") and b'"rate_card"' in head else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """The one card of a document. Refused names the entry and value that cannot be used."""
    try:
        value = json.loads(read_whole(path, name, LARGEST_BYTES), parse_float=str, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name}: not readable as JSON ({error})") from None
    try:
        card = card_of(value)
    except ValueError as error:
        raise Refused(f"{name}: {error}") from None
    account = Account(format, warnings=_unusual_units(card))
    return Parsed(account, _one(account, RateCardRecord(1, card, value)))


def _unusual_units(card: Card) -> list[str]:
    """A warning of each rate whose unit may be a slip: it prices nothing unless usage spells it alike."""
    return [
        f"rates[{at}]: the unit {rate.unit!r} is neither GPU-Hour nor a unit of time: it prices only "
        "usage whose own unit reads the same"
        for at, rate in enumerate(card.rates)
        if rate.is_of_unusual_unit
    ]


def _one(account: Account, record: RateCardRecord) -> Iterator[RateCardRecord]:
    account.rows_read = 1
    yield record


def card_of(value: object, version: int = 0) -> Card:
    """The card that a JSON value describes; numbers are text. ValueError names what is wrong."""
    card = _object(value, "the card")
    valid_from = _instant(card, "valid_from", "the card")
    valid_to = _instant(card, "valid_to", "the card") if card.get("valid_to") else None
    if valid_to is not None and valid_to <= valid_from:
        raise ValueError(f"valid_to {card['valid_to']!r} does not come after valid_from")
    rates = tuple(_rate(one, f"rates[{at}]") for at, one in enumerate(_list(card, "rates")))
    owned = tuple(_owned(one, f"owned[{at}]") for at, one in enumerate(_list(card, "owned")))
    if not rates and not owned:
        raise ValueError("the card has neither rates nor owned hardware")
    currency = currencies.in_capitals(_text(card, "currency", "the card"))
    reason = currencies.refusal(currency)
    if reason:
        raise ValueError(f"currency {currency!r} {reason}")
    name = _text(card, "rate_card", "the card")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"rate_card is over {LONGEST_NAME} characters long")
    return Card(name, currency, valid_from, valid_to, rates, owned, version)


def _rate(value: object, place: str) -> Rate:
    rate = _object(value, place)
    match = _object(rate.get("match", {}), f"{place}.match")
    if unknown := set(match) - set(_MATCH):
        raise ValueError(f"{place}.match: {min(unknown)!r} is not one of {', '.join(_MATCH)}")
    asked = [_text(match, name, f"{place}.match") if match.get(name) else None for name in _MATCH]
    price = _amount(rate, "price", place)
    return Rate(asked[0], asked[1], asked[2], _text(rate, "unit", place), price)


def _owned(value: object, place: str) -> Owned:
    item = _object(value, place)
    life = _amount(item, "life_months", place)
    if life != int(life) or not 1 <= life <= LONGEST_LIFE_MONTHS:
        raise ValueError(f"{place}: life_months {life} is no whole number of 1 to 600")
    gpus, pue = _amount(item, "gpus", place), _amount(item, "pue", place)
    if not gpus:
        raise ValueError(f"{place}: gpus must be more than 0")
    if pue < 1:
        raise ValueError(f"{place}: pue {pue} is below 1")
    return Owned(
        name=_text(item, "name", place),
        gpu_model=_text(item, "gpu_model", place),
        gpus=gpus,
        capex=_amount(item, "capex", place),
        life_months=int(life),
        power_kw=_amount(item, "power_kw", place),
        pue=pue,
        tariff_per_kwh=_amount(item, "tariff_per_kwh", place),
        in_service=_instant(item, "in_service", place),
    )


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place} is not an object")
    return value


def _list(card: Mapping[str, Any], name: str) -> list[Any]:
    value = card.get(name) or []
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    return value


def _text(value: Mapping[str, Any], name: str, place: str) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{place}: {name} is missing or no text")
    return text.strip()


def _amount(value: Mapping[str, Any], name: str, place: str) -> Decimal:
    text = _text(value, name, place)
    try:
        amount = number(text)
    except ValueError as error:
        raise ValueError(f"{place}: {name} {text[:40]!r}: {error}") from None
    if amount < 0:
        raise ValueError(f"{place}: {name} {text[:40]!r} is negative")
    return amount


def _instant(value: Mapping[str, Any], name: str, place: str) -> datetime:
    text = _text(value, name, place)
    try:
        return instant(text)
    except ValueError as error:
        raise ValueError(f"{place}: {name} {text[:40]!r}: {error}") from None
