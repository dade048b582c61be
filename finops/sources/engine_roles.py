"""The table itself: every metric that is accounted, its role, its source and its caveat (method §2).

One row a metric. `caveat` is printed on a report whose figures rest on the row; `origin` says where
the row was read. Several names of one engine may play one role, because names changed between
versions and some versions export both: they are ranked, and for one target only the lowest rank
present counts, so that equal figures under two names are never added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from finops.core.slices import RESOURCES

Kind = Literal["counter", "gauge", "mark", "info"]
Layer = Literal["engine", "gateway", "router", "node", "target"]
ANY: Final = ""


@dataclass(frozen=True, slots=True)
class Role:
    """What a metric tells. `scale` turns its values into the role's unit (bytes, seconds, 1).

    `label` and `values` bound the role to series whose label has one of the values (ANY: has one
    at all), `pattern` to those whose label it matches whole. `layer` says who counts: an engine, a gateway in front of it, a router that repeats
    the engine's names, a node's exporter, or the scrape target itself.
    """

    name: str
    kind: Kind
    engine: str
    alias_rank: int = 0
    caveat: str | None = None
    scale: int = 1
    layer: Layer = "engine"
    label: str | None = None
    values: tuple[str, ...] = ()
    pattern: str | None = None
    origin: str = ""

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels plays the role."""
        if self.label is None:
            return True
        value = labels.get(self.label, "")
        if self.pattern is not None:
            return re.fullmatch(self.pattern, value) is not None
        return value != "" and (ANY in self.values or value in self.values)


_V0_RECOMPUTE: Final = "vLLM V0 counts a prompt again when a preempted request is recomputed"
_SCHEDULED: Final = "counted when a request is scheduled; before 0.11.1 again after a preemption"
_ENDED: Final = "requests that finished: what clients broke off is not in it"
_STEPS: Final = (
    "tokens of a step, to 0.22 with those found in the cache; a histogram, never added to tokens"
)
_BLOCKS: Final = "summed over data-parallel engines already: never add over `engine`"
_FINISHED_ONLY: Final = (
    "SGLang counts a request's tokens when it finishes: aborted requests are left out, and a long "
    "request stands in the hour of its end"
)
_RANKS: Final = "one series a tensor-parallel rank: take one `tp_rank`, add over `dp_rank`"
_UNCACHED: Final = "llama.cpp leaves prompt tokens that it had cached out of its prompt counter"
_SUCCESSFUL: Final = "TGI counts requests that succeeded only, when they finish"
_AMD_MB: Final = "AMD's exporter writes MB and counts MiB"
_DCGM_RESERVED: Final = "DCGM_FI_DEV_FB_USED leaves DCGM_FI_DEV_FB_RESERVED out"
_PROCESSES: Final = "by process, told when the exporter runs with `--collect.compute-apps`"
_RAY: Final = "through Ray every worker has a series of its own: gauges are not to be added"
_TRTLLM: Final = "trtllm-serve exports token counters in newer versions only; names by its source"
_NIM: Final = "NIM exports names without a prefix, which differ by version: check yours"
_FRONTEND: Final = (
    "counted by the front end, not the engine: requests that finished, as clients were told"
)
_SPARSE: Final = (
    "a gateway counts what the engine's answers say: streams without usage are left out"
)
_MIB, _GIB = 1 << 20, 1 << 30

# Of a histogram's buckets those between which a sensible threshold lies, and the last one: a tenth of
# a second to ten for the first token, a hundredth to one between tokens (method §5).
_FIRST_BOUNDS: Final = r"0?\.[1-9][0-9]*|[1-9](\.[0-9]+)?|10(\.0+)?|\+Inf"
# Of lengths those from a hundred tokens on: shorter requests decide no setting (method §9).
_LENGTH_BOUNDS: Final = r"[1-9][0-9]{2,}(\.0+)?|\+Inf"
_BETWEEN_BOUNDS: Final = r"0?\.0[1-9][0-9]*|0?\.[1-9][0-9]*|1(\.0+)?|\+Inf"


def _lengths(name: str, engine: str, caveat: str) -> Role:
    return Role(name, "counter", engine, 0, caveat, label="le", pattern=_LENGTH_BOUNDS)


def _first_token(engine: str) -> Role:
    return Role("first_token_bucket", "counter", engine, label="le", pattern=_FIRST_BOUNDS)


def _inter_token(engine: str, alias_rank: int = 0) -> Role:
    return Role(
        "inter_token_bucket", "counter", engine, alias_rank, label="le", pattern=_BETWEEN_BOUNDS
    )


_WHEELS: Final = "released vLLM wheels 0.10.2 to 0.33, git tags before"
_SGLANG_SOURCE: Final = "metrics collector of SGLang 0.5.23"
_DOCUMENTED: Final = "the project's documentation or source"


