"""Gauges of a target as columns of numbers, read in one query however many series there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from django.db import connections

from finops.core.cache import Gauge
from finops.core.counter_values import DAY_MS
from finops.core.period import HOUR_MS, instant_of
from finops.core.steps import lower_median
from finops.ledger.models import ReadingBlock, Series
from finops.ledger.which import ledger_name
from finops.sources.sample_blocks import unpack_all

from .bulk_text import numbers

Column = np.ndarray[Any, Any]
Columns = tuple[Column, Column]
NOTHING: Columns = (np.zeros(0, dtype=np.int64), np.zeros(0))


BLOCKS_AT_ONCE = 2000
LOOK_BACK_MS = HOUR_MS
"""As long as a reading may hold, and longer than it takes to call a gauge stale."""


@dataclass(frozen=True, slots=True)
class Span:
    """What has to be read and derived when readings came from an instant on.

    A reading holds until the next, so the hour before may change too. How long one holds before a
    gap follows from the usual interval of its day: the gauge itself is read from the day's start,
    what stands beside it only from a little earlier.
    """

    new_ms: int
    from_ms: int
    day_ms: int

    @classmethod
    def around(cls, from_ms: int) -> Span:
        """The span of readings that came from an instant on."""
        new = from_ms // HOUR_MS * HOUR_MS
        before = new - HOUR_MS
        return cls(new, before, before // DAY_MS * DAY_MS)

    @property
    def read_ms(self) -> int:
        """From when on the gauge itself is read: an hour before the day, for the reading that
        holds into it."""
        return self.day_ms - HOUR_MS

    def since(self, times: Column) -> int:
        """From when on rows may change: the hour before, or the day's start where the readings
        that came make another interval the usual one of it."""
        of_day = times[(times >= self.day_ms) & (times < self.day_ms + DAY_MS)]
        before = of_day[of_day < self.new_ms]
        if len(before) < 2 or len(before) == len(of_day):
            return self.from_ms
        usual = (lower_median(np.diff(one)) for one in (before, of_day))
        return self.from_ms if len(set(usual)) == 1 else self.day_ms


class Gauges:
    """The readings of some series from an instant on, by series and replica, in time order, each
    reading once; with those of the last hour before it that has any, where they are asked for:
    after a gap, what stood before it tells whether anything moved."""

    def __init__(self, series: Iterable[Series], from_ms: int, *, and_before: bool = False) -> None:
        keys = [one.pk for one in series]
        from_ms = max(0, from_ms)
        found = _read(keys, from_ms, _before(keys, from_ms) if and_before else ())
        self._columns = {
            key: cut
            for key, columns in found.items()
            if (cut := _since(columns, from_ms, and_before=and_before))
        }

    @classmethod
    def of(cls, columns: dict[int, dict[str, Columns]]) -> Gauges:
        """Readings that are at hand, by series and replica, names in order."""
        found = cls((), 0)
        found._columns = columns
        return found

    def joined_by(self, other: Gauges) -> Gauges:
        """Both together; a series that both read counts as the first read it."""
        self._columns = other._columns | self._columns
        return self

    def replicas(self, series: Series) -> Mapping[str, Columns]:
        """A series' columns by replica, names in order."""
        return self._columns.get(series.pk, {})

    def first(self, series: Series) -> Columns:
        """The columns of the first replica by name; empty ones without a reading."""
        return next(iter(self.replicas(series).values()), NOTHING)

    def gauge(self, series: Iterable[Series]) -> Gauge:
        """The readings of one gauge; of several replicas, or of two names, the first."""
        for one in series:
            times, values = self.first(one)
            if len(times):
                return Gauge(times, values)  # type: ignore[arg-type]
        return Gauge()


# By the index of each series (`OFFSET 0`: never a search through all blocks, whatever the server makes of
# their number). The last reading before an hour lies in a block that begins before it, in the half day of the last such
# block; those that reach into the hour or beyond are found anyway.
_BEFORE = """
SELECT block.series_id, block.replica, block.payload
FROM unnest(%s::bigint[]) AS key (id)
CROSS JOIN LATERAL (
    SELECT max(hour) AS hour FROM ledger_readingblock WHERE series_id = key.id AND hour < %s
) last
CROSS JOIN LATERAL (
    SELECT * FROM ledger_readingblock
    WHERE series_id = key.id
      AND hour >= date_bin('12 hours', last.hour, 'epoch') AND hour <= last.hour
      AND last_ms >= (extract(epoch FROM last.hour) * 1000)::bigint AND last_ms < %s
    OFFSET 0
) block
ORDER BY block.series_id, block.replica, block.hour, block.first_ms, block.id
"""


def _before(keys: list[int], from_ms: int) -> list[tuple[int, str, bytes]]:
    """The blocks that hold each series' last hour before an instant and end before it."""
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_BEFORE, [numbers(keys), instant_of(from_ms), from_ms])
        return cursor.fetchall()


def _read(
    keys: list[int], from_ms: int, before: Sequence[tuple[int, str, bytes]]
) -> dict[int, dict[str, Columns]]:
    pieces: dict[int, dict[str, list[Columns]]] = {}
    if not keys:
        return {}
    blocks = (
        ReadingBlock.objects.filter(series__in=keys)
        .touching(from_ms)
        .order_by("series_id", "replica", "hour", "first_ms", "pk")
        .values_list("series_id", "replica", "payload")
    )
    told = chain(before, blocks.iterator(chunk_size=BLOCKS_AT_ONCE))
    while some := list(islice(told, BLOCKS_AT_ONCE)):
        parts = unpack_all([bytes(payload) for _, _, payload in some])
        for (series, replica, _), part in zip(some, parts, strict=True):
            pieces.setdefault(series, {}).setdefault(replica, []).append(part)
    return {
        series: {replica: joined(parts) for replica, parts in sorted(replicas.items())}
        for series, replicas in pieces.items()
    }


def _since(columns: dict[str, Columns], from_ms: int, *, and_before: bool) -> dict[str, Columns]:
    """A series' readings from an instant on, and of its last hour before that has any, by replica."""
    if and_before:
        before = [
            int(times[low - 1])
            for times, _ in columns.values()
            if (low := int(times.searchsorted(from_ms)))
        ]
        from_ms = min(from_ms, max(before, default=from_ms) // HOUR_MS * HOUR_MS)
    found = {}
    for replica, (times, values) in columns.items():
        if low := int(times.searchsorted(from_ms)):
            times, values = times[low:], values[low:]
        if len(times):
            found[replica] = times, values
    return found


def is_same(times: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two columns of times are of the same instants."""
    return times is others or (
        len(times) == len(others) and bool((np.asarray(times) == np.asarray(others)).all())
    )


def from_holding(columns: Columns, from_ms: int) -> Columns:
    """The readings from the one on that holds at an instant."""
    times, values = columns
    low = max(0, int(times.searchsorted(from_ms)) - 1)
    return times[low:], values[low:]


def joined(parts: list[Columns]) -> Columns:
    """Pieces in the order of their first readings as one column; of two values at one instant the
    higher counts, whichever document came first."""
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part[0] for part in parts])
    values = np.concatenate([part[1] for part in parts])
    if (np.diff(times) > 0).all():
        return times, values
    order = np.lexsort((values, times))
    times, values = times[order], values[order]
    last = np.append(np.diff(times) > 0, True)
    return times[last], values[last]
