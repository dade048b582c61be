"""Deriving the hours of nodes and of the GPUs held on them from the cluster's gauges (method §4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from finops.core.counter_values import DAY_MS
from finops.core.held import held_hours
from finops.core.period import HOUR_MS, instant_of, milliseconds
from finops.ledger.models import GpuHour, Series

from .bulk import copy_rows
from .columns import read_columns
from .roles import NODE_ROLES


def derive_nodes(series: Sequence[Series], from_day: int, *, at: datetime) -> None:
    """Posts the hours of a target's node and request gauges from a UTC day on, where they changed.

    The hour before the day is derived too: its last reading may hold longer than was known.
    """
    from_ms = from_day - HOUR_MS
    new: list[GpuHour] = []
    for one in series:
        if one.role not in NODE_ROLES:
            continue
        kept = _current(one, from_ms)
        for row in held_hours(*_readings(one, from_day - DAY_MS)):
            old = kept.get(row.hour_ms)
            known = (old.gpu_ms, old.observed_ms) if old else None
            if row.hour_ms < from_ms or known == (row.gpu_ms, row.observed_ms):
                continue
            revision = old.revision + 1 if old else 1
            new.append(
                GpuHour(
                    series=one,
                    hour=instant_of(row.hour_ms),
                    revision=revision,
                    gpu_ms=row.gpu_ms,
                    observed_ms=row.observed_ms,
                    posted_at=at,
                )
            )
    copy_rows(new)


def _readings(series: Series, from_ms: int) -> tuple[list[int], list[int]]:
    """The replica with the most readings, ties by name; GPUs are whole."""
    columns = read_columns(series, max(0, from_ms))
    if not columns:
        return [], []
    _, name = min((-len(times), name) for name, (times, _) in columns.items())
    times, values = columns[name]
    return times, [max(0, int(value)) for value in values]


def _current(series: Series, from_ms: int) -> dict[int, GpuHour]:
    rows = (
        GpuHour.objects.filter(series=series, hour__gte=instant_of(max(0, from_ms)))
        .order_by("hour", "-revision")
        .distinct("hour")
    )
    return {milliseconds(row.hour): row for row in rows}
