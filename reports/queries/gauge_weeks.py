"""Which weeks hold gauges of GPU memory, and the one to show."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Max, Min

from finops.core.period import HOUR, week_before, week_name, week_of
from finops.ledger.models import CacheHour, DeviceHour

from .weeks import zone

MOST_OFFERED = 12


def gauge_weeks() -> list[str]:
    """The newest weeks between the first and the last hour of gauges, newest first."""
    first, last = _edges()
    if first is None or last is None:
        return []
    found = [week_name(last, zone())]
    while len(found) < MOST_OFFERED and week_of(found[-1], zone()).start > first:
        found.append(week_before(found[-1], zone()))
    return found


def chosen_week(text: str, weeks: list[str]) -> str | None:
    """The week that was asked for, else the newest whole one, else the newest; None without any.

    ValueError for no week.
    """
    if not text:
        last = _edges()[1]
        whole = [w for w in weeks if last is not None and week_of(w, zone()).end <= last + HOUR]
        return next(iter(whole or weeks), None)
    week_of(text, zone())
    return text


def _edges() -> tuple[datetime | None, datetime | None]:
    spans = [
        model.objects.aggregate(first=Min("hour"), last=Max("hour"))
        for model in (CacheHour, DeviceHour)
    ]
    firsts = [one["first"] for one in spans if one["first"] is not None]
    lasts = [one["last"] for one in spans if one["last"] is not None]
    return min(firsts, default=None), max(lasts, default=None)
