"""Service levels as columns of exact figures, for CSV files, lists and Prometheus (method §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from finops.core.service_levels import beside_price
from finops.core.slo import MEASURES

SIDES: Final = ("lower", "upper")
ORGANISATION: Final = tuple(f"{name}_in_time_{side}" for name in MEASURES for side in SIDES)
NAMES: Final = (
    *ORGANISATION, "objective_target", "objective_verdict",
    "cost_per_million_tokens_in_time_lower", "cost_per_million_tokens_in_time_upper",
)  # fmt: skip


def shares(level: Mapping[str, Any] | None) -> dict[str, str | None]:
    """The shares in time of a workload's or the organisation's level, each with its two bounds; None
    where they are not known."""
    told = level or {}
    return {
        f"{name}_in_time_{side}": (told.get(name) or {}).get(f"share_{side}")
        for name in MEASURES
        for side in SIDES
    }


def listed(statement: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a statement that lists of reports show without reading the statement again."""
    found: dict[str, Any] = dict(statement.get("figures") or {})
    found["currency"] = statement.get("currency")
    return found | shares(beside_price(statement))


def values(level: Mapping[str, Any] | None) -> list[str]:
    """A workload's level in the order of NAMES; empty where it is not known."""
    told = level or {}
    objective, good = told.get("objective") or {}, told.get("goodput") or {}
    found = [
        *shares(told).values(), objective.get("target"), told.get("verdict"),
        good.get("cost_per_million_lower"), good.get("cost_per_million_upper"),
    ]  # fmt: skip
    return ["" if one is None else str(one) for one in found]
