"""Blocks of readings on their way into the ledger: by series, replica and hour, many rows at once."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from finops.core.period import HOUR_MS, instant_of
from finops.ledger.models import ReadingBlock
from finops.sources.samples import pack_all

from .bulk import Line, copy_new_lines, text_field
from .naming import Known

BATCH = 4000
COLUMNS = (
    "series_id",
    "replica",
    "hour",
    "document_id",
    "part",
    "first_ms",
    "last_ms",
    "readings",
    "payload",
)


class Piece(NamedTuple):
    """The readings of one series and replica in one hour, as a document gave them."""

    series: Known
    replica: str
    hour_ms: int
    times_ms: array[int]
    values: array[float]


@dataclass(slots=True)
class Blocks:
    """The blocks of one document. `part` counts how often a series, replica and hour came: a file
    of several answers may cut an hour in pieces, and each piece counts."""

    document: str
    parts: dict[tuple[int, str, int], int] = field(default_factory=dict)
    waiting: list[Piece] = field(default_factory=list)

    def add(
        self, series: Known, replica: str, times_ms: array[int], values: array[float]
    ) -> list[Piece]:
        """Takes readings in time order, cuts them at the hours, and gives the pieces."""
        pieces = []
        start = 0
        while start < len(times_ms):
            hour_ms = times_ms[start] // HOUR_MS * HOUR_MS
            end = bisect_left(times_ms, hour_ms + HOUR_MS, start)
            whole = start == 0 and end == len(times_ms)
            columns = (times_ms, values) if whole else (times_ms[start:end], values[start:end])
            pieces.append(Piece(series, replica, hour_ms, *columns))
            start = end
        self.waiting += pieces
        if len(self.waiting) >= BATCH:
            self.flush()
        return pieces

    def flush(self) -> None:
        """Writes what waits; a block that stands there already is left alone."""
        payloads = pack_all([(piece.times_ms, piece.values) for piece in self.waiting])
        lines = [
            self._line(piece, payload)
            for piece, payload in zip(self.waiting, payloads, strict=True)
        ]
        self.waiting.clear()
        copy_new_lines(ReadingBlock, COLUMNS, lines)

    def _line(self, piece: Piece, payload: bytes) -> Line:
        key = (piece.series.pk, piece.replica, piece.hour_ms)
        part = self.parts[key] = self.parts.get(key, -1) + 1
        times = piece.times_ms
        head = f"{instant_of(piece.hour_ms).isoformat()}\t{self.document}\t{part}"
        tail = f"{times[0]}\t{times[-1]}\t{len(times)}\t\\\\x{payload.hex()}\n"
        replica = text_field(piece.replica).decode()
        return f"{piece.series.pk}\t{replica}\t{head}\t{tail}".encode()
