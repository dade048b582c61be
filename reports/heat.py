"""Coverage of sources by the hour as a map: a colour for each state, a link on incomplete hours.

Equal hours that follow each other are one shape, so that many sources stay a small page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from finops.core.period import Period
from finops.core.wording import counted_text
from finops.ledger.queries.source_hours import Events
from reports import figures
from reports.shapes import WIDTH, cut, rule, text

LABEL, ROW, TOP = 150, 26, 22
STEPS = {"whole": "#2f4b8f", "empty": "#b9c5e0", "part": "#e0a93b", "unread": "#e6e9f0"}
WORDS = {
    "whole": "read whole",
    "empty": "answered: nothing there",
    "part": "read in part",
    "unread": "not read",
}
Hours = Mapping[str, Sequence[str]]
UrlOf = Callable[[str, datetime], str]


def heat_map(
    period: Period,
    hours: Hours,
    zone: str,
    url_of: UrlOf,
    events: Mapping[str, Mapping[datetime, Events]] | None = None,
) -> SafeString:
    """The map of a period as SVG; hours read in part or answered with nothing, and hours with a restart
    or the end of a gap (a mark below the row), are links that `url_of` gives."""
    count = max((len(values) for values in hours.values()), default=0)
    if not count:
        return SafeString("")
    step = (WIDTH - LABEL) / count
    height = TOP + ROW * len(hours) + 4
    out = [_days(period, zone, step, height)]
    for row, (name, values) in enumerate(hours.items()):
        y = TOP + row * ROW
        out.append(text(0, y + 15, cut(name, 24), anchor="start"))
        for state, at, length in runs(values):
            inside = at > 0 and at + length < len(values)
            x = LABEL + at * step
            shape = _cell(x, y, length * step, state)
            if state in ("part", "empty") or (state == "unread" and inside):
                first = period.start + timedelta(hours=at)
                label = f"{name}: {length} h {WORDS[state]} from {figures.instant(first, zone)}"
                shape = (
                    f'<a href="{escape(url_of(name, first))}" aria-label="{escape(label)}">'
                    f"{shape}</a>"
                )
            out.append(shape)
        for when, one in sorted((events or {}).get(name, {}).items()):
            x = LABEL + (when - period.start) / timedelta(hours=1) * step
            label = f"{name}: {event_words(one)}, {figures.instant(when, zone)}"
            out.append(_mark(x, y, step, label, url_of(name, when)))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart heat" viewBox="0 0 {WIDTH} '
        f'{height}" width="{WIDTH}" height="{height}" role="group" aria-labelledby="heat-title">'
        f'<title id="heat-title">{escape(words(hours))}</title>'
    )
    return mark_safe(head + "".join(out) + "</svg>")  # noqa: S308 - every text in it was escaped


def runs(values: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Equal states that follow each other: state, first hour, number of hours."""
    at = 0
    for state, group in groupby(values):
        length = len(list(group))
        yield state, at, length
        at += length


def words(hours: Hours) -> str:
    """The map in words: of each source how many hours were read."""
    told = []
    for name, values in hours.items():
        counts = [f"{values.count(state)} {WORDS[state]}" for state in WORDS if state in values]
        told.append(f"{name}: {', '.join(counts)}")
    return "Coverage by the hour. " + "; ".join(told) + "."


def event_words(one: Events) -> str:
    """What happened in an hour: `2 restarts, 1 gap`."""
    counts = ((one.restarts, "restart"), (one.gaps, "gap"))
    return ", ".join(counted_text(count, noun) for count, noun in counts if count)


def _mark(x: float, y: int, width: float, label: str, url: str) -> str:
    """A wedge below its hour: a shape of its own, so that colour is not the only sign. The whole
    hour above it can be clicked."""
    return (
        f'<a href="{escape(url)}" aria-label="{escape(label)}"><rect class="over" x="{x:.2f}" '
        f'y="{y}" width="{width:.2f}" height="{ROW}" fill="transparent"/><path class="event" '
        f'd="M{x + width / 2:.2f} {y + ROW - 6}l4 6h-8z" fill="#b3261e">'
        f"<title>{escape(label)}</title></path></a>"
    )


def _cell(x: float, y: int, width: float, state: str) -> str:
    return (
        f'<rect class="step-{state}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW - 6}" '
        f'fill="{STEPS[state]}"><title>{WORDS[state]}</title></rect>'
    )


def _days(period: Period, zone: str, step: float, height: int) -> str:
    local = ZoneInfo(zone)
    day = period.start.astimezone(local).replace(hour=0, minute=0, second=0, microsecond=0)
    out = []
    while day < period.end:
        if day >= period.start:
            x = LABEL + (day - period.start) / timedelta(hours=1) * step
            at = int(x)
            out.append(rule(at, TOP - 6, at, height - 4, "2 2"))
            out.append(text(at + 4, TOP - 9, f"{day:%a} {day.day}", anchor="start", quiet=True))
        day = (day + timedelta(days=1)).replace(hour=0)
    return "".join(out)
