"""Many blocks of readings at once: what `samples.unpack` gives of each, some times faster.

Blocks whose columns are laid out alike become the rows of one matrix. Series of one target share
their times, so a column of times is read once. Whatever is not usual (few readings, a damaged block,
sums near the end of 64 bits) is left to `unpack`, which also says what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from finops.sources.sample_columns import (
    BITS,
    SAFE_SUM,
    SAMPLES_AT_ONCE,
    WHOLE,
    WIDTHS,
    Cursor,
    Numbers,
    read_times,
)
from finops.sources.samples import payload_of, unpack

Column = np.ndarray[Any, Any]
Columns = tuple[Column, Column]

_HEAD: Final = struct.Struct("<IqqB")  # of times: count, first, step, width of the steps' changes
_VALUES: Final = struct.Struct("<BqB")  # of values: mode, first, width of the changes
_Layout = tuple[int, int, int]
_Found = tuple[int, int, bytes]


def unpack_all(blocks: Sequence[bytes]) -> list[Columns]:
    """Times (ms, 64-bit whole numbers) and values of each block, in the order given.

    The columns are to be read, not written: some are shared. Refused when a block is damaged.
    """
    found: list[Columns | None] = [None] * len(blocks)
    times: dict[int, Column] = {}
    alike: dict[_Layout, list[_Found]] = {}
    for place, block in enumerate(blocks):
        payload = payload_of(block)
        if (end := _end_of_times(payload)) is None:
            continue
        mode, first, width = _VALUES.unpack_from(payload, end)
        body = payload[end + _VALUES.size :]
        count = _HEAD.unpack_from(payload)[0] - 1
        if mode in (WHOLE, BITS) and width in WIDTHS and len(body) >= count * width:
            times[place] = _times(payload[:end])
            alike.setdefault((count, mode, width), []).append((place, first, body[: count * width]))
    for layout, rows in alike.items():
        for place, values in _rows(layout, rows):
            found[place] = (times[place], values)
    return [_alone(blocks[i]) if one is None else one for i, one in enumerate(found)]


def _end_of_times(payload: bytes) -> int | None:
    """Where the times end; None when the block is not of the usual kind."""
    if len(payload) < _HEAD.size:
        return None
    count, _, _, width = _HEAD.unpack_from(payload)
    end = int(_HEAD.size + (count - 2) * width)
    is_usual = 2 < count <= SAMPLES_AT_ONCE and width in WIDTHS
    return end if is_usual and len(payload) >= end + _VALUES.size else None


@lru_cache(maxsize=2048)
def _times(raw: bytes) -> Column:
    times = np.asarray(read_times(Cursor(raw)), dtype=np.int64)
    times.setflags(write=False)
    return times


def _rows(layout: _Layout, rows: Sequence[_Found]) -> Iterable[tuple[int, Column]]:
    """The values of blocks that are laid out alike, each with its place; none of a block whose sums
    might leave 64 bits."""
    count, mode, width = layout
    most = max(1, SAMPLES_AT_ONCE // count)
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        numbers = np.empty((len(some), count + 1), dtype=np.int64)
        numbers[:, 0] = [first for _, first, _ in some]
        numbers[:, 1:] = _changes([body for _, _, body in some], count, width)
        if mode == BITS:
            values = np.bitwise_xor.accumulate(numbers, axis=1).view(np.float64)
            safe = [True] * len(some)
        else:
            safe = (np.abs(numbers.astype(np.float64)).sum(axis=1) < SAFE_SUM).tolist()
            values = numbers.cumsum(axis=1).astype(np.float64)
        for (place, _, _), row, is_safe in zip(some, values, safe, strict=True):
            if is_safe:
                yield place, row


def _changes(bodies: Sequence[bytes], count: int, width: int) -> Numbers | int:
    """The changes of each block, a row each; 0 where all of them are."""
    if not width:
        return 0
    planes = np.frombuffer(b"".join(bodies), np.uint8).reshape(len(bodies), width, count)
    flat = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(f"<i{width}")
    return flat.reshape(len(bodies), count).astype(np.int64)


def _alone(block: bytes) -> Columns:
    times, values = unpack(block)
    return np.asarray(times, dtype=np.int64), np.asarray(values, dtype=np.float64)
