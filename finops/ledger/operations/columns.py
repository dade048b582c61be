"""A series' readings as columns of times and values, each reading once, by replica."""

from __future__ import annotations

from collections.abc import Sequence

from finops.ledger.models import ReadingBlock, Series
from finops.sources.sample_columns import MAX_INSTANT_MS
from finops.sources.samples import unpack_between

Columns = tuple[list[int], list[float]]


def read_columns(series: Series, from_ms: int) -> dict[str, Columns]:
    """A series' readings from an instant on, by replica, in time order, each reading once."""
    pieces: dict[str, list[tuple[list[int], list[float]]]] = {}
    blocks = (
        ReadingBlock.objects.filter(series=series)
        .touching(from_ms)
        .order_by("hour", "first_ms", "pk")
        .values_list("replica", "payload")
    )
    for replica, payload in blocks.iterator(chunk_size=2000):
        pieces.setdefault(replica, []).append(columns_since(bytes(payload), from_ms))
    return {replica: joined(parts) for replica, parts in pieces.items()}


def columns_since(block: bytes, from_ms: int) -> Columns:
    """The readings of a block from an instant on."""
    times, values = unpack_between(block, from_ms, MAX_INSTANT_MS)
    return times.tolist(), values.tolist()


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
