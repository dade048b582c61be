"""The newest hours of one workload: tokens in and out, as the rules in force place them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from finops.core.allocation import WORKLOAD
from finops.core.period import Period
from finops.ledger.models import TokenHour

from .allocation import assign_series
from .tokens import TokenLedger

HOURS = 72


@dataclass(frozen=True, slots=True)
class HourRow:
    """One hour; None where nothing was read."""

    hour: datetime
    prompt: int | None
    generation: int | None
    restarts: int


def workload_hours(slug: str) -> list[HourRow]:
    """The last hours up to the newest one any engine was read in, newest first."""
    newest = TokenHour.objects.order_by("-hour").values_list("hour", flat=True).first()
    if newest is None:
        return []
    end = newest + timedelta(hours=1)
    period = Period(end - timedelta(hours=HOURS), end)
    assign = assign_series()

    def hour_of_workload(labels: Mapping[str, str], hour: datetime) -> Hashable:
        place = assign(labels, hour)
        return hour if place.kind == WORKLOAD and place.target == slug else None

    found = TokenLedger(period).by(hour_of_workload)
    rows = []
    for hour in reversed(list(period.hours())):
        tokens = found.get(hour)
        known = tokens is not None and bool(tokens.readings)
        rows.append(
            HourRow(
                hour,
                tokens.prompt if tokens and known else None,
                tokens.generation if tokens and known else None,
                tokens.restarts if tokens else 0,
            )
        )
    return rows
