"""The dashboard *Reserved versus active*: what the engines' KV cache pools hold and what of it is
referenced by live requests (method §8)."""

from __future__ import annotations

from typing import Any, Final

from .names import names, selected
from .panels import bars, dashboard, lines, query, stat, table, text, variable
from .recording import DEVICES

CHOSEN: Final = (
    'cluster=~"$cluster", job=~"$job", namespace=~"$namespace", model_name=~"$model_name"'
)
LIVE: Final = f"llm:kv_cache_usage:live_ratio{{{CHOSEN}}}"
ENGINE: Final = "{{model_name}} {{instance}} {{engine}}"
WORDS: Final = """\
The pool is **reserved** at the start and stays reserved. **Active** is the part referenced by live
requests. The rest is *reserved, unreferenced*: it may hold reusable prefix cache, so it is neither
wasted nor free. On a GPU that is billed whole and serves one engine, a lower setting saves no money
by itself; a smaller GPU, or a second engine on the card, would. Bytes and the verdict per engine are
in Headroom (*Memory*, `./run memory`, `./run rightsize`)."""
POOL_LABELS: Final = (
    "cluster, job, instance, namespace, num_gpu_blocks, block_size, gpu_memory_utilization,"
    " cache_dtype, enable_prefix_caching, kv_cache_size_tokens, kv_cache_memory_bytes,"
    " num_gpu_blocks_override"
)


def reserved_versus_active() -> dict[str, Any]:
    """The dashboard as a dictionary."""
    panels = [
        text("How to read this", WORDS, height=5),
        *_numbers(),
        lines(
            "Reserved versus active",
            "Mean over the chosen engines, each counted alike: exact where their pools are of one"
            " size. Frozen gauges and sleeping engines are left out.",
            [
                query(f"avg({LIVE})", "active (referenced by live requests)"),
                query(f"1 - avg({LIVE})", "reserved, unreferenced (may hold prefix cache)"),
            ],
            "percentunit",
            stacked=True,
            most=1,
        ),
        lines(
            "Active by engine",
            "Each engine's own pool is 100 %.",
            [query(LIVE, ENGINE)],
            "percentunit",
            most=1,
        ),
        *_load(),
        *_devices(),
        bars(
            "Reserved in the newest closed week",
            "Bytes of the KV pool, from Headroom's report; engines whose bytes are unknown are not"
            " shown.",
            'headroom_kv_reserved_bytes{namespace=~"$namespace", model_name=~"$model_name"}',
            "{{workload}} {{target}} reserved",
            "bytes",
        ),
        bars(
            "Active in the newest closed week",
            "Time-weighted mean of the bytes referenced by live requests, from Headroom's report.",
            'headroom_kv_active_bytes{namespace=~"$namespace", model_name=~"$model_name"}',
            "{{workload}} {{target}} active",
            "bytes",
        ),
        _settings(),
    ]
    return dashboard(
        "headroom-reserved-versus-active",
        "Headroom: reserved versus active",
        "KV cache pools of LLM engines: reserved, referenced by live requests, and what it means.",
        [
            variable(name, label, f"label_values(llm:kv_cache_usage:ratio, {name})")
            for name, label in (
                ("cluster", "Cluster"),
                ("job", "Job"),
                ("namespace", "Namespace"),
                ("model_name", "Model"),
            )
        ],
        panels,
        since="now-7d",
    )


def _numbers() -> list[dict[str, Any]]:
    shown = (
        ("Active now", "Mean over the chosen engines.", f"avg({LIVE})", "percentunit"),
        (
            "p99 over the range",
            "Of the engine that is fullest: the value it stays below in 99 % of the range.",
            f"max(quantile_over_time(0.99, {LIVE}[$__range]))",
            "percentunit",
        ),
        ("Peak", "Of any engine.", f"max(max_over_time({LIVE}[$__range]))", "percentunit"),
        (
            "Peak requests together",
            "Running at once on one engine.",
            f"max(max_over_time(llm:requests_running:count{{{CHOSEN}}}[$__range]))",
            "none",
        ),
        (
            "Stale gauges",
            "Use above zero while no token moved: left out.",
            f"count(llm:kv_cache_gauge:stale{{{CHOSEN}}}) or vector(0)",
            "none",
        ),
        (
            "Least coverage",
            "Share of the last day with readings, of the worst source.",
            'min(llm:source_coverage:ratio1d{cluster=~"$cluster", job=~"$job"})',
            "percentunit",
        ),
    )
    return [stat(title, why, expr, unit) for title, why, expr, unit in shown]


def _load() -> list[dict[str, Any]]:
    return [
        lines(
            "Requests",
            "Waiting requests while the pool is full are what a larger pool would serve.",
            [
                query(f"sum(llm:requests_running:count{{{CHOSEN}}})", "running"),
                query(f"sum(llm:requests_waiting:count{{{CHOSEN}}})", "waiting"),
            ],
            "none",
        ),
        lines(
            "Preemptions in 15 minutes",
            "Work done twice: cost without tokens. Extrapolated by Prometheus, so not whole.",
            [query(f"llm:preemptions:increase15m{{{CHOSEN}}}", ENGINE)],
            "none",
        ),
    ]


def _devices() -> list[dict[str, Any]]:
    said = ("used (what nvidia-smi shows)", "free", "reserved by the driver")
    return [
        lines(
            "GPU memory",
            "All GPUs that an exporter sees, engines or not; the choices above do not bound it."
            " A pool is used memory from its engine's start, whatever of it is active.",
            [
                query(f"sum by (exporter) ({record})", f"{{{{exporter}}}} {name}")
                for (record, _), name in zip(DEVICES, said, strict=True)
            ],
            "bytes",
            stacked=True,
            width=24,
        )
    ]


def _settings() -> dict[str, Any]:
    (name, *_) = names("cache_config", "vllm")
    chosen = 'cluster=~"$cluster", job=~"$job", namespace=~"$namespace", server=""'
    return table(
        "Settings of the pools (vLLM)",
        "One row a front end. num_gpu_blocks is already the sum over its data-parallel engines, so"
        " rows of `engine` are not added. Blocks × block size is the pool for models of one KV"
        " group only.",
        f"max by ({POOL_LABELS}) ({selected(name, chosen)})",
        hidden=("Value",),
    )
