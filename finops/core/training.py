"""Training beside inference: budget, burn and a plain linear forecast, and what came late (§5).

Leadership sees on one page what retraining costs, what inference costs, and what was paid for
tokens that came too late: the price of a slip beside the price of mending it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from .facts import Facts, WorkloadFacts
from .money import EXACT, add, divide, plain, round_half_even
from .period import Period, milliseconds, rfc3339
from .plainly import Value, text_of
from .service_levels import ratio, share_of
from .training_facts import Burn

QUARTER = re.compile(r"([0-9]{4})-Q([1-4])")
FIRST_YEAR, LAST_YEAR = 2000, 2200
NO_BUDGET = "no budget is recorded for the quarter"
OTHER_CURRENCY = "the budget is in another currency than the report"
NO_TIME = "no cost of the quarter is known yet"


def quarter_of(text: str, zone: ZoneInfo) -> Period:
    """The period of a calendar quarter like `2026-Q4` in a zone. ValueError for another text."""
    match = QUARTER.fullmatch(text)
    if not match or not FIRST_YEAR <= int(match[1]) <= LAST_YEAR:
        raise ValueError(f"not a quarter like 2026-Q4: {text[:20]!r}")
    year, first = int(match[1]), 3 * int(match[2]) - 2
    after = (year + first // 10, (first + 3) % 12)
    start, end = datetime(year, first, 1, tzinfo=zone), datetime(*after, 1, tzinfo=zone)
    return Period(start.astimezone(UTC), end.astimezone(UTC))


def quarter_at(instant: datetime, zone: ZoneInfo) -> str:
    """The quarter that holds an instant in the zone."""
    local = instant.astimezone(zone)
    return f"{local.year}-Q{(local.month + 2) // 3}"


def quarter_of_week(period: Period, zone: ZoneInfo) -> str:
    """The quarter that a week's end belongs to."""
    return quarter_at(period.end - timedelta(milliseconds=1), zone)


def forecast(burn: Burn) -> Decimal | None:
    """What the quarter will have cost if it goes on as it went: spent ÷ elapsed × whole."""
    elapsed, whole = _spans_ms(burn)
    if elapsed <= 0:
        return None
    return divide(EXACT.multiply(burn.spent, Decimal(whole)), Decimal(elapsed))


def _spans_ms(burn: Burn) -> tuple[int, int]:
    start = milliseconds(burn.period.start)
    return milliseconds(burn.until) - start, milliseconds(burn.period.end) - start


def training_value(facts: Facts) -> Value | None:
    """The statement's section; null where no workload is for training."""
    rows = [w for w in facts.workloads if w.purpose == "training"]
    if not rows:
        return None
    served = [w for w in facts.workloads if w.purpose == "inference"]
    cost, inference = add([w.cost for w in rows]), add([w.cost for w in served])
    late, late_rows = late_cost(served)
    value: Value = {
        "workloads": [
            {"workload": w.slug, "model": w.model, "team": w.team, "cost": plain(w.cost),
             "gpu_hours": text_of(w.gpu_hours)}
            for w in rows
        ],
        "cost": plain(cost),
        "inference_cost": plain(inference),
        "share_of_inference": text_of(divide(cost, inference) if inference > 0 else None),
        "late": late_rows,
        "late_cost_lower": text_of(late[0] if late else None),
        "late_cost_upper": text_of(late[1] if late else None),
    }  # fmt: skip
    value["budget"], value["reason"] = _budget(facts)
    value["message"] = message(value, facts.currency)
    return value


def late_cost(
    served: Sequence[WorkloadFacts],
) -> tuple[tuple[Decimal, Decimal] | None, list[Value]]:
    """What was paid for tokens that came late, as an interval; and by workload.

    A workload's cost in its common hours × the share of its tokens that was not good.
    """
    rows: list[tuple[Decimal, Decimal, str]] = []
    for w in served:
        share = share_of(w.service) if w.service else None
        if share is None or w.common_cost is None or w.common_cost <= 0:
            continue
        lower, upper = (
            EXACT.subtract(w.common_cost, divided(w.common_cost, s)) for s in share[::-1]
        )
        rows.append((lower, upper, w.slug))
    if not rows:
        return None, []
    told = [
        {"workload": slug, "lower": plain(low), "upper": plain(high)} for low, high, slug in rows
    ]
    return (add([low for low, _, _ in rows]), add([high for _, high, _ in rows])), told


def divided(cost: Decimal, share: object) -> Decimal:
    """A cost × a share, to 24 decimals."""
    return round_half_even(EXACT.multiply(cost, ratio(share)), 24)  # type: ignore[arg-type]


def _budget(facts: Facts) -> tuple[Value | None, str | None]:
    burn = facts.training
    if burn is None or burn.budget is None:
        return None, NO_BUDGET
    budget = burn.budget
    value: Value = {
        "quarter": budget.quarter,
        "start": rfc3339(burn.period.start),
        "end": rfc3339(burn.period.end),
        "until": rfc3339(burn.until),
        "amount": plain(budget.amount),
        "currency": budget.currency,
        "document": budget.document,
        "note": budget.note,
        "by": budget.by,
        "at": rfc3339(budget.at),
        "charges": burn.charges,
        "spent": plain(burn.spent),
        "other_currencies": list(burn.other_currencies),
    }
    value |= dict.fromkeys(("share_spent", "share_elapsed", "forecast", "forecast_over_budget"))
    if budget.currency != facts.currency:
        return value, OTHER_CURRENCY
    elapsed, whole = _spans_ms(burn)
    value["share_spent"] = plain(divide(burn.spent, budget.amount))
    ahead = forecast(burn)
    if ahead is None:
        return value, NO_TIME
    value["share_elapsed"] = plain(divide(Decimal(elapsed), Decimal(whole)))
    value["forecast"] = plain(ahead)
    value["forecast_over_budget"] = plain(EXACT.subtract(ahead, budget.amount))
    return value, None


def message(value: Value, currency: str) -> str:
    """One sentence for leadership: what training took, what came late cost, where the budget goes."""

    def money(text: str) -> str:
        return f"{round_half_even(Decimal(text), 2):,f} {currency}"

    text = f"Training cost {money(value['cost'])} this week, inference {money(value['inference_cost'])}"
    if value["late_cost_lower"] is not None:
        low, high = money(value["late_cost_lower"]), money(value["late_cost_upper"])
        spent = low if low == high else f"{low.removesuffix(' ' + currency)} to {high}"
        text += f", of which {spent} went into tokens that came late"
    budget = value["budget"]
    if budget and budget["forecast"] is not None:
        share, elapsed = (
            round_half_even(EXACT.multiply(Decimal(budget[name]), Decimal(100)), 0)
            for name in ("share_spent", "share_elapsed")
        )
        over = Decimal(budget["forecast_over_budget"])
        where = "over" if over > 0 else "within"
        text += (
            f"; {share:f} % of the budget of {budget['quarter']} is spent after {elapsed:f} % of the "
            f"quarter, and a straight line ends at {money(budget['forecast'])}, {where} the budget"
        )
    return text + "."
