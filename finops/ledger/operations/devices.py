"""Deriving the memory of GPUs by the hour from an exporter's gauges (method §8.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from finops.core.device import DeviceHourRow, DeviceSeries
from finops.core.device_columns import device_hours_together
from finops.core.held_pieces import Usual
from finops.core.holders import Holders, Holding, holders_by_hour
from finops.ledger.models import Series
from finops.sources.engines import role_of

from .at_hand import AtHand
from .device_labels import device_of, kept_labels, tenant_of
from .gauges import LOOK_BACK_MS, Columns, Gauges, Span, from_holding, is_same
from .memory_rows import post_devices
from .roles import DEVICE_ROLES, PROCESS_ROLE

_MEASURES = dict(zip(DEVICE_ROLES, ("used", "free", "reserved", "total"), strict=True))
MOST_BYTES = 1 << 50


def derive_devices(wanted: Sequence[Sequence[Series]], from_ms: int, *, at: datetime) -> None:
    """Posts the device hours of some targets, each given by its series, from an hour on, where
    they changed."""
    every = [
        one for series in wanted for one in series if one.role in (*DEVICE_ROLES, PROCESS_ROLE)
    ]
    if not every:
        return
    span = Span.around(from_ms)
    used = [one for one in every if one.role == "device_used_bytes"]
    own = Gauges(used, span.read_ms)
    since = min((span.since(own.first(one)[0]) for one in used), default=span.from_ms)
    rest = [one for one in every if one.role != "device_used_bytes"]
    gauges = own.joined_by(Gauges(rest, since - LOOK_BACK_MS))
    _post(every, gauges, since, at)


def derive_devices_at_hand(
    wanted: Sequence[Sequence[Series]], at_hand: AtHand, since: int, *, at: datetime
) -> None:
    """The same, from an hour on, of targets whose readings are at hand: each device's use is told
    by one series, and no process."""
    every = [one for series in wanted for one in series if one.role in DEVICE_ROLES]
    if every:
        gauges = at_hand.gauges(every, since - LOOK_BACK_MS)
        _post(every, gauges, since, at, at_hand)


def _post(
    every: Sequence[Series],
    gauges: Gauges,
    since: int,
    at: datetime,
    at_hand: AtHand | None = None,
) -> None:
    exported = {one.target_id for one in every if "exported_pod" in one.labels}
    devices = _devices(every)
    told = [_read(mine, target in exported, gauges) for (target, _), mine in devices.items()]
    usual: list[Usual] = []
    if at_hand is not None:
        told = [_late(read, since) for read in told]
        usual = [
            next((at_hand.usual(one) for one in mine if one.role == "device_used_bytes"), {})
            for mine in devices.values()
        ]
    hours = device_hours_together(told, usual)
    rows = [
        (key, kept_labels(mine), _holders(mine, read, found, gauges), found)
        for (key, mine), read, found in zip(devices.items(), told, hours, strict=True)
    ]
    post_devices(rows, since, at)


def _late(read: Sequence[DeviceSeries], since: int) -> list[DeviceSeries]:
    """The device's use from the reading on that holds at an instant, and what was read with it;
    what stands beside it at other times whole."""
    used = next((one.times_ms for one in read if one.role == "used"), ())
    found = []
    for one in read:
        if one.role == "used" or is_same(one.times_ms, used):
            times, values = from_holding((one.times_ms, one.values), since)  # type: ignore[arg-type]
            one = replace(one, times_ms=times, values=values)  # type: ignore[arg-type]
        found.append(one)
    return found


def _devices(series: Sequence[Series]) -> dict[tuple[int, str], list[Series]]:
    found: dict[tuple[int, str], list[Series]] = {}
    for one in series:
        found.setdefault((one.target_id, device_of(one.labels)), []).append(one)
    return found


def _read(members: Sequence[Series], is_exported: bool, gauges: Gauges) -> list[DeviceSeries]:
    found = []
    for one in members:
        if one.role == PROCESS_ROLE:
            continue
        tenant = tenant_of(one.labels | {"__name__": one.metric}, is_exported)
        for times, whole in _bytes(one, gauges):
            found.append(DeviceSeries(_MEASURES[one.role], tenant, times, whole))  # type: ignore[arg-type]
    return found


def _bytes(one: Series, gauges: Gauges) -> Iterator[Columns]:
    """A series' readings in bytes, replica by replica."""
    role = role_of(one.metric)
    scale = role.scale if role else 1
    for times, values in gauges.replicas(one).values():
        # No device holds a pebibyte: a reading that says so is none of its memory.
        kept = np.abs(values) * scale <= MOST_BYTES
        if not kept.all():
            times, values = times[kept], values[kept]
        # Gauges are whole MiB or bytes within 2^53: exact. The conversion leaves fractions out.
        yield times, values.astype(np.int64) * scale


def _holders(
    members: Sequence[Series],
    told: Sequence[DeviceSeries],
    rows: Sequence[DeviceHourRow],
    gauges: Gauges,
) -> dict[int, Holders]:
    """Who held the device by hour, where pods stand beside the device's own series, or processes
    are told."""
    used = [one for one in told if one.role == "used"]
    by_pod = {one.tenant: one for one in reversed(used) if one.tenant[1]}
    holdings = [
        Holding("pods", "/".join(tenant), one.times_ms, one.values)
        for tenant, one in by_pod.items()
        if any(not one.tenant[1] for one in used)
    ]
    for one in members:
        if one.role != PROCESS_ROLE:
            continue
        name, number = one.labels.get("process_name", ""), one.labels.get("pid", "")
        for times, values in list(_bytes(one, gauges))[:1]:
            holdings.append(Holding("processes", name, times, values, number))  # type: ignore[arg-type]
    if not holdings:
        return {}
    return holders_by_hour(holdings, {row.hour_ms: row.byte_ms.get("used", 0) for row in rows})
