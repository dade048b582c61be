"""The sample's time: twelve complete ISO weeks before a given instant, and its milliseconds."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from finops.core.period import HOUR, Period, milliseconds, week_before, week_name, week_of

WEEKS = 12
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
SLOW_STEP_MS = 300_000
FAST_STEP_MS = 30_000


@dataclass(frozen=True)
class Calendar:
    """`names` and `weeks`, oldest first; everything is known up to `horizon`.

    The horizon lies one hour after the newest week's end, so that readings and charges reach past
    it as they do in a company that goes on working.
    """

    at: datetime
    names: tuple[str, ...]
    weeks: tuple[Period, ...]

    @property
    def start(self) -> datetime:
        """The start of the oldest week."""
        return self.weeks[0].start

    @property
    def horizon(self) -> datetime:
        """Up to when there are readings and charges."""
        return self.weeks[-1].end + HOUR

    @property
    def beyond_ms(self) -> int:
        """An instant after the horizon: the end of what still runs then."""
        return milliseconds(self.horizon) + HOUR_MS

    def instant(self, week: int, days: int = 0, hours: int = 0, minutes: int = 0) -> datetime:
        """An instant by its distance from the start of a week (0 is the oldest)."""
        return self.weeks[week].start + timedelta(days=days, hours=hours, minutes=minutes)

    def ms(self, week: int, days: int = 0, hours: int = 0, minutes: int = 0, s: int = 0) -> int:
        """The same in milliseconds since 1970."""
        return milliseconds(self.instant(week, days, hours, minutes)) + 1000 * s

    def week_at(self, time_ms: int) -> int:
        """The number of the week that holds an instant; 12 for the hour after the last one."""
        return bisect_right(self._ends_ms, time_ms)

    @cached_property
    def _ends_ms(self) -> list[int]:
        return [milliseconds(week.end) for week in self.weeks]


def calendar_before(at: datetime, zone: ZoneInfo) -> Calendar:
    """The twelve newest weeks that were complete, with an hour more, at an instant."""
    newest = week_before(week_name(at - HOUR, zone), zone)
    names = tuple(week_before(newest, zone, WEEKS - 1 - n) for n in range(WEEKS))
    return Calendar(at, names, tuple(week_of(name, zone) for name in names))
