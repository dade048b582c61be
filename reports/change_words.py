"""Changes and their impact in words for screen and paper (method §10)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from reports import figures


def rows(statement: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The statement's changes with what each did, in words."""
    return [
        dict(row) | impact(row, statement["currency"]) for row in statement.get("changes") or []
    ]


def impact(row: Mapping[str, Any], currency: str) -> dict[str, str]:
    """What a change did to the cost per million tokens and to the cache's use."""
    cost, use = row.get("cost_per_million"), row.get("p99_kv_use")
    found = {"cost_words": row.get("reason") or "n/a", "use_words": row.get("reason") or "n/a"}
    if cost:
        digits = figures.price_decimals(Decimal(cost["after"]))
        found["cost_words"] = (
            f"{figures.price(cost['before'])} → {figures.price(cost['after'])} {currency}: "
            f"{figures.signed(cost['difference'], digits)} "
            f"({figures.signed(cost['lower'], digits)} to {figures.signed(cost['upper'], digits)})"
        )
        found["tone"] = _tone(cost)
    if use:
        found["use_words"] = (
            f"{figures.percent(use['before'])} → {figures.percent(use['after'])}: "
            f"{_points(use['difference'])} points "
            f"({_points(use['lower'])} to {_points(use['upper'])})"
        )
    return found


def became(before: str, after: str) -> str:
    """A change in words; a setting's name stands once: `gpu_memory_utilization 0.92 → 0.87`."""
    name, _, value = before.rpartition(" ")
    same, _, new = after.rpartition(" ")
    if name and name == same and "," not in name:
        return f"{name} {value} → {new}"
    return f"{before} → {after}"


def _points(share: str) -> str:
    """A difference of two shares, in hundredths of the whole."""
    return figures.signed(Decimal(share) * 100, 1)


def _tone(cost: Mapping[str, str]) -> str:
    """Whether the interval says cheaper, dearer, or neither."""
    if Decimal(cost["upper"]) < 0:
        return "cheaper"
    return "dearer" if Decimal(cost["lower"]) > 0 else "no difference that the hours can show"


def message(statement: Mapping[str, Any]) -> str:
    """The section's sentence: the newest change that was measured."""
    measured = [row for row in rows(statement) if row.get("cost_per_million")]
    if not measured:
        return ""
    newest = measured[0]
    return (
        f"{newest['workload']}, {became(newest['before'], newest['after'])}: {newest['tone']}; a million "
        f"tokens {newest['cost_words']}."
    )
