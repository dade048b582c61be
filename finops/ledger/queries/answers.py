"""What stores answered about each hour: with readings, with nothing, or not; and which hours miss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from finops.core.period import HOUR, Period, hour_of
from finops.ledger.models import Fetch, QuietHour, Source

from .as_of import known_by

Span = tuple[datetime, datetime]


@dataclass(slots=True)
class Answer:
    """One fetch: its window, and the spans in it that it had no reading of. `witnessed` are those of these
    in which another target shows that the store was at work."""

    start: datetime
    end: datetime
    complete: bool
    readings: int
    quiet: list[Span] = field(default_factory=list)
    witnessed: list[Span] = field(default_factory=list)

    def reaches_into(self, hour: datetime) -> bool:
        """Whether its window has a part in the hour."""
        return self.start < hour + HOUR and self.end > hour

    def is_empty(self, hour: datetime) -> bool:
        """Whether it had no reading in its part of the hour."""
        if not self.readings:
            return True
        return any(start < hour + HOUR and end > hour for start, end in self.quiet)


def answers(
    period: Period, as_of: datetime | None = None, source: Source | None = None
) -> dict[str, list[Answer]]:
    """The fetches that reach into a period by source, in order of their start; of one source where it is
    given. Two queries."""
    span = {"window_start__lt": period.end, "window_end__gt": period.start}
    rows = Fetch.objects.filter(known_by(as_of, "at"), **span)
    if source is not None:
        rows = rows.filter(source=source)
    values = rows.order_by("window_start", "pk").values_list(
        "pk", "source__name", "window_start", "window_end", "complete", "readings"
    )
    known: dict[int, Answer] = {}
    found: dict[str, list[Answer]] = {}
    for pk, name, start, end, complete, readings in values:
        known[pk] = Answer(start, end, complete, readings)
        found.setdefault(name, []).append(known[pk])
    quiet = QuietHour.objects.filter(start__lt=period.end, end__gt=period.start)
    for pk, start, end, witness in quiet.values_list("fetch_id", "start", "end", "witness"):
        if pk in known:
            known[pk].quiet.append((start, end))
            if witness:
                known[pk].witnessed.append((start, end))
    return found


def covers(hour: datetime, spans: Iterable[Span]) -> bool:
    """Whether spans, put together, hold every instant of an hour."""
    reached = hour
    for start, end in sorted(spans):
        if start <= reached:
            reached = max(reached, end)
    return reached >= hour + HOUR


def is_empty_hour(hour: datetime, fetches: Iterable[Answer]) -> bool:
    """Whether complete fetches cover an hour and none of them brought a reading of it."""
    mine = [one for one in fetches if one.complete and one.reaches_into(hour)]
    is_whole = covers(hour, ((one.start, one.end) for one in mine))
    return is_whole and all(one.is_empty(hour) for one in mine)


def missing_hours(
    period: Period, as_of: datetime | None = None
) -> Iterator[tuple[str, list[datetime], list[datetime]]]:
    """By source: hours that the store answered with nothing while nothing shows that it was at work, and
    hours that nobody asked about.

    Between the first and the last hour of which the store gave readings: it was down then, or no
    longer holds these hours. After the last one, of the week in which that lies: the hours that it
    answered with nothing. An hour in which it read another target all the time is not missing: there
    was nothing of ours to read.
    """
    for source in Source.objects.filter(kind="prometheus").order_by("name"):
        rows = Fetch.objects.filter(known_by(as_of, "at"), source=source, complete=True)
        held = rows.filter(readings__gt=0)
        first = _edge(held.order_by("window_start").first(), 0)
        last = _edge(held.order_by("-window_end").first(), -1)
        if first is None or last is None or first[0] >= period.end or last[1] < period.start:
            continue
        asked = rows.order_by("-window_end").values_list("window_end", flat=True)[0]
        start = max(first[0], period.start)
        end = min(max(last[1], hour_of(asked)), period.end)
        if start >= end:
            continue
        span = Period(start, end)
        mine = [one for one in answers(span, as_of, source).get(source.name, ()) if one.complete]
        empty, unasked = _without(span, mine)
        unasked = [hour for hour in unasked if hour < last[1]]
        if empty or unasked:
            yield source.name, empty, unasked


def _edge(fetch: Fetch | None, place: int) -> Span | None:
    """The first (0) or last (-1) piece of a fetch by the hour that it has readings of."""
    if fetch is None:
        return None
    window = Period(fetch.window_start, fetch.window_end)
    quiet = set(fetch.quiet_hours.values_list("start", flat=True))
    pieces = [
        (max(hour, window.start), min(hour + HOUR, window.end))
        for hour in window.hours()
        if max(hour, window.start) not in quiet
    ]
    return pieces[place] if pieces else (window.start, window.end)


def _without(span: Period, every: list[Answer]) -> tuple[list[datetime], list[datetime]]:
    empty, unasked = [], []
    for hour in span.hours():
        mine = [one for one in every if one.reaches_into(hour)]
        witnessed = [span for one in mine for span in one.witnessed]
        if not mine:
            unasked.append(hour)
        elif all(one.is_empty(hour) for one in mine) and not covers(hour, witnessed):
            empty.append(hour)
    return empty, unasked
