"""Periods: half-open spans of time, UTC hours, ISO weeks in the organisation's zone (method §1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

HOUR = timedelta(hours=1)
HALF_A_MONTH = timedelta(days=15)
WEEK = re.compile(r"([0-9]{4})-W([0-9]{2})")
HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_YEAR, LAST_YEAR = 1970, 9000  # of weeks; a calendar's edge is no week of anybody's


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A half-open span `[start, end)` of aware UTC instants."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a period needs instants with a time zone")
        if self.end <= self.start:
            raise ValueError(f"a period must end after it starts: {self.start} – {self.end}")

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant < self.end

    def hours(self) -> Iterator[datetime]:
        """The starts of the UTC hours that the period touches."""
        hour = hour_of(self.start)
        while hour < self.end:
            yield hour
            hour += HOUR


def hour_of(instant: datetime) -> datetime:
    """The start of the UTC hour that holds an instant."""
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def milliseconds(instant: datetime) -> int:
    """Milliseconds since 1970 of an instant, exact for whole milliseconds."""
    return (instant - EPOCH) // timedelta(milliseconds=1)


def instant_of(time_ms: int) -> datetime:
    """The instant of milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=time_ms)


def rfc3339(instant: datetime) -> str:
    """The instant as RFC 3339 UTC with `Z`; fractions only where there are any."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """An RFC 3339 instant or a date (midnight UTC). Raises ValueError naming the text."""
    try:
        value = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"not an instant like 2026-11-29T14:00:00Z: {text[:40]!r}") from None
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"an instant outside the calendar: {text[:40]!r}") from None


def week_of(text: str, zone: ZoneInfo) -> Period:
    """The period of an ISO week like `2026-W47`: Monday 00:00 to Monday 00:00 in the zone."""
    match = WEEK.fullmatch(text)
    if not match:
        raise ValueError(f"not an ISO week like 2026-W47: {text[:20]!r}")
    if not FIRST_YEAR <= int(match[1]) <= LAST_YEAR:
        raise ValueError(f"no week of the years {FIRST_YEAR} to {LAST_YEAR}: {text!r}")
    try:
        monday = date.fromisocalendar(int(match[1]), int(match[2]), 1)
    except ValueError as error:
        raise ValueError(f"no such ISO week: {text!r} ({error})") from None
    return Period(_midnight(monday, zone), _midnight(monday + timedelta(days=7), zone))


def week_name(instant: datetime, zone: ZoneInfo) -> str:
    """The ISO week that holds an instant in the zone, like `2026-W47`."""
    year, week, _ = instant.astimezone(zone).isocalendar()
    return f"{year}-W{week:02d}"


def week_before(text: str, zone: ZoneInfo, weeks: int = 1) -> str:
    """The name of the week so many weeks earlier."""
    middle = week_of(text, zone).start + timedelta(days=3, hours=12)
    return week_name(middle - timedelta(days=7 * weeks), zone)


def month_of(text: str) -> Period:
    """The UTC calendar month of `YYYY-MM`."""
    match = re.fullmatch(r"([0-9]{4})-(0[1-9]|1[0-2])", text)
    if not match:
        raise ValueError(f"not a month like 2026-10: {text[:20]!r}")
    year, month = int(match[1]), int(match[2])
    following = (year + month // 12, month % 12 + 1)
    return Period(datetime(year, month, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC))


def month_of_span(start: datetime, end: datetime) -> str:
    """The month of a billing period, `YYYY-MM`.

    The middle of the period decides (at most half a month after its start): a provider that bills
    in its own time zone starts the month some hours early or late in UTC.
    """
    middle = start + max(timedelta(), min((end - start) / 2, HALF_A_MONTH))
    return f"{middle.year:04d}-{middle.month:02d}"


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
