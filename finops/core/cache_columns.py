"""KV cache hours of many engines at once: exactly what `core.cache` gives, some hundred times faster.

`core.cache` says reading by reading what the rules are; this does the same to matrices, an engine a
row. Sums are of whole numbers (64 bits hold an hour of any pool); use is read as a float by both in
the same way, so that levels and blocks are the same to the last one. A law in the tests compares
the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from .cache import LEVELS, STALE_AFTER_MS, CacheHourRow, Engine, Gauge, Pool, if_changed
from .held_pieces import Column, Pieces, Usual, held_ends_of_rows, usual_of_rows
from .period import HOUR_MS

READINGS_AT_ONCE: Final = 1 << 16
NO_POOL: Final = Pool(0, None, None, None, None)
_LEVEL_NAMES: Final = [str(level) for level in range(LEVELS + 1)]


def cache_hours(engine: Engine) -> list[CacheHourRow]:
    """The hours of an engine, in time order (method §8.3, §8.4, §8.9)."""
    return cache_hours_together([engine])[0]


def cache_hours_together(
    engines: Sequence[Engine], usual: Sequence[Usual] = ()
) -> list[list[CacheHourRow]]:
    """The hours of each engine. `usual` tells the usual interval of days that an engine's readings
    here do not hold whole."""
    found: list[list[CacheHourRow]] = [[] for _ in engines]
    for places in alike([len(engine.usage.times_ms) for engine in engines]):
        some = [engines[place] for place in places]
        for row, at in _hours(some, [usual[place] for place in places] if usual else ()):
            found[places[at]].append(row)
    return found


def alike(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of columns of one length, not too many readings at a time; empty ones left out."""
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    by_length.pop(0, None)
    for length, places in by_length.items():
        most = max(1, READINGS_AT_ONCE // length)
        for start in range(0, len(places), most):
            yield places[start : start + most]


def _hours(engines: Sequence[Engine], usual: Sequence[Usual]) -> Iterator[tuple[CacheHourRow, int]]:
    """The hours of engines with equally many readings, each with its engine's place."""
    times = np.array([engine.usage.times_ms for engine in engines], dtype=np.int64)
    values = np.array([engine.usage.values for engine in engines], dtype=np.float64)
    pieces = Pieces.cut(times, held_ends_of_rows(times, usual_of_rows(times, usual)))
    pools, which = _pools_at(engines, times)
    value, pool = values.ravel()[pieces.of], which.ravel()[pieces.of]
    # What is no share of a pool counts as if it had not been read.
    is_share = (value >= 0) & (value <= 1)
    stale = is_share & _stale(engines, times, values).ravel()[pieces.of]
    counts = is_share & ~stale
    levels = _levels(pieces, value, counts)
    columns = zip(
        pieces.rows.tolist(),
        pieces.hours_ms.tolist(),
        pool[pieces.last].tolist(),
        pieces.sums(np.where(counts, pieces.held, 0)),
        pieces.sums(np.where(stale, pieces.held, 0)),
        *_blocks(pieces, value, counts, pools, pool),
        _highest([engine.running for engine in engines], times, pieces),
        _highest([engine.waiting for engine in engines], times, pieces),
        levels,
        strict=True,
    )
    for at, hour_ms, of, observed, asleep, *blocks, running, waiting, told in columns:
        active, reserved, peak, peak_ms = blocks
        row = CacheHourRow(
            hour_ms, pools[of], observed, active, peak, peak_ms, running, waiting, asleep, told,
            if_changed(reserved, pools[of], observed),
        )  # fmt: skip
        yield row, at


def _times(gauge: Gauge) -> Column:
    return np.asarray(gauge.times_ms, dtype=np.int64)


def _pools_at(engines: Sequence[Engine], times: Column) -> tuple[list[Pool], Column]:
    """The pools, and which of them each reading had: the newest that began, else the first that
    tells its blocks."""
    kept = [NO_POOL]
    which = np.zeros(times.shape, dtype=np.int64)
    for row, engine in enumerate(engines):
        if len(engine.pools) == 1:
            which[row] = len(kept)
        else:
            has_blocks = np.zeros(times.shape[1], dtype=bool)
            for number, pool in enumerate(engine.pools, start=len(kept)):
                taken = (pool.from_ms <= times[row]) | ~has_blocks
                which[row][taken] = number
                has_blocks[taken] = pool.blocks is not None
        kept += engine.pools
    return kept, which


def _stale(engines: Sequence[Engine], times: Column, values: Column) -> Column:
    """Whether each reading is stale: no token moved for five minutes while use stood above 0, or
    the engine asleep (method §8.9)."""
    since = np.empty_like(times)
    for row, engine in enumerate(engines):
        since[row] = _moved_before(engine, times[row])
    stale = (times - since > STALE_AFTER_MS) & (values > 0)
    for row, engine in enumerate(engines):
        asleep = _times(engine.asleep)
        if len(asleep):
            at = asleep.searchsorted(times[row], side="right") - 1
            awake = np.asarray(engine.asleep.values, dtype=np.float64)
            stale[row] |= (at >= 0) & (awake[at] == 0)
    return stale


def _moved_before(engine: Engine, times: Column) -> Column:
    """When tokens moved last before each reading, or the first reading; the reading itself where
    nothing tells that."""
    if not engine.moves_known:
        return times
    moved = np.asarray(engine.moved_ms, dtype=np.int64)
    if len(moved) == len(times) and (moved == times).all():
        return times
    at = moved.searchsorted(times, side="right") - 1
    return np.where(at >= 0, moved[at] if len(moved) else 0, times[0])


def _levels(pieces: Pieces, value: Column, counts: Column) -> list[dict[str, int]]:
    """How long each hour stood at each level, ms."""
    seen = np.flatnonzero(counts)
    found: list[dict[str, int]] = [{} for _ in pieces.first]
    if not len(seen):
        return found
    level = np.trunc(value[seen] * LEVELS).astype(np.int64)
    codes = pieces.number()[seen] * (LEVELS + 1) + level
    there = np.flatnonzero(np.bincount(codes))
    # Milliseconds of an hour: doubles hold their sums exactly.
    held = np.bincount(codes, weights=pieces.held[seen])[there].astype(np.int64)
    hours, levels = there // (LEVELS + 1), there % (LEVELS + 1)
    edges = np.flatnonzero(np.diff(hours, prepend=-1, append=len(found)))
    names, amounts = [_LEVEL_NAMES[each] for each in levels.tolist()], held.tolist()
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        found[int(hours[low])] = dict(zip(names[low:high], amounts[low:high], strict=True))
    return found


def _blocks(
    pieces: Pieces, value: Column, counts: Column, pools: Sequence[Pool], pool: Column
) -> list[list[int | None]]:
    """Active and reserved block-milliseconds, highest blocks and when, of each hour; None without any
    known."""
    has_blocks = np.array([one.blocks is not None for one in pools])
    lent = np.array([0 if one.blocks is None else one.blocks - one.null_blocks for one in pools])
    whole = np.array([one.blocks or 0 for one in pools])
    known = counts & has_blocks[pool]
    blocks = np.where(known, np.rint(np.where(known, value, 0) * lent[pool]), -1).astype(np.int64)
    is_told = [count > 0 for count in pieces.counts(known)]
    highest = pieces.highest(blocks)
    columns = (
        pieces.sums(np.where(known, blocks * pieces.held, 0)),
        pieces.sums(np.where(known, whole[pool] * pieces.held, 0)),
        highest.tolist(),
        pieces.first_of_highest(blocks, highest),
    )
    return [
        [one if told else None for one, told in zip(column, is_told, strict=True)]
        for column in columns
    ]


def _highest(gauges: Sequence[Gauge], times: Column, pieces: Pieces) -> list[int | None]:
    """The highest value of each engine's gauge in each hour, where it was read."""
    read_together = [_is_read_with(gauge, row) for gauge, row in zip(gauges, times, strict=True)]
    found: list[int | None] = [None] * len(pieces.first)
    if any(read_together):
        none = np.full(times.shape[1], -np.inf)
        values = np.array(
            [gauge.values if together else none
             for gauge, together in zip(gauges, read_together, strict=True)],
            dtype=np.float64,
        )  # fmt: skip
        highest = pieces.highest(np.where(pieces.is_own, values.ravel()[pieces.of], -np.inf))
        found = [int(each) if each > -np.inf else None for each in highest.tolist()]
    for number, (row, hour_ms) in enumerate(
        zip(pieces.rows.tolist(), pieces.hours_ms.tolist(), strict=True)
    ):
        if not read_together[row] and len(gauges[row].times_ms):
            low, high = np.searchsorted(_times(gauges[row]), [hour_ms, hour_ms + HOUR_MS])
            mine = gauges[row].values[low:high]
            found[number] = int(np.asarray(mine, dtype=np.float64).max()) if high > low else None
    return found


def _is_read_with(gauge: Gauge, times: Column) -> bool:
    """Whether a gauge was read at just these instants."""
    if len(gauge.times_ms) != len(times):
        return False
    return bool((_times(gauge) == times).all())
