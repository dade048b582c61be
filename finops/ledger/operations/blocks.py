"""Blocks of readings on their way into the ledger: by series, replica and hour, many rows at once."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from finops.core.period import HOUR_MS
from finops.ledger.models import ReadingBlock
from finops.sources.sample_columns import write_times
from finops.sources.samples import pack_with

from .bulk import Line
from .bulk_binary import bigint, instant, integer, text
from .copying import copy_new_lines
from .naming import Known

BATCH = 4000
MOST_KNOWN = 1 << 14
COLUMNS = (
    "series_id",
    "part",
    "hour",
    "first_ms",
    "last_ms",
    "readings",
    "document_id",
    "replica",
    "payload",
)
_BEGINNING = struct.Struct(">hiqii")  # how many columns, and the first two of them
_LENGTH = struct.Struct(">i")


class Cut(NamedTuple):
    """One hour of a column of times: where it stands, its times, and their part of a row."""

    hour_ms: int
    start: int
    end: int
    times_ms: array[int]
    fields: bytes
    times: bytes  # as a block holds them

    def of(self, values: array[float]) -> array[float]:
        """The hour's part of a column of values."""
        return values if self.end - self.start == len(values) else values[self.start : self.end]


Cuts = tuple[Cut, ...]
"""The hours of a column of times, in order; series that were read at the same instants share it."""


_Waiting = tuple[int, str, Cut, "array[float]"]
"""Series, replica, an hour of its times, and the values in it."""


@dataclass(slots=True)
class Blocks:
    """The blocks of one document. `part` counts how often a series, replica and hour came: a file
    of several answers may cut an hour in pieces, and each piece counts."""

    document: str
    parts: dict[tuple[int, str, int], int] = field(default_factory=dict)
    waiting: list[_Waiting] = field(default_factory=list)
    _sources: dict[str, bytes] = field(default_factory=dict)  # document and replica, by replica
    _cuts: dict[bytes, Cuts] = field(default_factory=dict)
    _known: dict[int, tuple[array[int], Cuts]] = field(default_factory=dict)  # by identity

    def add(self, series: Known, replica: str, times_ms: array[int], values: array[float]) -> Cuts:
        """Takes readings in time order, and gives the hours they were cut at."""
        known = self._known.get(id(times_ms))
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[id(times_ms)] = times_ms, self._cuts_of(times_ms)
        pk, cuts = series.pk, known[1]
        self.waiting += [(pk, replica, cut, cut.of(values)) for cut in cuts]
        if len(self.waiting) >= BATCH:
            self.flush()
        return cuts

    def _cuts_of(self, times_ms: array[int]) -> Cuts:
        raw = times_ms.tobytes()
        cuts = self._cuts.get(raw)
        if cuts is None:
            cuts = self._cuts[raw] = tuple(_cuts(times_ms))
        return cuts

    def flush(self) -> None:
        """Writes what waits; a block that stands there already is left alone."""
        waiting = self.waiting
        payloads = pack_with([cut.times for _, _, cut, _ in waiting], [one[3] for one in waiting])
        lines = [self._line(one, payload) for one, payload in zip(waiting, payloads, strict=True)]
        self.waiting.clear()
        copy_new_lines(ReadingBlock, COLUMNS, lines, is_binary=True)

    def _line(self, one: _Waiting, payload: bytes) -> Line:
        pk, replica, cut, _ = one
        key = (pk, replica, cut.hour_ms)
        part = self.parts[key] = self.parts.get(key, -1) + 1
        source = self._sources.get(replica)
        if source is None:
            source = self._sources[replica] = text(self.document) + text(replica)
        head = _BEGINNING.pack(len(COLUMNS), 8, pk, 4, part)
        return b"".join((head, cut.fields, source, _LENGTH.pack(len(payload)), payload))


def _cuts(times_ms: array[int]) -> Iterator[Cut]:
    """The hours of times in order, each with its own times."""
    start = 0
    while start < len(times_ms):
        hour_ms = times_ms[start] // HOUR_MS * HOUR_MS
        end = bisect_left(times_ms, hour_ms + HOUR_MS, start)
        times = times_ms if start == 0 and end == len(times_ms) else times_ms[start:end]
        fields = instant(hour_ms) + bigint(times[0]) + bigint(times[-1]) + integer(len(times))
        yield Cut(hour_ms, start, end, times, fields, write_times(times))
        start = end
