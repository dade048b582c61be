"""Prometheus's remote read (`/api/v1/read`): the request, and the samples of its answer.

Protobuf by hand, for the few fields there are: prometheus/prompb `remote.proto` and `types.proto`,
responses of type SAMPLES. Samples of our era take 18 bytes each where the value is not zero, 9 where
it is (`remote_rows`). Series of nothing but such samples are read together, those of equally many
of one length as the rows of one matrix; runs of them in other series one run at a time; all else
field by field.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from finops.sources.records import Refused, SeriesReadings
from finops.sources.remote_rows import (
    STALE_BITS,
    USUAL_BYTES,
    USUAL_HEAD,
    ZERO_BYTES,
    ZERO_HEAD,
    Column,
    Words,
    mixed_rows,
    numbers_of,
    rows_of,
)
from finops.sources.samples import in_order

MATCHES: Final = {"=": 0, "!=": 1, "=~": 2, "!~": 3}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LABEL_FIELD, _SAMPLE_FIELD, _HISTOGRAM_FIELD = 1, 2, 4
_SAMPLES_AT_ONCE: Final = 1 << 16  # of the longer kind half as many: they fit in a core's own cache
_REMEMBERED_BYTES: Final = 4096
_DOUBLE: Final = struct.Struct("<d")

Matcher = tuple[str, str, str]
"""Label, sign (`=`, `!=`, `=~`, `!~`) and value."""
_Name = tuple[str, tuple[tuple[str, str], ...]]
_Times = tuple["array[int]", bool]
"""A column of times, and whether they rise."""


class _Run(NamedTuple):
    """A series that seems to be labels and then samples: its place among the series of
    the answer, its name, and where it, its samples and their end stand."""

    place: int
    name: _Name
    start: int
    head: int
    end: int


# -- the request -------------------------------------------------------------------------------------


def request(matchers: Sequence[Matcher], first_ms: int, last_ms: int) -> bytes:
    """A request for all raw samples in `[first_ms, last_ms]`, not yet compressed."""
    query = _key(1, _VARINT) + _varint(first_ms) + _key(2, _VARINT) + _varint(last_ms)
    for label, sign, value in matchers:
        parts = _key(1, _VARINT) + _varint(MATCHES[sign])
        parts += _field(2, label.encode()) + _field(3, value.encode())
        query += _field(3, parts)
    return _field(1, query) + _key(2, _VARINT) + _varint(0)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


# -- the answer --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Answers:
    """The series of the answers to one window, in their order; `histograms` are the metrics that
    have native ones. Series that were read at the same instants share one column of times."""

    series: list[SeriesReadings] = field(default_factory=list)
    histograms: set[str] = field(default_factory=set)
    _times: dict[bytes, _Times] = field(default_factory=dict)
    _tables: dict[bytes, tuple[Words, list[_Times]]] = field(default_factory=dict)

    def add(self, body: bytes | bytearray) -> None:
        """Takes the series of an uncompressed answer, each column in order of time; ends of series
        left out. Refused when the bytes are not such an answer."""
        found: list[SeriesReadings | None] = []
        alike: dict[int, list[_Run]] = {}
        mixed: list[_Run] = []
        try:
            for number, result in _fields(body, 0, len(body)):
                if number == 1:
                    for one, (at, end) in _fields(body, *result):
                        if one == 1:
                            run = _run_of(body, at, end, len(found))
                            if run is not None:
                                alike.setdefault(end - run.head, []).append(run)
                            found.append(None if run else self._taken(body, at, end))
            for length, runs in alike.items():
                for some in _in_pieces(runs, length):
                    mixed += self._take_alike(body, some, found)
            for some in _in_pieces(mixed, max((run.end - run.head for run in mixed), default=1)):
                self._take_mixed(body, some, found)
        except (IndexError, UnicodeDecodeError, struct.error):
            raise Refused("remote read: the answer ends too early or is damaged") from None
        self.series += [one for one in found if one is not None]

    def _take_alike(
        self, body: bytes | bytearray, runs: Sequence[_Run], found: list[SeriesReadings | None]
    ) -> list[_Run]:
        """Puts series of equal length in their places, as the rows of one matrix; gives those that
        are not of samples of one length."""
        first = _size_at(body, runs[0].head)
        alike = [run for run in runs if _size_at(body, run.head) == first]
        left = [run for run in runs if _size_at(body, run.head) != first]
        if (runs[0].end - runs[0].head) % first:
            return list(runs)
        view = memoryview(body)  # of which a part is no copy
        fine, time, bits = rows_of(b"".join([view[run.head : run.end] for run in alike]), first)
        shape = (len(alike), len(time) // len(alike))
        usual = fine.reshape(shape).all(axis=1)
        usual &= (bits.reshape(shape) != STALE_BITS).all(axis=1)
        raw_bits, width = bits.data.cast("B"), 8 * shape[1]
        columns = self._columns_of(time.reshape(shape))
        for place, (run, is_usual, times) in enumerate(
            zip(alike, usual.tolist(), columns, strict=True)
        ):
            if is_usual:
                row = raw_bits[place * width : (place + 1) * width]
                found[run.place] = self._told(run, times, row)
            else:
                left.append(run)
        return left

    def _take_mixed(
        self, body: bytes | bytearray, runs: Sequence[_Run], found: list[SeriesReadings | None]
    ) -> None:
        """Puts series of samples of both lengths in their places; one with anything unusual in it
        is taken by itself."""
        view = memoryview(body)
        rows = mixed_rows([view[run.head : run.end] for run in runs])
        raw_times, raw_bits = rows.time.tobytes(), rows.bits.data.cast("B")
        ends = (8 * rows.counts.cumsum()).tolist()
        starts = [0, *ends[:-1]]
        for run, is_fine, start, end in zip(runs, rows.fine.tolist(), starts, ends, strict=True):
            found[run.place] = (
                self._told(run, self._known_times(raw_times[start:end]), raw_bits[start:end])
                if is_fine
                else self._taken(body, run.start, run.end)
            )

    def _told(self, run: _Run, known: _Times, raw_bits: memoryview) -> SeriesReadings:
        """A series of the samples with these times and values."""
        times, is_in_order = known
        values = array("d")
        values.frombytes(raw_bits)
        columns = (times, values) if is_in_order else in_order(times, values)
        return SeriesReadings(*run.name, *columns)

    def _taken(self, body: bytes | bytearray, at: int, end: int) -> SeriesReadings | None:
        """One series, run by run and field by field; None where no reading is in it."""
        labels: list[tuple[str, str]] = []
        pieces: list[tuple[array[int], Column]] = []
        has_histograms = False
        at, named = _head_of(body, at, end)
        while at < end:
            if size := _size_at(body, at):
                time, bits = _run(body, at, end, size)
                if len(time):
                    pieces.append((self._known_times(time.tobytes())[0], bits))
                    at += len(time) * size
                    continue
            number, span, at = _next(body, at, end)
            if number == _LABEL_FIELD:
                labels.append(_label(body[span[0] : span[1]]))
            elif number == _SAMPLE_FIELD:
                pieces.append(_sample(body, *span))
            else:
                has_histograms = has_histograms or number == _HISTOGRAM_FIELD
        metric, others = named or ("", ())
        if labels or named is None:
            metric, others = _apart([*([("__name__", metric)] if metric else []), *others, *labels])
        if has_histograms:
            self.histograms.add(metric)
        columns = self._columns(pieces)
        return SeriesReadings(metric, others, *columns) if columns is not None else None

    def _columns_of(self, rows: Words) -> list[_Times]:
        """The times of each row of a matrix, as they are written. Those of one metric's series come
        again with the next metric's: then the whole matrix is known by its first row."""
        first = rows[0].tobytes()
        known = self._tables.get(first)
        if known is not None and np.array_equal(known[0], rows):
            return known[1]
        raw, width = rows.tobytes(), 8 * rows.shape[1]
        raws = [raw[start : start + width] for start in range(0, len(raw), width)]
        self._learn(raws, rows)
        found = [self._times[each] for each in raws]
        self._tables[first] = rows, found
        return found

    def _learn(self, raws: Sequence[bytes], rows: Words) -> None:
        """Reads the times of a matrix's rows that are not known yet, all at once."""
        new = {raw: place for place, raw in enumerate(raws) if raw not in self._times}
        if new:
            numbers = numbers_of(rows[list(new.values())])
            rising = np.logical_and.reduce(numbers[:, 1:] > numbers[:, :-1], axis=1).tolist()
            for raw, row, rises in zip(new, numbers, rising, strict=True):
                self._times[raw] = array("q", row.tobytes()), rises

    def _known_times(self, raw: bytes) -> _Times:
        """The times that are written as these words, and whether they rise."""
        found = self._times.get(raw)
        if found is None:
            numbers = numbers_of(np.frombuffer(raw, np.uint64))
            times = array("q", numbers.tobytes())
            found = self._times[raw] = (times, bool((numbers[1:] > numbers[:-1]).all()))
        return found

    def _columns(
        self, pieces: Sequence[tuple[array[int], Column]]
    ) -> tuple[array[int], array[float]] | None:
        if not pieces:
            return None
        times, bits = pieces[0]
        for more_times, more_bits in pieces[1:]:
            times, bits = times + more_times, np.concatenate([bits, more_bits])
        ended = bits == STALE_BITS
        if ended.any():
            times = array("q", np.frombuffer(times, np.int64)[~ended].tobytes())
            bits = bits[~ended]
        if not len(times):
            return None
        return in_order(times, array("d", bits.tobytes()))


