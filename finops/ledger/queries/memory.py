"""The memory table by GPU, engine or workload over a period (method §8.5, §8.7, §8.8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from finops.core.auditor import over_profile
from finops.core.engine_start import gib
from finops.core.memory import sentence
from finops.core.memory_closing import headroom_cost
from finops.core.memory_table import Table
from finops.core.money import plain
from finops.core.period import Period, instant_of, rfc3339
from finops.core.presence import at_once

from .engines_twice import once, readers
from .memory_engines import Device, EngineMemory
from .memory_fleet import Fleet, fleet
from .memory_sums import device_table, group_table, held_spans, hours_of
from .reading import read

BY = ("gpu", "engine", "workload")
SHARED = "several pods hold this GPU at once (time-slicing or MPS): one may starve the other"
SLICED = "a MIG instance: figures are those of the slice where the exporter tells them"
PARTITIONED = (
    "a compute partition of a card: AMD's tools may show each partition the memory of the whole card, "
    "which would then stand here once for each"
)
NO_DEVICE = "no GPU metrics for this engine: device total not measured"
ONE_GPU = "how many GPUs an engine has is not known: its figures are of one GPU"
SPARE_GPUS = (
    "{} holds {} more GPUs than its log says it is spread over: they hold nothing of it, and stand idle in "
    "its pod"
)
UNSEEN_GPUS = "{} is spread over {} GPUs by its log, and GPU metrics tell of {}: the others are not in this table"
NO_LOG = "no start-up log of this start: weights, graphs and non-torch memory not measured"
TWO_ENGINES = (
    "{} engines share this GPU at one time: the parts of each are told by its own log and gauges"
)
TOLD_AGAIN = (
    "read twice, it seems: {} is told by {}. Until a rule on job or source puts all but one out of "
    "scope, the one read longest counts where engines are added up"
)
SET_ASIDE = "told twice and counted once: {} by {}; a rule put all but one out of scope"
OTHERS = (
    "no exporter read here tells apart who holds this GPU's memory: what other programs hold is part of "
    "the remainder"
)
NEVER_TOLD = {
    "amd": "AMD's exporter tells this GPU's memory as a whole, and of no program what it holds (its label "
    "kfd_process_id names processes without their memory): what other programs hold is part of the "
    "remainder"
}
"""Exporters that tell nothing of other programs, however they are set up, and what is said then."""
AT_MOST = "when the engine started, everything else on the card, its own context included, held {} at most"
OVER_PROFILE = (
    "at the peak {} more were in use than the engine's parts and the activations it measured at its "
    "start: requests larger than those it was measured with, a fragmented allocator, or another "
    "program on the card"
)
STALE = "gauges stood still while no tokens moved, or the engine slept: left out of averages"


def memory_rows(period: Period, by: str | None = None) -> list[dict[str, Any]]:
    """The table by `gpu`, `engine` or `workload`, or of the fleet in one row; plain values."""
    known = fleet(period)
    if by == "gpu":
        return [_gpu_row(d) for _, d in sorted(known.devices.items())]
    if by == "engine":
        return [_group_row(e.name, [e], known, _labels(e)) for e in known.engines]
    if by is None:
        told = known.engines or known.devices
        return [_group_row("fleet", known.engines, known, {}, whole=True)] if told else []
    groups: dict[str, list[EngineMemory]] = {}
    for engine in known.engines:
        groups.setdefault(engine.slug or "no workload", []).append(engine)
    rows = [_group_row(key, mine, known, {}) for key, mine in sorted(groups.items())]
    return _with_costs(rows, period)


def _labels(engine: EngineMemory) -> dict[str, Any]:
    source, job = engine.reader
    return {"workload": engine.slug, "source": source, "job": job}


def _with_costs(rows: list[dict[str, Any]], period: Period) -> list[dict[str, Any]]:
    """Headroom cost: effective cost × the share of device memory that is KV unreferenced; for
    information, part of the workload's cost already (method §8.8)."""
    reading = read(period)
    for row in rows:
        cost = reading.whole.cost(row["key"], reading.currency)
        rest, total = row["kv_unreferenced_bytes"], row["total_bytes"]
        amount = headroom_cost(cost, rest, total)
        row["headroom_cost"] = None if amount is None else plain(amount)
        row["currency"] = None if amount is None else reading.currency
    return rows


