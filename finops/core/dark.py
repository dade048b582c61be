"""How long an incarnation may have counted unseen before a restart or an end (method §2.6)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from .counter_values import DAY_MS, is_gap
from .tokens import Dark

SAID_BEFORE = -1
"""In place of a 0, where its replica had said 0 in the reading before as well."""


@dataclass(frozen=True, slots=True)
class Ups:
    """A target's `up` readings in time order."""

    times_ms: Sequence[int] = ()
    values: Sequence[int] = ()

    @classmethod
    def of(cls, replicas: Mapping[str, Iterable[tuple[int, int]]]) -> Ups:
        """The readings of each replica of Prometheus, as pairs of time (ms) and value, put together.

        One of a pair that cannot reach an engine says 0 again and again while the other reads it: such a 0
        does not tell when the process was gone. How far back it is looked at is bounded, so that the
        answer does not hang on how much of the past is at hand.
        """
        columns = [sorted(readings) for readings in replicas.values()]
        told: list[tuple[int, int]] = []
        for column in columns:
            told += column if all(map(itemgetter(1), column)) else _first_zeros(column)
        told.sort()
        return cls([time_ms for time_ms, _ in told], [value for _, value in told])

    def first_down(self, after_ms: int, until_ms: int | None = None) -> int | None:
        """The first `up` = 0 after an instant (and not after another) of a replica that had not said so
        before."""
        for index in range(bisect_right(self.times_ms, after_ms), len(self.times_ms)):
            if until_ms is not None and self.times_ms[index] > until_ms:
                return None
            if self.values[index] == 0:
                return self.times_ms[index]
        return None

    def stops_after(self, after_ms: int, until_ms: int, usual_ms: int) -> bool:
        """Whether the target's `up` was being read (in the day before) and then was not, for
        longer than a gap."""
        index = bisect_right(self.times_ms, after_ms)
        if index == 0 or self.times_ms[index - 1] < after_ms - DAY_MS:
            return False
        following = self.times_ms[index] if index < len(self.times_ms) else until_ms
        return is_gap(min(following, until_ms) - after_ms, usual_ms)


def _first_zeros(readings: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """One replica's readings, with each 0 marked that only says again what the reading before said."""
    before_ms, before = 0, 1
    for time_ms, value in readings:
        repeats = value == before == 0 and time_ms - before_ms < DAY_MS
        yield time_ms, SAID_BEFORE if repeats else value
        before_ms, before = time_ms, value


def dark_of(
    *,
    from_ms: int,
    to_ms: int,
    mark_us: int | None,
    value: int,
    ups: Ups,
) -> Dark:
    """The dark of a restart seen by the reading at `to_ms`, the last before it at `from_ms`.

    Until the earliest of the first `up` = 0, the new incarnation's mark and the next reading;
    `silence_of` tells when it is one usual interval at most. `value` is what that reading booked.
    """
    down = ups.first_down(from_ms, to_ms)
    ends = [to_ms]
    if down is not None:
        ends.append(down)
    if mark_us is not None:
        ends.append(max(from_ms, -(-mark_us // 1000)))
    shown = value if mark_us is None and down is None else 0
    return Dark(min(ends) - from_ms, shown)


def silence_of(from_ms: int, to_ms: int, usual_ms: int | None, ups: Ups) -> tuple[int, int] | None:
    """The span in which a target's `up` had stopped before a restart; None when it had not.

    If its source goes on in it, the dark is one usual interval at most (method §2.6). That is
    asked when a period is stated: other targets' readings may arrive later than the restart's.
    """
    if usual_ms is None or not ups.stops_after(from_ms, to_ms, usual_ms):
        return None
    following = bisect_right(ups.times_ms, from_ms)
    until = ups.times_ms[following] if following < len(ups.times_ms) else to_ms
    # A whole source that stops and comes back reads its targets one after the other within one
    # interval: readings of others so near to the edges do not show that it went on.
    return from_ms + usual_ms, min(until, to_ms) - usual_ms


def dark_of_end(last_ms: int, usual_ms: int | None, ups: Ups) -> Dark:
    """The dark of an end: until the first `up` = 0, at most one usual interval."""
    down = ups.first_down(last_ms)
    ends = [end for end in (down, last_ms + usual_ms if usual_ms else None) if end is not None]
    return Dark(min(ends) - last_ms if ends else 0)
