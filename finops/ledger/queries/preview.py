"""What a rule would move before it is kept: charges, money, series and tokens (method §4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Max, Min

from finops.core.allocation import Assigner, Place, Rule
from finops.core.amounts import Money
from finops.core.period import HOUR, Period, hour_of
from finops.ledger.models import Charge

from .allocation import rules
from .money import charge_parts
from .reaches import end_of_hour, whole_ledger
from .tokens import TokenLedger

Move = tuple[Place, Place]


def preview(
    new: Rule, period: Period | None = None, *, more: Mapping[Move, tuple[int, Money]] | None = None
) -> dict[str, Any]:
    """What would change its place if the rule were kept, in a period or in the whole ledger.

    `more` are charges that the ledger does not hold one by one, with their money.
    {"rows": [{"from", "to", "charges", "money", "series", "tokens"}], "charges", "series"}
    """
    kept = [rule for rule in rules(new.subject) if rule.number != new.number]
    before, after = Assigner(rules(new.subject)), Assigner([*kept, new])
    if new.subject == "charge":
        rows = _charges(before, after, period or _all_charges(), more or {})
    else:
        rows = _series(before, after, period or whole_ledger())
    return {
        "rows": rows,
        "charges": sum(row["charges"] for row in rows),
        "series": sum(row["series"] for row in rows),
    }


def _all_charges() -> Period | None:
    span = Charge.objects.aggregate(first=Min("charge_start"), last=Max("charge_end"))
    if span["first"] is None:
        return None
    start = hour_of(span["first"])
    return Period(start, max(end_of_hour(span["last"]), start + HOUR))


def _charges(
    before: Assigner,
    after: Assigner,
    period: Period | None,
    more: Mapping[Move, tuple[int, Money]],
) -> list[dict[str, Any]]:
    moves = {move: (money, [count]) for move, (count, money) in more.items()}
    for part in charge_parts(period) if period else ():
        move = before(part.columns, part.start), after(part.columns, part.start)
        if move[0] != move[1]:
            money, count = moves.setdefault(move, (Money(), [0]))
            money.add(part.currency, (part.billed, part.effective, part.list, part.contracted))
            count[0] += 1
    return [
        _row(move, charges=count[0], money=money.as_json())
        for move, (money, count) in _sorted(moves.items())
    ]


def _series(before: Assigner, after: Assigner, period: Period | None) -> list[dict[str, Any]]:
    moves: dict[Move, tuple[set[int], list[int]]] = {}
    ledger = TokenLedger(period) if period else None
    for role in ("prompt", "generation") if ledger else ():
        assert ledger is not None
        for known, hour, tokens in ledger.hours(role):
            move = before(known.labels, hour), after(known.labels, hour)
            if move[0] != move[1]:
                series, total = moves.setdefault(move, (set(), [0]))
                series.add(known.series.pk)
                total[0] += tokens
    for usage in ledger.usage if ledger else ():
        labels = usage.rule_labels
        move = before(labels, usage.hour), after(labels, usage.hour)
        if move[0] != move[1]:
            _, total = moves.setdefault(move, (set(), [0]))
            total[0] += usage.prompt_tokens + usage.generation_tokens
    return [
        _row(move, series=len(series), tokens=total[0])
        for move, (series, total) in _sorted(moves.items())
    ]


def _sorted(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: tuple(map(str, item[0])))


def _row(
    move: Move,
    *,
    charges: int = 0,
    money: dict[str, Any] | None = None,
    series: int = 0,
    tokens: int = 0,
) -> dict[str, Any]:
    return {
        "from": str(move[0]),
        "to": str(move[1]),
        "charges": charges,
        "money": money or {},
        "series": series,
        "tokens": tokens,
    }
