"""Engines that two scrape jobs or two stores tell of: one engine's memory counted once (method §2.7).

Whether they are one is for a person to decide, as with tokens. Until then each stands in lists of
engines for itself, and where engines are added up the one that was read longest counts: a card cannot
hold one engine twice. Once a rule puts all but one of them out of scope, the others are set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from finops.core.presence import at_once

if TYPE_CHECKING:
    from .memory_engines import Device, EngineMemory
    from .memory_fleet import Fleet

APART = ("WorkerId", "ReplicaId")
"""Labels by which engines behind one address differ (vLLM through Ray)."""


def tell_once(known: Fleet) -> None:
    """Marks each engine of a fleet that is told twice, says which of them counts until a rule decides,
    and sets aside what a rule decided."""
    aside: dict[int, EngineMemory] = {}
    for group in _groups(known.engines):
        for engine in group:
            others = [one for one in group if one is not engine and _may_be_one(one, engine)]
            kept = [one for one in others if not one.out_of_scope]
            if engine.out_of_scope and kept:
                aside[id(engine)] = kept[0]
            else:
                engine.told_again = [one for one in others if not one.out_of_scope]
                engine.set_aside = [one for one in others if one.out_of_scope]
        _choose([one for one in group if not one.out_of_scope])
    for device in known.devices.values():
        _hand_over(device, aside)
    known.doubles = [one for one in known.engines if id(one) in aside]
    known.engines = [one for one in known.engines if id(one) not in aside]


def once(engines: Iterable[EngineMemory]) -> list[EngineMemory]:
    """Engines as they may be added up: without those in whose place another of them counts."""
    known = list(engines)
    counting = {id(one) for one in known}
    return [one for one in known if id(one.counted_as) not in counting]


def _choose(group: Sequence[EngineMemory]) -> None:
    """Of engines that may be one, the one that was read longest counts, one with a workload before
    one without; ties by source and job."""
    counting: list[EngineMemory] = []
    for engine in sorted(group, key=lambda one: (one.slug is None, -one.read_ms, one.reader)):
        engine.counted_as = next((one for one in counting if _may_be_one(one, engine)), None)
        if engine.counted_as is None:
            counting.append(engine)


def _groups(engines: Sequence[EngineMemory]) -> list[list[EngineMemory]]:
    """Engines of one address, number, model and pod that several jobs or sources tell of."""
    found: dict[tuple[object, ...], list[EngineMemory]] = {}
    for engine in engines:
        labels = engine.series.labels
        key = (engine.series.target.instance, engine.series.engine, labels.get("model_name"),
               engine.tenant, *(labels.get(name) for name in APART))  # fmt: skip
        found.setdefault(key, []).append(engine)
    return [group for group in found.values() if len({one.reader for one in group}) > 1]


def _may_be_one(one: EngineMemory, other: EngineMemory) -> bool:
    """Whether two readers tell of one engine: at one time, and not each on a GPU of its own (hosts
    of two clusters may have one address)."""
    together = at_once([(1, one.spans.values()), (1, other.spans.values())]) > 1
    apart = one.devices and other.devices and not set(one.devices) & set(other.devices)
    return one.reader != other.reader and together and not apart


def readers(engine: EngineMemory, others: Iterable[EngineMemory]) -> str:
    """Who tells of an engine, in words: `job vllm of prom-a and job vllm of prom-b`."""
    told = sorted({one.reader for one in (engine, *others)})
    return " and ".join(f"job {job} of {source}" for source, job in told)


def _hand_over(device: Device, aside: dict[int, EngineMemory]) -> None:
    """What is set aside leaves its place on the card to the one that counts, if it has none; what
    is not decided shares it."""
    placed: list[tuple[EngineMemory, int]] = []
    for engine, number in device.engines:
        for kept in (aside.get(id(engine), engine), engine.counted_as):
            if kept is None:
                continue
            if not any(kept is one for one, _ in placed):
                placed.append((kept, number))
            if device.name not in kept.devices:
                kept.devices.append(device.name)
    device.engines = placed
