"""Memory of many GPUs by the hour from whole columns: exactly what `core.device` gives.

`core.device` says the rules reading by reading; here a device is a row of a matrix. Sums are of
64-bit whole numbers: an hour of a device under 2 EiB; anything larger is left to `core.device`, as
are columns out of order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from . import device as pure
from .cache_columns import alike
from .device import NEAR_MS, DeviceHourRow, DeviceSeries
from .held_pieces import Column, Pieces, Usual, held_ends_of_rows, usual_of_rows
from .period import HOUR_MS

MOST_BYTES: Final = (1 << 62) // HOUR_MS
ROLES: Final = ("used", "free", "reserved")
_NOTHING: Final = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
_Columns = tuple[Column, Column]
_Told = tuple[Column, Column]
"""A gauge's value at each reading of use, and whether it is known there; a device a row."""


def device_hours(series: Iterable[DeviceSeries]) -> list[DeviceHourRow]:
    """The hours of one device, in time order."""
    return device_hours_together([list(series)])[0]


def device_hours_together(
    devices: Sequence[Sequence[DeviceSeries]], usual: Sequence[Usual] = ()
) -> list[list[DeviceHourRow]]:
    """The hours of each device. `usual` tells the usual interval of days that a device's readings
    here do not hold whole."""
    columns = [_columns(series) for series in devices]
    found: list[list[DeviceHourRow]] = [
        pure.device_hours([_whole_numbers(one) for one in series]) if mine is None else []
        for series, mine in zip(devices, columns, strict=True)
    ]
    for places in alike([0 if mine is None else len(mine["used"][0]) for mine in columns]):
        some = [mine for place in places if (mine := columns[place]) is not None]
        for row, at in _hours(some, [usual[place] for place in places] if usual else ()):
            found[places[at]].append(row)
        for place in places:
            _note_tenants(found[place], [one for one in devices[place] if one.role == "used"])
    return found


def _columns(series: Sequence[DeviceSeries]) -> Mapping[str, _Columns] | None:
    """One column of each role; None of a device too large for 64 bits."""
    by_role: dict[str, list[DeviceSeries]] = {}
    for one in series:
        by_role.setdefault(one.role, []).append(one)
    columns = {role: _united(mine) for role, mine in by_role.items()}
    if any(len(v) and (v.max() > MOST_BYTES or v.min() < 0) for _, v in columns.values()):
        return None
    columns.setdefault("used", _NOTHING)
    return columns


def _whole_numbers(one: DeviceSeries) -> DeviceSeries:
    """The same in Python's own numbers, which have no largest one."""
    return replace(one, times_ms=_plain(one.times_ms), values=_plain(one.values))


def _united(series: Sequence[DeviceSeries]) -> _Columns:
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


def _near(column: _Columns, times: Column) -> tuple[Column, Column | bool]:
    """The value at each instant, else the last of the five minutes before; and where it is known."""
    known, values = column
    if not len(known):
        return np.zeros(len(times), dtype=np.int64), False
    if len(known) == len(times) and (known == times).all():
        return values, True
    at = known.searchsorted(times, side="right") - 1
    is_known = (at >= 0) & (times - known[at] <= NEAR_MS)
    return np.where(is_known, values[at], 0), is_known


def _hours(
    devices: Sequence[Mapping[str, _Columns]], usual: Sequence[Usual]
) -> Iterator[tuple[DeviceHourRow, int]]:
    """The hours of devices with equally many readings of use, each with its device's place."""
    times = np.array([mine["used"][0] for mine in devices])
    used = np.array([mine["used"][1] for mine in devices])
    told: dict[str, _Told] = {"used": (used, np.ones(used.shape, dtype=bool))}
    for role in ("free", "reserved", "total"):
        values, is_known = np.zeros(times.shape, dtype=np.int64), np.zeros(times.shape, dtype=bool)
        for row, mine in enumerate(devices):
            if role in mine:
                values[row], is_known[row] = _near(mine[role], times[row])
        told[role] = values, is_known
    pieces = Pieces.cut(times, held_ends_of_rows(times, usual_of_rows(times, usual)))
    highest = pieces.highest(used.ravel()[pieces.of])
    columns = zip(
        pieces.rows.tolist(),
        pieces.hours_ms.tolist(),
        pieces.sums(pieces.held),
        *(_byte_ms(pieces, *told[role]) for role in ROLES),
        _totals(pieces, told),
        highest.tolist(),
        pieces.first_of_highest(used.ravel()[pieces.of], highest),
        strict=True,
    )
    for at, hour_ms, observed, use, free, reserved, total, peak, peak_ms in columns:
        sums = {"used": use, "free": free, "reserved": reserved}
        byte_ms = {role: each for role, each in sums.items() if each is not None}
        yield DeviceHourRow(hour_ms, observed, byte_ms, total, peak, peak_ms), at


def _byte_ms(pieces: Pieces, values: Column, is_known: Column) -> list[int | None]:
    """Byte-milliseconds of each hour; None where no reading is known."""
    sums = pieces.sums(values.ravel()[pieces.of] * pieces.held)
    if is_known.all():
        return list(sums)
    counts = pieces.counts(is_known.ravel()[pieces.of])
    return [total if count else None for total, count in zip(sums, counts, strict=True)]


def _totals(pieces: Pieces, told: Mapping[str, _Told]) -> list[int | None]:
    """The highest of each hour of the device's memory: as told, else used + free + reserved."""
    total, has_total = told["total"]
    free, has_free = told["free"]
    added = told["used"][0] + free + told["reserved"][0]
    sizes = np.where(has_total, total, np.where(has_free, added, -1))
    highest: list[int] = pieces.highest(sizes.ravel()[pieces.of]).tolist()
    return [each if each >= 0 else None for each in highest]


def _note_tenants(found: Sequence[DeviceHourRow], series: Sequence[DeviceSeries]) -> None:
    """Who held the device in each hour, and whether several did at one instant."""
    rows = {row.hour_ms: row for row in found}
    by_tenant: dict[tuple[str, str], list[Column]] = {}
    for one in series:
        if one.tenant[1]:
            times = np.asarray(one.times_ms, dtype=np.int64)
            by_tenant.setdefault(one.tenant, []).append(times)
    every = []
    for tenant, parts in by_tenant.items():
        every.append(parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts)))
        for hour_ms, row in rows.items():
            low = every[-1].searchsorted(hour_ms)
            if low < len(every[-1]) and every[-1][low] < hour_ms + HOUR_MS:
                row.tenants.add(tenant)
    if len(every) > 1:
        instants, counts = np.unique(np.concatenate(every), return_counts=True)
        for hour in np.unique(instants[counts > 1] // HOUR_MS).tolist():
            if hour * HOUR_MS in rows:
                rows[hour * HOUR_MS].shared = True
