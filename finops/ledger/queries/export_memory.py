"""What memory figures and right-sizing follow from, for evidence packs (method §8, §9).

The KV cache by the hour and preemptions; what logs and labels tell of each engine; every GPU by the
hour and who held it; the hours of the settings between which a step of the week lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from finops.core.ladder import SeenHour, rungs
from finops.core.money import whole_or_none
from finops.core.period import Period
from finops.ledger.models import CacheHour, DeviceHour, Series, TokenHour

from .evidence import Evidence, first_worker
from .export_table import Table, table
from .guidance import Kind, Told, kind_of, told
from .ladder import hours_by_kind
from .memory_engines import EngineMemory
from .memory_fleet import device_rows, fleet, place_of
from .presence import first_readings
from .rightsizing import is_sized_by_hand

SETTINGS = ("series", "kind", "workers", "log_gpus", "log", "log_setting", "log_max_model_len",
            "gauge_kv_bytes", "given_kv_bytes", "sized_by_hand", "log_max_num_seqs",
            "log_max_num_batched_tokens", "log_tensor_parallel", "alone_non_torch_bytes",
            "prefix_queries", "prefix_hits", "earlier_peak_running", "earlier_days",
            "begun", "kv_bytes_per_token", "gpus_told")  # fmt: skip
LOGS = ("document", "number", "started_at", "posted_at", "failed", "model", "served_names",
        "rank", "kv_tokens", "workload", "pod")  # fmt: skip
WORKER = ("total_bytes", "weights_bytes", "kv_bytes", "graphs_bytes", "non_torch_bytes",
          "activation_peak_bytes", "weights_and_non_torch_bytes", "budget_bytes",
          "free_at_start_bytes")  # fmt: skip
DEVICE = ("target", "device", "hour", "observed_ms", "used_byte_ms", "free_byte_ms",
          "reserved_byte_ms", "total_bytes", "tenants", "holders")  # fmt: skip
LADDER = ("kind", "hour", "setting", "blocks", "seen_ms", "levels_ms", "peak_blocks",
          "peak_waiting", "preempted")  # fmt: skip


def cache_hours(period: Period, as_of: datetime) -> Iterator[Table]:
    """The KV cache of each engine by hour, and the engines."""
    names = ("blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms",
             "active_block_ms", "reserved_block_ms", "peak_blocks", "peak_ms", "peak_running",
             "peak_waiting", "stale_ms", "levels_ms", "configuration__gpu_memory_utilization")  # fmt: skip
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
    columns = ("series", "target", "engine", "name", "instance", "labels")
    yield table("engines", columns, (
        (s.pk, s.target_id, s.engine, _engine_name(s), s.target.instance, s.rule_labels)
        for s in series.values()
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
    """The tables of a period as it stood at an instant."""
    known, about = fleet(period, as_of), told(period, as_of)
    every = [*known.engines, *known.doubles]
    yield table(
        "engine_settings", SETTINGS, ((*_settings(one), *_load(one, about)) for one in every)
    )
    yield table("engine_logs", LOGS, _logs(as_of))
    yield table("lengths", ("target", "engine", "measure", "edge", "count"), (
        (*engine, measure, "" if edge is None else edge, count)
        for engine, measures in sorted(about.lengths.items())
        for measure, lengths in sorted(measures.items())
        for edge, count in lengths.buckets
    ))  # fmt: skip
    yield from _devices(list(device_rows(period, as_of)))
    climbed = hours_by_kind(period, [engine.series for engine in every], as_of)
    yield table("ladder_hours", LADDER, (
        (kind_name(kind), *(getattr(one, name) for name in LADDER[1:]))
        for kind, hours in sorted(climbed.items())
        for one in _around_steps(hours, period)
    ))  # fmt: skip


def _devices(rows: Sequence[DeviceHour]) -> Iterator[Table]:
    """Every GPU as every exporter told it, before any is chosen: which it is, and its hours."""
    last = {(row.device, row.target_id): row for row in rows}
    columns = ("target", "device", "source", "instance", "number")
    yield table("devices", columns, (
        (target, device, row.target.source.name, row.labels.get("instance", ""), place_of(row))
        for (device, target), row in last.items()
    ))  # fmt: skip
    yield table("device_hours", DEVICE, (
        (row.target_id, *(getattr(row, name) for name in DEVICE[1:])) for row in rows
    ))  # fmt: skip


def kind_name(kind: Kind) -> str:
    """What stays the same of an engine when its pod is replaced, as one text."""
    return " / ".join(kind)


def _settings(engine: EngineMemory) -> tuple[Any, ...]:
    """What logs and labels tell of an engine; bytes are of one GPU."""
    configuration, log = engine.configuration, engine.start.figures if engine.start else {}
    workers = [
        {name: one[name] for name in WORKER if one.get(name) is not None} for one in engine.workers
    ]
    given = whole_or_none(configuration.get("kv_cache_memory_bytes", ""))
    return (
        engine.series.pk, kind_name(kind_of(engine.series)), workers, engine.gpus_by_log,
        engine.start.document_id if engine.start else None, log.get("utilization"),
        log.get("max_model_len"), configuration.get("kv_bytes"),
        given, is_sized_by_hand(configuration),
    )  # fmt: skip


def _load(engine: EngineMemory, about: Told) -> tuple[Any, ...]:
    """What the advice on an engine's other settings rests on, beside lengths."""
    key, log = (engine.series.target_id, engine.series.engine), engine.start
    found, start = about.lookups.get(key, {}), log.figures if log else {}
    earlier = about.earlier.get(kind_of(engine.series))
    return (
        start.get("max_num_seqs"), start.get("max_num_batched_tokens"),
        (start.get("tensor_parallel") or 1) if log else None,
        about.alone.get(log.engine_version) if log else None,
        found.get("prefix_queries"), found.get("prefix_hits"),
        earlier[0] if earlier else None,
        max(1, (about.period.start - earlier[1]).days) if earlier else 0, engine.begun,
        engine.kv.bytes_per_token if engine.kv else None, engine.gpus_told,
    )  # fmt: skip


def _logs(as_of: datetime) -> Iterator[tuple[Any, ...]]:
    """Every start that a log tells of, and whose a person said it is."""
    evidence = Evidence(as_of)
    for one in evidence.starts:
        link = evidence.links.get(one.document_id)
        yield (
            one.document_id, one.number, one.started_at, one.posted_at, one.has_failed, one.model,
            one.served_names, one.data_parallel_rank, first_worker(one).get("kv_tokens"),
            link.workload.slug if link else None, link.pod if link else None,
        )  # fmt: skip


def _around_steps(hours: Sequence[SeenHour], period: Period) -> list[SeenHour]:
    """The hours from the setting before the period's first step on; none without such a step."""
    found = rungs(hours)
    begun = [at for at, rung in enumerate(found) if at and period.start <= rung.start < period.end]
    if not begun:
        return []
    since = found[begun[0] - 1].start
    return sorted((one for one in hours if one.hour >= since), key=lambda one: one.hour)
