"""Deriving the KV cache hours of a target's engines from its gauges and configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation

from finops.core.cache import CacheHourRow, Engine, Gauge, Pool, cache_hours
from finops.core.counter import DAY_MS
from finops.core.period import instant_of
from finops.ledger.models import CacheHour, Series, Target
from finops.sources.engines import role_of

from .bulk import copy_rows
from .columns import read_columns
from .engine_gauges import pools_by_gauges

KEPT_LABELS = (
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "kv_cache_max_concurrency",
    "num_gpu_blocks",
    "num_gpu_blocks_override",
)


def derive_cache(target: Target, series: Sequence[Series], from_day: int, *, at: datetime) -> None:
    """Posts the KV cache hours of a target from a UTC day on, where they changed."""
    new: list[CacheHour] = []
    for usage in _usage_series(series):
        rows = cache_hours(_engine(usage, series, from_day - DAY_MS))
        kept = _current(usage, from_day)
        for row in rows:
            if row.hour_ms >= from_day:
                _add(new, usage, row, kept.get(instant_of(row.hour_ms)), at)
    copy_rows(new)


def _usage_series(series: Sequence[Series]) -> list[Series]:
    """One usage series an engine: the preferred name where two say the same (never both)."""
    best: dict[str, tuple[int, Series]] = {}
    for one in series:
        if one.role == "kv_usage":
            role = role_of(one.metric)
            rank = role.alias_rank if role else 99
            if one.engine not in best or rank < best[one.engine][0]:
                best[one.engine] = (rank, one)
    return [one for _, one in best.values()]


def _add(
    new: list[CacheHour],
    series: Series,
    row: CacheHourRow,
    old: CacheHour | None,
    at: datetime,
) -> None:
    fresh = CacheHour(
        series=series,
        hour=instant_of(row.hour_ms),
        revision=old.revision + 1 if old else 1,
        blocks=row.pool.blocks,
        block_size=row.pool.block_size,
        pool_tokens=row.pool.pool_tokens,
        max_model_len=row.pool.max_model_len,
        observed_ms=row.observed_ms,
        active_block_ms=None if row.active_block_ms is None else Decimal(row.active_block_ms),
        peak_blocks=row.peak_blocks,
        peak_ms=row.peak_ms,
        peak_running=row.peak_running,
        peak_waiting=row.peak_waiting,
        stale_ms=row.stale_ms,
        levels_ms=row.levels_ms,
        configuration=dict(row.pool.configuration),
        posted_at=at,
    )
    names = [f.attname for f in CacheHour._meta.concrete_fields]
    compared = [n for n in names if n not in ("id", "revision", "posted_at")]
    if old is None or any(getattr(old, name) != getattr(fresh, name) for name in compared):
        new.append(fresh)


def _current(series: Series, from_ms: int) -> dict[datetime, CacheHour]:
    rows = (
        CacheHour.objects.filter(series=series, hour__gte=instant_of(from_ms))
        .order_by("hour", "-revision")
        .distinct("hour")
    )
    return {row.hour: row for row in rows}


def _engine(usage: Series, series: Sequence[Series], from_ms: int) -> Engine:
    of_engine = [one for one in series if one.engine == usage.engine]
    counters = [one for one in of_engine if one.role in ("prompt", "generation")]
    return Engine(
        usage=_gauge([usage], from_ms),
        running=_gauge([one for one in of_engine if one.role == "running"], from_ms),
        waiting=_gauge([one for one in of_engine if one.role == "waiting"], from_ms),
        moved_ms=_moves(counters, from_ms),
        pools=_pools(usage, series, from_ms),
        asleep=_gauge([one for one in of_engine if _is_awake_gauge(one)], from_ms),
        moves_known=bool(counters),
    )


def _is_awake_gauge(series: Series) -> bool:
    return series.role == "sleep_state" and series.labels.get("sleep_state") == "awake"


def _gauge(series: Sequence[Series], from_ms: int) -> Gauge:
    """The readings of one gauge; of several replicas, or of two names, the first."""
    for one in series:
        for _, (times, values) in sorted(read_columns(one, max(0, from_ms)).items()):
            return Gauge(times, values)
    return Gauge()


def _moves(counters: Sequence[Series], from_ms: int) -> list[int]:
    """The instants at which a token counter showed another value than before."""
    moved: set[int] = set()
    for one in counters:
        for times, values in read_columns(one, max(0, from_ms)).values():
            moved.update(
                time_ms
                for time_ms, before, value in zip(times[1:], values, values[1:], strict=False)
                if value != before
            )
    return sorted(moved)


def _pools(usage: Series, series: Sequence[Series], from_ms: int) -> list[Pool]:
    """The configurations of an engine in time order, from `cache_config_info` labels, else from
    gauges of the engine's own."""
    infos = [one for one in series if one.role == "cache_config"]
    if not infos:
        return pools_by_gauges(usage, series, from_ms)
    engines = len({one.engine for one in infos}) or 1
    pools: list[Pool] = []
    for one in infos:
        if one.engine != usage.engine:
            continue
        for times, _ in read_columns(one, max(0, from_ms)).values():
            pools.extend(_pool(start, one.labels, engines) for start in _spans(times))
    return sorted(pools, key=lambda pool: pool.from_ms)


def _spans(times: Sequence[int]) -> list[int]:
    """Where a configuration was seen again after an hour without it."""
    return [
        time_ms
        for before, time_ms in zip([None, *times], times, strict=False)
        if before is None or time_ms - before > 3_600_000
    ]


def _pool(from_ms: int, labels: Mapping[str, str], engines: int) -> Pool:
    """One engine's pool. `num_gpu_blocks` is the sum over data-parallel engines on every engine's
    series (method §8.3); `kv_cache_size_tokens` is one engine's own."""
    blocks, block_size = _whole(labels, "num_gpu_blocks"), _whole(labels, "block_size")
    size_tokens = _whole(labels, "kv_cache_size_tokens")
    own_blocks = blocks // engines if blocks is not None else None
    pool_tokens = size_tokens
    if pool_tokens is None and own_blocks is not None and block_size is not None:
        pool_tokens = own_blocks * block_size
    return Pool(
        from_ms,
        own_blocks,
        block_size,
        pool_tokens,
        _max_model_len(size_tokens, labels.get("kv_cache_max_concurrency")),
        tuple((name, labels[name]) for name in KEPT_LABELS if name in labels),
    )


def _whole(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if text.isdigit() and len(text) < 19 else None


def _max_model_len(size_tokens: int | None, concurrency: str | None) -> int | None:
    """The engine exports no `max_model_len`; its pool over its concurrency gives it."""
    try:
        share = Decimal(concurrency or "")
        return round(size_tokens / share) if size_tokens and share > 0 else None
    except InvalidOperation:
        return None
