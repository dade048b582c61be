"""What each engine calls its figures: one table from metric name to role (method §2).

Names are matched whole, never by pattern: `vllm:tokens_total` (prompt and generation together) and
`vllm:iteration_tokens_total` (a histogram) end like the token counters and must not be added.

Several names of one engine may play one role, because names changed between versions and some
versions export both. They are ranked: for one target only the lowest rank present counts, so that
equal figures under two names are never added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

Kind = Literal["counter", "gauge", "mark", "info"]


@dataclass(frozen=True, slots=True)
class Role:
    """What a metric tells. `scale` turns its values into the role's unit (bytes, seconds, 1)."""

    name: str
    kind: Kind
    engine: str
    alias_rank: int = 0
    caveat: str | None = None
    scale: int = 1


_V0_RECOMPUTE: Final = "vLLM V0 counts a prompt again when a preempted request is recomputed"
_SCHEDULED: Final = "counted when a request is scheduled; before 0.11.1 again after a preemption"
_BLOCKS: Final = "summed over data-parallel engines already: never add over `engine`"
_FINISHED_ONLY: Final = "SGLang counts a request's tokens when it finishes"
_RANKS: Final = "one series a tensor-parallel rank: take one `tp_rank`, add over `dp_rank`"
_UNCACHED: Final = "llama.cpp leaves cached prompt tokens out"
_SUCCESSFUL: Final = "counts successful requests only"
_DCGM_RESERVED: Final = "DCGM_FI_DEV_FB_USED leaves DCGM_FI_DEV_FB_RESERVED out"
_RAY: Final = "through Ray every worker has a series of its own: gauges are not to be added"
_MIB, _GIB = 1 << 20, 1 << 30

_VLLM: Final[dict[str, Role]] = {
    "vllm:prompt_tokens_total": Role("prompt", "counter", "vllm", 0, _V0_RECOMPUTE),
    "vllm:generation_tokens_total": Role("generation", "counter", "vllm"),
    "vllm:prompt_tokens_cached_total": Role("cached_prompt", "counter", "vllm"),
    "vllm:prefix_cache_hits_total": Role("prefix_hits", "counter", "vllm", 0, _SCHEDULED),
    "vllm:gpu_prefix_cache_hits_total": Role(
        "prefix_hits", "counter", "vllm", 1, "early V1 versions may count blocks, not tokens"
    ),
    "vllm:request_prompt_tokens_sum": Role("delivered_prompt", "counter", "vllm"),
    "vllm:request_generation_tokens_sum": Role("delivered_generation", "counter", "vllm"),
    "vllm:num_preemptions_total": Role("preemptions", "counter", "vllm"),
    "vllm:request_prefill_time_seconds_sum": Role("prefill_seconds", "counter", "vllm"),
    "vllm:request_decode_time_seconds_sum": Role("decode_seconds", "counter", "vllm"),
    "vllm:time_to_first_token_seconds_bucket": Role("first_token_bucket", "counter", "vllm"),
    "vllm:inter_token_latency_seconds_bucket": Role("inter_token_bucket", "counter", "vllm"),
    "vllm:time_per_output_token_seconds_bucket": Role("inter_token_bucket", "counter", "vllm", 1),
    "vllm:kv_cache_usage_perc": Role("kv_usage", "gauge", "vllm"),
    "vllm:gpu_cache_usage_perc": Role("kv_usage", "gauge", "vllm", 1),
    "vllm:num_requests_running": Role("running", "gauge", "vllm"),
    "vllm:num_requests_waiting": Role("waiting", "gauge", "vllm"),
    "vllm:num_requests_waiting_by_reason": Role(
        "waiting_by_reason", "gauge", "vllm", 0, "a part of the waiting requests: never added"
    ),
    "vllm:cache_config_info": Role("cache_config", "info", "vllm", 0, _BLOCKS),
    "vllm:engine_sleep_state": Role("sleep_state", "gauge", "vllm"),
}

_SGLANG: Final[dict[str, Role]] = {
    "sglang:prompt_tokens_total": Role("prompt", "counter", "sglang", 0, _FINISHED_ONLY),
    "sglang:generation_tokens_total": Role("generation", "counter", "sglang", 0, _FINISHED_ONLY),
    "sglang:cached_tokens_total": Role("cached_prompt", "counter", "sglang", 0, _FINISHED_ONLY),
    "sglang:prompt_tokens_histogram_sum": Role("delivered_prompt", "counter", "sglang"),
    "sglang:generation_tokens_histogram_sum": Role("delivered_generation", "counter", "sglang"),
    "sglang:num_retracted_requests_total": Role("preemptions", "counter", "sglang", 0, _RANKS),
    "sglang:time_to_first_token_seconds_bucket": Role("first_token_bucket", "counter", "sglang"),
    "sglang:inter_token_latency_seconds_bucket": Role("inter_token_bucket", "counter", "sglang"),
    "sglang:full_token_usage": Role("kv_usage", "gauge", "sglang", 0, _RANKS),
    "sglang:token_usage": Role("kv_usage", "gauge", "sglang", 1, _RANKS),
    "sglang:num_running_reqs": Role("running", "gauge", "sglang", 0, _RANKS),
    "sglang:num_queue_reqs": Role("waiting", "gauge", "sglang", 0, _RANKS),
    "sglang:max_total_num_tokens": Role("pool_tokens", "gauge", "sglang", 0, _RANKS),
    "sglang:kv_used_tokens": Role("pool_used_tokens", "gauge", "sglang", 0, _RANKS),
    "sglang:kv_evictable_tokens": Role("pool_evictable_tokens", "gauge", "sglang", 0, _RANKS),
    "sglang:kv_available_tokens": Role("pool_free_tokens", "gauge", "sglang", 0, _RANKS),
    "sglang:weight_memory_usage_gb": Role("weights_bytes", "gauge", "sglang", 0, _RANKS, _GIB),
    "sglang:kv_cache_memory_usage_gb": Role("kv_bytes", "gauge", "sglang", 0, _RANKS, _GIB),
    "sglang:graph_memory_usage_gb": Role("graphs_bytes", "gauge", "sglang", 0, _RANKS, _GIB),
}