def _named(raw: bytes) -> _Name | None:
    """Metric and labels of the fields before a series' first sample; None where there are other
    fields than labels. Only what can be labels is remembered."""
    if len(raw) > _REMEMBERED_BYTES or raw[0] != _LABEL_FIELD << 3 | _BYTES:
        return _told_by(raw)
    return _remembered(raw)


@lru_cache(maxsize=1 << 15)
def _remembered(raw: bytes) -> _Name | None:
    return _told_by(raw)


def _told_by(raw: bytes) -> _Name | None:
    found: list[tuple[str, str]] = []
    at = 0
    try:
        while at < len(raw):
            number, (start, after), at = _next(raw, at, len(raw))
            if number != _LABEL_FIELD:
                return None
            found.append(_label(raw[start:after]))
    except (IndexError, UnicodeDecodeError):
        return None
    return _apart(found)


def _label(raw: bytes | bytearray) -> tuple[str, str]:
    texts = {n: raw[start:end].decode() for n, (start, end) in _fields(raw, 0, len(raw))}
    return texts.get(1, ""), texts.get(2, "")


def _apart(labels: Sequence[tuple[str, str]]) -> _Name:
    """The metric, and the other labels in order."""
    others = tuple(sorted(pair for pair in labels if pair[0] != "__name__"))
    return dict(labels).get("__name__", ""), others


