"""Columns of samples as bytes: times, whole values, other values; written for many series at once.

Times are kept as differences of differences, whole values as differences, other values as the
exclusive-or of neighbouring bit patterns; a column's bytes are laid out plane by plane, so that the
rarely used high bytes stand together. Nothing is lost: a NaN keeps its bits and -0.0 its sign.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np

from finops.sources.records import Refused

MAX_INSTANT_MS: Final = 1 << 53
MAX_WHOLE: Final = float(1 << 53)
SAMPLES_AT_ONCE: Final = 1 << 18
"""How many samples are turned into bytes together: enough to be quick, few enough for memory."""

MAX_ZEROS: Final = 1 << 24
"""A column of nothing but zeros takes no bytes, so its length is bounded by itself."""

_BOUNDS: Final = ((0, 1), (1, 1 << 7), (2, 1 << 15), (4, 1 << 31), (8, 1 << 63))
WHOLE, BITS = 0, 1
"""How values are kept: whole numbers by their differences, others by their bits."""

WIDTHS: Final = (0, 1, 2, 4, 8)
_COUNT: Final = struct.Struct("<I")
_FIRST: Final = struct.Struct("<q")
_HEAD: Final = struct.Struct("<Iqq")  # of times: how many, the first, the first step
SAFE_SUM: Final = float(1 << 62)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]


class Cursor:
    """Bytes read from the front; a read past the end is refused."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.at = 0

    def take(self, length: int) -> memoryview:
        """The next so many bytes."""
        if length < 0 or self.at + length > len(self.data):
            raise Refused("samples: the block ends too early")
        self.at += length
        return self.data[self.at - length : self.at]

    def count(self) -> int:
        """The next unsigned number of four bytes."""
        return int(_COUNT.unpack(self.take(_COUNT.size))[0])

    def first(self) -> int:
        """The next signed number of eight bytes."""
        return int(_FIRST.unpack(self.take(_FIRST.size))[0])


def counted(number: int) -> bytes:
    """A count as it is written."""
    return _COUNT.pack(number)


# -- whole columns of numbers ------------------------------------------------------------------------


def _planes(rows: Numbers, width: int) -> list[bytes]:
    """Each row's numbers as a width and planes of bytes; of width 0 where all are 0."""
    if width == 0:
        return [b"\0"] * len(rows)
    count = rows.shape[1]
    raw = rows.astype(f"<i{width}").view(np.uint8).reshape(len(rows), count, width)
    flat = np.ascontiguousarray(raw.transpose(0, 2, 1)).tobytes()
    head, size = bytes((width,)), count * width
    return [head + flat[at : at + size] for at in range(0, len(rows) * size, size)]


def _written_rows(rows: Numbers) -> list[bytes]:
    """Every row as one column, in the narrowest width that holds all its numbers."""
    if not rows.shape[1]:
        return [b"\0"] * len(rows)
    low, high = rows.min(axis=1), rows.max(axis=1)
    widths = np.full(len(rows), 8)
    for width, bound in reversed(_BOUNDS[:-1]):
        widths[(low > -bound) & (high < bound)] = width
    written: list[bytes] = [b""] * len(rows)
    for width in np.unique(widths).tolist():
        places = np.flatnonzero(widths == width)
        for place, column in zip(places.tolist(), _planes(rows[places], width), strict=True):
            written[place] = column
    return written


def _read_column(cursor: Cursor, count: int) -> Numbers:
    """The integers of one column of `count` numbers."""
    width = cursor.take(1)[0]
    if width not in WIDTHS:
        raise Refused(f"samples: a column of width {width} is not known")
    if not count or not width:
        if count > MAX_ZEROS:
            raise Refused("samples: the block ends too early for so many readings")
        return np.zeros(count, np.int64)
    planes = np.frombuffer(cursor.take(count * width), np.uint8).reshape(width, count)
    return np.ascontiguousarray(planes.T).view(f"<i{width}").reshape(count).astype(np.int64)


def _sums(first: int, changes: Numbers) -> Numbers:
    """Running totals from `first`; what no honest writer made is refused, not wrapped around."""
    if abs(first) + float(np.abs(changes.astype(np.float64)).sum()) < SAFE_SUM:
        return np.concatenate(([first], changes)).cumsum()
    try:
        exact = array("q", accumulate(changes.tolist(), initial=first))
    except OverflowError:
        raise Refused("samples: a sum of differences is out of range") from None
    return np.frombuffer(exact, np.int64)


def _as_array(code: str, numbers: np.ndarray[Any, Any]) -> array[Any]:
    found: array[Any] = array(code)
    found.frombytes(numbers.tobytes())
    return found


# -- times -------------------------------------------------------------------------------------------


def write_times(times_ms: array[int]) -> bytes:
    """Count, first time, first step, and the changes of the step. Refused beyond 2^53 ms."""
    return _written_times(times_ms.tobytes())