def _gpu_row(device: Device) -> dict[str, Any]:
    table = device_table(device)
    row = device.rows[-1]
    flags = _shapes([device]) + ([SLICED] if device.sliced else [])
    tenants = [f"{space}/{pod}" for space, pod in sorted(device.tenants)]
    labels = dict(row.labels) | {"tenants": tenants}
    value = {"key": device.name, "labels": labels, "gpus": 1} | table.as_json()
    value |= _peak_of_devices([device])
    if device.engines_at_once > 1:
        flags.append(TWO_ENGINES.format(device.engines_at_once))
    over = over_profile(value)
    if over is not None:
        flags.append(OVER_PROFILE.format(gib(over)))
    if value["other_bytes"] is None:
        flags.append(NEVER_TOLD.get(device.exporter, OTHERS))
        at_most = _others_at_start(device)
        if at_most is not None:
            flags.append(AT_MOST.format(gib(at_most)))
    value["over_profile_bytes"] = over
    return value | _engine_values([e for e, _ in device.engines], flags)


def _shapes(devices: Sequence[Device]) -> list[str]:
    """What is to be said of GPUs that pods share, or that are parts of a card."""
    shared, parts = (any(getattr(one, how) for one in devices) for how in ("shared", "partitioned"))
    return [text for holds, text in ((shared, SHARED), (parts, PARTITIONED)) if holds]


def _others_at_start(device: Device) -> int | None:
    """What was in use on the GPU before its engine took anything, by the engine's log; of engines
    that followed each other the most."""
    if device.engines_at_once > 1:
        return None
    counting = {id(engine) for engine in once(engine for engine, _ in device.engines)}
    told = [engine.worker(number) for engine, number in device.engines if id(engine) in counting]
    pairs = [(one.get("total_bytes"), one.get("free_at_start_bytes")) for one in told]
    held = [None if None in (t, f) else int(t or 0) - int(f or 0) for t, f in pairs]
    known = [value for value in held if value is not None]
    return max(known, default=None) if len(known) == len(pairs) else None


