"""Blocks of readings on their way into the ledger: by series, replica and hours, many rows at once."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from finops.core.period import HOUR_MS
from finops.ledger.models import BLOCK_MS, ReadingBlock
from finops.sources.sample_columns import write_all_times
from finops.sources.samples import pack_with

from .bulk import Line
from .bulk_binary import bigint, instant, integer, text
from .copying import copy_new_lines
from .naming import Known

SAMPLES_AT_ONCE = 1_000_000
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
    """One hour of a column of times: where it stands, and its times."""

    hour_ms: int
    start: int
    end: int
    times_ms: array[int]

    def of(self, values: array[float]) -> array[float]:
        """The hour's part of a column of values."""
        return values if self.end - self.start == len(values) else values[self.start : self.end]


Cuts = tuple[Cut, ...]
"""The hours of a column of times, in order; series that were read at the same instants share it."""


class _Span(NamedTuple):
    """What one block holds of a column of times: its first hour, where it stands, and its part of a row."""

    hour_ms: int
    start: int
    end: int
    fields: bytes
    times: bytes  # as a block holds them


class _Of(NamedTuple):
    """A column of times, cut at the hours and at the ends of blocks."""

    hours: Cuts
    spans: tuple[_Span, ...]


_Waiting = tuple[int, str, _Span, "array[float]"]
"""Series, replica, what a block holds of its times, and the values in it."""


@dataclass(slots=True)
class Blocks:
    """The blocks of one document. `part` counts how often a series, replica and first hour came: a
    file of several answers may cut an hour in pieces, and each piece counts."""

    document: str
    parts: dict[tuple[int, str, int], int] = field(default_factory=dict)
    waiting: list[_Waiting] = field(default_factory=list)
    _sources: dict[str, bytes] = field(default_factory=dict)  # document and replica, by replica
    _samples: int = 0
    _cuts: dict[bytes, _Of] = field(default_factory=dict)
    _known: dict[int, tuple[array[int], _Of]] = field(default_factory=dict)  # by identity

    def add(self, series: Known, replica: str, times_ms: array[int], values: array[float]) -> Cuts:
        """Takes readings in time order, and gives the hours they were cut at."""
        hours, spans = self._cuts_of(times_ms)
        if len(spans) == 1:
            self.waiting.append((series.pk, replica, spans[0], values))
        else:
            parts = ((one, values[one.start : one.end]) for one in spans)
            self.waiting += [(series.pk, replica, one, part) for one, part in parts]
        self._samples += len(values)
        if self._samples >= SAMPLES_AT_ONCE:
            self.flush()
        return hours

    def look(self, columns: Iterable[array[int]]) -> None:
        """Cuts columns of times that will be added, many at once: quicker than one by one."""
        new = {id(each): each for each in columns if id(each) not in self._known}
        if len(self._known) + len(new) > MOST_KNOWN:
            self._known.clear()
        raws = {key: each.tobytes() for key, each in new.items()}
        unknown = {raw: new[key] for key, raw in raws.items() if raw not in self._cuts}
        self._cuts |= zip(unknown, _all_cuts(list(unknown.values())), strict=True)
        for key, each in new.items():
            self._known[key] = each, self._cuts[raws[key]]

    def _cuts_of(self, times_ms: array[int]) -> _Of:
        known = self._known.get(id(times_ms))
        if known is None:
            self.look([times_ms])
            known = self._known[id(times_ms)]
        return known[1]

    def flush(self) -> None:
        """Writes what waits; a block that stands there already is left alone."""
        waiting = self.waiting
        payloads = pack_with([span.times for _, _, span, _ in waiting], [one[3] for one in waiting])
        lines = [self._line(one, payload) for one, payload in zip(waiting, payloads, strict=True)]
        self.waiting.clear()
        self._samples = 0
        copy_new_lines(ReadingBlock, COLUMNS, lines, is_binary=True)

    def _line(self, one: _Waiting, payload: bytes) -> Line:
        pk, replica, span, _ = one
        key = (pk, replica, span.hour_ms)
        part = self.parts[key] = self.parts.get(key, -1) + 1
        source = self._sources.get(replica)
        if source is None:
            source = self._sources[replica] = text(self.document) + text(replica)
        head = _BEGINNING.pack(len(COLUMNS), 8, pk, 4, part)
        return b"".join((head, span.fields, source, _LENGTH.pack(len(payload)), payload))


def _all_cuts(columns: Sequence[array[int]]) -> Iterator[_Of]:
    """The hours and blocks of each column of times in order."""
    hours = [tuple(_hours(times_ms)) for times_ms in columns]
    spans = [list(_spans(some)) for some in hours]
    times = [
        [_part(times_ms, start, end) for _, start, end in some]
        for times_ms, some in zip(columns, spans, strict=True)
    ]
    written = iter(write_all_times([piece for some in times for piece in some]))
    for of_column, some, pieces in zip(hours, spans, times, strict=True):
        yield _Of(
            of_column,
            tuple(
                _Span(*span, _fields(span[0], piece), next(written))
                for span, piece in zip(some, pieces, strict=True)
            ),
        )


def _hours(times_ms: array[int]) -> Iterator[Cut]:
    """Each hour of times in order."""
    start = 0
    while start < len(times_ms):
        hour_ms = times_ms[start] // HOUR_MS * HOUR_MS
        end = bisect_left(times_ms, hour_ms + HOUR_MS, start)
        yield Cut(hour_ms, start, end, _part(times_ms, start, end))
        start = end


def _spans(hours: Sequence[Cut]) -> Iterator[tuple[int, int, int]]:
    """Hours that follow each other within one half of a day: the first, and where they begin and end."""
    first = 0
    for place, cut in enumerate(hours):
        after = hours[place + 1] if place + 1 < len(hours) else None
        until_ms = cut.hour_ms + HOUR_MS
        if after is None or after.hour_ms != until_ms or until_ms % BLOCK_MS == 0:
            yield hours[first].hour_ms, hours[first].start, cut.end
            first = place + 1


def _part(times_ms: array[int], start: int, end: int) -> array[int]:
    return times_ms if end - start == len(times_ms) else times_ms[start:end]


def _fields(hour_ms: int, times_ms: array[int]) -> bytes:
    return instant(hour_ms) + bigint(times_ms[0]) + bigint(times_ms[-1]) + integer(len(times_ms))