@lru_cache(maxsize=4096)
def _written_times(raw: bytes) -> bytes:
    """The same of the bytes of a column; series of one target share their times."""
    times_ms = np.frombuffer(raw, np.int64)
    if len(times_ms) and not -MAX_INSTANT_MS < times_ms.min() <= times_ms.max() < MAX_INSTANT_MS:
        raise Refused("samples: an instant is outside what a clock can show")
    steps = times_ms[1:] - times_ms[:-1]
    first = int(times_ms[0]) if len(times_ms) else 0
    step = int(steps[0]) if len(steps) else 0
    head = _COUNT.pack(len(times_ms)) + _FIRST.pack(first) + _FIRST.pack(step)
    if len(steps) and (steps == step).all():  # the usual: changes of nothing but 0
        return head + b"\0"
    return head + _written_rows(np.diff(steps)[np.newaxis])[0]


def write_all_times(columns: Sequence[array[int]]) -> list[bytes]:
    """The same of many columns at once. Most have one step throughout."""
    written: list[bytes] = [b""] * len(columns)
    for places, rows in in_rows(columns, np.int64):
        is_even = np.zeros(len(rows), bool)
        if rows.shape[1] > 1:
            steps = rows[:, 1:] - rows[:, :-1]
            is_even = (steps == steps[:, :1]).all(axis=1)
            is_even &= (rows.min(axis=1) > -MAX_INSTANT_MS) & (rows.max(axis=1) < MAX_INSTANT_MS)
        for place, row, even in zip(places, rows, is_even.tolist(), strict=True):
            written[place] = (
                _HEAD.pack(len(row), row[0], row[1] - row[0]) + b"\0"
                if even
                else _written_times(row.tobytes())
            )
    return written


def read_times(cursor: Cursor) -> array[int]:
    """A column of times as `write_times` wrote it."""
    count, first, step = cursor.count(), cursor.first(), cursor.first()
    changes = _read_column(cursor, max(0, count - 2))
    if count < 2:
        return array("q", (first,) * count)
    return _as_array("q", _sums(first, _sums(step, changes)))


# -- values ------------------------------------------------------------------------------------------


def write_values(columns: Sequence[array[float]]) -> list[bytes]:
    """Each column as a mode, its first number and the changes; as many numbers as there are times."""
    written: list[bytes] = [b""] * len(columns)
    for places, rows in in_rows(columns):
        for place, one in zip(places, _written_values(rows), strict=True):
            written[place] = one
    return written


def in_rows(
    columns: Sequence[array[Any]], kind: type[np.generic] = np.float64
) -> Iterator[tuple[list[int], np.ndarray[Any, Any]]]:
    """Columns of one length as the rows of one matrix, a bounded number of samples at a time."""
    by_length: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        by_length.setdefault(len(column), []).append(place)
    for length, places in by_length.items():
        most = max(1, SAMPLES_AT_ONCE // max(1, length))
        for start in range(0, len(places), most):
            some = places[start : start + most]
            flat = np.frombuffer(b"".join([columns[place] for place in some]), kind)
            yield some, flat.reshape(len(some), length)


def whole_numbers(rows: Floats) -> tuple[Numbers, np.ndarray[Any, np.dtype[np.bool_]]]:
    """The values as integers, and for each row whether that loses nothing: no fraction, NaN,
    infinity or -0.0, nothing beyond 2^53."""
    with np.errstate(invalid="ignore"):
        numbers = rows.astype(np.int64)
    same = numbers.astype(np.float64).view(np.int64) == rows.view(np.int64)
    return numbers, (same & (np.abs(rows) <= MAX_WHOLE)).all(axis=1)


def _written_values(rows: Floats) -> list[bytes]:
    numbers, whole = whole_numbers(rows)
    if whole.all():
        return _with_heads(WHOLE, numbers, np.diff(numbers))
    written: list[bytes] = [b""] * len(rows)
    bits = np.ascontiguousarray(rows[~whole]).view(np.int64)
    for mode, mask, firsts, changes in (
        (WHOLE, whole, numbers[whole], np.diff(numbers[whole])),
        (BITS, ~whole, bits, bits[:, 1:] ^ bits[:, :-1]),
    ):
        places = np.flatnonzero(mask).tolist()
        for place, one in zip(places, _with_heads(mode, firsts, changes), strict=True):
            written[place] = one
    return written


def _with_heads(mode: int, numbers: Numbers, changes: Numbers) -> list[bytes]:
    firsts = numbers[:, 0].tolist() if numbers.shape[1] else [0] * len(numbers)
    head = bytes((mode,))
    return [
        head + _FIRST.pack(first) + column
        for first, column in zip(firsts, _written_rows(changes), strict=True)
    ]


def read_values(cursor: Cursor, count: int) -> array[float]:
    """A column of `count` values as `write_values` wrote it."""
    mode, first = cursor.take(1)[0], cursor.first()
    changes = _read_column(cursor, max(0, count - 1))
    if mode not in (WHOLE, BITS):
        raise Refused(f"samples: value mode {mode} is not known")
    if not count:
        return array("d")
    if mode == WHOLE:
        return _as_array("d", _sums(first, changes).astype(np.float64))
    return _as_array("d", np.bitwise_xor.accumulate(np.concatenate(([first], changes))))
