"""The bridge: what moved a price, as changes alone.

The two prices stand beside the steps in figures, since columns that tall would leave the steps too
small to see; nothing is cut off and the steps are true to scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from reports import figures
from reports.shapes import WIDTH, rect, rule, text

SIDE = 96  # room for each of the two prices


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Steps from a first to a last total; a rise is a loss where the value is a cost."""

    id: str
    title: str
    unit: str
    start: tuple[str, Decimal]
    steps: Sequence[tuple[str, Decimal]]
    end: tuple[str, Decimal]

    @property
    def total(self) -> Decimal:
        """The whole change."""
        return self.end[1] - self.start[1]

    def words(self) -> str:
        """The text alternative."""
        steps = [f"{name} {self._shown(value)}" for name, value in self.steps]
        return (
            f"{self.unit}: from {figures.price(self.start[1])} ({self.start[0]}) by "
            f"{', '.join(steps)} to {figures.price(self.end[1])} ({self.end[0]})."
        )

    def _shown(self, value: Decimal) -> str:
        return figures.signed(value, places([v for _, v in self.steps], self.end[1]))

    def levels(self) -> list[Decimal]:
        """Where each step begins, and where the last ends, counted from the first total."""
        found = [Decimal(0)]
        for _, change in self.steps:
            found.append(found[-1] + change)
        return found

    def draw(self) -> tuple[str, int]:
        """Shapes and height."""
        height, floor, top = 200, 164, 24
        levels = self.levels()
        high, low = max(levels), min(levels)
        span = (high - low) or Decimal(1)

        def y_of(value: Decimal) -> Decimal:
            return floor - (value - low) / span * (floor - top)

        room = WIDTH - 2 * SIDE
        step = Decimal(room) / (len(self.steps) + 1)
        wide = step * 6 / 10
        zero = y_of(Decimal(0))
        out = [rule(SIDE - 8, zero, WIDTH - SIDE, zero)]
        out += _price(0, zero, "start", *self.start, weight=400)
        columns = [(name, levels[at], levels[at + 1]) for at, (name, _) in enumerate(self.steps)]
        columns.append(("Change", Decimal(0), levels[-1]))
        for at, (name, before, after) in enumerate(columns):
            left = SIDE + step * at + (step - wide) / 2
            last = at == len(columns) - 1
            y_top, y_foot = sorted((y_of(before), y_of(after)))
            tone = "loss" if after > before else "gain"
            out.append(rect(left, y_top, wide, max(y_foot - y_top, Decimal(1)), tone))
            shown, middle = self._shown(after - before), left + wide / 2
            weight = 600 if last else 400
            out.append(text(middle, y_top - 6, shown, weight=weight))
            out.append(text(middle, height - 12, name, quiet=not last, weight=weight))
            if not last:
                out.append(rule(left + wide, y_of(after), left + step, y_of(after), "2 2"))
        out += _price(WIDTH, y_of(levels[-1]), "end", *self.end, weight=600)
        return "".join(out), height

    def plotly(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Traces and what the layout adds: columns that float on what was before them."""
        levels = self.levels()
        changes = [*(change for _, change in self.steps), self.total]
        trace = {
            "type": "bar",
            "x": [*(name for name, _ in self.steps), "Change"],
            "y": [str(change) for change in changes],
            "base": [*(str(level) for level in levels[:-1]), "0"],
            "text": [self._shown(change) for change in changes],
            "textposition": "outside",
            "hovertemplate": f"%{{x}}: %{{text}} {self.unit}<extra></extra>",
            "meta": {"tone": ["loss" if change > 0 else "gain" for change in changes]},
        }
        names = [self.start[0], *trace["x"], f"{self.end[0]} "]  # never the name of a step
        prices = [
            {"x": x, "y": str(y), "text": f"{figures.price(value)}<br>{week}",
             "showarrow": False, "font": {"size": 13}}
            for x, y, (week, value) in ((names[0], 0, self.start), (names[-1], levels[-1], self.end))
        ]  # fmt: skip
        axis: dict[str, Any] = {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names,
        }
        axis |= {"range": [-0.5, len(names) - 0.5], "tickvals": trace["x"]}
        return [trace], {"xaxis": axis, "yaxis": {"visible": False}, "annotations": prices}


def places(changes: Sequence[Decimal], price: Decimal | None) -> int:
    """Decimals for all changes of a bridge alike: those of the price, and enough to show the
    largest change and the whole change with three digits."""
    whole = sum(changes, Decimal(0))
    largest = max((abs(change) for change in changes), default=Decimal(0))
    return max(figures.price_decimals(value) for value in (price or Decimal(0), largest, whole))


def _price(x: int, y: Decimal, anchor: str, week: str, value: Decimal, *, weight: int) -> list[str]:
    """A week and its price at the side, at the level it stands for."""
    y = min(max(y, Decimal(28)), Decimal(150))
    return [
        text(x, y - 7, figures.price(value), anchor=anchor, size=15, weight=600),
        text(x, y + 10, week, anchor=anchor, quiet=weight < 600, weight=weight),
    ]
