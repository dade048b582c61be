"""What memory figures and right-sizing follow from, for evidence packs (method §8, §9).

The KV cache by the hour and preemptions; what logs and labels tell of each engine; the GPU beside
each engine in the chart by the hour; the hours of the settings between which a step of the week lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from finops.core.ladder import SeenHour, rungs
from finops.core.period import Period
from finops.ledger.models import CacheHour, Series, TokenHour

from .export_table import Table, table
from .guidance import Kind, kind_of
from .ladder import hours_by_kind
from .memory_fleet import EngineMemory, Fleet, fleet
from .presence import first_readings
from .rightsizing import device_total, is_sized_by_hand

SETTINGS = ("series", "kind", "devices", "gpus", "engines_on_card", "log", "log_setting",
            "log_max_model_len", "total_bytes", "gauge_kv_bytes", "log_kv_bytes",
            "sized_by_hand")  # fmt: skip
LADDER = ("kind", "hour", "setting", "blocks", "seen_ms", "levels_ms", "peak_blocks",
          "peak_waiting", "preempted")  # fmt: skip


def cache_hours(period: Period, as_of: datetime) -> Iterator[Table]:
    """The KV cache of each engine by hour, and the engines."""
    names = ("blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms",
             "active_block_ms", "peak_blocks", "peak_ms", "peak_running", "peak_waiting", "stale_ms",
             "levels_ms", "configuration__gpu_memory_utilization")  # fmt: skip
    hours = CacheHour.objects.filter(
        hour__gte=period.start, hour__lt=period.end, posted_at__lte=as_of
    )
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    rows = list(newest.values_list("series_id", "hour", *names))
    series = {one.pk: one for one in _with_source(row[0] for row in rows)}
    at = names.index("observed_ms") + 2, names.index("stale_ms") + 2
    held = {(row[0], row[1]): sum(row[index] for index in at) for row in rows}
    firsts = first_readings(held, series, as_of)
    kept = ("series", "hour", *names[:-1], "setting", "first_ms")
    yield table("cache_hours", kept, ((*row, firsts.get((row[0], row[1]))) for row in rows))
    columns = ("series", "target", "engine", "name", "labels")
    yield table("engines", columns, (
        (s.pk, s.target_id, s.engine, _engine_name(s), s.rule_labels) for s in series.values()
    ))  # fmt: skip


def preemptions(period: Period, as_of: datetime) -> Table:
    """Requests pushed out, by counter and hour."""
    hours = TokenHour.objects.filter(
        hour__gte=period.start, hour__lt=period.end, posted_at__lte=as_of,
        series__role="preemptions",
    )  # fmt: skip
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    columns = ("series", "target", "engine", "hour", "count")
    names = ("series_id", "series__target_id", "series__engine", "hour", "tokens")
    return table("preemptions", columns, newest.values_list(*names))


def _with_source(keys: Iterable[int]) -> Iterable[Series]:
    return Series.objects.filter(pk__in=set(keys)).order_by("pk").select_related("target__source")


def _engine_name(series: Series) -> str:
    name = series.labels.get("pod") or series.target.instance
    return f"{name} engine {series.engine}" if series.engine else str(name)


def engines_and_devices(period: Period, as_of: datetime) -> Iterator[Table]:
    """The three tables of a period as it stood at an instant."""
    known = fleet(period, as_of)
    every = [*known.engines, *known.doubles]
    rows = (_settings(engine, known) for engine in every)
    yield table("engine_settings", SETTINGS, rows)
    shown = sorted({engine.devices[0] for engine in known.engines if engine.devices})
    columns = ("device", "hour", "observed_ms", "used_byte_ms", "total_bytes")
    yield table("device_hours", columns, (
        (name, row.hour, row.observed_ms, row.used_byte_ms, row.total_bytes)
        for name in shown
        for row in known.devices[name].rows
    ))  # fmt: skip
    climbed = hours_by_kind(period, [engine.series for engine in every], as_of)
    yield table("ladder_hours", LADDER, (
        (kind_name(kind), *(getattr(one, name) for name in LADDER[1:]))
        for kind, hours in sorted(climbed.items())
        for one in _around_steps(hours, period)
    ))  # fmt: skip


def kind_name(kind: Kind) -> str:
    """What stays the same of an engine when its pod is replaced, as one text."""
    return " / ".join(kind)


def _settings(engine: EngineMemory, known: Fleet) -> tuple[Any, ...]:
    """What logs and labels tell of an engine; bytes are of one GPU."""
    told, configuration = engine.worker(0), engine.configuration
    log = engine.start.figures if engine.start else {}
    given = configuration.get("kv_cache_memory_bytes", "")
    on_card = [known.devices[name].engines_at_once for name in engine.devices]
    return (
        engine.series.pk, kind_name(kind_of(engine.series)), engine.devices, engine.gpus,
        max(on_card, default=None), engine.start.document_id if engine.start else None,
        log.get("utilization"), log.get("max_model_len"),
        told.get("total_bytes") or device_total(engine, known), configuration.get("kv_bytes"),
        told.get("kv_bytes") or (given if given.isdigit() else None),
        is_sized_by_hand(configuration),
    )  # fmt: skip


def _around_steps(hours: Sequence[SeenHour], period: Period) -> list[SeenHour]:
    """The hours from the setting before the period's first step on; none without such a step."""
    found = rungs(hours)
    begun = [at for at, rung in enumerate(found) if at and period.start <= rung.start < period.end]
    if not begun:
        return []
    since = found[begun[0] - 1].start
    return sorted((one for one in hours if one.hour >= since), key=lambda one: one.hour)
