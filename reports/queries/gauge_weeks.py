"""Which weeks hold gauges of GPU memory, and the one to show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Min

from finops.core.period import HOUR, week_before, week_name, week_of
from finops.ledger.models import CacheHour, DeviceHour

from .weeks import zone

MOST_OFFERED = 12


@dataclass(frozen=True, slots=True)
class GaugeWeeks:
    """The newest weeks between the first and the last hour of gauges, newest first."""

    names: list[str]
    last: datetime | None

    def chosen(self, text: str) -> str | None:
        """The week that was asked for, else the newest whole one, else the newest; None without
        any. ValueError for no week."""
        if text:
            week_of(text, zone())
            return text
        until = self.last and self.last + HOUR
        whole = [name for name in self.names if until and week_of(name, zone()).end <= until]
        return next(iter(whole or self.names), None)


def gauge_weeks() -> GaugeWeeks:
    """The weeks that have gauges; two queries."""
    spans = [
        model.objects.aggregate(first=Min("hour"), last=Max("hour"))
        for model in (CacheHour, DeviceHour)
    ]
    first = min((one["first"] for one in spans if one["first"] is not None), default=None)
    last = max((one["last"] for one in spans if one["last"] is not None), default=None)
    if first is None or last is None:
        return GaugeWeeks([], None)
    names = [week_name(last, zone())]
    while len(names) < MOST_OFFERED and week_of(names[-1], zone()).start > first:
        names.append(week_before(names[-1], zone()))
    return GaugeWeeks(names, last)
