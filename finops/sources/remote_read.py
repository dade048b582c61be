"""Prometheus's remote read (`/api/v1/read`): the request, and the samples of its answer.

Protobuf by hand, for the few fields there are: prometheus/prompb `remote.proto` and `types.proto`,
responses of type SAMPLES. Samples of our era take 18 bytes each where the value is not zero; such
runs are read all at once, all others field by field.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from finops.sources.records import Refused, SeriesReadings
from finops.sources.samples import in_order

MATCHES: Final = {"=": 0, "!=": 1, "=~": 2, "!~": 3}
STALE_BITS: Final = 0x7FF0000000000002
"""The NaN by which Prometheus marks that a series has ended: no reading of anything."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LABEL_FIELD, _SAMPLE_FIELD, _HISTOGRAM_FIELD = 1, 2, 4
_USUAL_BYTES: Final = 18
_USUAL_HEAD: Final = b"\x12\x10\x09"  # field 2, 16 bytes long; in it field 1, a double
_USUAL: Final = np.dtype(
    {
        "names": ["head", "bits", "time"],
        "formats": ["<u4", "<i8", "<u8"],
        "offsets": [0, 3, 10],  # the time with the double's last byte before it
        "itemsize": _USUAL_BYTES,
    }
)
_HEAD_MASK: Final = np.uint32(0xFFFFFF)
_HEAD_SIGN: Final = np.uint32(int.from_bytes(_USUAL_HEAD, "little"))
_TIME_MASK: Final = np.uint64(0x80_80_80_80_80_80_FF)
_TIME_SIGN: Final = np.uint64(0x00_80_80_80_80_80_10)  # field 2, a number of six bytes
_BYTE: Final = np.uint64(8)
_SEVEN: Final = np.uint64(0x7F)
_DOUBLE: Final = struct.Struct("<d")

Matcher = tuple[str, str, str]
"""Label, sign (`=`, `!=`, `=~`, `!~`) and value."""
_Name = tuple[str, tuple[tuple[str, str], ...]]
Column = np.ndarray[Any, np.dtype[np.int64]]


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
    _times: dict[bytes, array[int]] = field(default_factory=dict)

    def add(self, body: bytes) -> None:
        """Takes the series of an uncompressed answer, each column in order of time; ends of series
        left out. Refused when the bytes are not such an answer."""
        try:
            for number, result in _fields(body, 0, len(body)):
                if number == 1:
                    for one, span in _fields(body, *result):
                        if one == 1:
                            self._take(body, *span)
        except (IndexError, UnicodeDecodeError, struct.error):
            raise Refused("remote read: the answer ends too early or is damaged") from None

    def _take(self, body: bytes, at: int, end: int) -> None:
        labels: list[tuple[str, str]] = []
        pieces: list[tuple[array[int], Column]] = []
        has_histograms = False
        head = body.find(_USUAL_HEAD, at, end)
        named = _named(body[at:head]) if head > at else None
        if named is not None:
            at = head
        while at < end:
            if body.startswith(_USUAL_HEAD, at):
                count, time, bits = _usual(body, at, end)
                if count:
                    pieces.append((self._times_of(time), bits))
                    at += count * _USUAL_BYTES
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
        if columns is not None:
            self.series.append(SeriesReadings(metric, others, *columns))

    def _times_of(self, time: np.ndarray[Any, np.dtype[np.uint64]]) -> array[int]:
        raw = time.tobytes()
        found = self._times.get(raw)
        if found is None:
            found = self._times[raw] = array("q", _numbers(time).tobytes())
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


@lru_cache(maxsize=1 << 15)
def _named(raw: bytes) -> _Name | None:
    """Metric and labels of the fields before a series' first sample, the same in every answer; None
    where there are other fields than labels."""
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


def _label(raw: bytes) -> tuple[str, str]:
    texts = {n: raw[start:end].decode() for n, (start, end) in _fields(raw, 0, len(raw))}
    return texts.get(1, ""), texts.get(2, "")


def _apart(labels: Sequence[tuple[str, str]]) -> _Name:
    """The metric, and the other labels in order."""
    others = tuple(sorted(pair for pair in labels if pair[0] != "__name__"))
    return dict(labels).get("__name__", ""), others


def _usual(
    body: bytes, at: int, end: int
) -> tuple[int, np.ndarray[Any, np.dtype[np.uint64]], Column]:
    """How many samples of 18 bytes stand here one after the other, their times as they are written,
    and the bit patterns of their values."""
    count = (end - at) // _USUAL_BYTES
    rows = np.frombuffer(body, _USUAL, count, at)
    time = rows["time"] >> _BYTE
    fine = ((time & _TIME_MASK) == _TIME_SIGN) & ((rows["head"] & _HEAD_MASK) == _HEAD_SIGN)
    if not fine.all():
        count = int(fine.argmin())
        rows, time = rows[:count], time[:count]
    return count, time, rows["bits"].copy()


def _numbers(time: np.ndarray[Any, np.dtype[np.uint64]]) -> Column:
    """Numbers of six groups of seven bits, each in a byte, after the byte of their field."""
    found = (time >> _BYTE) & _SEVEN
    for place in range(1, 6):
        found |= ((time >> np.uint64(8 * (place + 1))) & _SEVEN) << np.uint64(7 * place)
    return found.astype(np.int64)


def _sample(body: bytes, at: int, end: int) -> tuple[array[int], Column]:
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


def _fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """The fields of a message that hold bytes: number and where they stand."""
    while at < end:
        number, span, at = _next(body, at, end)
        if number:
            yield number, span


def _next(body: bytes, at: int, end: int) -> tuple[int, tuple[int, int], int]:
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


def _skipped(body: bytes, key: int, at: int, end: int) -> int:
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


def _read_varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise IndexError
