"""What of each charge stands in a sum that a report prints: of a place, a document, or the week.

The parts are cut and the idle time is taken out as the ledger does it (method §3.7, §4), from the
rows kept with the report, so that they add up to the printed sum to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from finops.core.allocation import (
    IDLE,
    OUT_OF_SCOPE,
    SHARED,
    UNASSIGNED,
    UNUSED_COMMITMENT,
    WORKLOAD,
)
from finops.core.money import add, part, plain, split
from finops.core.period import parse_instant

Row = Mapping[str, str]

INSIDE = "the parts of the charges below inside the week"
FORMULAS = {
    WORKLOAD: f"{INSIDE}: those of workloads, and the shared ones that were split over them",
    SHARED: f"{INSIDE} that no key has split yet, without the time in which nobody held the GPUs",
    IDLE: f"{INSIDE}, of each the share of GPU time that nobody held; no rule gives them to a "
    "workload",
    UNUSED_COMMITMENT: INSIDE,
    OUT_OF_SCOPE: INSIDE,
    UNASSIGNED: f"{INSIDE} that no rule places, without the time in which nobody held the GPUs",
    "": INSIDE,
}
"""How a place's charges make its money; "" for a document and for the whole week."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A charge, and what of it stands in the sum, in the currency of the sum."""

    row: Row
    amount: Decimal
    currency: str


def printed_sum(
    statement: Mapping[str, Any], *, place: str = "", document: str = ""
) -> dict[str, Decimal] | None:
    """What the report says by currency; None for a place or document that it does not name.

    A document's sums are in its own currencies, all others as the report converts (method §3.9).
    """
    totals = statement["control_totals"]
    if document:
        held = [one for one in totals["documents"] if one["sha256"] == document]
        sums = [one.get("sums", {}) for one in held]
        pairs = [(currency, one["effective"]) for by in sums for currency, one in by.items()]
    else:
        held = [one for one in statement["allocation"] if place in ("", one["place"])]
        pairs = [(one["currency"], one["effective"]) for one in held]
    if not held and (place or document):
        return None
    return summed((currency, Decimal(amount)) for currency, amount in pairs if amount is not None)


def counted(
    statement: Mapping[str, Any], rows: Iterable[Row], *, place: str = "", document: str = ""
) -> list[Counted]:
    """The charges that stand in the sum, each with its part; `rows` are all charges of the week."""
    since, until = (parse_instant(statement["period"][name]) for name in ("start", "end"))
    target = statement["currency"]
    unsplit = {
        (one["label"].partition(": ")[2], one["currency"])
        for one in statement["allocation"]
        if one["place"] == SHARED
    }
    found = []
    for row in rows:
        if document and row["document"] != document:
            continue
        converted = not document and bool(row.get("rate_day"))
        amount = Decimal(row["report_effective" if converted else "effective"] or 0)
        currency = target if converted else row["currency"]
        inside = part(amount, parse_instant(row["start"]), parse_instant(row["end"]), since, until)
        mine = _of_place(row, inside, place, (row["target"], currency) in unsplit)
        if mine is not None:
            found.append(Counted(row, mine, currency))
    return found


def _of_place(row: Row, inside: Decimal, place: str, is_unsplit: bool) -> Decimal | None:
    """What of a charge's part in the week stands in a place; None when nothing of it does."""
    if not place:
        return inside
    if place == IDLE:
        return _idle(row, inside)[0]
    is_split = row["place"] == SHARED and not is_unsplit
    stands = WORKLOAD if is_split else row["place"]
    return without_idle(row, inside) if stands == place else None


def without_idle(row: Row, inside: Decimal) -> Decimal | None:
    """A charge's part without the time in which nobody held the GPUs; None when that is all."""
    return _idle(row, inside)[1]


def _idle(row: Row, inside: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """The idle part of what no rule gives to a workload, and the rest; None for none of it."""
    idle = Fraction(row.get("idle_share") or 0)
    if not idle or row["place"] not in (SHARED, UNASSIGNED):
        return None, inside
    nobody, rest = split(inside, [idle.numerator, idle.denominator - idle.numerator])
    return nobody, None if idle == 1 else rest


def summed(pairs: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """Amounts added up by currency: two currencies are never added (method §3.9)."""
    found: dict[str, list[Decimal]] = {}
    for currency, amount in pairs:
        found.setdefault(currency, []).append(amount)
    return {currency: add(amounts) for currency, amounts in sorted(found.items())}


def in_words(sums: Mapping[str, Decimal]) -> str | None:
    """`10 EUR + 20 USD`; None for no sum at all."""
    return " + ".join(f"{plain(amount)} {currency}" for currency, amount in sums.items()) or None
