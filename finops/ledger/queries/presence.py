"""When the engines of a period were there: the first reading of hours that stand alone (§8.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Subquery

from finops.core.memory import CacheRow
from finops.core.period import HOUR_MS, Period, instant_of
from finops.ledger.models import CacheHour, Series, TokenHour

from .as_of import known_by

HOUR = timedelta(milliseconds=HOUR_MS)
Key = tuple[int, datetime]
"""A series and one of its hours."""


def placed(
    rows: Mapping[int, list[CacheRow]], series: Mapping[int, Series], as_of: datetime | None
) -> dict[int, list[CacheRow]]:
    """Each series' hours, those that stand alone with their first reading where it is known."""
    held = {(k, r.hour): r.observed_ms + r.stale_ms for k, mine in rows.items() for r in mine}
    firsts = first_readings(held, series, as_of)
    alone = {key for key, _ in firsts}
    return {
        key: [replace(row, first_ms=firsts.get((key, row.hour))) for row in mine]
        if key in alone
        else mine
        for key, mine in rows.items()
    }


def first_readings(
    held_ms: Mapping[Key, int], series: Mapping[int, Series], as_of: datetime | None
) -> dict[Key, int]:
    """The first reading of hours that were not read whole and have none read beside them, where
    the engine's prompt tokens tell it. Other hours are placed by those beside them."""
    alone = [
        (key, hour)
        for (key, hour), held in held_ms.items()
        if held < HOUR_MS and not {(key, hour - HOUR), (key, hour + HOUR)} & held_ms.keys()
    ]
    if not alone:
        return {}
    told = _by_prompts({series[key].target_id for key, _ in alone}, {h for _, h in alone}, as_of)
    return {
        (key, hour): first
        for key, hour in alone
        for one in (series[key],)
        if (first := told.get((one.target_id, one.engine, hour))) is not None
    }


def begun_by(
    rows: Mapping[int, list[CacheRow]],
    series: Mapping[int, Series],
    period: Period,
    as_of: datetime | None,
) -> dict[int, datetime]:
    """By series, an instant at which the process that the period ends with had been started: the
    first reading of the engine, in earlier periods too, or of its last restart. As it was known at
    an instant, where one is given."""
    found = {key: _first(mine[0]) for key, mine in rows.items()}
    earlier = [key for key, mine in rows.items() if mine[0].hour == period.start]
    hours = CacheHour.objects.filter(known_by(as_of), hour__lt=period.start)
    first = hours.filter(series=OuterRef("pk")).order_by("hour", "-revision")
    names = ("hour", "observed_ms", "stale_ms")
    asked = Series.objects.filter(pk__in=earlier)
    for key, hour, observed, stale in asked.annotate(
        **{f"first_{name}": Subquery(first.values(name)[:1]) for name in names}
    ).values_list("pk", *(f"first_{name}" for name in names)):
        if hour is None:
            continue
        found[key] = _begun(hour, observed + stale)
    restarts = _restarts(series, period, as_of)
    for key, at in found.items():
        again = restarts.get((series[key].target_id, series[key].engine))
        found[key] = at if again is None else max(at, again)
    return found


def _first(row: CacheRow) -> datetime:
    if row.first_ms is not None:
        return instant_of(row.first_ms)
    return _begun(row.hour, row.observed_ms + row.stale_ms)


def _begun(hour: datetime, held_ms: int) -> datetime:
    """When the first hour of a stretch begins, which ends with it."""
    return hour + HOUR - timedelta(milliseconds=min(HOUR_MS, held_ms))


def _restarts(
    series: Mapping[int, Series], period: Period, as_of: datetime | None
) -> dict[tuple[int, str], datetime]:
    """By target and engine, the reading that shows the last restart before the period's end."""
    known = TokenHour.objects.filter(known_by(as_of), hour__lt=period.end)
    newer = known.filter(
        series=OuterRef("series"), hour=OuterRef("hour"), revision__gt=OuterRef("revision")
    )
    rows = known.filter(
        ~Exists(newer), restarts__gt=0,
        series__role="prompt", series__target__in={one.target_id for one in series.values()},
    )  # fmt: skip
    names = ("series__target_id", "series__engine", "hour", "facts")
    found: dict[tuple[int, str], datetime] = {}
    for target, engine, hour, facts in rows.order_by("hour", "series_id").values_list(*names):
        shown = [one["to"] for one in facts.get("restarts", ()) if one.get("to") is not None]
        at = instant_of(max(shown)) if shown else hour + HOUR
        found[target, engine] = max(at, found.get((target, engine), at))
    return found


def _by_prompts(
    targets: Iterable[int], hours: Iterable[datetime], as_of: datetime | None
) -> dict[tuple[int, str, datetime], int]:
    """By target, engine and hour, the first reading of the prompt tokens."""
    rows = TokenHour.objects.filter(
        known_by(as_of), series__role="prompt", series__target__in=targets, hour__in=hours
    )
    newest = rows.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    found: dict[tuple[int, str, datetime], int] = {}
    named = newest.values_list("series__target_id", "series__engine", "hour", "first_ms")
    for target, engine, hour, first in named:
        key = target, engine, hour
        found[key] = min(first, found.get(key, first))
    return found
