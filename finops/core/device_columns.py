"""Memory of a GPU by the hour from whole columns: exactly what `core.device` gives.

`core.device` says the rules reading by reading. Sums are of 64-bit whole numbers: an hour of a
device under 2 EiB; anything larger is left to `core.device`, as are columns out of order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from . import device as pure
from .cache_columns import Column, held_ends, in_hours
from .device import NEAR_MS, DeviceHourRow, DeviceSeries
from .period import HOUR_MS

MOST_BYTES: Final = (1 << 62) // HOUR_MS
ROLES: Final = ("used", "free", "reserved")


def device_hours(series: Iterable[DeviceSeries]) -> list[DeviceHourRow]:
    """The hours of one device, in time order."""
    known = list(series)
    by_role: dict[str, list[DeviceSeries]] = {}
    for one in known:
        by_role.setdefault(one.role, []).append(one)
    columns = {role: _united(mine) for role, mine in by_role.items()}
    if any(len(v) and (v.max() > MOST_BYTES or v.min() < 0) for _, v in columns.values()):
        return pure.device_hours(known)
    if "used" not in columns or not len(columns["used"][0]):
        return []
    rows = _rows(columns)
    _note_tenants({row.hour_ms: row for row in rows}, by_role["used"])
    return rows


def _united(series: Sequence[DeviceSeries]) -> tuple[Column, Column]:
    """One value an instant: the device's own where there is one, else the first pod's."""
    ordered = sorted(series, key=lambda s: s.tenant, reverse=True)
    if len(ordered) == 1:
        times = np.asarray(ordered[0].times_ms, dtype=np.int64)
        return times, np.asarray(ordered[0].values, dtype=np.int64)
    found: dict[int, int] = {}
    for one in ordered:
        found.update(zip(_plain(one.times_ms), _plain(one.values), strict=True))
    order = sorted(found)
    return np.array(order, dtype=np.int64), np.array([found[t] for t in order], dtype=np.int64)


def _plain(column: Sequence[int]) -> list[int]:
    return list(map(int, column))


def _near(column: tuple[Column, Column], times: Column) -> tuple[Column, Column]:
    """The value at each instant, else the last of the five minutes before; and where it is known."""
    known, values = column
    if not len(known):
        return np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=bool)
    at = np.searchsorted(known, times, side="right") - 1
    is_known = (at >= 0) & (times - known[at] <= NEAR_MS)
    return np.where(is_known, values[at], 0), is_known


def _rows(columns: dict[str, tuple[Column, Column]]) -> list[DeviceHourRow]:
    times, used = columns["used"]
    starts, pieces, held = in_hours(times, held_ends(times))
    hours = starts // HOUR_MS
    first = np.flatnonzero(np.diff(hours, prepend=hours[0] - 1))
    rows = [DeviceHourRow(int(hours[at]) * HOUR_MS) for at in first]
    edges = list(zip(first.tolist(), np.append(first[1:], len(starts)).tolist(), strict=True))
    told = {"used": (used, np.ones(len(times), dtype=bool))}
    nothing = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for role in ("free", "reserved", "total"):
        told[role] = _near(columns.get(role, nothing), times)
    total, has_total = _totals(told)
    for row, (low, high) in zip(rows, edges, strict=True):
        mine, seconds = pieces[low:high], held[low:high]
        row.observed_ms = int(seconds.sum())
        for role in ROLES:
            values, is_known = told[role]
            if is_known[mine].any():
                row.byte_ms[role] = int(np.dot(values[mine], seconds))
        if has_total[mine].any():
            row.total_bytes = int(total[mine][has_total[mine]].max())
        best = int(np.argmax(used[mine]))
        row.peak_used_bytes, row.peak_ms = int(used[mine][best]), int(starts[low + best])
    return rows


def _totals(told: dict[str, tuple[Column, Column]]) -> tuple[Column, Column]:
    """The device's memory at each reading: as told, else used + free + reserved."""
    total, has_total = told["total"]
    free, has_free = told["free"]
    added = told["used"][0] + free + told["reserved"][0]
    return np.where(has_total, total, added), has_total | has_free


def _note_tenants(rows: dict[int, DeviceHourRow], series: Sequence[DeviceSeries]) -> None:
    """Who held the device in each hour, and whether several did at one instant."""
    by_tenant: dict[tuple[str, str], list[Column]] = {}
    for one in series:
        if one.tenant[1]:
            times = np.asarray(one.times_ms, dtype=np.int64)
            by_tenant.setdefault(one.tenant, []).append(times)
    every = []
    for tenant, parts in by_tenant.items():
        instants = np.unique(np.concatenate(parts))
        every.append(instants)
        for hour in np.unique(instants // HOUR_MS).tolist():
            if hour * HOUR_MS in rows:
                rows[hour * HOUR_MS].tenants.add(tenant)
    if len(every) > 1:
        instants, counts = np.unique(np.concatenate(every), return_counts=True)
        for hour in np.unique(instants[counts > 1] // HOUR_MS).tolist():
            if hour * HOUR_MS in rows:
                rows[hour * HOUR_MS].shared = True
