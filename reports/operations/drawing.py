"""Noting that a sample of rows was drawn for a walk-through (method §11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from finops.trail.models import Entry
from finops.trail.operations import record
from reports.queries.standing import Standing

ACTION = "sample drawn"


def drawn(
    stand: Standing,
    rows: Iterable[Mapping[str, Any]],
    *,
    seed: str,
    count: int,
    by: str,
    at: datetime,
) -> Entry:
    """Writes a drawn sample into the trail: the seed, how many rows of each kind, and their keys."""
    return record(
        at=at,
        actor=by,
        action=ACTION,
        subject=f"report {stand.week}",
        detail={"seed": seed, "rows": count, "revision": stand.revision,
                "keys": [one["key"] for one in rows]},
    )  # fmt: skip