def _all(origin: str, rows: dict[str, Role]) -> dict[str, Role]:
    return {name: replace(role, origin=origin) for name, role in rows.items()}


VLLM: Final[dict[str, Role]] = _all(_WHEELS, {
    "vllm:prompt_tokens_total": Role("prompt", "counter", "vllm", 0, _V0_RECOMPUTE),
    "vllm:generation_tokens_total": Role("generation", "counter", "vllm"),
    "vllm:prompt_tokens_cached_total": Role("cached_prompt", "counter", "vllm"),
    "vllm:prompt_tokens_by_source_total": Role(
        "external_prompt", "counter", "vllm", label="source", values=("external_kv_transfer",)
    ),
    "vllm:prefix_cache_hits_total": Role("prefix_hits", "counter", "vllm", 0, _SCHEDULED),
    "vllm:gpu_prefix_cache_hits_total": Role(
        "prefix_hits", "counter", "vllm", 1, "early V1 versions may count blocks, not tokens"
    ),
    "vllm:request_prompt_tokens_sum": Role("delivered_prompt", "counter", "vllm"),
    "vllm:request_generation_tokens_sum": Role("delivered_generation", "counter", "vllm"),
    "vllm:prefix_cache_queries_total": Role("prefix_queries", "counter", "vllm", 0, _SCHEDULED),
    "vllm:gpu_prefix_cache_queries_total": Role(
        "prefix_queries", "counter", "vllm", 1, "early V1 versions may count blocks, not tokens"
    ),
    "vllm:request_prompt_tokens_bucket": _lengths("prompt_length_bucket", "vllm", _ENDED),
    "vllm:request_generation_tokens_bucket": _lengths("generation_length_bucket", "vllm", _ENDED),
    "vllm:iteration_tokens_total_bucket": _lengths("step_tokens_bucket", "vllm", _STEPS),
    "vllm:request_params_n_sum": Role("answers", "counter", "vllm"),
    "vllm:request_params_n_count": Role("answered", "counter", "vllm"),
    "vllm:num_preemptions_total": Role("preemptions", "counter", "vllm"),
    "vllm:request_prefill_time_seconds_sum": Role("prefill_seconds", "counter", "vllm"),
    "vllm:request_decode_time_seconds_sum": Role("decode_seconds", "counter", "vllm"),
    "vllm:time_to_first_token_seconds_bucket": _first_token("vllm"),
    "vllm:inter_token_latency_seconds_bucket": _inter_token("vllm"),
    "vllm:time_per_output_token_seconds_bucket": _inter_token("vllm", 1),
    "vllm:kv_cache_usage_perc": Role("kv_usage", "gauge", "vllm"),
    "vllm:gpu_cache_usage_perc": Role("kv_usage", "gauge", "vllm", 1),
    "vllm:num_requests_running": Role("running", "gauge", "vllm"),
    "vllm:num_requests_waiting": Role("waiting", "gauge", "vllm"),
    "vllm:num_requests_waiting_by_reason": Role(
        "waiting_by_reason", "gauge", "vllm", 0, "a part of the waiting requests: never added"
    ),
    "vllm:cache_config_info": Role("cache_config", "info", "vllm", 0, _BLOCKS),
    "vllm:engine_sleep_state": Role("sleep_state", "gauge", "vllm"),
})  # fmt: skip

SGLANG: Final[dict[str, Role]] = _all(_SGLANG_SOURCE, {
    "sglang:prompt_tokens_total": Role("prompt", "counter", "sglang", 0, _FINISHED_ONLY),
    "sglang:generation_tokens_total": Role("generation", "counter", "sglang", 0, _FINISHED_ONLY),
    "sglang:cached_tokens_total": Role("cached_prompt", "counter", "sglang", 0, _FINISHED_ONLY),
    "sglang:prompt_tokens_histogram_sum": Role("delivered_prompt", "counter", "sglang"),
    "sglang:generation_tokens_histogram_sum": Role("delivered_generation", "counter", "sglang"),
    "sglang:prompt_tokens_histogram_bucket": _lengths("prompt_length_bucket", "sglang", _ENDED),
    "sglang:generation_tokens_histogram_bucket": _lengths(
        "generation_length_bucket", "sglang", _ENDED
    ),
    "sglang:num_retracted_requests_total": Role("preemptions", "counter", "sglang", 0, _RANKS),
    "sglang:time_to_first_token_seconds_bucket": _first_token("sglang"),
    "sglang:inter_token_latency_seconds_bucket": _inter_token("sglang"),
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
})  # fmt: skip

