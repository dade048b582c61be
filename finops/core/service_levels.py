"""Service levels and goodput as a statement says them (method §5): plain values with reasons.

A *good* token belongs to a request whose first token came in time, and came itself in time. The
engines tell both shares, not which requests kept both: so the share is an interval, and so are the
good tokens and what a million of them cost. Requests in time are taken to be as long as others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .facts import ServiceLevel, WorkloadFacts
from .money import divide, plain
from .period import rfc3339
from .plainly import Value, text_of
from .slo import (
    MEASURES,
    MET,
    MISSED,
    UNDECIDED,
    InTime,
    Objective,
    Shares,
    good_tokens,
    joint,
    together,
)
from .unit_cost import Counted, per_million

NO_COST = "the workload has no cost per million tokens"
NOTHING_IN_TIME = "perhaps nothing came in time"
NOT_ALL = "not every workload of the figure has a measured objective"
NO_COUNT = "no inference workload has both cost and tokens"


def ratio(value: Fraction) -> Decimal:
    """An exact fraction to 60 significant digits."""
    return divide(Decimal(value.numerator), Decimal(value.denominator))


def beside_price(value: Mapping[str, Any]) -> Value:
    """What came in time of a statement's organisation, measure by measure, to stand beside its cost
    per token elsewhere; None where it is not known."""
    level = value.get("service_level") or {}
    return {name: level.get(name) for name in MEASURES}


def level_row(w: WorkloadFacts) -> Value | None:
    """A workload's row; None for training, which serves nobody."""
    level = w.service
    if level is None or w.purpose != "inference":
        return None
    measured = {name: _measure(level, name) for name in MEASURES}
    good, why_not = _goodput(w, level)
    verdicts = [one["verdict"] for one in measured.values() if one]
    reasons = dict(level.reasons) | ({"goodput": why_not} if why_not else {})
    return {
        "workload": w.slug,
        "objective": _objective(level.objective),
        "objective_changed": level.changed,
        "start": rfc3339(level.period.start),
        "end": rfc3339(level.period.end),
        **measured,
        "verdict": _verdict(verdicts) if _is_whole(level) else None,
        "goodput": good,
        "reasons": reasons,
    }


def _objective(one: Objective | None) -> Value | None:
    if one is None:
        return None
    return {
        "first_token_seconds": text_of(one.first_token_seconds),
        "inter_token_seconds": text_of(one.inter_token_seconds),
        "target": plain(one.target),
        "valid_from": rfc3339(one.valid_from),
        "by": one.by,
        "note": one.note,
    }


def _measure(level: ServiceLevel, name: str) -> Value | None:
    found = level.measured.get(name)
    if found is None or level.objective is None:
        return None
    return _counts(found) | {"verdict": found.verdict(level.objective.target)}


def _counts(found: InTime) -> Value:
    shares = found.shares()
    return {
        "counted": found.counted,
        "in_time_lower": found.lower,
        "in_time_upper": found.upper,
        "share_lower": text_of(ratio(shares[0])) if shares else None,
        "share_upper": text_of(ratio(shares[1])) if shares else None,
    }


def _verdict(verdicts: Sequence[str]) -> str | None:
    """Missed where one measure is, met where all are, else undecided."""
    for verdict in (MISSED, UNDECIDED, MET):
        if verdict in verdicts:
            return verdict
    return None


def _is_whole(level: ServiceLevel) -> bool:
    """Whether every measure that the objective names is known."""
    return bool(level.measured) and not level.reasons


def share_of(level: ServiceLevel) -> Shares | None:
    """The share of tokens in time; None where a measure of the objective is not known."""
    shares = [one.shares() for one in level.measured.values()]
    if not _is_whole(level) or None in shares:
        return None
    return joint(one for one in shares if one is not None)


def _goodput(w: WorkloadFacts, level: ServiceLevel) -> tuple[Value | None, str | None]:
    share = share_of(level)
    if share is None:
        reasons = list(level.reasons.values())
        return None, reasons[0] if reasons else "nothing was counted"
    if w.counted is None or w.common_cost is None or w.common_cost <= 0 or not w.counted.total:
        return None, NO_COST
    tokens = _bounds(w.counted, share)
    good = _good(w.common_cost, tokens)
    said = {"share_lower": plain(ratio(share[0])), "share_upper": plain(ratio(share[1])), **good}
    return said, NOTHING_IN_TIME if good["cost_per_million_upper"] is None else None


def _bounds(counted: Counted, share: Shares) -> tuple[int, int]:
    """Good tokens, of the token count's own bounds where it has them."""
    lower = counted.total if counted.lower is None else counted.lower
    upper = counted.total if counted.upper is None else counted.upper
    return good_tokens(lower, upper, share)


def _good(cost: Decimal, tokens: tuple[int, int]) -> Value:
    lower, upper = tokens
    return {
        "tokens_lower": lower,
        "tokens_upper": upper,
        "cost_per_million_lower": plain(per_million(cost, upper)) if upper else None,
        "cost_per_million_upper": plain(per_million(cost, lower)) if lower else None,
    }


def organisation_level(
    parts: Sequence[WorkloadFacts], rows: Sequence[Value], cost: Decimal | None
) -> Value:
    """The service level beside the organisation's cost per token: that of the same workloads."""
    slugs = {w.slug for w in parts}
    mine = [row for row in rows if row["workload"] in slugs]
    levels = [w.service for w in parts if w.service is not None]
    value: Value = {
        "workloads": len(parts),
        "with_objective": sum(row["objective"] is not None for row in mine),
        **{v: sum(row["verdict"] == v for row in mine) for v in (MET, MISSED, UNDECIDED)},
    }
    for name in MEASURES:
        found = [level.measured[name] for level in levels if name in level.measured]
        value[name] = _counts(together(found)) if found else None
    value["goodput"], why_not = _good_together(mine, len(parts), cost)
    value["reason"] = why_not
    return value


def _good_together(
    rows: Sequence[Mapping[str, Value]], count: int, cost: Decimal | None
) -> tuple[Value | None, str | None]:
    good = [row["goodput"] for row in rows if row["goodput"]]
    if not count or cost is None or cost <= 0:
        return None, NO_COUNT
    if len(good) < count:
        return None, NOT_ALL
    sums = sum(g["tokens_lower"] for g in good), sum(g["tokens_upper"] for g in good)
    found = _good(cost, sums)
    return found, NOTHING_IN_TIME if found["cost_per_million_upper"] is None else None
