"""Alerting rules. Each says what is so, what to do, and why it matters to a figure (`why`)."""

from __future__ import annotations

from typing import Any, Final

from .names import TARGET

UPPER_BAND: Final = "0.85"
"""The band's default upper edge (method §9): p99 above it leaves no room for a busier day."""
LEAST_COVERAGE: Final = "0.95"
"""Right-sizing gives no verdict below this coverage (method §9)."""
SILENT_SECONDS: Final = 7200
ENGINE: Final = "{{ $labels.model_name }} on {{ $labels.instance }}"


def groups() -> list[dict[str, Any]]:
    """The group of alerts."""
    rules = [*_memory(), *_readings()]
    return [{"name": "headroom-alerts", "interval": "1m", "rules": rules}]


def _memory() -> list[dict[str, Any]]:
    return [
        _alert(
            "HeadroomKVCacheOverBand",
            f"quantile_over_time(0.99, llm:kv_cache_usage:live_ratio[1h]) > {UPPER_BAND}",
            lasting="15m",
            severity="warning",
            summary=f"KV cache of {ENGINE} is over its band",
            description="For 99 % of the last hour its use was at or below"
            " {{ $value | humanizePercentage }} of the pool; the band ends at 85 %.",
            why="Above the band the next busy hour preempts requests. Judge it at peak load:"
            " `./run rightsize` says whether to raise the setting, and what that changes.",
        ),
        _alert(
            "HeadroomPreemptions",
            "llm:preemptions:increase15m > 0",
            lasting="5m",
            severity="warning",
            summary=f"{ENGINE} preempts requests",
            description="About {{ $value | humanize }} preemptions in 15 minutes (extrapolated).",
            why="A preempted request is computed again: the GPU is paid for and no token is added,"
            " so the cost per token rises. vLLM V0 even counts the prompt a second time.",
        ),
        _alert(
            "HeadroomStaleGauge",
            f"llm:kv_cache_gauge:stale > 0\nunless on ({TARGET}) llm:engine:asleep",
            lasting="5m",
            severity="info",
            summary=f"The KV cache gauge of {ENGINE} has stopped",
            description="It says {{ $value | humanizePercentage }} in use, and no token has moved.",
            why="Gauges freeze when all requests are aborted at once, until the next step. A frozen"
            " value is no use of memory: it is left out of averages, here and in the reports.",
        ),
    ]


def _readings() -> list[dict[str, Any]]:
    return [
        _alert(
            "HeadroomSourceSilent",
            "max_over_time(llm:engines:count[1d])\nunless on (cluster, job) llm:engines:count",
            lasting="10m",
            severity="critical",
            summary="No engine of job {{ $labels.job }} is read any more",
            description="Up to {{ $value }} series of engines were read in the last day; now none.",
            why="Tokens of the dark are booked late if the counters live on, and are lost if an"
            " engine restarts meanwhile: the week's figures then have bounds instead of a number.",
        ),
        _alert(
            "HeadroomEngineNotScraped",
            "up == 0\nand on (cluster, job, instance)"
            " present_over_time(llm:kv_cache_usage:ratio[1d])",
            lasting="10m",
            severity="warning",
            summary="{{ $labels.instance }} of job {{ $labels.job }} does not answer",
            description="It was read in the last day; its scrapes fail now.",
            why="What it generates before it ends and is not read again is in no counter anybody"
            " will see; its GPUs cost money all the same.",
        ),
        _alert(
            "HeadroomCoverageLow",
            f"llm:source_coverage:ratio1d < {LEAST_COVERAGE}\n"
            f"or llm:target_coverage:ratio1d < {LEAST_COVERAGE}",
            lasting="30m",
            severity="warning",
            summary="{{ $value | humanizePercentage }} of the last day was read:"
            " {{ with $labels.instance }}{{ . }} of {{ end }}job {{ $labels.job }}",
            description="Less than 95 % of the day has readings.",
            why="Below 95 % there is no verdict on memory, and a restart inside a gap loses tokens"
            " that no later reading brings back.",
        ),
        _alert(
            "HeadroomCollectorBehind",
            'time() - headroom_source_last_reading_timestamp_seconds{sample="false"}'
            f" > {SILENT_SECONDS}",
            lasting="30m",
            severity="warning",
            summary="Headroom's source {{ $labels.source }} is behind",
            description="Its last reading is {{ $value | humanizeDuration }} old.",
            why="Prometheus keeps samples for a limited time only. What it deletes before Headroom"
            " has read it cannot be booked any more.",
        ),
    ]


def _alert(name: str, expr: str, *, lasting: str, severity: str, **said: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expr,
        "for": lasting,
        "labels": {"severity": severity},
        "annotations": said,
    }
