"""The memory table hour by hour, for the stacked area (method §8.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from finops.core.period import Period, rfc3339

from .memory_engines import EngineMemory
from .memory_fleet import Fleet, fleet
from .memory_sums import group_table, hours_of


@dataclass(frozen=True, slots=True)
class MeasuredHours:
    """The hours of GPUs that are measured, and the names of engines on others, which they leave out."""

    rows: list[dict[str, Any]]
    left_out: tuple[str, ...]


def memory_hours(period: Period, slug: str | None = None) -> list[dict[str, Any]]:
    """Hour by hour, what the fleet's or one workload's GPUs held: plain values."""
    known = fleet(period)
    return _hours(known, _engines(known, slug), whole=slug is None)


def measured_hours(period: Period, slug: str | None = None) -> MeasuredHours:
    """The same of the engines whose GPUs are measured, so that each hour closes; where no GPU is
    measured, of all."""
    known = fleet(period)
    engines = _engines(known, slug)
    measured = [engine for engine in engines if engine.devices]
    left_out = sorted({one.name for one in engines if not one.devices}) if measured else []
    rows = _hours(known, measured or engines, whole=slug is None)
    return MeasuredHours(rows, tuple(left_out))


def _engines(known: Fleet, slug: str | None) -> list[EngineMemory]:
    return [engine for engine in known.engines if slug in (None, engine.slug)]


def _hours(known: Fleet, engines: Sequence[EngineMemory], *, whole: bool) -> list[dict[str, Any]]:
    names = {name for engine in engines for name in engine.devices}
    devices = [known.devices[name] for name in sorted(names)]
    return [
        {"hour": rfc3339(hour)}
        | group_table(list(engines), devices, hour, whole_devices=whole).as_json()
        for hour in hours_of(engines)
    ]
