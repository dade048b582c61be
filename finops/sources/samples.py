"""Samples in few bytes: the canonical compressed form of readings (method §2.9), and one block.

A document of samples is `HRS1` and an LZMA stream of: the labels of every series as JSON, the
distinct time columns (series of one target share theirs), and one value column a series. Times are
kept as differences of differences, whole values as differences, other values as the exclusive-or
of neighbouring bit patterns; a column's bytes are laid out plane by plane, so that the rarely used
high bytes stand together. Nothing is lost: a NaN keeps its bits and -0.0 its sign.

The form is canonical: series in the order of metric and labels, samples in the order of time, a
sample given twice kept once. The same readings give the same bytes, whatever order they came in.
"""

from __future__ import annotations

import json
import lzma
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, chain
from operator import lt, sub, xor
from pathlib import Path
from typing import Final

from finops.sources.files import read_whole
from finops.sources.records import Account, Parsed, Refused, SeriesReadings

FORMATS: Final[tuple[str, ...]] = ("headroom-samples",)
MAGIC: Final = b"HRS1"
MAX_PAYLOAD_BYTES: Final = 1 << 29
MAX_LZMA_MEMORY_BYTES: Final = 1 << 28
MAX_INSTANT_MS: Final = 1 << 53
MAX_WHOLE: Final = float(1 << 53)

