"""Tokens and money of a period side by side, by one key (the `totals` command)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from finops.core.allocation import WORKLOAD, Assigner, Place
from finops.core.amounts import Money
from finops.core.period import HOUR, Period, rfc3339
from finops.core.tokens import Tokens

from .allocation import rules
from .caps import Caps
from .money import charge_parts
from .money_totals import money_total, money_totals
from .tokens import TokenLedger

TOKEN_KEYS = ("workload", "series", "day", "hour")
KEYS = (
    "workload",
    "series",
    "account",
    "sub_account",
    "service",
    "gpu_model",
    "category",
    "invoice",
    "day",
    "hour",
)
Key = tuple[str, tuple[tuple[str, str | None], ...]]


@dataclass(frozen=True, slots=True)
class TotalRow:
    """One key's tokens and money; None where the key says nothing of one of them."""

    key: str
    labels: Mapping[str, str | None]
    tokens: Tokens | None
    money: Money | None


def totals(period: Period, by: str | None, basis: str) -> tuple[Tokens, Money, list[TotalRow]]:
    """The tokens and money of a period of whole hours, and its rows by a key, sorted.

    Money rows sum to the money exactly, and booked tokens of rows to the tokens.
    """
    ledger = TokenLedger(period, caps=Caps())
    rows = _rows(ledger, period, by, basis) if by else []
    return ledger.totals(), money_total(period, basis), rows


def _rows(ledger: TokenLedger, period: Period, by: str, basis: str) -> list[TotalRow]:
    tokens = _tokens(ledger, period, by) if by in TOKEN_KEYS else {}
    money = _money(period, by, basis)
    return [
        TotalRow(key[0], dict(key[1]), tokens.get(key), money.get(key))
        for key in sorted(tokens.keys() | money.keys(), key=str)
    ]


def _tokens(ledger: TokenLedger, period: Period, by: str) -> dict[Key, Tokens]:
    if by in ("day", "hour"):
        return _by_time(ledger, period, HOUR if by == "hour" else timedelta(days=1))
    if by == "series":
        return ledger.by(_engine_key)
    assign = Assigner(rules("series"))

    def key_of(labels: Mapping[str, str], hour: datetime) -> Hashable:
        return place_key(assign(labels, hour))

    return ledger.by(key_of)


def _engine_key(labels: Mapping[str, str], hour: datetime) -> Hashable:
    labels = {name: value for name, value in labels.items() if name != "__name__"}
    shown = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{{{shown}}}", tuple(sorted(labels.items()))


def _by_time(ledger: TokenLedger, period: Period, length: timedelta) -> dict[Key, Tokens]:
    found: dict[Key, Tokens] = {}
    start = period.start
    while start < period.end:
        day = start.replace(hour=0)
        end = min(period.end, (day if length > HOUR else start) + length)
        tokens = ledger.totals(Period(start, end))
        if tokens.readings or tokens.delivered_prompt is not None or tokens.prompt is not None:
            key = rfc3339(start) if length == HOUR else start.date().isoformat()
            found[key, ()] = tokens
        start = end
    return found


def _money(period: Period, by: str, basis: str) -> dict[Key, Money]:
    if by == "series":
        return {}
    if by != "workload":
        return {
            (key, tuple(labels.items())): money
            for key, labels, money in money_totals(period, by, basis)
        }
    assign, sums = Assigner(rules("charge")), dict[Key, Money]()
    for one in charge_parts(period, basis):
        key = place_key(assign(one.columns, one.start))
        amounts = (one.billed, one.effective, one.list, one.contracted)
        sums.setdefault(key, Money()).add(one.currency, amounts)
    return sums


def place_key(place: Place) -> Key:
    """A workload's slug, else the place's name; with the workload as a label."""
    if place.kind == WORKLOAD and place.target:
        return place.target, (("workload", place.target),)
    return (f"{place.kind}:{place.target}" if place.target else place.kind), (("workload", None),)


def as_json(tokens: Tokens | None, money: Money | None) -> dict[str, Any]:
    """The contract's `tokens` and `money` of one row."""
    return {
        "tokens": None if tokens is None else tokens.as_json(),
        "money": None if money is None else money.as_json(),
    }
