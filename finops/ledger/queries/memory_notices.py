"""What a reader must know of GPU memory in a period (method §8.5)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from finops.core.engine_start import gib
from finops.core.facts import Notice
from finops.core.period import Period
from finops.ledger.models import DeviceHour, EngineStart

from .as_of import known_by
from .memory import device_table
from .memory_fleet import Device, EngineMemory, fleet


def memory_notices(period: Period, as_of: datetime | None = None) -> Iterator[Notice]:
    """Logs whose figures do not add up, GPUs that pods share, and tables over their total."""
    hours = DeviceHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    if not (hours.exists() or EngineStart.objects.filter(known_by(as_of)).exists()):
        return
    known = fleet(period, as_of)
    for engine in known.engines:
        yield from _log(engine)
    for _, device in sorted(known.devices.items()):
        yield from _device(device)


def _log(engine: EngineMemory) -> Iterator[Notice]:
    found = engine.start.figures.get("identity") if engine.start else None
    if found and not found["holds"]:
        yield Notice(
            "log-does-not-add-up",
            engine.name,
            f"{engine.name}: the start-up log's budget less its parts differs from the KV cache it "
            f"prints by {gib(found['difference_bytes'])}, more than rounding allows.",
        )


def _device(device: Device) -> Iterator[Notice]:
    if device.shared:
        pods = ", ".join(f"{space}/{pod}" for space, pod in sorted(device.tenants))
        yield Notice(
            "gpu-shared",
            device.name,
            f"GPU {device.name} was held by several pods at once ({pods}): one may take the memory "
            f"another needs, and what each used is {_apart(device)}.",
        )
    rest = device_table(device, device.engines).unattributed
    if rest is not None and rest < 0:
        yield Notice(
            "memory-over-total",
            device.name,
            f"GPU {device.name}: the known parts exceed the device's memory by {gib(-rest)}. An "
            "engine on another GPU, a log of another start or a wrong configuration may be counted.",
        )


def _apart(device: Device) -> str:
    """Whether the exporter tells the pods' memory apart."""
    told = any("pods" in row.holders for row in device.rows)
    return "told by the exporter, pod by pod" if told else "not told apart"
