"""Reserved and active KV cache of a workload by the hour, beside what the GPU shows (method §8).

What a chart over the week draws, in whole MiB where a token's bytes are known and in tokens where
they are not. Means and peaks of the week are in `core.memory`; these hours are never added up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .memory import CacheRow, active_token_ms, pool_tokens, presence, reserved_token_ms
from .money import divide, round_half_even
from .period import HOUR_MS, Period, milliseconds, rfc3339
from .presence import Span, at_once, length_ms

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
    at_once: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values; the reservation as its steps `[hour, value]`, since it rarely changes."""
        return {
            "workload": self.workload,
            "unit": self.unit,
            "engines": self.engines,
            "engines_at_once": self.at_once,
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
    device_totals: Sequence[int] = (),
) -> MemoryHours | None:
    """A workload's engines together, hour by hour; None without a single reading.

    An engine counts in the hours it was read in, for as long as it was there: engines that follow
    each other in an hour are not added up. An hour in which a gauge stood still while no tokens
    moved has a reservation but no active part (§8.9). `devices` gives one GPU of each engine, its
    used bytes by hour, `device_totals` that GPU's size.
    """
    count = (milliseconds(period.end) - milliseconds(period.start)) // HOUR_MS
    hours = [period.start + (period.end - period.start) * at / count for at in range(count)]
    known = [{row.hour: row for row in rows} for rows in engines]
    if not any(known):
        return None
    there = [_Present(rows) for rows in engines]
    reserved = [_total(there, hour, [_pool_in(k.get(hour)) for k in known]) for hour in hours]
    active = [_total(there, hour, [_active_in(k.get(hour)) for k in known]) for hour in hours]
    used, sizes = None, None
    if devices:
        by = list(zip(hours, _nearest_read(there, hours), strict=True))
        used = [_total(there, read, [one.get(hour) for one in devices]) for hour, read in by]
        if len(device_totals) == len(there):
            sizes = [_total(there, read, list(device_totals)) for _, read in by]
    scale = divide(Decimal(bytes_per_token), Decimal(MIB)) if bytes_per_token else Decimal(1)
    in_mib = divide(Decimal(1), Decimal(MIB))
    largest = max((one for one in sizes or () if one is not None), default=None)
    return MemoryHours(
        workload=workload,
        unit="MiB" if bytes_per_token else "tokens",
        engines=len(known),
        start=period.start,
        reserved=tuple(_scaled(value, scale) for value in reserved),
        active=tuple(_scaled(value, scale) for value in active),
        device=None if used is None else tuple(_scaled(value, in_mib) for value in used),
        device_total=_scaled(largest, in_mib),
        at_once=at_once([(1, one.spans.values()) for one in there]),
    )


class _Present:
    """When one engine was there."""

    def __init__(self, rows: Iterable[CacheRow]) -> None:
        self.spans = presence(rows)

    def within(self, hour: datetime) -> tuple[Span, ...]:
        """Its span of an hour; none where it was not read."""
        span = self.spans.get(milliseconds(hour))
        return () if span is None else (span,)


def _nearest_read(engines: Sequence[_Present], hours: Sequence[datetime]) -> list[datetime]:
    """For each hour itself where any engine was read, else the nearest before, else after it: GPUs
    are measured while the engines' own metrics are dark as well."""
    read = [hour for hour in hours if any(engine.within(hour) for engine in engines)]
    return [read[max(0, bisect_right(read, hour) - 1)] if read else hour for hour in hours]


def _total(
    engines: Sequence[_Present], hour: datetime, values: Sequence[Decimal | int | None]
) -> Decimal | Fraction | None:
    """The engines' values in an hour together, each for its share of the time in which
    any of them was there."""
    told = [
        (Decimal(value), spans)
        for engine, value in zip(engines, values, strict=True)
        if value is not None and (spans := engine.within(hour))
    ]
    if not told:
        return None
    whole = length_ms(span for _, spans in told for span in spans)
    each = [(value, length_ms(spans)) for value, spans in told]
    if all(held == whole for _, held in each):
        return sum((value for value, _ in each), Decimal(0))
    return sum((Fraction(value) * Fraction(held, whole) for value, held in each), Fraction(0))


def _scaled(value: Decimal | Fraction | int | None, scale: Decimal) -> int | None:
    """Rounded half to even, once."""
    if isinstance(value, Fraction):
        return round(value * Fraction(scale))
    return None if value is None else int(round_half_even(Decimal(value) * scale, 0))


def _pool_in(row: CacheRow | None) -> Decimal | int | None:
    """The pool of an hour; of one in which it changed, the mean over the time observed."""
    if row is None or row.reserved_block_ms is None or not row.observed_ms:
        return None if row is None else pool_tokens(row)
    held = reserved_token_ms(row)
    return None if held is None else divide(Decimal(held), Decimal(row.observed_ms))


def _active_in(row: CacheRow | None) -> Decimal | None:
    if row is None or row.active_block_ms is None or not row.block_size or not row.observed_ms:
        return None
    return divide(Decimal(active_token_ms(row)), Decimal(row.observed_ms))
