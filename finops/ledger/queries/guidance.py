"""What an engine's logs and readings tell for guidance and for the load seen (method §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connections

from finops.core.guidance import guidance
from finops.core.guidance_seen import Seen
from finops.core.lengths import Histogram
from finops.core.period import Period, instant_of
from finops.core.representative import Load
from finops.core.rightsizing import Advice, Window
from finops.ledger.models import EngineStart, Series
from finops.ledger.which import ledger_name

from .as_of import known_by
from .evidence import first_worker
from .histograms import Engine, histograms, lookups, until
from .memory_engines import EngineMemory

EARLIER_DAYS = 28
Kind = tuple[str, str, str]
"""Job, engine number and model: engines of one kind, over replaced pods."""

_EARLIER = """
SELECT series_id, max(peak_running), min(hour) FROM (
    SELECT DISTINCT ON (series_id, hour) series_id, hour, peak_running FROM ledger_cachehour
    WHERE hour >= %s AND hour < %s AND posted_at <= %s ORDER BY series_id, hour, revision DESC
) newest WHERE peak_running IS NOT NULL GROUP BY series_id
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What is read once for all engines of a window."""

    period: Period
    lengths: Mapping[Engine, Mapping[str, Histogram]]
    lookups: Mapping[Engine, Mapping[str, int]]
    earlier: Mapping[Kind, tuple[int, datetime]]
    alone: Mapping[str, int] = field(default_factory=dict)


def told(period: Period, as_of: datetime | None = None) -> Told:
    """Lengths, lookups, the peaks of the four weeks before, and starts on one GPU by version."""
    return Told(
        period,
        histograms(period, as_of),
        lookups(period, as_of),
        _earlier(period, as_of),
        _alone(as_of),
    )


def _earlier(period: Period, as_of: datetime | None) -> dict[Kind, tuple[int, datetime]]:
    since = period.start - timedelta(days=EARLIER_DAYS)
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_EARLIER, [since, period.start, until(as_of)])
        rows = {key: (peak, first) for key, peak, first in cursor.fetchall()}
    found: dict[Kind, tuple[int, datetime]] = {}
    for one in Series.objects.filter(pk__in=rows).select_related("target"):
        peak, first = rows[one.pk]
        known = found.get(kind_of(one), (peak, first))
        found[kind_of(one)] = max(peak, known[0]), min(first, known[1])
    return found


def kind_of(series: Series) -> Kind:
    """What stays the same of an engine when its pod is replaced."""
    return series.target.job, series.engine, series.labels.get("model_name", "")


def _alone(as_of: datetime | None) -> dict[str, int]:
    """By version: non-torch memory of a start on one GPU."""
    found: dict[str, int] = {}
    for one in EngineStart.objects.filter(known_by(as_of), has_failed=False).order_by("pk"):
        size = non_torch(first_worker(one))
        if one.figures.get("tensor_parallel") == 1 and size is not None and one.engine_version:
            found[one.engine_version] = size
    return found


def non_torch(worker: Mapping[str, Any]) -> int | None:
    """Non-torch memory as printed, else what is consumed beyond the weights (from vLLM 0.27)."""
    printed = worker.get("non_torch_bytes")
    both, weights = worker.get("weights_and_non_torch_bytes"), worker.get("weights_bytes")
    if printed is None and both is not None and weights is not None and both >= weights:
        return int(both - weights)
    return None if printed is None else int(printed)


def guidance_of(
    engine: EngineMemory, advice: Advice, window: Window, hours: Sequence[Any], about: Told
) -> list[dict[str, Any]]:
    """The guidance on one engine, as plain values."""
    return [one.as_json() for one in guidance(_seen(engine, advice, window, hours, about))]


def _seen(
    engine: EngineMemory, advice: Advice, window: Window, hours: Sequence[Any], about: Told
) -> Seen:
    key = engine.series.target_id, engine.series.engine
    lengths, found = about.lengths.get(key, {}), about.lookups.get(key, {})
    start = engine.start.figures if engine.start else {}
    worker = engine.worker(0)
    configuration = hours[-1].configuration
    return Seen(
        verdict=advice.verdict,
        p99=advice.p99,
        peak_running=window.peak_running,
        peak_waiting=window.peak_waiting,
        preemptions=window.preemptions,
        held_at_once=_held_at_once(window),
        max_num_seqs=start.get("max_num_seqs"),
        max_num_batched_tokens=start.get("max_num_batched_tokens"),
        max_model_len=window.max_model_len,
        steps=lengths.get("steps", Histogram()),
        prompts=lengths.get("prompts", Histogram()),
        answers=lengths.get("answers", Histogram()),
        tensor_parallel=(start.get("tensor_parallel") or 1) if engine.start else None,
        total_bytes=worker.get("total_bytes"),
        budget_bytes=worker.get("budget_bytes"),
        free_at_start_bytes=worker.get("free_at_start_bytes"),
        activation_peak_bytes=worker.get("activation_peak_bytes"),
        non_torch_bytes=non_torch(worker),
        alone_non_torch_bytes=about.alone.get(engine.start.engine_version)
        if engine.start
        else None,
        kv_dtype=configuration.get("cache_dtype") or start.get("kv_dtype"),
        pool_tokens=engine.rows[-1].pool_tokens,
        prefix_caching=_yes_or_no(configuration.get("enable_prefix_caching"), start),
        prefix_queries=found.get("prefix_queries"),
        prefix_hits=found.get("prefix_hits"),
        log=f"start-up log {engine.start.document_id[:12]}" if engine.start else None,
    )


def busiest(hours: Sequence[Any]) -> datetime | None:
    """The instant at which live requests held most of the cache."""
    known = [one for one in hours if one.peak_blocks is not None and one.peak_ms is not None]
    best = max(known, key=lambda one: one.peak_blocks, default=None)
    return None if best is None else instant_of(best.peak_ms)


def _held_at_once(window: Window) -> int | None:
    """Requests of the length seen at the peak that the cache holds."""
    if not window.peak_running or not window.peak_blocks or not window.blocks:
        return None
    return (window.blocks - 1) * window.peak_running // window.peak_blocks


def _yes_or_no(label: str | None, start: Mapping[str, Any]) -> bool | None:
    if label in ("True", "False"):
        return label == "True"
    told_by_log: bool | None = start.get("prefix_caching")
    return told_by_log


def load_of(engine: EngineMemory, window: Window, hours: Sequence[Any], about: Told) -> Load:
    """The load seen of one engine, for whether it is representative."""
    key = engine.series.target_id, engine.series.engine
    before = about.earlier.get(kind_of(engine.series))
    days = 0 if before is None else max(1, (about.period.start - before[1]).days)
    return Load(
        hours={_hour_of_week(one.hour) for one in hours if one.observed_ms or one.stale_ms},
        busy_hours={_hour_of_week(one.hour) for one in hours if one.peak_running},
        peak_running=window.peak_running,
        prompts=about.lengths.get(key, {}).get("prompts", Histogram()),
        earlier_peak_running=None if before is None else before[0],
        earlier_days=days,
    )


def _hour_of_week(hour: datetime) -> int:
    return hour.weekday() * 24 + hour.hour
