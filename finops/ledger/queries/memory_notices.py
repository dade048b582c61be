"""What a reader must know of GPU memory in a period (method §8.5)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from finops.core.engine_start import gib
from finops.core.facts import Notice
from finops.core.memory import pool_tokens
from finops.core.money import grouped, plain, round_half_even
from finops.core.period import Period
from finops.core.replicas_memory import standing_out
from finops.ledger.models import CacheHour, DeviceHour, EngineStart

from .as_of import known_by
from .engines_twice import once
from .memory_engines import Device, EngineMemory
from .memory_fleet import Fleet, fleet
from .memory_sums import device_table


def memory_notices(period: Period, as_of: datetime | None = None) -> Iterator[Notice]:
    """Logs whose figures do not add up or differ from the configuration, replicas
    that stand out, GPUs that pods share, and tables over their total."""
    span = {"hour__gte": period.start, "hour__lt": period.end}
    read = (
        DeviceHour.objects.filter(**span),
        CacheHour.objects.filter(**span),
        EngineStart.objects,
    )
    if not any(rows.filter(known_by(as_of)).exists() for rows in read):
        return
    known = fleet(period, as_of)
    for engine in once(known.engines):
        yield from _log(engine)
    yield from _replicas(known)
    for _, device in sorted(known.devices.items()):
        yield from _device(device)


def _replicas(known: Fleet) -> Iterator[Notice]:
    """Engines whose pool is far from that of their equals."""
    told = [
        (engine.name, (engine.slug, *_kind(engine, known)), pool)
        for engine in once(known.engines)
        if engine.slug is not None and (pool := pool_tokens(engine.rows[-1])) is not None
    ]
    for name, pool, middle, away in standing_out(told):
        share = plain(round_half_even(abs(away) * 100, 1))
        yield Notice(
            "replica-stands-out",
            name,
            f"{name} reserved room for {grouped(pool)} tokens, {share} % "
            f"{'less' if away < 0 else 'more'} than its equals with {grouped(middle)}: what it "
            "measured at its start may have been disturbed. Start it again and compare.",
        )


def _kind(engine: EngineMemory, known: Fleet) -> tuple[object, ...]:
    """What engines that should have equal pools have alike."""
    last, told = engine.rows[-1], engine.configuration
    sizes = tuple(known.devices[name].rows[-1].total_bytes for name in engine.devices)
    names = ("gpu_memory_utilization", "cache_dtype", "kv_cache_memory_bytes",
             "num_gpu_blocks_override")  # fmt: skip
    return (engine.series.labels.get("model_name"), last.block_size, last.max_model_len, sizes,
            *(told.get(name) for name in names))  # fmt: skip


def _log(engine: EngineMemory) -> Iterator[Notice]:
    found = engine.start.figures.get("identity") if engine.start else None
    if found and not found["holds"]:
        yield Notice(
            "log-does-not-add-up",
            engine.name,
            f"{engine.name}: the start-up log's budget less its parts differs from the KV cache it "
            f"prints by {gib(found['difference_bytes'])}, more than rounding allows.",
        )
    if engine.agreement is not None and not engine.agreement.holds:
        yield Notice("kv-bytes-differ", engine.name, f"{engine.name}: {engine.agreement.sentence}")


def _device(device: Device) -> Iterator[Notice]:
    if device.shared:
        pods = ", ".join(f"{space}/{pod}" for space, pod in sorted(device.tenants))
        yield Notice(
            "gpu-shared",
            device.name,
            f"GPU {device.name} was held by several pods at once ({pods}): one may take the memory "
            f"another needs, and what each used is {_apart(device)}.",
        )
    rest = device_table(device).unattributed
    if rest is not None and rest < 0:
        yield Notice(
            "memory-over-total",
            device.name,
            f"GPU {device.name}: the known parts exceed the device's memory by {gib(-rest)}. "
            "An engine on another GPU, a log of another start or a wrong configuration may be "
            "counted.",
        )


def _apart(device: Device) -> str:
    """Whether the exporter tells the pods' memory apart."""
    told = any("pods" in row.holders for row in device.rows)
    return "told by the exporter, pod by pod" if told else "not told apart"
