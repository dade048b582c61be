"""Numbered footnotes of the workloads table: a mark where a figure has a caveat, its text below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

EXPLAINED = {
    "prompt_tokens": ("prompt_tokens",),
    "generation_tokens": ("generation_tokens", "prompt_tokens"),
    "cost_per_million_tokens": ("cost_per_million_tokens",),
    "tokens_per_dollar": ("tokens_per_dollar", "cost_per_million_tokens"),
    "gpu_hours": ("gpu_hours",),
    "coverage": ("coverage", "prompt_tokens"),
}
COLUMNS = (
    "prompt_tokens",
    "generation_tokens",
    "effective_cost",
    "cost_per_million_tokens",
    "tokens_per_dollar",
    "gpu_hours",
    "coverage",
)
"""The figures with caveats, as the table's columns follow each other."""
WHOLE_WEEK = "Without common hours, the cost of all hours of the week is shown."
BOUNDS = "Under a price: its bounds where tokens may have been lost unseen."


@dataclass(slots=True)
class Footnotes:
    """Texts in the order of their numbers, and marks by `workload/figure`."""

    texts: list[str] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)

    def add(self, key: str, text: str) -> None:
        """Marks a figure with the number of a text, each text once."""
        if text not in self.texts:
            self.texts.append(text)
        self.marks[key] = self.texts.index(text) + 1


def footnotes(workloads: Sequence[dict[str, Any]]) -> Footnotes:
    """The footnotes of a report's workloads, numbered in reading order."""
    found = Footnotes()
    sources = {s for row in workloads if (s := row["figures"].get("gpu_hours_source"))}
    if len(sources) == 1:
        found.add("/gpu_hours", f"GPU-hours: {min(sources)}.")
    for row in workloads:
        for name in COLUMNS:
            text = _text(row, name, with_source=len(sources) > 1)
            if text:
                found.add(f"{row['slug']}/{name}", text)
    return found


def _text(row: dict[str, Any], name: str, *, with_source: bool) -> str | None:
    """The caveat of one figure; None where it has none."""
    value = row["figures"].get(name)
    if name == "effective_cost":
        return WHOLE_WEEK if row["cost_of_week"] else None
    if value is None:
        reason = _reason(row, name)
        return f"n/a: {reason}." if reason else None
    if name == "cost_per_million_tokens" and row["interval"]:
        return BOUNDS
    source = row["figures"].get("gpu_hours_source")
    return f"GPU-hours: {source}." if name == "gpu_hours" and source and with_source else None


def _reason(row: dict[str, Any], name: str) -> str | None:
    reasons = row.get("reasons", {})
    return next((reasons[key] for key in EXPLAINED[name] if reasons.get(key)), None)
