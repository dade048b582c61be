"""The closing memory tables of a week: of each workload and of the fleet (method §8.5)."""

from __future__ import annotations

from finops.core.memory_closing import FLEET, Closing

from .memory_engines import EngineMemory
from .memory_fleet import Fleet
from .memory_sums import group_table
from .reading import Reading


def closings(reading: Reading, known: Fleet) -> tuple[Closing, ...]:
    """Each workload's engines with the GPUs they are on, and the fleet with all GPUs; none where
    nothing tells of memory."""
    groups: dict[str, list[EngineMemory]] = {}
    for engine in known.engines:
        if engine.slug is not None:
            groups.setdefault(engine.slug, []).append(engine)
    found = []
    for slug, engines in sorted(groups.items()):
        names = sorted({name for engine in engines for name in engine.devices})
        held = group_table(engines, [known.devices[name] for name in names])
        cost = reading.whole.cost(slug, reading.currency)
        found.append(Closing(slug, held, cost or None))
    if known.engines or known.devices:
        devices = [device for _, device in sorted(known.devices.items())]
        found.append(Closing(FLEET, group_table(known.engines, devices, whole_devices=True)))
    return tuple(found)
