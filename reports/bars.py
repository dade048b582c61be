"""Columns over weeks and bars of reserved and active; values label themselves (IBCS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from reports import figures
from reports.shapes import WIDTH, cut, rect, rule, text


@dataclass(frozen=True, slots=True)
class Columns:
    """Values over weeks; the last is the week reported. A None stays an empty place."""

    id: str
    title: str
    unit: str
    labels: Sequence[str]
    values: Sequence[Decimal | None]

    def words(self) -> str:
        """The text alternative."""
        pairs = [
            f"{label} {figures.price(value)}"
            for label, value in zip(self.labels, self.values, strict=True)
        ]
        return f"{self.unit}: " + ", ".join(pairs) + "."

    def draw(self) -> tuple[str, int]:
        """Shapes and height."""
        height, floor, top = 190, 160, 26
        known = [v for v in self.values if v is not None]
        top_value = max([*known, Decimal(0)]) or Decimal(1)
        step = Decimal(WIDTH) / max(len(self.values), 6)
        out = [rule(0, floor, step * len(self.values), floor)]
        for at, (label, value) in enumerate(zip(self.labels, self.values, strict=True)):
            last = at == len(self.values) - 1
            middle, weight = step * at + step / 2, 600 if last else 400
            out.append(text(middle, floor + 17, label, quiet=not last, weight=weight))
            if value is None:
                out.append(text(middle, floor - 6, figures.NOT_AVAILABLE, quiet=True))
                continue
            tall = max(value, Decimal(0)) / top_value * (floor - top)  # below zero: its label alone
            tone = "accent" if last else "pale"
            out.append(rect(middle - step * 3 / 10, floor - tall, step * 6 / 10, tall, tone))
            out.append(text(middle, floor - tall - 6, figures.price(value), weight=weight))
        return "".join(out), height

    def plotly(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Traces and what the layout adds."""
        count = len(self.values)
        trace = {
            "type": "bar",
            "x": list(self.labels),
            "y": [None if value is None else str(value) for value in self.values],
            "text": [figures.price(value) for value in self.values],
            "textposition": "outside",
            "hovertemplate": f"%{{x}}: %{{text}} {self.unit}<extra></extra>",
            "meta": {"tone": ["pale"] * (count - 1) + ["accent"]},
        }
        return [trace], {"xaxis": {"type": "category"}, "yaxis": {"visible": False}}


@dataclass(frozen=True, slots=True)
class Bars:
    """For each row a reserved amount and the active part of it."""

    id: str
    title: str
    unit: str
    rows: Sequence[tuple[str, Decimal, Decimal]]
    part_name: str = "active"
    rest_name: str = "reserved, unreferenced"

    def words(self) -> str:
        """The text alternative."""
        pairs = [
            f"{name}: {figures.grouped(part, 1)} of {figures.grouped(total, 1)} {self.part_name}"
            for name, total, part in self.rows
        ]
        return f"{self.unit}: " + ", ".join(pairs) + "."

    def draw(self) -> tuple[str, int]:
        """Shapes and height."""
        label_width, right, row_height = 190, 150, 30
        room = WIDTH - label_width - right
        most = max((total for _, total, _ in self.rows), default=Decimal(0)) or Decimal(1)
        out = [
            rect(label_width, 2, 11, 11, "accent"),
            text(label_width + 16, 12, self.part_name, anchor="start", quiet=True),
            rect(label_width + 90, 2, 11, 11, "pale"),
            text(label_width + 106, 12, self.rest_name, anchor="start", quiet=True),
        ]
        for at, (name, total, part) in enumerate(self.rows):
            y = Decimal(26 + at * row_height)
            long, inner = total / most * room, part / most * room
            out.append(text(label_width - 10, y + 14, cut(name, 28), anchor="end"))
            out.append(rect(label_width, y, inner, 19, "accent"))
            out.append(rect(label_width + inner, y, long - inner, 19, "pale"))
            share = figures.percent(part / total if total else 0, 0)
            shown = f"{figures.grouped(part, 1)} of {figures.grouped(total, 1)} ({share})"
            out.append(text(label_width + long + 8, y + 14, shown, anchor="start"))
        return "".join(out), 34 + len(self.rows) * row_height

    def plotly(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Traces and what the layout adds."""
        names = [name for name, _, _ in self.rows]
        parts = [(self.part_name, "accent", [str(part) for _, _, part in self.rows])]
        rests = (self.rest_name, "pale", [str(total - part) for _, total, part in self.rows])
        data = [
            {"type": "bar", "orientation": "h", "name": name, "y": names, "x": x,
             "meta": {"tone": tone}}
            for name, tone, x in [*parts, rests]
        ]  # fmt: skip
        layout = {"barmode": "stack", "showlegend": True}
        return data, layout | {"yaxis": {"type": "category", "autorange": "reversed"}}
