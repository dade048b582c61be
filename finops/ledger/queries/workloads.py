"""The workloads there are, as plain values."""

from __future__ import annotations

from typing import Any

from finops.core.plainly import when
from finops.ledger.models import Workload


def workload_rows() -> list[dict[str, Any]]:
    """All workloads, by slug."""
    return [workload_value(one) for one in Workload.objects.order_by("slug")]


def workload_value(one: Workload) -> dict[str, Any]:
    """One workload as plain values."""
    return {
        "slug": one.slug,
        "model": one.model,
        "stack": one.stack,
        "purpose": one.purpose,
        "team": one.team,
        "cluster": one.cluster,
        "namespace": one.namespace,
        "kv_bytes_per_token": one.kv_bytes_per_token,
        "max_model_len": one.max_model_len,
        "rate_cap_tokens_per_second": one.rate_cap_tokens_per_second,
        "created_at": when(one.created_at),
        "created_by": one.created_by,
    }