_WIDTHS: Final = ((1, "b", 1 << 7), (2, "h", 1 << 15), (4, "i", 1 << 31), (8, "q", 1 << 63))
_CODES: Final = {width: code for width, code, _ in _WIDTHS}
_WHOLE, _BITS = 0, 1
_COUNT: Final = struct.Struct("<I")
_FIRST: Final = struct.Struct("<q")
_FILTERS: Final = ({"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0},)
_Label = tuple[str, tuple[tuple[str, str], ...]]


class _Cursor:
    """Bytes read from the front; a read past the end is refused."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.at = 0

    def take(self, length: int) -> memoryview:
        if length < 0 or self.at + length > len(self.data):
            raise Refused("samples: the block ends too early")
        self.at += length
        return self.data[self.at - length : self.at]

    def count(self) -> int:
        return int(_COUNT.unpack(self.take(_COUNT.size))[0])

    def first(self) -> int:
        return int(_FIRST.unpack(self.take(_FIRST.size))[0])


def _little(column: array) -> array:
    """The column with its bytes in little-endian order, which is how they are stored."""
    if sys.byteorder == "big":  # pragma: no cover - no such machine in the test park
        column = column[:]
        column.byteswap()
    return column


def _write_column(whole: Iterable[int]) -> bytes:
    """Signed integers as a width and planes of bytes; the narrowest width that holds them all."""
    numbers = array("q", whole)
    low, high = (min(numbers), max(numbers)) if numbers else (0, 0)
    width, code, _ = next(row for row in _WIDTHS if -row[2] <= low and high < row[2])
    raw = _little(array(code, numbers)).tobytes()
    return bytes((width,)) + b"".join(raw[plane::width] for plane in range(width))


def _read_column(cursor: _Cursor, count: int) -> array[int]:
    """The integers of one column of `count` numbers."""
    width = cursor.take(1)[0]
    if width not in _CODES:
        raise Refused(f"samples: a column of width {width} is not known")
    planes = cursor.take(count * width)
    raw = bytearray(count * width)
    for plane in range(width):
        raw[plane::width] = planes[plane * count : (plane + 1) * count]
    column: array[int] = array(_CODES[width])
    column.frombytes(bytes(raw))
    return _little(column)


def _differences(numbers: array[int]) -> Iterator[int]:
    return map(sub, numbers[1:], numbers)


def _write_times(times_ms: array[int]) -> bytes:
    """Count, first time, first step, and the changes of the step."""
    return _written_times(times_ms.tobytes())


@lru_cache(maxsize=4096)
def _written_times(raw: bytes) -> bytes:
    """The same of the bytes of a column; series of one target share their times."""
    times_ms: array[int] = array("q")
    times_ms.frombytes(raw)
    if times_ms and not -MAX_INSTANT_MS < min(times_ms) <= max(times_ms) < MAX_INSTANT_MS:
        raise Refused("samples: an instant is outside what a clock can show")
    steps = array("q", _differences(times_ms))
    head = _COUNT.pack(len(times_ms))
    head += _FIRST.pack(times_ms[0] if times_ms else 0) + _FIRST.pack(steps[0] if steps else 0)
    return head + _write_column(_differences(steps))


def _read_times(cursor: _Cursor) -> array[int]:
    count, first, step = cursor.count(), cursor.first(), cursor.first()
    changes = _read_column(cursor, max(0, count - 2))
    if count < 2:
        return array("q", (first,) * count)
    return _sums(first, _sums(step, changes))


def _sums(first: int, changes: Iterable[int]) -> array[int]:
    """Running totals from `first`; what no honest writer made is refused, not wrapped around."""
    try:
        return array("q", accumulate(changes, initial=first))
    except OverflowError:
        raise Refused("samples: a sum of differences is out of range") from None


def _whole_numbers(values: array[float]) -> array[int] | None:
    """The values as integers when that loses nothing (no fraction, NaN, infinity or -0.0)."""
    try:
        numbers = array("q", map(int, values))
    except (ValueError, OverflowError):  # NaN, infinity, beyond 64 bits
        return None
    if numbers and not -MAX_WHOLE <= min(numbers) <= max(numbers) <= MAX_WHOLE:
        return None
    return numbers if array("d", numbers).tobytes() == values.tobytes() else None


def _bit_patterns(values: array[float]) -> array[int]:
    bits: array[int] = array("q")
    bits.frombytes(values.tobytes())
    return bits


def _write_values(values: array[float]) -> bytes:
    """A mode, the first number and the changes; as many numbers as there are times."""
    whole = _whole_numbers(values)
    numbers = _bit_patterns(values) if whole is None else whole
    mode = _BITS if whole is None else _WHOLE
    changes = map(xor, numbers[1:], numbers) if whole is None else _differences(numbers)
    first = _FIRST.pack(numbers[0] if numbers else 0)
    return bytes((mode,)) + first + _write_column(changes)


def _read_values(cursor: _Cursor, count: int) -> array[float]:
    mode, first = cursor.take(1)[0], cursor.first()
    changes = _read_column(cursor, max(0, count - 1))
    if mode not in (_WHOLE, _BITS):
        raise Refused(f"samples: value mode {mode} is not known")
    if not count:
        return array("d")
    if mode == _WHOLE:
        return array("d", _sums(first, changes))
    values: array[float] = array("d")
    values.frombytes(array("q", accumulate(changes, xor, initial=first)).tobytes())
    return values


def pack(times_ms: array[int], values: array[float]) -> bytes:
    """One block of one series: times (`array('q')`, milliseconds) and values (`array('d')`).

    Order is kept and nothing is lost. ValueError when the two differ in length; Refused when a
    time is beyond 2^53 ms.
    """
    if len(times_ms) != len(values):
        raise ValueError(f"{len(times_ms)} times stand against {len(values)} values")
    return zlib.compress(_write_times(times_ms) + _write_values(values), 6)


def unpack(block: bytes) -> tuple[array[int], array[float]]:
    """The times (ms) and values of a block made by `pack`; Refused when it is damaged."""
    engine = zlib.decompressobj()
    try:
        payload = engine.decompress(block, MAX_PAYLOAD_BYTES)
    except zlib.error as error:
        raise Refused(f"samples: the block cannot be read ({error})") from None
    if not engine.eof:
        raise Refused("samples: the block ends too early or is too large")
    cursor = _Cursor(payload)
    times_ms = _read_times(cursor)
    return times_ms, _read_values(cursor, len(times_ms))


def in_order(times_ms: array[int], values: array[float]) -> tuple[array[int], array[float]]:
    """The samples by time, each (time, bits) once; already ordered columns pass untouched."""
    if all(map(lt, times_ms, times_ms[1:])):
        return times_ms, values
    pairs = sorted(set(zip(times_ms, _bit_patterns(values), strict=True)))
    bits = array("q", (pattern for _, pattern in pairs))
    ordered: array[float] = array("d")
    ordered.frombytes(bits.tobytes())
    return array("q", (time_ms for time_ms, _ in pairs)), ordered


def _gathered(series: Iterable[SeriesReadings]) -> dict[_Label, tuple[array[int], array[float]]]:
    """Readings by label set; parts of one series that came apart are put together."""
    columns: dict[_Label, tuple[array[int], array[float]]] = {}
    for one in series:
        if len(one.times_ms) != len(one.values):
            raise ValueError(f"{one.metric}: {len(one.times_ms)} times, {len(one.values)} values")
        key = (one.metric, tuple(sorted(one.labels)))
        before = columns.get(key)
        columns[key] = (
            (one.times_ms, one.values)
            if before is None
            else (before[0] + one.times_ms, before[1] + one.values)
        )
    return columns


def encode(series: Iterable[SeriesReadings]) -> bytes:
    """The canonical document of these readings (method §2.9); `decode` gives them back."""
    columns = _gathered(series)
    names: list[list[object]] = []
    times: dict[bytes, int] = {}
    values: list[bytes] = []
    for key in sorted(columns):
        times_ms, numbers = in_order(*columns[key])
        place = times.setdefault(_write_times(times_ms), len(times))
        names.append([key[0], list(chain.from_iterable(key[1])), place])
        values.append(_write_values(numbers))
    head = json.dumps(names, separators=(",", ":")).encode("ascii")
    counts = _COUNT.pack(len(head)) + head + _COUNT.pack(len(times))
    payload = b"".join((counts, *times, *values))
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Refused(f"samples: {len(payload)} bytes of readings are too many for one document")
    return MAGIC + lzma.compress(payload, lzma.FORMAT_XZ, lzma.CHECK_CRC64, filters=_FILTERS)


def _payload(document: bytes) -> bytes:
    if document[: len(MAGIC)] != MAGIC:
        raise Refused("samples: this is not a document of samples (no HRS1 at its start)")
    engine = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_LZMA_MEMORY_BYTES)
    try:
        payload = engine.decompress(document[len(MAGIC) :], MAX_PAYLOAD_BYTES + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise Refused(f"samples: the document cannot be read ({error})") from None
    if len(payload) > MAX_PAYLOAD_BYTES or not engine.eof:
        raise Refused("samples: the document ends too early or is too large")
    return payload


def _read_names(cursor: _Cursor) -> list[tuple[str, tuple[tuple[str, str], ...], int]]:
    """Metric, labels and place of the time column, for every series."""
    try:
        rows = json.loads(bytes(cursor.take(cursor.count())))
        named = [
            (str(metric), tuple(zip(map(str, flat[::2]), map(str, flat[1::2]), strict=True)), place)
            for metric, flat, place in rows
        ]
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"samples: the list of series cannot be read ({error})") from None
    return named


def decode(document: bytes) -> Iterator[SeriesReadings]:
    """The series of a document made by `encode`, one by one; Refused when it is damaged."""
    cursor = _Cursor(_payload(document))
    names = _read_names(cursor)
    times = [_read_times(cursor) for _ in range(cursor.count())]
    for metric, labels, place in names:
        if not isinstance(place, int) or not 0 <= place < len(times):
            raise Refused(f"samples: {metric} points to no column of times")
        times_ms = times[place]
        yield SeriesReadings(metric, labels, times_ms[:], _read_values(cursor, len(times_ms)))
    if cursor.at != len(cursor.data):
        raise Refused("samples: something follows the last series")


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the document starts with `HRS1`."""
    return FORMATS[0] if head.startswith(MAGIC) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """The readings of a canonical document; `rows_read` counts its samples as they are given."""
    account = Account(format, version=MAGIC.decode())
    return Parsed(account, _counted(account, read_whole(path, name)))


def _counted(account: Account, document: bytes) -> Iterator[SeriesReadings]:
    for one in decode(document):
        account.rows_read += len(one.times_ms)
        yield one
