"""The KV cache of each workload by the hour, with one GPU of each engine beside it (method §8)."""

from __future__ import annotations

from datetime import datetime

from finops.core.memory_hours import MemoryHours, memory_hours
from finops.core.period import Period

from .engines_twice import once
from .memory_engines import Device, EngineMemory
from .memory_fleet import Fleet, fleet


def hours_by_workload(
    period: Period, as_of: datetime | None = None, known: Fleet | None = None
) -> dict[str, MemoryHours]:
    """By workload: reserved and active of its engines together, hour by hour, what may be one engine
    once; `known` where the period's engines have been read already."""
    known = known or fleet(period, as_of)
    engines: dict[str, list[EngineMemory]] = {}
    for engine in known.engines:
        if engine.slug is not None:
            engines.setdefault(engine.slug, []).append(engine)
    found = {slug: _hours(slug, period, once(mine), known) for slug, mine in engines.items()}
    return {slug: hours for slug, hours in found.items() if hours is not None}


def _hours(
    slug: str, period: Period, engines: list[EngineMemory], known: Fleet
) -> MemoryHours | None:
    sizes = {engine.kv.bytes_per_token if engine.kv else None for engine in engines}
    # Engines of a workload whose tokens take different bytes are only comparable in tokens.
    size = sizes.pop() if len(sizes) == 1 else None
    firsts = [known.devices[engine.devices[0]] for engine in engines if engine.devices]
    measured = firsts if len(firsts) == len(engines) else []
    totals = [device.rows[-1].total_bytes for device in measured]
    return memory_hours(
        slug,
        period,
        [engine.rows for engine in engines],
        size,
        [_used(device) for device in measured],
        [total for total in totals if total] if all(totals) else [],
    )


def _used(device: Device) -> dict[datetime, int]:
    """Used bytes by hour as nvidia-smi shows them: from driver 510 on the driver's own part is not
    in them, as real readings tell (used + free + reserved = total)."""
    return {
        row.hour: int(row.used_byte_ms // row.observed_ms)
        for row in device.rows
        if row.used_byte_ms is not None and row.observed_ms
    }
