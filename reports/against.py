"""What is against what would have been: a solid bar and an outlined one, to one scale (IBCS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from reports import figures
from reports.shapes import WIDTH, cut, outline, rect, rule, text


@dataclass(frozen=True, slots=True)
class Against:
    """For each row what it cost and what it would have cost."""

    id: str
    title: str
    unit: str
    rows: Sequence[tuple[str, Decimal, Decimal]]

    def words(self) -> str:
        """The text alternative."""
        pairs = [
            f"{name}: {figures.money(actual)} against {figures.money(would)}"
            for name, actual, would in self.rows
        ]
        return f"{self.unit}: " + ", ".join(pairs) + "."

    def draw(self) -> tuple[str, int]:
        """Shapes and height."""
        left, right, row_height = 190, 130, 50
        room = WIDTH - left - right
        most = max((max(a, w) for _, a, w in self.rows), default=Decimal(0)) or Decimal(1)
        out = [rule(left, 4, left, 4 + len(self.rows) * row_height)]
        for at, (name, actual, would) in enumerate(self.rows):
            y = Decimal(8 + at * row_height)
            out.append(text(left - 10, y + 24, cut(name, 28), anchor="end"))
            long, other = (max(Decimal(0), one / most * room) for one in (actual, would))
            out.append(rect(left, y, long, 17, "accent"))
            out.append(_amount(left + long, y, actual, 600))
            out.append(outline(left, y + 21, other, 17))
            out.append(_amount(left + other, y + 21, would, 400))
        return "".join(out), 12 + len(self.rows) * row_height

    def plotly(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Nothing to draw otherwise: the bars label themselves."""
        return [], {}


def _amount(x: Decimal, y: Decimal, amount: Decimal, weight: int) -> str:
    return text(x + 8, y + 13, figures.money(amount), anchor="start", weight=weight)


def saving_chart(statement: Mapping[str, Any], prefix: str = "") -> Against | None:
    """Each workload with a saving: its cost against the baseline's for the same tokens."""
    rows = [
        (row["workload"], Decimal(row["actual"]), Decimal(row["counterfactual"]))
        for row in statement.get("baselines") or []
        if row.get("saving") is not None
    ]
    if not rows:
        return None
    return Against(
        id=f"{prefix}saving",
        title="Cost against the legacy stack, same tokens",
        unit=statement["currency"],
        rows=rows,
    )