OTHERS: Final[dict[str, Role]] = _all(_DOCUMENTED, {
    "trtllm_prompt_tokens_total": Role("prompt", "counter", "trtllm", 0, _TRTLLM),
    "trtllm_generation_tokens_total": Role("generation", "counter", "trtllm", 0, _TRTLLM),
    "trtllm_prompt_cached_tokens_total": Role("cached_prompt", "counter", "trtllm", 0, _TRTLLM),
    "trtllm_kv_cache_utilization": Role("kv_usage", "gauge", "trtllm"),
    "trtllm_num_requests_running": Role("running", "gauge", "trtllm"),
    "trtllm_num_requests_waiting": Role("waiting", "gauge", "trtllm"),
    "lmdeploy:prompt_tokens_total": Role("prompt", "counter", "lmdeploy"),
    "lmdeploy:generation_tokens_total": Role("generation", "counter", "lmdeploy"),
    "lmdeploy:gpu_cache_usage_perc": Role("kv_usage", "gauge", "lmdeploy"),
    "lmdeploy:num_requests_running": Role("running", "gauge", "lmdeploy"),
    "lmdeploy:num_requests_waiting": Role("waiting", "gauge", "lmdeploy"),
    "llamacpp:prompt_tokens_total": Role("prompt", "counter", "llama.cpp", 0, _UNCACHED),
    "llamacpp:tokens_predicted_total": Role("generation", "counter", "llama.cpp"),
    "llamacpp:requests_processing": Role("running", "gauge", "llama.cpp"),
    "llamacpp:requests_deferred": Role("waiting", "gauge", "llama.cpp"),
    "tgi_request_input_length_sum": Role("delivered_prompt", "counter", "tgi", 0, _SUCCESSFUL),
    "tgi_request_generated_tokens_sum": Role(
        "delivered_generation", "counter", "tgi", 0, _SUCCESSFUL
    ),
    "tgi_batch_current_size": Role("running", "gauge", "tgi"),
    "tgi_queue_size": Role("waiting", "gauge", "tgi"),
})  # fmt: skip

_NIM_LABEL: Final = {"label": "model_name", "values": (ANY,)}
NIM: Final[dict[str, Role]] = _all("general knowledge, not checked against a release", {
    "prompt_tokens_total": Role("prompt", "counter", "nim", 0, _NIM, **_NIM_LABEL),  # type: ignore[arg-type]
    "generation_tokens_total": Role("generation", "counter", "nim", 0, _NIM, **_NIM_LABEL),  # type: ignore[arg-type]
    "gpu_cache_usage_perc": Role("kv_usage", "gauge", "nim", 0, _NIM, **_NIM_LABEL),  # type: ignore[arg-type]
    "num_requests_running": Role("running", "gauge", "nim", 0, _NIM, **_NIM_LABEL),  # type: ignore[arg-type]
    "num_requests_waiting": Role("waiting", "gauge", "nim", 0, _NIM, **_NIM_LABEL),  # type: ignore[arg-type]
})  # fmt: skip

# Gauges of one iteration: their sum over scrapes is no number of tokens. Refused by name.
NEVER_COUNTED: Final[dict[str, str]] = {
    "nv_trt_llm_v1_metrics": (
        "Triton's TensorRT-LLM backend shows the tokens of one iteration as a gauge, from which no "
        "total can be made; take the tokens from a gateway or from usage records"
    ),
    "nv_trt_llm_inflight_batcher_metrics": (
        "Triton's TensorRT-LLM backend shows the tokens of one iteration as a gauge, from which no "
        "total can be made; take the tokens from a gateway or from usage records"
    ),
}


def _gateway(name: str, engine: str, caveat: str, **bound: object) -> Role:
    return Role(name, "counter", engine, 0, caveat, layer="gateway", **bound)  # type: ignore[arg-type]


GATEWAYS: Final[dict[str, Role]] = _all(_DOCUMENTED, {
    "dynamo_frontend_input_sequence_tokens_sum": _gateway(
        "delivered_prompt", "dynamo", _FRONTEND
    ),
    "dynamo_frontend_output_sequence_tokens_sum": _gateway(
        "delivered_generation", "dynamo", _FRONTEND
    ),
    "litellm_input_tokens_metric_total": _gateway("delivered_prompt", "litellm", _SPARSE),
    "litellm_output_tokens_metric_total": _gateway("delivered_generation", "litellm", _SPARSE),
})  # fmt: skip

