"""The KV cache of each workload's engines over a period (method §8.3, §8.4, §8.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from finops.core.allocation import WORKLOAD, Assigner
from finops.core.facts import EngineMemory
from finops.core.memory import CacheRow, kv_figures
from finops.core.period import Period
from finops.ledger.models import CacheHour, Series

from .as_of import known_by
from .memory_fleet import Fleet
from .presence import placed

FIELDS = (
    "hour",
    "blocks",
    "block_size",
    "pool_tokens",
    "max_model_len",
    "observed_ms",
    "active_block_ms",
    "peak_blocks",
    "peak_ms",
    "peak_running",
    "stale_ms",
    "reserved_block_ms",
)


Stated = tuple[int | None, int | None]
"""KV bytes of a token and the longest request, as people stated them of a workload."""


@dataclass(slots=True)
class _Engine:
    series: Series
    rows: list[CacheRow] = field(default_factory=list)


def engine_memory(
    period: Period,
    assign: Assigner,
    stated: Mapping[str, Stated],
    preempted: Mapping[tuple[int, str], int],
    known: Fleet,
    as_of: datetime | None = None,
) -> dict[str, tuple[EngineMemory, ...]]:
    """Engines by workload, each with its figures; the newest revision of each hour counts. `known`
    are the period's engines as they are told once or twice, each with the bytes of its tokens."""
    own = {(one.slug, one.series.pk): one.kv for one in known.engines}
    twice = {one.series.pk: (one.told_by, one.counts) for one in known.engines}
    engines: dict[tuple[str, int], _Engine] = {}
    series = _series(period)
    rows: dict[int, list[CacheRow]] = {}
    for series_id, *values in _rows(period, as_of):
        rows.setdefault(series_id, []).append(CacheRow(*values))
    for series_id, mine in placed(rows, series, as_of).items():
        one = series[series_id]
        labels = one.rule_labels
        for row in mine:
            place = assign(labels, row.hour)
            if place.kind == WORKLOAD and place.target:
                engines.setdefault((place.target, series_id), _Engine(one)).rows.append(row)
    found: dict[str, list[EngineMemory]] = {}
    for (slug, series_id), engine in engines.items():
        size, longest = stated.get(slug, (None, None))
        if (slug, series_id) in own:
            told = own[slug, series_id]
            size = told.bytes_per_token if told else None
        figures = kv_figures(engine.rows, size, longest)
        if figures is not None:
            one = engine.series
            count = preempted.get((one.target_id, one.engine))
            found.setdefault(slug, []).append(
                EngineMemory(_name(one), figures, count, *twice.get(series_id, ()))
            )
    return {slug: tuple(sorted(all_, key=lambda e: e.engine)) for slug, all_ in found.items()}


def _rows(period: Period, as_of: datetime | None) -> list[tuple[Any, ...]]:
    hours = CacheHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    return list(newest.values_list("series_id", *FIELDS))


def _series(period: Period) -> dict[int, Series]:
    hours = CacheHour.objects.filter(hour__gte=period.start, hour__lt=period.end)
    wanted = Series.objects.filter(pk__in=hours.order_by().values("series_id").distinct())
    return {one.pk: one for one in wanted.select_related("target__source")}


def _name(series: Series) -> str:
    target = series.target
    name = series.labels.get("pod") or target.instance
    return f"{name} engine {series.engine}" if series.engine else name
