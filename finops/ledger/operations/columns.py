"""A series' readings as columns of times and values, each reading once, by replica."""

from __future__ import annotations

from collections.abc import Sequence

from finops.core.period import instant_of
from finops.ledger.models import ReadingBlock, Series
from finops.sources.samples import unpack

Columns = tuple[list[int], list[float]]


def read_columns(series: Series, from_ms: int) -> dict[str, Columns]:
    """A series' readings from an instant on, by replica, in time order, each reading once."""
    pieces: dict[str, list[tuple[list[int], list[float]]]] = {}
    blocks = (
        ReadingBlock.objects.filter(series=series, hour__gte=instant_of(from_ms))
        .order_by("hour", "first_ms", "pk")
        .values_list("replica", "payload")
    )
    for replica, payload in blocks.iterator(chunk_size=2000):
        times, values = unpack(bytes(payload))
        pieces.setdefault(replica, []).append((times.tolist(), values.tolist()))
    return {replica: joined(parts) for replica, parts in pieces.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """Pieces in the order of their first readings as one column, each reading once."""
    times: list[int] = []
    values: list[float] = []
    overlap = False
    for more_times, more_values in parts:
        overlap = overlap or bool(times and more_times[0] <= times[-1])
        times.extend(more_times)
        values.extend(more_values)
    if overlap:
        # Of two values at one instant the higher counts, whichever document came first.
        highest = dict(sorted(zip(times, values, strict=True)))
        return list(highest), list(highest.values())
    return times, values
