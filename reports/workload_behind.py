"""What of each charge stands in the cost of a workload, own and shared (method §3.7, §4).

From the rows kept with the report, as the ledger does it: a charge is cut to the span, idle time is
taken out of what is shared, a pot is split by its key's weights. Of a pot a workload has a share; it
is told by the charges of the pot in proportion, the last digits with the largest of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from finops.core.allocation import SHARED, WORKLOAD
from finops.core.money import EXACT, add, divide, part, round_half_even, scale_of, split
from finops.core.period import parse_instant
from reports.money_behind import Counted, Row, without_idle

Span = tuple[datetime, datetime]
Keys = Mapping[str, Mapping[str, Decimal]]


def counted_of(
    statement: Mapping[str, Any],
    charges: Sequence[Row],
    keys: Iterable[Row],
    slugs: Iterable[str],
    *,
    whole_week: bool,
) -> list[Counted]:
    """The charges of workloads, each with what of it stands in their cost in the report's currency:
    in the week, or in the hours of each that have both cost and tokens.

    `keys` are the rows of the shared keys. A charge shared by several of them comes once.
    """
    weights = _weights(statement, keys)
    found: dict[int, Counted] = {}
    for w in statement["workloads"]:
        span = statement["period"] if whole_week else w.get("common")
        if w["slug"] not in slugs or not span:
            continue
        between = parse_instant(span["start"]), parse_instant(span["end"])
        for number, amount in _of_one(statement["currency"], charges, weights, w["slug"], between):
            before = found[number].amount if number in found else Decimal(0)
            total = EXACT.add(before, amount)
            found[number] = Counted(charges[number], total, statement["currency"])
    return [found[number] for number in sorted(found)]


def counting(statement: Mapping[str, Any]) -> list[str]:
    """The workloads whose cost is the organisation's effective cost (method §4, §6)."""
    return [
        w["slug"]
        for w in statement["workloads"]
        if w["purpose"] == "inference"
        and w.get("basis") == "processed"
        and w["figures"].get("effective_cost") is not None
        and w["figures"].get("prompt_tokens") is not None
    ]


def _of_one(
    currency: str, charges: Sequence[Row], weights: Keys, slug: str, span: Span
) -> Iterable[tuple[int, Decimal]]:
    pots: dict[str, list[tuple[int, Decimal]]] = {}
    for number, row in enumerate(charges):
        amount = _inside(row, currency, span)
        if amount is None:
            continue
        if row["place"] == WORKLOAD and row["target"] == slug:
            yield number, amount
        elif row["place"] == SHARED and row["target"]:
            rest = without_idle(row, amount)
            if rest is not None:
                pots.setdefault(row["target"], []).append((number, rest))
    for name, pot in sorted(pots.items()):
        mine = {one: w for one, w in sorted(weights.get(name, {}).items()) if w > 0}
        if slug in mine:
            yield from _shares(pot, mine, slug)


def _inside(row: Row, currency: str, span: Span) -> Decimal | None:
    """What of a charge stands in the span in the report's currency; None for nothing of it."""
    start, end = parse_instant(row["start"]), parse_instant(row["end"])
    touches = (start < span[1] and end > span[0]) or (start == end and span[0] <= start < span[1])
    converted = bool(row.get("rate_day"))
    if not touches or (not converted and row["currency"] != currency):
        return None
    amount = Decimal(row["report_effective" if converted else "effective"] or 0)
    if span[0] <= start and end <= span[1]:
        return amount  # with the digits it is written with, which a pot's last digit goes by
    return part(amount, start, end, *span)


def _shares(
    pot: Sequence[tuple[int, Decimal]], weights: Mapping[str, Decimal], slug: str
) -> Iterable[tuple[int, Decimal]]:
    """A workload's share of a pot, told by the charges of the pot; they add up to the share."""
    total = add([amount for _, amount in pot])
    share = split(total, list(weights.values()))[list(weights).index(slug)]
    ratio = divide(weights[slug], add(list(weights.values())))
    parts = [round_half_even(EXACT.multiply(a, ratio), scale_of(share)) for _, a in pot]
    largest = max(range(len(pot)), key=lambda at: abs(pot[at][1]))
    rest = EXACT.subtract(share, add(parts))
    parts[largest] = EXACT.add(parts[largest], rest)
    return [(number, mine) for (number, _), mine in zip(pot, parts, strict=True)]


def _weights(statement: Mapping[str, Any], keys: Iterable[Row]) -> Keys:
    """The weights of each shared key: processed tokens or GPU-hours of the whole week, or fixed."""
    kinds: dict[str, dict[str, Decimal]] = {"tokens": {}, "gpu-hours": {}}
    for w in statement["workloads"]:
        tokens = w["tokens"] or {}
        if w["purpose"] == "inference":
            counts = (tokens.get(name) or 0 for name in ("prompt", "generation"))
            kinds["tokens"][w["slug"]] = Decimal(sum(counts))
        kinds["gpu-hours"][w["slug"]] = Decimal(w["figures"].get("gpu_hours") or 0)
    fixed: dict[str, dict[str, Decimal]] = {}
    methods = {}
    for row in keys:
        methods[row["key"]] = row["method"]
        if row["workload"]:
            fixed.setdefault(row["key"], {})[row["workload"]] = Decimal(row["share"])
    return {key: kinds.get(method, fixed.get(key, {})) for key, method in methods.items()}
