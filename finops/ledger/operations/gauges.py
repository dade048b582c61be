"""Gauges of a target as columns of numbers, read in one query however many series there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from finops.core.cache import Gauge
from finops.core.period import instant_of
from finops.ledger.models import ReadingBlock, Series
from finops.sources.samples import unpack

Column = np.ndarray[Any, Any]
Columns = tuple[Column, Column]
NOTHING: Columns = (np.zeros(0, dtype=np.int64), np.zeros(0))


class Gauges:
    """The readings of some series from an instant on, by series and replica, in time order, each
    reading once."""

    def __init__(self, series: Iterable[Series], from_ms: int) -> None:
        self._columns = _read([one.pk for one in series], max(0, from_ms))

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


def _read(keys: list[int], from_ms: int) -> dict[int, dict[str, Columns]]:
    pieces: dict[int, dict[str, list[Columns]]] = {}
    blocks = (
        ReadingBlock.objects.filter(series__in=keys, hour__gte=instant_of(from_ms))
        .order_by("series_id", "replica", "hour", "first_ms", "pk")
        .values_list("series_id", "replica", "payload")
    )
    for series, replica, payload in blocks.iterator(chunk_size=2000):
        times, values = unpack(bytes(payload))
        part = np.asarray(times, dtype=np.int64), np.asarray(values, dtype=np.float64)
        pieces.setdefault(series, {}).setdefault(replica, []).append(part)
    return {
        series: {replica: joined(parts) for replica, parts in sorted(replicas.items())}
        for series, replicas in pieces.items()
    }


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
