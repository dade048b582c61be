"""Samples in few bytes: the canonical compressed form of readings (method §2.9), and one block.

A document of samples is `HRS2`, the length of what follows once unpacked, and a Zstandard frame of:
the labels of every series as JSON, the distinct time columns (series of one target share theirs),
and one value column a series, as `sample_columns` writes them. `HRS1`, an LZMA stream of the same,
is still read.

The form is canonical: series in the order of metric and labels, samples in the order of time, a
sample given twice kept once. The same readings give the same bytes, whatever order they came in
(for one version of the compressor; the lock file holds it).

A block begins with 1 and holds its columns as they are; where they are long it begins with 2, their
length and a Zstandard frame of them. A zlib stream of them is still read.
"""

from __future__ import annotations

import json
import lzma
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

import cramjam
import numpy as np
import orjson

from finops.sources.files import read_whole
from finops.sources.records import Account, Parsed, Refused, SeriesReadings
from finops.sources.sample_columns import (
    Cursor,
    counted,
    in_rows,
    read_times,
    read_values,
    write_all_times,
    write_times,
    write_values,
)

FORMATS: Final[tuple[str, ...]] = ("headroom-samples",)
MAGIC: Final = b"HRS2"
MAGIC_BY_LZMA: Final = b"HRS1"
MAX_PAYLOAD_BYTES: Final = 1 << 29
MAX_LZMA_MEMORY_BYTES: Final = 1 << 28
LARGE_BYTES: Final = 1 << 20
LEVEL, LEVEL_OF_LARGE = 9, 3
PLAIN: Final = b"\1"
PACKED: Final = b"\2"
LEVEL_OF_BLOCKS: Final = 1
MAX_PLAIN_BYTES, MAX_PLAIN_BYTES_A_READING = 640, 3
_Label = tuple[str, tuple[tuple[str, str], ...]]


def pack(times_ms: array[int], values: array[float]) -> bytes:
    """One block of one series: times (`array('q')`, milliseconds) and values (`array('d')`).

    Order is kept and nothing is lost. ValueError when the two differ in length; Refused when a
    time is beyond 2^53 ms.
    """
    if len(times_ms) != len(values):
        raise ValueError(f"{len(times_ms)} times stand against {len(values)} values")
    return pack_with([write_times(times_ms)], [values])[0]


def pack_with(times: Sequence[bytes], values: Sequence[array[float]]) -> list[bytes]:
    """The blocks of many series, of times as `write_times` gives them: series of one target share
    theirs. There must be as many values as times."""
    written = write_values(values)
    return [
        _packed(head + one, len(column))
        for head, one, column in zip(times, written, values, strict=True)
    ]


def _packed(payload: bytes, readings: int) -> bytes:
    """Counts mostly take few bytes as they are; to compress them costs more than it saves."""
    most = max(MAX_PLAIN_BYTES, MAX_PLAIN_BYTES_A_READING * readings)
    if len(payload) <= most:
        return PLAIN + payload
    return PACKED + counted(len(payload)) + bytes(cramjam.zstd.compress(payload, LEVEL_OF_BLOCKS))


def unpack(block: bytes) -> tuple[array[int], array[float]]:
    """The times (ms) and values of a block made by `pack`; Refused when it is damaged."""
    cursor = Cursor(payload_of(block))
    times_ms = read_times(cursor)
    return times_ms, read_values(cursor, len(times_ms))


def unpack_between(block: bytes, from_ms: int, until_ms: int) -> tuple[array[int], array[float]]:
    """The same of the readings in a span (milliseconds, its end left out), of a block in time order."""
    times_ms, values = unpack(block)
    low, high = bisect_left(times_ms, from_ms), bisect_left(times_ms, until_ms)
    return times_ms[low:high], values[low:high]


def payload_of(block: bytes) -> bytes:
    """What a block holds, unpacked where it was packed; Refused when it is damaged."""
    if block.startswith(PLAIN):
        return block[len(PLAIN) :]
    return (
        _unfolded(block[len(PACKED) :], "block") if block.startswith(PACKED) else _inflated(block)
    )


def _inflated(block: bytes) -> bytes:
    engine = zlib.decompressobj()
    try:
        payload = engine.decompress(block, MAX_PAYLOAD_BYTES)
    except zlib.error as error:
        raise Refused(f"samples: the block cannot be read ({error})") from None
    if not engine.eof:
        raise Refused("samples: the block ends too early or is too large")
    return payload


def in_order(times_ms: array[int], values: array[float]) -> tuple[array[int], array[float]]:
    """The samples by time, each (time, bits) once; already ordered columns pass untouched."""
    if is_rising(times_ms):
        return times_ms, values
    bits: array[int] = array("q")
    bits.frombytes(values.tobytes())
    pairs = sorted(set(zip(times_ms, bits, strict=True)))
    ordered: array[float] = array("d")
    ordered.frombytes(array("q", (pattern for _, pattern in pairs)).tobytes())
    return array("q", (time_ms for time_ms, _ in pairs)), ordered