def _in_pieces(runs: Sequence[_Run], length: int) -> Iterator[Sequence[_Run]]:
    """Series of at most so many bytes each, not too many samples at a time."""
    most = max(1, _SAMPLES_AT_ONCE * ZERO_BYTES // length)
    for start in range(0, len(runs), most):
        yield runs[start : start + most]


def _size_at(body: bytes | bytearray, at: int) -> int:
    """The length of a sample here that may begin a run; 0 where none does."""
    if body.startswith(USUAL_HEAD, at):
        return USUAL_BYTES
    return ZERO_BYTES if body.startswith(ZERO_HEAD, at) else 0


def _run_of(body: bytes | bytearray, at: int, end: int, place: int) -> _Run | None:
    """The series where it seems to be labels and then samples and nothing else."""
    head, named = _head_of(body, at, end)
    if named is None or (end - head) % ZERO_BYTES:
        return None
    return _Run(place, named, at, head, end)


def _head_of(body: bytes | bytearray, at: int, end: int) -> tuple[int, _Name | None]:
    """Where a series' samples begin, and the name before them; None where that is not labels alone.

    The name is looked up by the bytes before the first sample, whatever its length: they are the
    same in every answer. A label may hold the bytes with which a sample begins.
    """
    usual = body.find(USUAL_HEAD, at, end)
    zero = body.find(ZERO_HEAD, at, end if usual < 0 else usual)
    for head in (zero, usual):
        if head > at and (named := _named(bytes(body[at:head]))) is not None:
            return head, named
    return at, None


def _run(body: bytes | bytearray, at: int, end: int, size: int) -> tuple[Words, Column]:
    """The samples of one length that stand here one after the other: their times as they are
    written, and the bit patterns of their values."""
    fine, time, bits = rows_of(memoryview(body)[at : at + (end - at) // size * size], size)
    count = len(fine) if fine.all() else int(fine.argmin())
    return time[:count], bits[:count]


def _sample(body: bytes | bytearray, at: int, end: int) -> tuple[array[int], Column]:
    """One sample of whatever length; a field that is left out is zero."""
    value, time_ms = 0.0, 0
    while at < end:
        key, at = _read_varint(body, at, end)
        if key == 1 << 3 | _FIXED64:
            (value,) = _DOUBLE.unpack_from(body, at)
            at += 8
        elif key == 2 << 3 | _VARINT:
            time_ms, at = _read_varint(body, at, end)
            time_ms -= 1 << 64 if time_ms >> 63 else 0
        else:
            at = _skipped(body, key, at, end)
    if at != end:
        raise IndexError
    return array("q", [time_ms]), np.array([value], np.float64).view(np.int64)


def _fields(body: bytes | bytearray, at: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """The fields of a message that hold bytes: number and where they stand."""
    while at < end:
        number, span, at = _next(body, at, end)
        if number:
            yield number, span


def _next(body: bytes | bytearray, at: int, end: int) -> tuple[int, tuple[int, int], int]:
    """The next field that holds bytes, and what follows; number 0 for one of another kind."""
    if at + 1 < end and body[at + 1] < 0x80 and body[at] & 0x87 == _BYTES:  # the usual, short one
        after = at + 2 + body[at + 1]
        if after > end:
            raise IndexError
        return body[at] >> 3, (at + 2, after), after
    key, at = _read_varint(body, at, end)
    if key & 7 != _BYTES:
        return 0, (at, at), _skipped(body, key, at, end)
    length, at = _read_varint(body, at, end)
    if at + length > end:
        raise IndexError
    return key >> 3, (at, at + length), at + length


def _skipped(body: bytes | bytearray, key: int, at: int, end: int) -> int:
    kind = key & 7
    if kind == _VARINT:
        return _read_varint(body, at, end)[1]
    if kind == _BYTES:
        length, at = _read_varint(body, at, end)
    elif kind == _FIXED64:
        length = 8
    elif kind == _FIXED32:
        length = 4
    else:
        raise IndexError
    if at + length > end:
        raise IndexError
    return at + length


def _read_varint(body: bytes | bytearray, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise IndexError
