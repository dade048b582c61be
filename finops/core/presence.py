"""When engines and GPUs were there, by their hours: spans, their union, how many at one time (§8.5).

Hours tell how long something was seen, not when. Between hours that were read it was there all the
time; the first hour of a stretch ends with it, the last one begins with it. An hour that stands
alone begins at its first reading where that is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from .period import HOUR_MS

Span = tuple[int, int]
"""Half-open, in milliseconds since 1970."""

OVERLAP_MS: Final = 5 * 60_000
"""A last reading holds over one more interval: what lies so close together follows one another."""


def spans_of(hours: Iterable[tuple[int, int, int | None]]) -> dict[int, Span]:
    """By hour, when something was there: from its hours, for how long each was read and, where
    known, the first reading in it; all in milliseconds."""
    known = {hour: (min(held, HOUR_MS), first) for hour, held, first in hours}
    return {hour: _span(hour, *one, known.keys()) for hour, one in known.items()}


def _span(hour: int, held: int, first: int | None, hours: Collection[int]) -> Span:
    end = hour + HOUR_MS
    if end in hours:
        return (hour if hour - HOUR_MS in hours else end - held), end
    start = hour
    if hour - HOUR_MS not in hours and first is not None:
        start = max(hour, min(first, end - held))
    return start, start + held


def stretches(spans: Iterable[Span]) -> list[Span]:
    """The spans united, in order of time."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def length_ms(spans: Iterable[Span]) -> int:
    """How long any of the spans lasted."""
    return sum(end - start for start, end in stretches(spans))


def at_once(things: Sequence[tuple[int, Iterable[Span]]]) -> int:
    """The most that were there at one time, each thing counting as so many."""
    changes: list[tuple[int, int, int]] = []
    for count, spans in things:
        for start, end in stretches(spans):
            # At one instant what begins comes first: a single reading was there as well.
            changes.append((start, 0, count))
            changes.append((end - min(OVERLAP_MS, (end - start) // 2), 1, -count))
    most = now = 0
    for _, _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most
