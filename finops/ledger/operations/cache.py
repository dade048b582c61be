"""Deriving the KV cache hours of a target's engines from its gauges and configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from finops.core.cache import Engine, Gauge, Pool
from finops.core.cache_columns import cache_hours_together
from finops.core.money import parse_decimal, whole_or_none
from finops.core.period import HOUR_MS
from finops.ledger.models import Series
from finops.sources.engines import role_of

from .at_hand import AtHand
from .engine_gauges import pools_by_gauges
from .gauges import LOOK_BACK_MS, Column, Gauges, Span, from_holding, is_same, joined
from .memory_rows import post_caches
from .roles import CACHE_ROLES

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


RANKS = ("tp_rank", "pp_rank")


def derive_caches(wanted: Sequence[Sequence[Series]], from_ms: int, *, at: datetime) -> None:
    """Posts the KV cache hours of some targets, each given by its series, from an hour on, where
    they changed."""
    usages = [(usage, series) for series in wanted for usage in _usage_series(series)]
    if not usages:
        return
    span = Span.around(from_ms)
    told = [one for usage, series in usages for one in _told_by(usage, series)]
    own = Gauges(told, span.read_ms, and_before=True)
    since = min((span.since(own.first(usage)[0]) for usage, _ in usages), default=from_ms)
    beside = [one for _, series in usages for one in series if one.role in CACHE_ROLES]
    gauges = own.joined_by(Gauges(beside, since - LOOK_BACK_MS, and_before=True))
    engines = [_engine(usage, series, gauges) for usage, series in usages]
    rows = zip((usage.pk for usage, _ in usages), cache_hours_together(engines), strict=True)
    post_caches(rows, since, at)


def derive_caches_at_hand(
    wanted: Sequence[Sequence[Series]], at_hand: AtHand, since: int, *, at: datetime
) -> None:
    """The same, from an hour on, of targets whose readings are at hand."""
    usages = [(usage, series) for series in wanted for usage in _usage_series(series)]
    beside = [one for _, series in usages for one in series if one.role in CACHE_ROLES]
    told = [one for usage, series in usages for one in _told_by(usage, series)]
    gauges = at_hand.gauges([*told, *beside], since - LOOK_BACK_MS)
    engines = [
        _late(_engine(usage, series, gauges), since, at_hand.first_ms(usage))
        for usage, series in usages
    ]
    hours = cache_hours_together(engines, [at_hand.usual(usage) for usage, _ in usages])
    post_caches(zip((usage.pk for usage, _ in usages), hours, strict=True), since, at)


def _late(engine: Engine, since: int, first_ms: int | None) -> Engine:
    """An engine from the reading on that holds at an instant, with the gauges that were read with
    its use. Where nothing moved since, its first reading of all tells how long."""
    whole = engine.usage.times_ms
    times, values = from_holding((whole, engine.usage.values), since)  # type: ignore[arg-type]
    cut = len(whole) - len(times)
    return replace(
        engine,
        usage=Gauge(times, values),  # type: ignore[arg-type]
        running=_cut_alike(engine.running, whole, cut),
        waiting=_cut_alike(engine.waiting, whole, cut),
        moved_ms=_moved_since(engine.moved_ms, times, first_ms),  # type: ignore[arg-type]
    )


def _cut_alike(gauge: Gauge, times: Sequence[int], cut: int) -> Gauge:
    """A gauge without its first readings where it was read at just these instants."""
    if cut and is_same(gauge.times_ms, times):
        return Gauge(gauge.times_ms[cut:], gauge.values[cut:])
    return gauge


def _moved_since(moved_ms: Sequence[int], times: Column, first_ms: int | None) -> Column:
    """When tokens moved: from the first reading on where they moved at it, else from the first
    reading of all."""
    moved = np.asarray(moved_ms, dtype=np.int64)
    place = int(moved.searchsorted(times[0])) if len(times) else len(moved)
    if place < len(moved) and moved[place] == times[0]:
        return moved[place:]
    if first_ms is not None and not (len(moved) and moved[0] <= first_ms):
        return np.concatenate(([first_ms], moved))
    return moved


def _usage_series(series: Sequence[Series]) -> list[Series]:
    """One usage series an engine: the preferred name where two say the same (never both), and of
    several ranks of one engine the first: they tell of one cache."""
    best: dict[str, tuple[tuple[int, ...], Series]] = {}
    for one in series:
        if one.role == "kv_usage":
            role = role_of(one.metric)
            rank = (role.alias_rank if role else 99, *_ranks(one))
            if one.engine not in best or rank < best[one.engine][0]:
                best[one.engine] = (rank, one)
    return [one for _, one in best.values()]


def _told_by(usage: Series, series: Sequence[Series]) -> list[Series]:
    """The series that tell an engine's use: one, or one of each process of a front end of several,
    told apart by `pid` alone (vLLM to 0.11.0)."""
    if "pid" not in usage.labels:
        return [usage]
    mine = _without_pid(usage)
    return [one for one in series if one.role == "kv_usage" and _without_pid(one) == mine]


def _without_pid(series: Series) -> tuple[str, dict[str, str]]:
    return series.metric, {name: value for name, value in series.labels.items() if name != "pid"}


def _usage(usage: Series, series: Sequence[Series], gauges: Gauges) -> Gauge:
    """The readings of an engine's use. Of several processes one has the engine's figures and the
    others stand at 0: the highest counts."""
    parts = [gauges.first(one) for one in _told_by(usage, series)]
    told = [part for part in parts if len(part[0])]
    return Gauge(*joined(told)) if told else Gauge()  # type: ignore[arg-type]


def _ranks(series: Series) -> list[int]:
    texts = (series.labels.get(name, "") for name in RANKS)
    return [whole_or_none(text) or 0 for text in texts]


def _engine(usage: Series, series: Sequence[Series], gauges: Gauges) -> Engine:
    of_engine = [one for one in series if one.engine == usage.engine and _is_of_rank(one, usage)]
    # A front end counts the tokens of all its ranks: any of them moves.
    counters = [
        one
        for one in series
        if one.role in ("prompt", "generation") and one.engine in ("", usage.engine)
    ]
    return Engine(
        usage=_usage(usage, series, gauges),
        running=gauges.gauge([one for one in of_engine if one.role == "running"]),
        waiting=gauges.gauge([one for one in of_engine if one.role == "waiting"]),
        moved_ms=_moves(counters, gauges),  # type: ignore[arg-type]
        pools=_pools(usage, series, gauges),
        asleep=gauges.gauge([one for one in of_engine if _is_awake_gauge(one)]),
        moves_known=bool(counters),
    )


def _is_of_rank(one: Series, usage: Series) -> bool:
    """Whether a gauge is of the usage's own rank; one without ranks is of all."""
    return all(one.labels.get(r) in (None, usage.labels.get(r)) for r in RANKS)


