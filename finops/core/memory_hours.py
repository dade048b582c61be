"""Reserved and active KV cache of a workload by the hour, beside what the GPU shows (method §8).

What a chart over the week draws, in whole MiB where a token's bytes are known and in tokens where
they are not. Means and peaks of the week are in `core.memory`; these hours are never added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from .memory import CacheRow, active_token_ms, pool_tokens
from .money import divide, round_half_even
from .period import HOUR_MS, Period, milliseconds, rfc3339

MIB = 2**20


@dataclass(frozen=True, slots=True)
class MemoryHours:
    """One workload's hours; None for an hour in which nothing was read.

    Bytes are those on one GPU of each engine, as everywhere in the memory figures (§8.3); `device`
    is what one GPU of each engine showed as used, None where no exporter tells of the GPUs.
    """

    workload: str
    unit: str
    engines: int
    start: datetime
    reserved: tuple[int | None, ...]
    active: tuple[int | None, ...]
    device: tuple[int | None, ...] | None = None
    device_total: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values; the reservation as its steps `[hour, value]`, since it rarely changes."""
        return {
            "workload": self.workload,
            "unit": self.unit,
            "engines": self.engines,
            "start": rfc3339(self.start),
            "hours": len(self.active),
            "reserved_steps": _steps(self.reserved),
            "active": list(self.active),
            "device_used": None if self.device is None else list(self.device),
            "device_total": self.device_total,
        }


def _steps(values: Sequence[int | None]) -> list[list[int | None]]:
    found: list[list[int | None]] = []
    for at, value in enumerate(values):
        if not found or found[-1][1] != value:
            found.append([at, value])
    return found


def unstepped(steps: Sequence[Sequence[int | None]], hours: int) -> list[int | None]:
    """The values of `as_json`'s steps, hour by hour."""
    found: list[int | None] = []
    for at, value in steps:
        found += [found[-1] if found else None] * ((at or 0) - len(found))
        found.append(value)
    return found + [found[-1] if found else None] * (hours - len(found))


def memory_hours(
    workload: str,
    period: Period,
    engines: Sequence[Sequence[CacheRow]],
    bytes_per_token: int | None = None,
    devices: Sequence[Mapping[datetime, int]] = (),
    device_total: int | None = None,
) -> MemoryHours | None:
    """A workload's engines together, hour by hour; None without a single reading.

    An engine counts in the hours it was read in. An hour in which a gauge stood still while no
    tokens moved has a reservation but no active part (§8.9). `devices` gives one GPU of each
    engine, its used bytes by hour.
    """
    count = (milliseconds(period.end) - milliseconds(period.start)) // HOUR_MS
    hours = [period.start + (period.end - period.start) * at / count for at in range(count)]
    known = [{row.hour: row for row in rows} for rows in engines]
    if not any(known):
        return None
    reserved = [_total([_pool_in(rows.get(hour)) for rows in known]) for hour in hours]
    active = [_total([_active_in(rows.get(hour)) for rows in known]) for hour in hours]
    used = [_total([rows.get(hour) for rows in devices]) for hour in hours] if devices else None
    scale = divide(Decimal(bytes_per_token), Decimal(MIB)) if bytes_per_token else Decimal(1)
    return MemoryHours(
        workload=workload,
        unit="MiB" if bytes_per_token else "tokens",
        engines=len(known),
        start=period.start,
        reserved=tuple(_scaled(value, scale) for value in reserved),
        active=tuple(_scaled(value, scale) for value in active),
        device=None
        if used is None
        else tuple(_scaled(value, divide(Decimal(1), Decimal(MIB))) for value in used),
        device_total=_scaled(device_total, divide(Decimal(1), Decimal(MIB))),
    )


def _total(values: Sequence[Decimal | int | None]) -> Decimal | None:
    known = [Decimal(value) for value in values if value is not None]
    return sum(known, Decimal(0)) if known else None


def _scaled(value: Decimal | int | None, scale: Decimal) -> int | None:
    return None if value is None else int(round_half_even(Decimal(value) * scale, 0))


def _pool_in(row: CacheRow | None) -> int | None:
    return None if row is None else pool_tokens(row)


def _active_in(row: CacheRow | None) -> Decimal | None:
    if row is None or row.active_block_ms is None or not row.block_size or not row.observed_ms:
        return None
    return divide(Decimal(active_token_ms(row)), Decimal(row.observed_ms))
