"""KV cache per hour: how much of the reserved pool live requests referenced (method §8.3, §8.4, §8.9).

Usage is a share of the pool less its one null block; usage × (blocks − 1) is a whole number of
blocks, so sums are whole block-milliseconds. A reading holds until the next one, at most over a
usual interval where the next is a gap away: nothing is interpolated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .counter_values import DAY_MS, is_gap
from .period import HOUR_MS
from .steps import lower_median

STALE_AFTER_MS = 5 * 60_000
LEVELS = 200
"""Levels of half a percent."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One engine's KV pool as configured from an instant on; None where the engine says nothing."""

    from_ms: int
    blocks: int | None
    block_size: int | None
    pool_tokens: int | None
    max_model_len: int | None
    configuration: tuple[tuple[str, str], ...] = ()
    null_blocks: int = 1


@dataclass(frozen=True, slots=True)
class Gauge:
    """One gauge's readings in time order."""

    times_ms: Sequence[int] = ()
    values: Sequence[float] = ()

    def highest(self, start_ms: int, end_ms: int) -> int | None:
        """The highest whole value in a span; None without a reading."""
        low, high = bisect_left(self.times_ms, start_ms), bisect_left(self.times_ms, end_ms)
        return int(max(self.values[low:high])) if high > low else None


@dataclass(slots=True)
class CacheHourRow:
    """One engine's KV cache in one hour, in blocks and block-milliseconds.

    `reserved_block_ms` is told where the pool had not the same blocks all the time it was observed;
    elsewhere it is its blocks × the time.
    """

    hour_ms: int
    pool: Pool
    observed_ms: int = 0
    active_block_ms: int | None = None
    peak_blocks: int | None = None
    peak_ms: int | None = None
    peak_running: int | None = None
    peak_waiting: int | None = None
    stale_ms: int = 0
    levels_ms: dict[str, int] = field(default_factory=dict)
    reserved_block_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """What was read of one engine: usage, requests, when tokens moved, when it was asleep."""

    usage: Gauge
    running: Gauge
    waiting: Gauge
    moved_ms: Sequence[int]
    pools: Sequence[Pool]
    asleep: Gauge = field(default_factory=Gauge)
    moves_known: bool = True


def cache_hours(engine: Engine) -> list[CacheHourRow]:
    """The hours of an engine, in time order; time in which usage stood still without a token
    moving for five minutes, or asleep, is stale and left out of averages (method §8.9)."""
    times, values = engine.usage.times_ms, engine.usage.values
    rows: dict[int, CacheHourRow] = {}
    for (time_ms, end_ms), value in zip(held_spans(times), values, strict=True):
        stale = _is_stale(engine, time_ms, value)
        _spread(rows, engine, time_ms, end_ms, value, stale)
    for row in rows.values():
        row.peak_running = engine.running.highest(row.hour_ms, row.hour_ms + HOUR_MS)
        row.peak_waiting = engine.waiting.highest(row.hour_ms, row.hour_ms + HOUR_MS)
        row.reserved_block_ms = if_changed(row.reserved_block_ms, row.pool, row.observed_ms)
    return [rows[hour] for hour in sorted(rows)]


def if_changed(reserved_block_ms: int | None, pool: Pool, observed_ms: int) -> int | None:
    """What was reserved in an hour, None where it is the pool's blocks × the time observed."""
    return None if reserved_block_ms == (pool.blocks or 0) * observed_ms else reserved_block_ms


def held_spans(times: Sequence[int]) -> Iterator[tuple[int, int]]:
    """How long each reading holds: until the next, or over a usual interval before a gap and at
    the end. Times are in order; a reading alone holds no time."""
    usual = _usual_by_day(times)
    for index, time_ms in enumerate(times):
        following = times[index + 1] if index + 1 < len(times) else None
        yield time_ms, max(time_ms, _held_until(time_ms, following, usual.get(time_ms // DAY_MS)))


def _usual_by_day(times: Sequence[int]) -> dict[int, int]:
    steps: dict[int, list[int]] = {}
    for before, time_ms in pairwise(times):
        steps.setdefault(time_ms // DAY_MS, []).append(time_ms - before)
    usual = {day: lower_median(found) for day, found in steps.items()}
    if times and usual:
        usual.setdefault(times[0] // DAY_MS, next(iter(usual.values())))
    return usual


def _held_until(time_ms: int, following: int | None, usual: int | None) -> int:
    """A gauge that is read less often than hourly says nothing of the time between."""
    if usual is None:
        until = following if following is not None else time_ms
    elif following is None or is_gap(following - time_ms, usual):
        until = time_ms + usual
    else:
        until = following
    return min(until, time_ms + HOUR_MS)


def _is_stale(engine: Engine, time_ms: int, value: float) -> bool:
    asleep = bisect_right(engine.asleep.times_ms, time_ms) - 1
    if asleep >= 0 and engine.asleep.values[asleep] == 0:
        return True
    if value <= 0 or not engine.moves_known:
        return False
    index = bisect_right(engine.moved_ms, time_ms) - 1
    since = engine.moved_ms[index] if index >= 0 else engine.usage.times_ms[0]
    return time_ms - since > STALE_AFTER_MS


def _spread(
    rows: dict[int, CacheHourRow], engine: Engine, start: int, end: int, value: float, stale: bool
) -> None:
    pool = _pool_at(engine.pools, start)
    first = True
    while first or start < end:
        first = False
        hour_ms = start // HOUR_MS * HOUR_MS
        until = min(end, hour_ms + HOUR_MS)
        row = rows.setdefault(hour_ms, CacheHourRow(hour_ms, pool))
        row.pool = pool
        _count(row, pool, start, until - start, value, stale)
        start = until


def _count(
    row: CacheHourRow, pool: Pool, time_ms: int, held_ms: int, value: float, stale: bool
) -> None:
    if not 0 <= value <= 1:
        return  # no share of a pool: as if it had not been read
    if stale:
        row.stale_ms += held_ms
        return
    row.observed_ms += held_ms
    level = str(int(value * LEVELS))
    row.levels_ms[level] = row.levels_ms.get(level, 0) + held_ms
    if pool.blocks is None:
        return
    # vLLM keeps one null block; the share times the others is a whole number of blocks.
    blocks = round(value * (pool.blocks - pool.null_blocks))
    row.active_block_ms = (row.active_block_ms or 0) + blocks * held_ms
    row.reserved_block_ms = (row.reserved_block_ms or 0) + pool.blocks * held_ms
    if row.peak_blocks is None or blocks > row.peak_blocks:
        row.peak_blocks, row.peak_ms = blocks, time_ms


def _pool_at(pools: Sequence[Pool], time_ms: int) -> Pool:
    found = Pool(0, None, None, None, None)
    for pool in pools:
        if pool.from_ms <= time_ms or found.blocks is None:
            found = pool
    return found