def _is_awake_gauge(series: Series) -> bool:
    return series.role == "sleep_state" and series.labels.get("sleep_state") == "awake"


def _moves(counters: Sequence[Series], gauges: Gauges) -> Column:
    """The instants at which a token counter showed another value than before."""
    found = [
        times[1:][values[1:] != values[:-1]]
        for one in counters
        for times, values in gauges.replicas(one).values()
    ]
    if not found:
        return np.zeros(0, dtype=np.int64)
    first, *others = found
    if all(len(one) == len(first) and (one == first).all() for one in others):
        return first
    return np.unique(np.concatenate(found))


def _pools(usage: Series, series: Sequence[Series], gauges: Gauges) -> list[Pool]:
    """The configurations of an engine in time order, from `cache_config_info` labels, else from
    gauges of the engine's own."""
    infos = [one for one in series if one.role == "cache_config"]
    if not infos:
        return pools_by_gauges(usage, series, gauges)
    engines = len({one.engine for one in infos}) or 1
    pools: list[Pool] = []
    for one in infos:
        if one.engine != usage.engine:
            continue
        for times, _ in gauges.replicas(one).values():
            pools.extend(_pool(start, one.labels, engines) for start in _spans(times))
    return sorted(pools, key=lambda pool: pool.from_ms)


def _spans(times: Column) -> list[int]:
    """Where a configuration was seen again after an hour without it."""
    begins = np.diff(times, prepend=times[0] - HOUR_MS - 1) > HOUR_MS
    found: list[int] = times[begins].tolist()
    return found


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
    return whole_or_none(labels.get(name, ""))


def _max_model_len(size_tokens: int | None, concurrency: str | None) -> int | None:
    """The engine exports no `max_model_len`; its pool over its concurrency gives it."""
    try:
        share = parse_decimal(concurrency or "")
        return round(size_tokens / share) if size_tokens and share > 0 else None
    except ValueError:
        return None