_OTHERS: Final[dict[str, Role]] = {
    "trtllm_prompt_tokens_total": Role("prompt", "counter", "trtllm"),
    "trtllm_generation_tokens_total": Role("generation", "counter", "trtllm"),
    "trtllm_kv_cache_utilization": Role("kv_usage", "gauge", "trtllm"),
    "lmdeploy:prompt_tokens_total": Role("prompt", "counter", "lmdeploy"),
    "lmdeploy:generation_tokens_total": Role("generation", "counter", "lmdeploy"),
    "lmdeploy:gpu_cache_usage_perc": Role("kv_usage", "gauge", "lmdeploy"),
    "llamacpp:prompt_tokens_total": Role("prompt", "counter", "llama.cpp", 0, _UNCACHED),
    "llamacpp:tokens_predicted_total": Role("generation", "counter", "llama.cpp"),
    "tgi_request_input_length_sum": Role("delivered_prompt", "counter", "tgi", 0, _SUCCESSFUL),
    "tgi_request_generated_tokens_sum": Role(
        "delivered_generation", "counter", "tgi", 0, _SUCCESSFUL
    ),
}

_HOSTS: Final[dict[str, Role]] = {
    "up": Role("up", "gauge", "target"),
    "process_start_time_seconds": Role("process_start", "mark", "target"),
    "DCGM_FI_DEV_FB_USED": Role("device_used_bytes", "gauge", "dcgm", 0, _DCGM_RESERVED, _MIB),
    "DCGM_FI_DEV_FB_FREE": Role("device_free_bytes", "gauge", "dcgm", 0, None, _MIB),
    "DCGM_FI_DEV_FB_RESERVED": Role("device_reserved_bytes", "gauge", "dcgm", 0, None, _MIB),
    "DCGM_FI_DEV_FB_TOTAL": Role("device_total_bytes", "gauge", "dcgm", 0, None, _MIB),
    "nvidia_smi_memory_used_bytes": Role("device_used_bytes", "gauge", "nvidia-smi"),
    "nvidia_smi_memory_free_bytes": Role("device_free_bytes", "gauge", "nvidia-smi"),
    "nvidia_smi_memory_reserved_bytes": Role("device_reserved_bytes", "gauge", "nvidia-smi"),
    "nvidia_smi_memory_total_bytes": Role("device_total_bytes", "gauge", "nvidia-smi"),
}


def _through_ray() -> dict[str, Role]:
    """Ray writes `ray_vllm_` for `vllm:`; the roles stay what they are."""
    return {
        name.replace("vllm:", "ray_vllm_", 1): replace(
            role, caveat="; ".join(filter(None, (role.caveat, _RAY)))
        )
        for name, role in _VLLM.items()
    }


ROLES: Final[dict[str, Role]] = {**_VLLM, **_through_ray(), **_SGLANG, **_OTHERS, **_HOSTS}

_CREATED: Final = "_created"
_COUNTER_ENDINGS: Final = ("_total", "_sum", "_count", "_bucket")


def marked_metric(created_metric: str) -> tuple[str, ...]:
    """The counters of the table whose birth a `…_created` series tells (method §2.1).

    `vllm:prompt_tokens_created` marks `vllm:prompt_tokens_total`; a histogram's marks its
    `_sum` and `_bucket`. Empty when the name is no mark of a known counter.
    """
    if not created_metric.endswith(_CREATED):
        return ()
    base = created_metric[: -len(_CREATED)]
    names = (base + ending for ending in _COUNTER_ENDINGS)
    return tuple(name for name in names if name in ROLES and ROLES[name].kind == "counter")


def mark_of(metric: str) -> str | None:
    """The `…_created` name that would tell this counter's birth; None for what is no counter.

    The mark has the counter's labels, for a `_bucket` without `le`.
    """
    role = ROLES.get(metric)
    if role is None or role.kind != "counter":
        return None
    for ending in _COUNTER_ENDINGS:
        if metric.endswith(ending):
            return metric[: -len(ending)] + _CREATED
    return None


def role_of(metric: str) -> Role | None:
    """The role of a metric by its whole name; None for a metric that is not accounted.

    A `…_created` series of a known counter has the role `created` of that counter's engine.
    """
    if metric in ROLES:
        return ROLES[metric]
    marked = marked_metric(metric)
    return Role("created", "mark", ROLES[marked[0]].engine) if marked else None


def metrics_to_collect() -> tuple[str, ...]:
    """Every name worth fetching, marks included, sorted: what a collector selects."""
    marks = {mark for metric in ROLES if (mark := mark_of(metric)) is not None}
    return tuple(sorted(set(ROLES) | marks))