def _group_row(
    key: str,
    engines: list[EngineMemory],
    known: Fleet,
    labels: dict[str, Any],
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Engines together with the GPUs they are on, a GPU counted once; `whole`: with all GPUs.

    What may be one engine counts once, and that is said.
    """
    every, engines = engines, once(engines)
    names = {name for engine in engines for name in engine.devices}
    if whole:
        names |= known.devices.keys()
    devices = [known.devices[name] for name in sorted(names)]
    flags = _shapes(devices)
    if any(not engine.devices for engine in engines):
        flags.append(NO_DEVICE)
    apart = [(e.gpus, e.there(None)) for e in engines if not e.devices]
    held = [
        (1, held_spans(d, (e for e in engines if d.name in e.devices), whole=whole))
        for d in devices
    ]
    gpus: int | None = at_once([*held, *apart])
    if not all(engine.gpus_known for engine in engines):
        gpus = None
        flags.append(ONE_GPU)
    value = {"key": key, "labels": labels, "gpus": gpus, "gpus_without_metrics": at_once(apart)}
    value |= _seen(engines)
    value |= group_table(engines, devices, whole_devices=whole).as_json()
    value |= _busiest(engines, devices, whole_devices=whole)
    return value | _peak_of_devices(devices) | _engine_values(every, flags)


def _seen(engines: list[EngineMemory]) -> dict[str, Any]:
    """From when to when the engines were read in the period."""
    spans = [span for engine in engines for span in engine.there(None)]
    first = min((start for start, _ in spans), default=None)
    last = max((end for _, end in spans), default=None)
    return {
        "first_seen": None if first is None else rfc3339(instant_of(first)),
        "last_seen": None if last is None else rfc3339(instant_of(last)),
    }


def _busiest(
    engines: list[EngineMemory], devices: list[Device], *, whole_devices: bool
) -> dict[str, Any]:
    """The hour in which live requests held most of the cache, with its own table."""
    best: tuple[int, datetime, Table] | None = None
    for hour in hours_of(engines):
        table = group_table(engines, devices, hour, whole_devices=whole_devices)
        active = table.parts.get("kv_active")
        if active is not None and (best is None or active > best[0]):
            best = active, hour, table
    if best is None:
        return {"busiest_hour": None}
    return {"busiest_hour": {"hour": rfc3339(best[1])} | best[2].as_json()}


def _peak_of_devices(devices: list[Device]) -> dict[str, Any]:
    """The highest use any of the GPUs showed: what nvidia-smi would have said then."""
    peaks = [(r.peak_used_bytes, r.peak_ms) for d in devices for r in d.rows if r.peak_used_bytes]
    best = max(peaks, key=lambda one: one[0] or 0, default=(None, None))
    at = None if best[1] is None else rfc3339(instant_of(best[1]))
    return {"peak_used_bytes": best[0], "peak_used_at": at}


def _engine_values(engines: list[EngineMemory], flags: list[str]) -> dict[str, Any]:
    """What the reservation bought, the peak, and where the figures come from."""
    counting = once(engines)
    figures = [(engine, found) for engine in counting if (found := engine.figures())]
    stale = sum(found.stale_ms for _, found in figures)
    flags = [*flags, *_told_twice(engines), *_other_gpus(counting)]
    if any(not engine.is_told for engine in counting):
        flags = [*flags, NO_LOG]
    if stale:
        flags = [*flags, STALE]
    return {
        "engines": [
            {
                "engine": engine.name,
                "workload": engine.slug,
                "first_seen": rfc3339(found.first_seen),
                "last_seen": rfc3339(found.last_seen),
                "reserved_tokens": found.reserved_tokens,
                "reserved_tokens_mean": _whole(found.reserved_tokens_mean),
                "active_tokens_mean": _whole(found.active_tokens_mean),
                "peak_active_tokens": found.peak_active_tokens,
                "peak_at": None if found.peak_at is None else rfc3339(found.peak_at),
                "peak_kv_active_bytes": _peak_bytes(engine),
                "peak_running": found.peak_running,
                "contiguous_slots": found.contiguous_slots,
                "max_model_len": found.max_model_len,
                "observed_seconds": found.observed_ms // 1000,
                "stale_seconds": found.stale_ms // 1000,
                "kv_bytes_from": engine.kv.source if engine.kv else _log_of(engine),
                "log": engine.start.document_id if engine.start else None,
                "sentence": sentence(found),
            }
            for engine, found in figures
        ],
        "stale_seconds": stale // 1000,
        "flags": flags,
    }


def _told_twice(engines: Iterable[EngineMemory]) -> list[str]:
    """Engines that two jobs or sources tell of, decided or not (method §2.7); each once."""
    said = [
        text.format(engine.name, readers(engine, others))
        for engine in engines
        for text, others in ((TOLD_AGAIN, engine.told_again), (SET_ASIDE, engine.set_aside))
        if others
    ]
    return list(dict.fromkeys(said))


def _other_gpus(engines: Iterable[EngineMemory]) -> list[str]:
    """Engines whose log and GPU metrics tell of different numbers of GPUs."""
    found = []
    for one in engines:
        seen, told = len(one.devices), one.gpus_told
        if one.spare_gpus:
            found.append(SPARE_GPUS.format(one.name, one.spare_gpus))
        elif told and 0 < seen < told:
            found.append(UNSEEN_GPUS.format(one.name, told, seen))
    return found


def _log_of(engine: EngineMemory) -> str | None:
    if "kv_bytes" in engine.configuration:
        return "the engine's own gauges"
    known = engine.start is not None and engine.worker(0).get("kv_bytes") is not None
    return f"start-up log {engine.start.document_id[:12]}" if known and engine.start else None


def _peak_bytes(engine: EngineMemory) -> int | None:
    """The cache's bytes in use on one GPU at the busiest instant."""
    best = max((r for r in engine.rows if r.peak_blocks is not None and r.blocks),
               key=lambda r: r.peak_blocks or 0, default=None)  # fmt: skip
    reserved = engine.reserved_bytes(best, 0) if best else None
    if best is None or reserved is None or not best.blocks:
        return None
    return reserved * (best.peak_blocks or 0) // best.blocks


def _whole(value: Decimal | None) -> int | None:
    return None if value is None else int(value.to_integral_value(ROUND_HALF_EVEN))
