"""The roles of series that the ledger keeps, by what is derived of them (method §2, §4, §8)."""

from __future__ import annotations

from typing import Final

COUNTER_ROLES: Final = (
    "first_token_bucket",
    "inter_token_bucket",
    "prompt",
    "generation",
    "cached_prompt",
    "prefix_hits",
    "delivered_prompt",
    "delivered_generation",
    "preemptions",
    "external_prompt",
    "answers",
    "answered",
    "prefix_queries",
    "prompt_length_bucket",
    "generation_length_bucket",
    "step_tokens_bucket",
)
"""Counters, each of which has token hours."""

MARK_ROLES: Final = ("created", "process_start")
"""When a counter, or the process that counts, began."""

POOL_ROLES: Final = ("pool_tokens", "weights_bytes", "kv_bytes", "graphs_bytes")
"""What an engine tells of its memory beside its use."""

CACHE_ROLES: Final = (
    "running",
    "waiting",
    "sleep_state",
    "prompt",
    "generation",
    "cache_config",
    *POOL_ROLES,
)
"""What stands beside a KV cache's use."""

DEVICE_ROLES: Final = (
    "device_used_bytes",
    "device_free_bytes",
    "device_reserved_bytes",
    "device_total_bytes",
)
"""A GPU's memory, as its exporter tells it."""

PROCESS_ROLE: Final = "process_used_bytes"
"""What one process holds of a GPU."""

NODE_ROLES: Final = (
    "gpu_request",
    "gpu_init_request",
    "gpu_capacity",
    "pod_running",
    "node_info",
    "node_labels",
)
"""What a cluster tells of its nodes and of who holds their GPUs."""

TOKEN_ROLES: Final = frozenset(COUNTER_ROLES)
OTHER_ROLES: Final = frozenset(
    (
        "up",
        "process_start",
        "kv_usage",
        "re_export",
        *(role for role in CACHE_ROLES if role not in COUNTER_ROLES),
        *DEVICE_ROLES,
        PROCESS_ROLE,
        *NODE_ROLES,
    )
)
"""Roles that are kept and count no tokens."""
