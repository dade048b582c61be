"""What the labels of an exporter's series say of a GPU: which one it is, and who holds it (§8.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from finops.core.device import Tenant
from finops.core.slices import is_partition
from finops.ledger.models import Series

IDENTITIES: Final = ("UUID", "uuid", "GPU_UUID", "gpu_uuid")
INDICES: Final = ("gpu", "gpu_id", "GPU_ID", "minor_number")
KEPT_LABELS: Final = (
    "gpu", "gpu_id", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname", "hostname", "device",
    "card_model", "card_series", "partition_id", "gpu_partition_id", "gpu_compute_partition_type",
    "instance",
)  # fmt: skip


def device_of(labels: Mapping[str, str]) -> str:
    """The device a series is of: its UUID without the vendor's prefix, and the MIG instance or
    AMD's partition. A UUID of zeros alone, which AMD's exporter gives every virtual card, is none."""
    told = (labels.get(key, "") for key in IDENTITIES)
    name = next((one for one in told if one.strip("0-")), None)
    is_by_host = name is None
    if name is None:
        host = labels.get("Hostname") or labels.get("hostname") or ""
        index = next((labels[key] for key in INDICES if labels.get(key)), "")
        name = f"{host}:{index}"
    name = name.lower().removeprefix("gpu-")
    part = labels.get("GPU_I_ID") or labels.get("partition_id") or ""
    if is_partition(labels) and not is_by_host:  # a host numbers partitions as it does cards
        part = labels.get("gpu_partition_id", "")
    return f"{name}/{part}" if part else name


def tenant_of(labels: Mapping[str, str], is_exported: bool) -> Tenant:
    """Who holds the device. Where Prometheus kept the exporter's own pod under `pod`, the tenant
    stands under `exported_pod`. nvidia-smi's exporter knows no pods: one that stands on its series
    is its own."""
    if labels.get("__name__", "").startswith("nvidia_smi_"):
        return "", ""
    before = "exported_" if is_exported else ""
    return labels.get(f"{before}namespace", ""), labels.get(f"{before}pod", "")


def kept_labels(members: Sequence[Series]) -> dict[str, str]:
    """What the series of a device say of it beside its memory."""
    return {name: one.labels[name] for one in members for name in KEPT_LABELS if name in one.labels}
