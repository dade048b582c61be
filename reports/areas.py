"""Reserved and active over the week as stacked areas, with what happened on the time axis.

Hours nothing was read in stay empty. Where the GPUs were measured, a line shows what one GPU of
each engine had in use: what nvidia-smi shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from finops.core.period import rfc3339
from reports import figures
from reports.shapes import WIDTH, Number, area, rule, stepped, text

LEFT, RIGHT, TOP, FLOOR, HEIGHT = 0, 190, 30, 136, 164
Values = Sequence[Decimal | None]
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Areas:
    """Hourly values; `marks` are instants with the numbers their texts have below the chart."""

    id: str
    title: str
    unit: str
    start: datetime
    zone: str
    reserved: Values
    active: Values
    device: Values | None
    marks: Sequence[tuple[datetime, str]]

    def words(self) -> str:
        """The text alternative: the range of each, and where the marks are."""
        text = f"{self.unit}, hour by hour. Reserved: {_range(self.reserved)}. "
        text += f"Active: {_range(self.active)}. "
        if self.device is not None:
            text += f"In use on the GPUs: {_range(self.device)}. "
        unread = sum(value is None for value in self.reserved)
        if unread:
            text += f"{unread} of {len(self.reserved)} hours were not read. "
        for at, number in self.marks:
            text += f"Annotation {number} at {figures.instant(at, self.zone)}. "
        return text.strip()

    def draw(self) -> tuple[str, int]:
        """Shapes and height."""
        most = max(self._known(), default=Decimal(0)) or Decimal(1)
        step = Decimal(WIDTH - LEFT - RIGHT) / max(len(self.active), 1)

        def y_of(value: Decimal) -> Decimal:
            return FLOOR - value / most * (FLOOR - TOP)

        out = []
        for values, tone in ((self.reserved, "pale"), (self.active, "accent")):
            out += [area(run, FLOOR, tone) for run in _runs(values, step, y_of)]
        if self.device is not None:
            out += [stepped(run) for run in _runs(self.device, step, y_of)]
        right = WIDTH - RIGHT
        out.append(rule(LEFT, FLOOR, right, FLOOR))
        out += self._days(step)
        out += self._marks(step)
        out += self._labels(right + 8, y_of)
        return "".join(out), HEIGHT

    def _known(self) -> Iterator[Decimal]:
        for values in (self.reserved, self.active, self.device or ()):
            yield from (value for value in values if value is not None)

    def days(self) -> list[tuple[datetime, str]]:
        """The local midnights of the span with their names."""
        zone = ZoneInfo(self.zone)
        end = self.start + HOUR * len(self.active)
        day = self.start.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
        found = []
        while day < end:
            if day >= self.start:
                found.append((day, f"{day:%a} {day.day}"))
            day = (day + timedelta(days=1)).replace(hour=0)
        return found

    def _x(self, at: datetime, step: Decimal) -> Decimal:
        return LEFT + step * Decimal((at - self.start) // timedelta(minutes=1)) / 60

    def _days(self, step: Decimal) -> list[str]:
        out = []
        for at, name in self.days():
            x = self._x(at, step)
            out.append(rule(x, FLOOR, x, FLOOR + 5))
            out.append(text(x + 4, FLOOR + 17, name, anchor="start", quiet=True))
        return out

    def _marks(self, step: Decimal) -> list[str]:
        out = []
        for at, number in self.marks:
            x = self._x(at, step)
            out.append(rule(x, TOP - 14, x, FLOOR, "3 2"))
            out.append(text(x, TOP - 19, number, weight=600))
        return out

    def _labels(self, x: Number, y_of: Any) -> list[str]:
        """Names and last values at the right, kept apart."""
        named = [("active", _last(self.active), True), ("reserved", _last(self.reserved), False)]
        if self.device is not None:
            named.append(("in use on the GPU", _last(self.device), False))
        rows = sorted((y_of(value), name, value, bold) for name, value, bold in named
                      if value is not None)  # fmt: skip
        out, least = [], Decimal(TOP)
        for y, name, value, bold in rows:
            y = max(y, least)
            shown = f"{figures.grouped(value, self._decimals())} {name}, at the end"
            out.append(text(x, y + 4, shown, anchor="start", weight=600 if bold else 400))
            least = y + 15
        return out

    def _decimals(self) -> int:
        return 0 if max(self._known(), default=Decimal(0)) >= 100 else 1

    def plotly(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Traces and what the layout adds."""
        zone = ZoneInfo(self.zone)
        x = [
            (self.start + HOUR * at).astimezone(zone).replace(tzinfo=None).isoformat()
            for at in range(len(self.active))
        ]
        rest = [None if a is None or r is None else r - a
                for a, r in zip(self.active, self.reserved, strict=True)]  # fmt: skip
        data = [
            _trace("active", x, self.active, self.unit, stackgroup="pool", tone="accent"),
            _trace("reserved, unreferenced", x, rest, self.unit, stackgroup="pool", tone="pale"),
        ]
        if self.device is not None:
            data.append(_trace("in use on the GPU", x, self.device, self.unit, tone="ink"))
        local = [(at.astimezone(zone).replace(tzinfo=None).isoformat(), n) for at, n in self.marks]
        shapes = [
            {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1,
             "line": {"dash": "dot", "width": 1}}
            for at, _ in local
        ]  # fmt: skip
        notes = [
            {"x": at, "yref": "paper", "y": 1.08, "text": n, "showarrow": False} for at, n in local
        ]
        for trace in data:
            trace["meta"]["start"] = rfc3339(self.start)  # a click tells the hour by it
        axes = {"xaxis": {"type": "date", "tickformat": "%a %d"}, "yaxis": {"rangemode": "tozero"}}
        return data, axes | {"shapes": shapes, "annotations": notes}


def _trace(name: str, x: list[str], values: Values, unit: str, *, tone: str, **more: Any) -> Any:
    return more | {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": [None if value is None else str(value) for value in values],
        "line": {"shape": "hv", "width": 1.5 if tone == "ink" else 0},
        "hovertemplate": f"%{{x|%a %d %b, %H:%M}}: %{{y:,.1f}} {unit}",
        "meta": {"tone": tone},
    }


def _runs(
    values: Values, step: Decimal, y_of: Any
) -> Iterator[list[tuple[Number, Number, Number]]]:
    """Stretches of known hours as steps."""
    run: list[tuple[Number, Number, Number]] = []
    for at, value in enumerate(values):
        if value is None:
            yield run
            run = []
        else:
            run.append((LEFT + step * at, LEFT + step * (at + 1), y_of(value)))
    yield run


def _last(values: Values) -> Decimal | None:
    return next((value for value in reversed(values) if value is not None), None)


def _range(values: Values) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "not measured"
    low, high = figures.grouped(min(known), 1), figures.grouped(max(known), 1)
    return low if low == high else f"{low} to {high}"
