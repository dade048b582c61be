"""Every source by the hour: read whole, read in part, or not; and what was asked in one hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from finops.core.period import Period, hour_of
from finops.ledger.models import Fetch, Source, TokenHour, UsageHour

WHOLE, PART, UNREAD = "whole", "part", "unread"
DAYS = 7


def newest_hours(at: datetime) -> Period:
    """The seven days the page shows: up to now, or to the end of what was handed over in files."""
    collected = Source.objects.filter(kind="prometheus", active=True).exists()
    hours = TokenHour.objects.order_by("-hour").values_list("hour", flat=True)
    last = None if collected else hours.first()
    end = hour_of(min(last + timedelta(hours=1), at) if last else at)
    return Period(end - timedelta(days=DAYS), end)


def source_hours(period: Period) -> dict[str, list[str]]:
    """By source, the state of each hour of the period; four queries however many sources.

    A source that is asked is whole in an hour when complete fetches cover all of it, and read in
    part when only some was answered. Of files it is only known which hours they hold readings of.
    """
    hours = list(period.hours())
    found = {name: [UNREAD] * len(hours) for name in _names()}
    fetches = _fetches(period)
    for name, rows in fetches.items():
        found[name] = [_state(hour, rows) for hour in hours]
    at = {hour: number for number, hour in enumerate(hours)}
    for name, hour in _of_files(period):
        if name not in fetches and hour in at:
            found[name][at[hour]] = WHOLE
    return found


def _names() -> list[str]:
    return list(Source.objects.order_by("name").values_list("name", flat=True))


def _fetches(period: Period) -> dict[str, list[tuple[datetime, datetime, bool]]]:
    rows = Fetch.objects.filter(window_start__lt=period.end, window_end__gt=period.start)
    found: dict[str, list[tuple[datetime, datetime, bool]]] = {}
    values = rows.order_by("window_start").values_list(
        "source__name", "window_start", "window_end", "complete"
    )
    for name, start, end, complete in values:
        found.setdefault(name, []).append((start, end, complete))
    return found


def _state(hour: datetime, fetches: list[tuple[datetime, datetime, bool]]) -> str:
    end = hour + timedelta(hours=1)
    mine = [one for one in fetches if one[0] < end and one[1] > hour]
    reached = hour
    for start, until, complete in mine:  # in order of their start
        if complete and start <= reached:
            reached = max(reached, until)
    return WHOLE if reached >= end else PART if mine else UNREAD


def _of_files(period: Period) -> list[tuple[str, datetime]]:
    counted = TokenHour.objects.filter(
        hour__gte=period.start, hour__lt=period.end, series__target__source__kind="files"
    )
    usage = UsageHour.objects.filter(hour__gte=period.start, hour__lt=period.end)
    return [
        *counted.order_by().values_list("series__target__source__name", "hour").distinct(),
        *usage.order_by().values_list("source__name", "hour").distinct(),
    ]


def fetches_of(name: str, hour: datetime) -> list[dict[str, Any]]:
    """What was asked of a source about one hour, newest first, as plain values."""
    end = hour + timedelta(hours=1)
    rows = Fetch.objects.filter(
        source__name=name, window_start__lt=end, window_end__gt=hour
    ).select_related("document")
    return [
        {
            "at": row.at,
            "start": row.window_start,
            "end": row.window_end,
            "complete": row.complete,
            "warnings": list(row.warnings),
            "series": row.series,
            "readings": row.readings,
            "document": row.document.pk if row.document else None,
        }
        for row in rows.order_by("-id")[:50]
    ]