_TYPE: Final = "gen_ai_token_type"
# One histogram for all token types: `total` is input + output, cached ones are part of the input.
# Only input and output are taken, and never added to one another.
GEN_AI: Final[tuple[Role, ...]] = tuple(
    replace(
        _gateway(name, "gen_ai", _SPARSE, label=_TYPE, values=values),
        origin="OpenTelemetry conventions for generative AI; Envoy AI Gateway",
    )
    for name, values in (
        ("delivered_prompt", ("input",)),
        ("delivered_generation", ("output", "completion")),
    )
)
BY_LABEL: Final[dict[str, tuple[Role, ...]]] = {
    "gen_ai_client_token_usage_sum": GEN_AI,
    "gen_ai_client_token_usage_token_sum": GEN_AI,
}

RE_EXPORT: Final = Role(
    "re_export", "gauge", "router", 0,
    "a router repeats what its engines say under the engines' names: left out", layer="router",
    origin="vLLM production-stack router",
)  # fmt: skip
ROUTERS: Final[dict[str, Role]] = {
    "vllm:input_tokens_total": RE_EXPORT,
    "vllm:output_tokens_total": RE_EXPORT,
}


def _amd(prefix: str, alias_rank: int) -> dict[str, Role]:
    """AMD's gauges by their beginning: its packaged configuration sets `amd_`, no configuration
    sets none (`MetricsFieldPrefix`)."""
    return {
        f"{prefix}_{measure}_vram": Role(
            f"device_{measure}_bytes", "gauge", "amd", alias_rank, _AMD_MB, _MIB
        )
        for measure in ("used", "free", "total")
    }


HOSTS: Final[dict[str, Role]] = {
    name: replace(role, layer="target")
    for name, role in {
        "up": Role("up", "gauge", "target"),
        "process_start_time_seconds": Role("process_start", "mark", "target"),
        "DCGM_FI_DEV_FB_USED": Role("device_used_bytes", "gauge", "dcgm", 0, _DCGM_RESERVED, _MIB),
        "DCGM_FI_DEV_FB_FREE": Role("device_free_bytes", "gauge", "dcgm", 0, None, _MIB),
        "DCGM_FI_DEV_FB_RESERVED": Role("device_reserved_bytes", "gauge", "dcgm", 0, None, _MIB),
        "DCGM_FI_DEV_FB_TOTAL": Role("device_total_bytes", "gauge", "dcgm", 0, None, _MIB),
        **_amd("amd_gpu", 0),
        **_amd("gpu", 1),
        "nvidia_smi_memory_used_bytes": Role("device_used_bytes", "gauge", "nvidia-smi"),
        "nvidia_smi_memory_free_bytes": Role("device_free_bytes", "gauge", "nvidia-smi"),
        "nvidia_smi_memory_reserved_bytes": Role("device_reserved_bytes", "gauge", "nvidia-smi"),
        "nvidia_smi_memory_total_bytes": Role("device_total_bytes", "gauge", "nvidia-smi"),
        "nvidia_smi_compute_app_used_memory_bytes": Role(
            "process_used_bytes", "gauge", "nvidia-smi", 0, _PROCESSES
        ),
    }.items()
}

_KUBE: Final = "documentation of kube-state-metrics"
NODE_LABELS: Final = tuple(
    Role("node_labels", "info", "kubernetes", layer="node", label=label, values=(ANY,),
         origin=f"documentation of kube-state-metrics and of {who}")
    for label, who in (
        ("label_nvidia_com_gpu_count", "NVIDIA's GPU feature discovery"),
        ("label_amd_com_compute_memory_partition", "AMD's node labeller"),
    )
)  # fmt: skip
_GPUS: Final = {"layer": "node", "label": "resource", "values": RESOURCES, "origin": _KUBE}
NODES: Final[dict[str, Role]] = {
    "kube_pod_container_resource_requests": Role("gpu_request", "gauge", "kubernetes", **_GPUS),  # type: ignore[arg-type]
    "kube_pod_init_container_resource_requests": Role(
        "gpu_init_request", "gauge", "kubernetes", **_GPUS  # type: ignore[arg-type]
    ),
    "kube_node_status_capacity": Role("gpu_capacity", "gauge", "kubernetes", **_GPUS),  # type: ignore[arg-type]
    "kube_pod_status_phase": Role(
        "pod_running", "gauge", "kubernetes", layer="node",
        label="phase", values=("Running",), origin=_KUBE,
    ),
    "kube_node_info": Role("node_info", "info", "kubernetes", layer="node", origin=_KUBE),
    "kube_node_labels": NODE_LABELS[0],
}  # fmt: skip
BY_LABEL["kube_node_labels"] = NODE_LABELS


def through_ray() -> dict[str, Role]:
    """Ray writes `ray_vllm_` for `vllm:`; the roles stay what they are."""
    return {
        name.replace("vllm:", "ray_vllm_", 1): replace(
            role, caveat="; ".join(filter(None, (role.caveat, _RAY)))
        )
        for name, role in VLLM.items()
    }
