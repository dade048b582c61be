"""The rungs of each engine's settings over the last twelve weeks (method §9).

Engines are followed over replaced pods: by job, engine number and model. Only engines that had
more than one setting are read hour by hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import connections

from finops.core.ladder import Rung, SeenHour, rungs
from finops.core.period import Period
from finops.ledger.models import CacheHour, Series, TokenHour
from finops.ledger.which import ledger_name

from .as_of import known_by
from .guidance import Kind, kind_of

WEEKS = 12

_CHANGED = """
SELECT DISTINCT series_id, blocks, configuration->>'gpu_memory_utilization'
FROM ledger_cachehour WHERE series_id = ANY(%s) AND hour >= %s AND hour < %s
"""


def rungs_by_kind(
    period: Period, series: Iterable[Series], as_of: datetime | None = None
) -> Mapping[Kind, list[Rung]]:
    """By kind of engine: its stretches up to the period's end, for those that had several."""
    return {kind: rungs(hours) for kind, hours in hours_by_kind(period, series, as_of).items()}


def hours_by_kind(
    period: Period, series: Iterable[Series], as_of: datetime | None = None
) -> Mapping[Kind, list[SeenHour]]:
    """The hours that the stretches are made of, in any order."""
    since = period.end - timedelta(weeks=WEEKS)
    wanted = {kind_of(one) for one in series}
    jobs = {job for job, _, _ in wanted}
    known = Series.objects.filter(role="kv_usage", target__job__in=jobs).select_related("target")
    members: dict[Kind, list[Series]] = {}
    for one in known:
        if kind_of(one) in wanted:
            members.setdefault(kind_of(one), []).append(one)
    settings = _settings([one.pk for mine in members.values() for one in mine], since, period.end)
    return {
        kind: _hours(mine, since, period.end, as_of)
        for kind, mine in members.items()
        if len(set().union(*(settings.get(one.pk, set()) for one in mine))) > 1
    }


def _settings(
    keys: list[int], start: datetime, end: datetime
) -> dict[int, set[tuple[int | None, str | None]]]:
    found: dict[int, set[tuple[int | None, str | None]]] = {}
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_CHANGED, [keys, start, end])
        for series, blocks, setting in cursor.fetchall():
            found.setdefault(series, set()).add((blocks, setting))
    return found


def _hours(
    mine: list[Series], start: datetime, end: datetime, as_of: datetime | None
) -> list[SeenHour]:
    """The hours of one kind of engine; of two pods in one hour the one that was seen longer.

    What was seen in the hour of a change is of both pools, and stands for neither.
    """
    pushed = _preempted(mine, start, end, as_of)
    hours = CacheHour.objects.filter(
        known_by(as_of), series__in=mine, hour__gte=start, hour__lt=end
    )
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    best: dict[datetime, SeenHour] = {}
    pools: dict[datetime, set[tuple[str, int]]] = {}
    for row in newest:
        setting = row.configuration.get("gpu_memory_utilization")
        if row.blocks is None or not _is_share(setting):
            continue
        one = SeenHour(
            hour=row.hour,
            setting=setting,
            blocks=row.blocks,
            seen_ms=row.observed_ms + row.stale_ms,
            levels_ms=row.levels_ms,
            peak_blocks=row.peak_blocks,
            peak_waiting=row.peak_waiting,
            preempted=pushed.get(row.hour, 0),
        )
        if row.reserved_block_ms is not None:
            one = replace(one, levels_ms={}, peak_blocks=None, peak_waiting=None, preempted=0)
        pools.setdefault(row.hour, set()).add(one.pool)
        if row.hour not in best or best[row.hour].seen_ms < one.seen_ms:
            best[row.hour] = one
    return list(_of_one_pool(best, pools))


def _of_one_pool(
    best: Mapping[datetime, SeenHour], pools: Mapping[datetime, set[tuple[str, int]]]
) -> Iterator[SeenHour]:
    """The hours in order; where one pod came for another with another pool, nobody tells which of
    them pushed requests out."""
    before: SeenHour | None = None
    for hour, one in sorted(best.items()):
        is_change = before is not None and before.pool != one.pool and len(pools[hour]) > 1
        yield replace(one, preempted=0) if is_change else one
        before = one


def _is_share(text: str | None) -> bool:
    whole, _, part = (text or "").partition(".")
    return whole in ("0", "1") and (not part or (part.isascii() and part.isdigit()))


def _preempted(
    mine: list[Series], start: datetime, end: datetime, as_of: datetime | None
) -> dict[datetime, int]:
    """Preemptions by hour of these engines together."""
    places = {(one.target_id, one.engine) for one in mine}
    counters = Series.objects.filter(
        role="preemptions", target_id__in={target for target, _ in places}
    )
    keys = [one.pk for one in counters if (one.target_id, one.engine) in places]
    hours = TokenHour.objects.filter(
        known_by(as_of), series_id__in=keys, hour__gte=start, hour__lt=end
    )
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    found: dict[datetime, int] = {}
    for hour, count in newest.values_list("hour", "tokens"):
        if count:
            found[hour] = found.get(hour, 0) + count
    return found
