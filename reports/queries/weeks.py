"""Which ISO weeks there are to report on, in the organisation's zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Min

from finops.core.period import week_before, week_name, week_of
from finops.ledger.models import Charge, TokenHour, UsageHour
from finops.ledger.queries import money, tokens

MOMENT = timedelta(microseconds=1)


def zone() -> ZoneInfo:
    """The organisation's zone."""
    found: ZoneInfo = settings.ORGANISATION_ZONE
    return found


def newest_week(at: datetime) -> str | None:
    """The newest week that has ended and that cost and tokens both reach the end of; else the
    newest ended week with any data; None without data."""
    cost = money.cost_reach()
    reading = max(tokens.reach().values(), default=None)
    known = [moment for moment in (cost, reading) if moment is not None]
    if not known:
        return None
    if cost is not None and reading is not None:
        # The last reading of a week comes up to one interval before its end.
        common = min(cost, reading + timedelta(hours=1), at)
        whole = _ended(common)
        first = first_data()
        if first is not None and week_of(whole, zone()).end > first:
            return whole
    newest = min(max(known) - MOMENT, at)
    name = week_name(newest, zone())
    return name if week_of(name, zone()).end <= at else week_before(name, zone())


def _ended(moment: datetime) -> str:
    """The last week that had ended at a moment."""
    return week_before(week_name(moment, zone()), zone())


def first_data() -> datetime | None:
    """The first instant of which the ledger knows anything."""
    found = (
        Charge.objects.aggregate(first=Min("charge_start"))["first"],
        TokenHour.objects.aggregate(first=Min("hour"))["first"],
        UsageHour.objects.aggregate(first=Min("hour"))["first"],
    )
    return min((moment for moment in found if moment is not None), default=None)


def earlier_weeks(week: str, most: int) -> list[str]:
    """Up to `most` weeks before `week` that have data, oldest first."""
    first = first_data()
    if first is None:
        return []
    names = [week_before(week, zone(), back) for back in range(most, 0, -1)]
    return [name for name in names if week_of(name, zone()).end > first]