def is_rising(times_ms: array[int]) -> bool:
    """Whether every instant lies after the one before it."""
    return _rises(times_ms.tobytes())


def are_rising(columns: Sequence[array[int]]) -> list[bool]:
    """The same of many columns at once."""
    found = [True] * len(columns)
    for places, rows in in_rows(columns, np.int64):
        rising: list[bool] = np.logical_and.reduce(rows[:, 1:] > rows[:, :-1], axis=1).tolist()
        for place, rises in zip(places, rising, strict=True):
            found[place] = rises
    return found


@lru_cache(maxsize=4096)
def _rises(raw: bytes) -> bool:
    """The same of the bytes of a column; series of one target share their times."""
    column = np.frombuffer(raw, np.int64)
    return bool((column[1:] > column[:-1]).all())


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
    in_time = _written_in_time([times_ms for times_ms, _ in columns.values()])
    numbers: list[array[float]] = []
    for key in sorted(columns):
        times_ms, values = columns[key]
        written = in_time.get(id(times_ms))
        if written is None:
            times_ms, values = in_order(times_ms, values)
            written = write_times(times_ms)
        place = times.setdefault(written, len(times))
        names.append([key[0], list(chain.from_iterable(key[1])), place])
        numbers.append(values)
    head = _as_json(names)
    counts = counted(len(head)) + head + counted(len(times))
    payload = b"".join((counts, *times, *write_values(numbers)))
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Refused(f"samples: {len(payload)} bytes of readings are too many for one document")
    level = LEVEL_OF_LARGE if len(payload) > LARGE_BYTES else LEVEL
    return MAGIC + counted(len(payload)) + bytes(cramjam.zstd.compress(payload, level))


def _written_in_time(columns: Iterable[array[int]]) -> dict[int, bytes]:
    """The columns of times that rise, as they are written, by identity: most are shared."""
    known = {id(each): each for each in columns}
    rising = are_rising(list(known.values()))
    known = {key: each for (key, each), rises in zip(known.items(), rising, strict=True) if rises}
    return dict(zip(known, write_all_times(list(known.values())), strict=True))


def _as_json(names: list[list[object]]) -> bytes:
    """The names as `json.dumps` writes them, in ASCII; the quicker writer does where all is ASCII."""
    try:
        quick = orjson.dumps(names)
    except orjson.JSONEncodeError:  # half of a surrogate pair is no text, but has its escape
        quick = b"\x7f"
    if quick.isascii() and b"\x7f" not in quick:
        return quick
    return json.dumps(names, separators=(",", ":")).encode("ascii")


def _payload(document: bytes) -> bytes:
    """What a document holds, unpacked in bounded memory."""
    if document.startswith(MAGIC):
        return _unfolded(document[len(MAGIC) :], "document")
    if not document.startswith(MAGIC_BY_LZMA):
        raise Refused("samples: this is not a document of samples (no HRS2 at its start)")
    engine = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_LZMA_MEMORY_BYTES)
    try:
        payload = engine.decompress(document[len(MAGIC) :], MAX_PAYLOAD_BYTES + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise Refused(f"samples: the document cannot be read ({error})") from None
    if len(payload) > MAX_PAYLOAD_BYTES or not engine.eof:
        raise Refused("samples: the document ends too early or is too large")
    return payload


def _unfolded(packed: bytes, what: str) -> bytes:
    """What a length and a frame of Zstandard hold, in memory of just that length."""
    cursor = Cursor(packed)
    size = cursor.count()
    if size > MAX_PAYLOAD_BYTES:
        raise Refused(f"samples: the {what} is too large")
    payload = bytearray(size)
    try:
        length = cramjam.zstd.decompress_into(packed[cursor.at :], payload)
    except cramjam.DecompressionError as error:
        raise Refused(f"samples: the {what} cannot be read ({error})") from None
    if length != size:
        raise Refused(f"samples: the {what} ends too early")
    return bytes(payload)


def _read_names(cursor: Cursor) -> list[tuple[str, tuple[tuple[str, str], ...], int]]:
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
    cursor = Cursor(_payload(document))
    names = _read_names(cursor)
    times = [read_times(cursor) for _ in range(cursor.count())]
    for metric, labels, place in names:
        if not isinstance(place, int) or not 0 <= place < len(times):
            raise Refused(f"samples: {metric} points to no column of times")
        times_ms = times[place]
        yield SeriesReadings(metric, labels, times_ms[:], read_values(cursor, len(times_ms)))
    if cursor.at != len(cursor.data):
        raise Refused("samples: something follows the last series")


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the document starts with `HRS2` or `HRS1`."""
    return FORMATS[0] if head.startswith((MAGIC, MAGIC_BY_LZMA)) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """The readings of a canonical document; `rows_read` counts its samples as they are given."""
    document = read_whole(path, name)
    account = Account(format, version=document[: len(MAGIC)].decode("ascii", "replace"))
    return Parsed(account, _counted(account, document))


def _counted(account: Account, document: bytes) -> Iterator[SeriesReadings]:
    for one in decode(document):
        account.rows_read += len(one.times_ms)
        yield one
