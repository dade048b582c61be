"""Memory of a GPU by the hour, from its exporters' gauges (method §8.1).

A device is counted once however many series tell of it: the exporter copies a shared device's
figures to each pod, or gives them once without a pod. Readings hold until the next, over gaps no
longer than one usual interval. Sums are whole numbers: bytes × milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .cache import held_spans
from .period import HOUR_MS

ROLES = ("used", "free", "reserved", "total")
NEAR_MS = 5 * 60_000
Tenant = tuple[str, str]
"""Namespace and pod; empty texts for the device itself."""


@dataclass(frozen=True, slots=True)
class DeviceSeries:
    """One gauge of one device as one series tells it, in bytes."""

    role: str
    tenant: Tenant
    times_ms: Sequence[int]
    values: Sequence[int]


@dataclass(slots=True)
class DeviceHourRow:
    """One device in one hour; None where no gauge tells it."""

    hour_ms: int
    observed_ms: int = 0
    byte_ms: dict[str, int] = field(default_factory=dict)
    total_bytes: int | None = None
    peak_used_bytes: int | None = None
    peak_ms: int | None = None
    tenants: set[Tenant] = field(default_factory=set)
    shared: bool = False


def device_hours(series: Iterable[DeviceSeries]) -> list[DeviceHourRow]:
    """The hours of one device, in time order."""
    by_role: dict[str, list[DeviceSeries]] = {}
    for one in series:
        by_role.setdefault(one.role, []).append(one)
    rows: dict[int, DeviceHourRow] = {}
    used = _united(by_role.get("used", ()))
    others = {role: _united(by_role.get(role, ())) for role in ("free", "reserved", "total")}
    instants = {role: sorted(known) for role, known in others.items()}
    times = sorted(used)
    for index, (start, end) in enumerate(held_spans(times)):
        values = {"used": used[times[index]]}
        for role, known in others.items():
            value = _at(known, instants[role], start)
            if value is not None:
                values[role] = value
        _spread(rows, start, end, values)
    _note_tenants(rows, by_role.get("used", ()))
    return [rows[hour] for hour in sorted(rows)]


def _united(series: Iterable[DeviceSeries]) -> dict[int, int]:
    """One value an instant: the device's own where there is one, else the first pod's."""
    found: dict[int, int] = {}
    for one in sorted(series, key=lambda s: s.tenant, reverse=True):
        found.update(zip(one.times_ms, one.values, strict=True))
    return found


def _at(known: Mapping[int, int], times: Sequence[int], instant: int) -> int | None:
    """The value at an instant, else the last one of the five minutes before: exporters give all
    gauges of a device at one scrape, stores may cut a first or last one off."""
    if instant in known:
        return known[instant]
    index = bisect_right(times, instant) - 1
    near = times[index] if index >= 0 else None
    return known[near] if near is not None and instant - near <= NEAR_MS else None


def _spread(rows: dict[int, DeviceHourRow], start: int, end: int, values: dict[str, int]) -> None:
    first = True
    instant = start
    while first or start < end:
        first = False
        hour_ms = start // HOUR_MS * HOUR_MS
        until = min(end, hour_ms + HOUR_MS)
        row = rows.setdefault(hour_ms, DeviceHourRow(hour_ms))
        _count(row, max(0, until - start), values, instant)
        start = until


def _count(row: DeviceHourRow, held_ms: int, values: Mapping[str, int], instant: int) -> None:
    row.observed_ms += held_ms
    for role in ("used", "free", "reserved"):
        if role in values:
            row.byte_ms[role] = row.byte_ms.get(role, 0) + values[role] * held_ms
    total = values.get("total")
    if total is None and "free" in values:
        total = values["used"] + values["free"] + values.get("reserved", 0)
    if total is not None:
        row.total_bytes = max(total, row.total_bytes or 0)
    if row.peak_used_bytes is None or values["used"] > row.peak_used_bytes:
        row.peak_used_bytes, row.peak_ms = values["used"], max(instant, row.hour_ms)


def _note_tenants(rows: dict[int, DeviceHourRow], series: Iterable[DeviceSeries]) -> None:
    """Who held the device in each hour, and whether several did at one instant."""
    instants: dict[int, dict[int, set[Tenant]]] = {}
    for one in series:
        if not one.tenant[1]:
            continue
        for time_ms in one.times_ms:
            hour_ms = time_ms // HOUR_MS * HOUR_MS
            if hour_ms not in rows:
                continue
            rows[hour_ms].tenants.add(one.tenant)
            # Two replicas that tell of one pod are no two tenants.
            held_by = instants.setdefault(hour_ms, {}).setdefault(time_ms, set())
            held_by.add(one.tenant)
            if len(held_by) > 1:
                rows[hour_ms].shared = True
