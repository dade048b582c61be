"""Kept sums: lines that no report looks at one by one, added up exactly (method §3.3, §3.7).

A bill of ten million lines has some thousands that are GPU time or that a rule claims. Those stay
lines. The others are kept as sums over every dimension that totals, tie-outs and the bridge between
billed and effective cost look at; the document stays the evidence of each of its lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Final

from finops.core.money import EXACT
from finops.sources.records import ChargeRecord

LONGEST_NAME_CHARACTERS: Final = 400
LONGEST_SUMMED: Final = timedelta(days=1)
MOST_OPEN_SUMS: Final = 50_000

AMOUNTS: Final = ("billed_cost", "effective_cost", "list_cost", "contracted_cost")
DIMENSIONS: Final = (
    "issuer",
    "billing_account",
    "billing_account_name",
    "billing_period_start",
    "billing_period_end",
    "charge_period_start",
    "charge_period_end",
    "category",
    "charge_class",
    "currency",
    "sub_account",
    "sub_account_name",
    "provider",
    "service",
    "service_category",
    "invoice",
    "pricing_category",
    "commitment",
    "commitment_name",
    "commitment_status",
)
_KEY = attrgetter(*DIMENSIONS)
_AMOUNTS = attrgetter(*AMOUNTS)

Key = tuple[object, ...]


def is_summable(record: ChargeRecord) -> bool:
    """Whether a line may stand in a sum, as far as it tells itself; rules may still claim it.

    GPU time, lines that look like it, lines longer than a day, usage without a price, and what a
    rate card priced are kept whole.
    """
    return (
        record.gpu_model is None
        and record.gpu_count is None
        and record.rate_card is None
        and record.last_line is None
        and (record.billed_cost is not None or record.effective_cost is not None)
        and record.charge_period_end - record.charge_period_start <= LONGEST_SUMMED
        and len(record.issuer) <= LONGEST_NAME_CHARACTERS
        and len(record.billing_account) <= LONGEST_NAME_CHARACTERS
    )


class Summing:
    """Adds lines up by their dimensions.

    A sum never mixes known amounts with unknown ones, lines whose effective cost is what is billed
    with others, nor lines of no contracted cost with others.

    Memory is bounded: when so many sums are open that more would cost too much, `full` says so
    and what `taken` gives are rows of their own; a later line of the same kind begins another.
    """

    def __init__(self) -> None:
        self._sums: dict[Key, ChargeRecord] = {}

    @property
    def full(self) -> bool:
        """Whether the open sums should be taken now."""
        return len(self._sums) >= MOST_OPEN_SUMS

    def add(self, record: ChargeRecord) -> None:
        """Adds a line that `is_summable`."""
        amounts = _AMOUNTS(record)
        key = (
            *_KEY(record),
            *(amount is None for amount in amounts),
            amounts[0] == amounts[1],
            amounts[3] == 0,
        )
        known = self._sums.get(key)
        if known is None:
            self._sums[key] = _first(record)
            return
        added = [_plus(one, other) for one, other in zip(_AMOUNTS(known), amounts, strict=True)]
        self._sums[key] = replace(
            known,
            line=min(known.line, record.line),
            last_line=max(known.last_line or known.line, record.line),
            line_count=known.line_count + 1,
            billed_cost=added[0],
            effective_cost=added[1],
            list_cost=added[2],
            contracted_cost=added[3],
        )

    def taken(self) -> Iterator[ChargeRecord]:
        """The sums so far; there are none afterwards."""
        sums, self._sums = self._sums, {}
        yield from sums.values()


def _first(record: ChargeRecord) -> ChargeRecord:
    """A sum of one line: its dimensions and amounts alone."""
    kept = {name: getattr(record, name) for name in (*DIMENSIONS, *AMOUNTS)}
    return ChargeRecord(line=record.line, last_line=record.line, view=record.view, **kept)


def _plus(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """The exact sum; it keeps the larger of the two scales, by which its parts are cut (§3.7)."""
    return None if one is None or other is None else EXACT.add(one, other)
