"""Recording rules: one name for each figure, whatever engine and version it comes from.

They are for screens and alerts. No money and no token total rests on them.
"""

from __future__ import annotations

from typing import Any, Final

from .names import TARGET, any_of, moved, names, reading, readings, selected, stacks

Rule = dict[str, Any]
MINUTES_OF_A_DAY: Final = 1440
DEVICE_COPIES: Final = (
    "namespace, pod, container, exported_namespace, exported_pod, exported_container"
)
"""With time-slicing an exporter shows a device once for each pod on it: it is counted once."""

MOVE_WHILE_WORKING: Final = ("vllm",)
"""Engines whose counters move at each step; others count when a request finishes, so that still
counters say nothing of their gauges."""

GAUGES: Final = (
    ("llm:kv_cache_usage:ratio", "kv_usage"),
    ("llm:requests_running:count", "running"),
    ("llm:requests_waiting:count", "waiting"),
    ("llm:kv_pool:tokens", "pool_tokens"),
    ("llm:kv_active:tokens", "pool_used_tokens"),
    ("llm:kv_evictable:tokens", "pool_evictable_tokens"),
    ("llm:kv_pool_of_a_rank:bytes", "kv_bytes"),
    ("llm:weights_of_a_rank:bytes", "weights_bytes"),
)
RATES: Final = (
    ("llm:prompt_tokens:rate5m", "prompt"),
    ("llm:cached_prompt_tokens:rate5m", "cached_prompt"),
    ("llm:generation_tokens:rate5m", "generation"),
)
DEVICES: Final = (
    ("llm:device_used:bytes", "device_used_bytes"),
    ("llm:device_free:bytes", "device_free_bytes"),
    ("llm:device_reserved_by_driver:bytes", "device_reserved_bytes"),
)


def groups() -> list[dict[str, Any]]:
    """The groups of recording rules."""
    return [
        {"name": "headroom-engines", "interval": "1m", "rules": [*_engines(), *_believable()]},
        {"name": "headroom-devices", "interval": "1m", "rules": _devices()},
        {"name": "headroom-coverage", "interval": "1m", "rules": _coverage()},
    ]


def recorded() -> set[str]:
    """Every name that the rules record."""
    return {rule["record"] for group in groups() for rule in group["rules"]}


def _engines() -> list[Rule]:
    gauges = [
        _rule(record, reading(role, stack), stack)
        for record, role in GAUGES
        for stack in stacks(role)
    ]
    rates = [
        _rule(record, moved(role, stack), stack) for record, role in RATES for stack in stacks(role)
    ]
    preempted = [
        _rule("llm:preemptions:increase15m", moved("preemptions", stack, "increase", "15m"), stack)
        for stack in stacks("preemptions")
    ]
    return [*gauges, *rates, *preempted]


def _believable() -> list[Rule]:
    """What is frozen (method §8.9), and the use that remains when it is left out."""
    stack = "|".join(MOVE_WHILE_WORKING)
    still = (
        f"(llm:prompt_tokens:rate5m == 0)\n  and on ({TARGET}) (llm:generation_tokens:rate5m == 0)"
    )
    awake = 'sleep_state="awake"'
    asleep = " or ".join(
        f"({selected(name, awake)} == 0)" for name in names("sleep_state", MOVE_WHILE_WORKING[0])
    )
    return [
        _rule(
            "llm:kv_cache_gauge:stale",
            f'(llm:kv_cache_usage:ratio{{stack=~"{stack}"}} > 0)\nand on ({TARGET}) (\n  {still}\n)',
        ),
        _rule("llm:engine:asleep", asleep),
        _rule(
            "llm:kv_cache_usage:live_ratio",
            f"llm:kv_cache_usage:ratio\nunless on ({TARGET}) llm:kv_cache_gauge:stale\n"
            f"unless on ({TARGET}) llm:engine:asleep",
        ),
    ]


def _devices() -> list[Rule]:
    return [
        {
            "record": record,
            "expr": f"max without ({DEVICE_COPIES}) (\n  {readings(role, exporter)}\n)",
            "labels": {"exporter": exporter},
        }
        for record, role in DEVICES
        for exporter in stacks(role)
    ]


def _coverage() -> list[Rule]:
    """Shares of the last day; only of what was there a day ago, since the young have no day yet.
    Rounded, because Prometheus 2 counts both edges of a range and Prometheus 3 one."""
    engines = f"{any_of('generation')}\n  or {any_of('delivered_generation')}"
    same = "on (cluster, job, instance)"
    return [
        _rule("llm:engines:count", f"count by (cluster, job) (\n  {engines}\n)"),
        _rule(
            "llm:source_coverage:ratio1d",
            f"round(clamp_max(count_over_time(llm:engines:count[1d]) / {MINUTES_OF_A_DAY}, 1), 0.001)\n"
            "and on (cluster, job) (llm:engines:count offset 1d)",
        ),
        _rule(
            "llm:target_coverage:ratio1d",
            f"round(avg_over_time(up[1d]), 0.001)\nand {same} (up offset 1d)\n"
            f"and {same} present_over_time(llm:kv_cache_usage:ratio[1d])",
        ),
    ]


def _rule(record: str, expr: str, stack: str | None = None) -> Rule:
    rule: Rule = {"record": record, "expr": expr}
    return {**rule, "labels": {"stack": stack}} if stack else rule
