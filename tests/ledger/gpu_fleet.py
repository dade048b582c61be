"""A fleet with GPUs as a Prometheus would tell it: OpenMetrics text with timestamps."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

START = int(datetime(2026, 11, 16, tzinfo=UTC).timestamp())
HOUR = 3600
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 14336, "torch_dtype": "bfloat16", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": False,
    "_name_or_path": "meta-llama/Llama-3.1-8B-Instruct",
}  # fmt: skip


class Fleet:
    """Samples by series, written out in the order OpenMetrics wants."""

    def __init__(self, *, start: int = START, hours: int = 1, step: int = 60) -> None:
        self.times = range(start, start + hours * HOUR, step)
        self.families: dict[str, list[str]] = {}

    def gauge(self, metric, values, **labels) -> None:
        """One series; a plain number holds all the time, a function is asked for each instant."""
        inner = ",".join(f'{name}="{value}"' for name, value in labels.items())
        told = values if callable(values) else lambda number, value=values: value
        lines = (
            f"{metric}{{{inner}}} {told(number)} {time}"
            for number, time in enumerate(self.times)
            if told(number) is not None
        )
        self.families.setdefault(metric, []).extend(lines)

    def engine(self, pod, usage, *, blocks=27_471, engine="0", running=4, **configuration) -> None:
        """One vLLM engine under load."""
        target = {"job": "vllm", "instance": f"{pod}:8000", "namespace": "llm", "pod": pod}
        labels = target | {"engine": engine, "model_name": "meta-llama/Llama-3.1-8B-Instruct"}
        self.gauge("up", 1, **target)
        self.gauge("vllm:prompt_tokens_total", lambda n: 1000 * n, **labels)
        self.gauge("vllm:generation_tokens_total", lambda n: 100 * n, **labels)
        self.gauge("vllm:num_preemptions_total", 0, **labels)
        self.gauge("vllm:kv_cache_usage_perc", usage, **labels)
        self.gauge("vllm:num_requests_running", running, **labels)
        self.gauge("vllm:num_requests_waiting", 0, **labels)
        settings = {
            "block_size": "16", "cache_dtype": "auto", "gpu_memory_utilization": "0.92",
            "num_gpu_blocks": str(blocks), "kv_cache_size_tokens": str(blocks * 16),
            "kv_cache_max_concurrency": f"{blocks * 16 / 8192:.6f}",
        } | configuration  # fmt: skip
        self.gauge("vllm:cache_config_info", 1, **target, engine=engine, **settings)

    def histogram(self, metric, at_most, pod, *, engine="0") -> None:
        """A histogram of one engine that grows by these counts at each reading."""
        target = {"job": "vllm", "instance": f"{pod}:8000", "namespace": "llm", "pod": pod}
        labels = target | {"engine": engine, "model_name": "meta-llama/Llama-3.1-8B-Instruct"}
        for edge, count in at_most.items():
            self.gauge(f"{metric}_bucket", lambda n, each=count: each * n, **labels, le=edge)

    def gpu(self, uuid, used, free, reserved=479, *, index="0", **labels) -> None:
        """One GPU as DCGM's exporter tells it, in MiB."""
        target = {"job": "dcgm", "instance": "node-a:9400", "gpu": index, "UUID": uuid,
                  "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "node-a"}  # fmt: skip
        for metric, value in (("USED", used), ("FREE", free), ("RESERVED", reserved)):
            if value is not None:
                self.gauge(f"DCGM_FI_DEV_FB_{metric}", value, **target, **labels)

    def write(self, path: Path) -> Path:
        lines = [line for metric in sorted(self.families) for line in self.families[metric]]
        path.write_text("\n".join([*lines, "# EOF", ""]))
        return path


def config(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps(LLAMA_8B | changes))
    return path


ARGUMENTS = (
    "non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', 'max_model_len': 8192, "
    "'max_num_seqs': 64, 'max_num_batched_tokens': 8192}"
)


def log(path: Path, *, tokens: int = 439_536, kv: str = "53.65", first: str = "") -> Path:
    """A start-up log of vLLM 0.33 for that engine: 72.82 − 15.89 − 3.28 = 53.65 GiB."""
    stamp = "(EngineCore_DP0 pid=9) INFO 11-15 23:50:00 [x.py:1] "
    path.write_text("\n".join([
        *([stamp + first] if first else []),
        stamp + "Initializing a V1 LLM engine (v0.26.0) with config: "
        "model='meta-llama/Llama-3.1-8B-Instruct', max_seq_len=8192, tensor_parallel_size=1",
        stamp + "Model loading took 14.99 GiB memory and 5.2 seconds",
        stamp + f"GPU KV cache size: {tokens:,} tokens",
        stamp + "Maximum concurrency for 8,192 tokens per request: 53.65x",
        stamp + "Graph capturing finished in 5 secs, took 0.45 GiB",
        stamp + "Free memory on device (78.60/79.15 GiB) on startup. Desired GPU memory "
        "utilization is (0.92, 72.82 GiB). Actual usage is 14.99 GiB for weight, 3.28 GiB for peak "
        "activation, 0.90 GiB for non-torch memory, and 0.45 GiB for CUDAGraph memory. Current kv "
        f"cache memory in use is {kv} GiB.",
        "",
    ]))  # fmt: skip
    return path
