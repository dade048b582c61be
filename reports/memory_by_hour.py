"""The memory of GPUs hour by hour as a stacked area: weights, KV in use, KV not referenced; above it
what nvidia-smi shows, and what happened.

Hours nothing was read in stay empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from finops.core.period import Period
from reports import figures
from reports.shapes import WIDTH, area, rule, stepped, text

TOP, FLOOR, HEIGHT = 36, 176, 200
STACKED = (("weights", "accent"), ("kv_active", "gain"), ("kv_unreferenced", "pale"))
HOUR = timedelta(hours=1)
Hours = Sequence[Mapping[str, Any]]
Steps = list[tuple[Decimal, Decimal, Decimal]]


def stacked(
    hours: Hours, title: str, week: Period, zone: ZoneInfo, marks: Sequence[datetime] = ()
) -> SafeString | None:
    """The hours of a week as one picture with its text alternative; None where nothing is known of
    them. `marks` are instants, numbered as they stand.

    A layer that is not measured in an hour takes no room in it.
    """
    shown = ("total_bytes", "used_bytes")
    most = max(
        (max(_tops(one)[-1], *(one[name] or 0 for name in shown)) for one in hours), default=0
    )
    if not most:
        return None
    drawn = [
        area(run, FLOOR, STACKED[layer][1])
        for layer in reversed(range(len(STACKED)))  # the lower layers lie over the higher ones
        for run in _runs(hours, week, most, layer)
    ]
    drawn += [stepped(run) for run in _runs(hours, week, most, None)]
    drawn += [rule(0, TOP, WIDTH, TOP), rule(0, FLOOR, WIDTH, FLOOR)]
    drawn.append(text(0, TOP - 6, figures.gib(most), anchor="start", quiet=True))
    drawn += _days(week, zone)
    for number, at in enumerate(marks, start=1):
        x = _x(at, week)
        drawn += [rule(x, TOP - 14, x, FLOOR, "3 2"), text(x, TOP - 19, str(number), weight=600)]
    return mark_safe(  # noqa: S308 - figures and escaped words
        f'<svg class="chart memory-hours" role="img" aria-label="{escape(_words(hours, title, most))}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg>'
    )


def _words(hours: Hours, title: str, most: int) -> str:
    ranges = [f"{name.replace('_', ' ')}: {_range(hours, name)}." for name, _ in STACKED]
    ranges.append(f"nvidia-smi shows: {_range(hours, 'used')}.")
    return f"{title}, {len(hours)} hours; the highest is {figures.gib(most)}. {' '.join(ranges)}"


def _tops(one: Mapping[str, Any]) -> list[int]:
    """The upper edge of each layer in an hour, in bytes."""
    found, total = [], 0
    for name, _ in STACKED:
        total += one[f"{name}_bytes"] or 0
        found.append(total)
    return found


def _runs(hours: Hours, week: Period, most: int, layer: int | None) -> Iterator[Steps]:
    """Unbroken runs of hours with the height of a layer; for None of all that is in use."""
    run: Steps = []
    for one in hours:
        value = one["used_bytes"] if layer is None else _tops(one)[layer]
        at = datetime.fromisoformat(one["hour"])
        left, right = _x(at, week), _x(at + HOUR, week)
        if run and (value is None or run[-1][1] != left):
            yield run
            run = []
        if value is not None:
            run.append((left, right, FLOOR - Decimal(value) / most * (FLOOR - TOP)))
    if run:
        yield run


def _x(at: datetime, week: Period) -> Decimal:
    seconds = Decimal((at - week.start) // timedelta(seconds=1))
    return seconds * WIDTH / ((week.end - week.start) // timedelta(seconds=1))


def _days(week: Period, zone: ZoneInfo) -> list[str]:
    """The local midnights with their names."""
    out, day = [], week.start.astimezone(zone)
    while day < week.end:
        x = _x(day, week)
        out.append(rule(x, FLOOR, x, FLOOR + 5))
        out.append(text(x + 4, FLOOR + 17, f"{day:%a} {day.day}", anchor="start", quiet=True))
        day = (day + timedelta(days=1)).replace(hour=0)
    return out


def _range(hours: Hours, name: str) -> str:
    known = [one[f"{name}_bytes"] for one in hours if one[f"{name}_bytes"] is not None]
    if not known:
        return "not measured"
    return f"{figures.gib(min(known))} to {figures.gib(max(known))}"
