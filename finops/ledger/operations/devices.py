"""Deriving the memory of GPUs by the hour from an exporter's gauges (method §8.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from finops.core.device import DeviceHourRow, DeviceSeries, Tenant
from finops.core.device_columns import device_hours_together
from finops.core.held_pieces import Usual
from finops.core.holders import Holders, Holding, holders_by_hour
from finops.ledger.models import Series
from finops.sources.engines import role_of

from .gauges import LOOK_BACK_MS, Columns, Gauges, Span, from_holding, is_same
from .memory_rows import post_devices

if TYPE_CHECKING:
    from .at_hand import AtHand

ROLES = {
    "device_used_bytes": "used",
    "device_free_bytes": "free",
    "device_reserved_bytes": "reserved",
    "device_total_bytes": "total",
}
PROCESS = "process_used_bytes"
MOST_BYTES = 1 << 50
IDENTITIES = ("UUID", "uuid", "GPU_UUID", "gpu_uuid")
INDICES = ("gpu", "gpu_id", "GPU_ID", "minor_number")
KEPT_LABELS = (
    "gpu", "gpu_id", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname", "hostname", "device",
    "card_model", "partition_id", "instance",
)  # fmt: skip


def derive_devices(wanted: Sequence[Sequence[Series]], from_ms: int, *, at: datetime) -> None:
    """Posts the device hours of some targets, each given by its series, from an hour on, where
    they changed."""
    every = [one for series in wanted for one in series if one.role in (*ROLES, PROCESS)]
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
    every = [one for series in wanted for one in series if one.role in ROLES]
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


def device_of(labels: Mapping[str, str]) -> str:
    """The device a series is of: its UUID without the vendor's prefix, and the MIG instance."""
    name = next((labels[key] for key in IDENTITIES if labels.get(key)), None)
    if name is None:
        host = labels.get("Hostname") or labels.get("hostname") or ""
        index = next((labels[key] for key in INDICES if labels.get(key)), "")
        name = f"{host}:{index}"
    name = name.lower().removeprefix("gpu-")
    part = labels.get("GPU_I_ID") or labels.get("partition_id") or ""
    return f"{name}/{part}" if part else name


def tenant_of(labels: Mapping[str, str], is_exported: bool) -> Tenant:
    """Who holds the device. Where Prometheus kept the exporter's own pod under `pod`, the tenant
    stands under `exported_pod`. nvidia-smi's exporter knows no pods: one that stands on its series
    is its own."""
    if labels.get("__name__", "").startswith("nvidia_smi_"):
        return "", ""
    before = "exported_" if is_exported else ""
    return labels.get(f"{before}namespace", ""), labels.get(f"{before}pod", "")


def _read(members: Sequence[Series], is_exported: bool, gauges: Gauges) -> list[DeviceSeries]:
    found = []
    for one in members:
        if one.role == PROCESS:
            continue
        tenant = tenant_of(one.labels | {"__name__": one.metric}, is_exported)
        for times, whole in _bytes(one, gauges):
            found.append(DeviceSeries(ROLES[one.role], tenant, times, whole))  # type: ignore[arg-type]
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
        if one.role != PROCESS:
            continue
        name, number = one.labels.get("process_name", ""), one.labels.get("pid", "")
        for times, values in list(_bytes(one, gauges))[:1]:
            holdings.append(Holding("processes", name, times, values, number))  # type: ignore[arg-type]
    if not holdings:
        return {}
    return holders_by_hour(holdings, {row.hour_ms: row.byte_ms.get("used", 0) for row in rows})


def kept_labels(members: Sequence[Series]) -> dict[str, str]:
    """What the series of a device say of it beside its memory."""
    return {name: one.labels[name] for one in members for name in KEPT_LABELS if name in one.labels}
