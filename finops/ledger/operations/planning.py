"""What collecting asks a source's store for: windows of hours, and the shards of one.

A single hour is a window. On a long way back a window is as many hours as memory likes, for a series
costs work by the window as well as by the sample. Of a source of so many series that this would be
few hours, a window is half a day, read in shards one after the other: fewer series at once, over
more hours. Windows come oldest first, all shards of one before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from finops.core.period import HOUR, Period, hour_of, rfc3339
from finops.ledger.access import FetchFailed
from finops.ledger.fetch import Door
from finops.ledger.models import Source
from finops.ledger.probe import kept_for
from finops.ledger.queries.sources import first_collected, uncollected
from finops.ledger.selecting import checked_matchers
from finops.ledger.store import earliest, live_series
from finops.sources.shards import WHOLE, Shard, shards

SETTLE: Final = timedelta(minutes=2)
"""A store may still be taking in the newest scrapes."""

REACH: Final = timedelta(days=15)
"""As far back as a store is asked unless a person says more."""

LONG: Final = timedelta(hours=12)
"""From here on whole days, or parts of them, are asked for at once."""

PARTS_OF_A_DAY: Final = (24, 12, 8, 6, 4, 3, 2)
MAX_SERIES_HOURS: Final = 30_000
"""What fits in memory twice: one window is posted, the next one read."""

FEW_HOURS: Final = 6
"""Where no more than fewer hours than these fit in memory, a long way back is read in shards."""

HOURS_OF_SHARDS: Final = 12
MAX_SERIES_HOURS_OF_A_SHARD: Final = 17_000
"""Less than of a window: the last hours of the other shards stay at hand meanwhile."""

COUNTS_OF_SHARDS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Few, so that a run that goes on where another was cut off mostly counts as that one did."""

SPLIT_FROM: Final = 2_000
"""Series from which on several workers share the work."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What is asked for, kept and posted at once: a window, or a shard of it."""

    window: Period
    shard: Shard = WHOLE

    def __str__(self) -> str:
        """Its beginning, as progress has it."""
        start = rfc3339(self.window.start)
        return start if self.shard.is_whole else f"{start} {self.shard}"


def pieces_of(
    source: Source, door: Door, *, at: datetime, period: Period | None = None
) -> list[Piece]:
    """The pieces to ask for, oldest first. FetchFailed when there is nothing to be found.

    A given period is widened to whole hours, but never beyond the present; without one, everything
    since the source's first window that no complete fetch covers: as far back as the store says it
    keeps samples, REACH where it does not say or keeps them for less.
    """
    end = (at - SETTLE).replace(second=0, microsecond=0)
    if period is not None:
        start, end = hour_of(period.start), min(_hour_from(period.end), end)
        if start >= end:
            raise FetchFailed("the period lies in the future; there is nothing to collect yet")
        return list(_cut(source, door, Period(start, end)))
    reach = Period(hour_of(end) - REACH, end)
    first = first_collected(source)
    if first is not None:
        told = kept_for(source.probe.get("retention"), source.probe.get("product"))
        start = max(first, hour_of(end) - max(told or REACH, REACH))
        span = Period(start, end) if start < end else None
    else:
        span = earliest(door, checked_matchers(source.matchers), reach)
        if span is None:
            raise FetchFailed(
                f"{source.url}: no series of a known engine in the last {REACH.days} days; look at "
                "the source's matchers, or say --from and --to"
            )
    gaps = uncollected(source, span) if span is not None else []
    return [piece for gap in gaps for piece in _cut(source, door, gap)]


def whole_hours(planned: Sequence[Piece], at: datetime) -> list[Piece]:
    """The pieces that end with a whole hour now past: what the schedule collects."""
    end = hour_of(at - SETTLE)
    return [piece for piece in planned if piece.window.end <= end]


def _cut(source: Source, door: Door, period: Period) -> Iterator[Piece]:
    first = first_collected(source)
    is_first = first is None or period.start < first
    return cut(door, checked_matchers(source.matchers), period, is_first=is_first)


def cut(door: Door, matchers: Sequence[str], period: Period, *, is_first: bool) -> Iterator[Piece]:
    """The pieces of a period: of a long one as many hours at once as fit in memory.

    `is_first` is whether nothing was read before it. Then its first hour is read whole: the
    earliest reading of each job proves the births of all its engines (method §2.4), which would
    be counted anew whenever another shard brought an earlier one.
    """
    series, hours = 0, 1
    if period.end - period.start >= LONG:
        last = Period(period.end - HOUR, period.end)
        series = len(live_series(door, matchers, last)[0])
        hours = hours_at_once(series)
    if is_first and shards_at_once(series, Period(period.start, period.start + hours * HOUR)) > 1:
        at = min(hour_of(period.start) + HOUR, period.end)
        yield Piece(Period(period.start, at))
        period = Period(at, period.end)
    for window in windows(period, hours=hours):
        for shard in shards(shards_at_once(series, window)):
            yield Piece(window, shard)


def windows(period: Period, *, hours: int = 1) -> Iterator[Period]:
    """A period cut at the UTC hours, so that the same hour is asked for in the same way always.

    With more `hours`, a divisor of 24, its pieces of a UTC day of so many hours are one window each,
    the first one from where the period begins: quicker to post, for a long way back. What is left
    at the end stays single hours: there the next hours will be missing, and the same be asked for.
    """
    at = period.start
    while at < period.end:
        part = hour_of(at) - at.hour % hours * HOUR + hours * HOUR
        whole = at == hour_of(at) and part <= period.end
        end = part if whole else min(hour_of(at) + HOUR, period.end)
        yield Period(at, end)
        at = end


def hours_at_once(series: int) -> int:
    """How many hours of so many series are asked for at once, for a long way back."""
    hours = next((n for n in PARTS_OF_A_DAY if series * n <= MAX_SERIES_HOURS), 1)
    return hours if hours >= FEW_HOURS else HOURS_OF_SHARDS


def shards_at_once(series: int, window: Period) -> int:
    """In how many shards a window of so many series is read: 1 where it fits in memory whole."""
    wanted = series * -(-(window.end - window.start) // HOUR)
    if wanted <= MAX_SERIES_HOURS:
        return 1
    enough = (n for n in COUNTS_OF_SHARDS if n * MAX_SERIES_HOURS_OF_A_SHARD >= wanted)
    return next(enough, COUNTS_OF_SHARDS[-1])


def shared_out(source: Source, door: Door, planned: Sequence[Piece]) -> list[Piece]:
    """The pieces as several workers read them side by side: what would be read whole in the shards
    of `shards_of`."""
    own = shards_of(source, door, [piece.window for piece in planned if piece.shard.is_whole])
    return [
        Piece(piece.window, shard)
        for piece in planned
        for shard in (own if piece.shard.is_whole else [piece.shard])
    ]


def shards_of(source: Source, door: Door, planned: Sequence[Period]) -> list[Shard]:
    """The shards in which several workers read the windows: of a source with SPLIT_FROM series or
    more, as many as the setting COLLECT_SHARDS says; else the whole alone."""
    count = settings.COLLECT_SHARDS
    if count < 2 or not planned:
        return [WHOLE]
    newest = Period(planned[-1].end - HOUR, planned[-1].end)
    series, _ = live_series(door, checked_matchers(source.matchers), newest)
    return shards(count) if len(series) >= SPLIT_FROM else [WHOLE]


def _hour_from(instant: datetime) -> datetime:
    """The instant itself when it is a whole hour, else the next whole hour."""
    hour = hour_of(instant)
    return hour if hour == instant else hour + HOUR
