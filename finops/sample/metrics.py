"""Writes scrapes as saved Prometheus answers: raw samples of one cluster and one week a file.

The names and label sets are those of a real vLLM V1 fleet behind Prometheus. Each line of a file
is the answer to one instant query with a range selector, so that a reader may compare it with what
`/api/v1/query` returns. The same scrapes give the same bytes.
"""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

from finops.core.period import milliseconds
from finops.sample.calendar import Calendar
from finops.sample.fleet import Life, Pool, Service
from finops.sample.latency import BUCKETS, kept_from_ms
from finops.sample.lengths import EVERY, buckets
from finops.sample.load import Readings, Scrapes
from finops.sample.truth import KINDS

COUNTERS = dict(
    zip(
        KINDS,
        (
            "vllm:prompt_tokens_total",
            "vllm:generation_tokens_total",
            "vllm:prompt_tokens_cached_total",
            "vllm:request_prompt_tokens_sum",
            "vllm:request_generation_tokens_sum",
            "vllm:num_preemptions_total",
        ),
        strict=True,
    )
)
REQUESTS = 2  # the last of the buckets of the first token: all requests
MARKS = ("vllm:prompt_tokens_created", "vllm:generation_tokens_created")
Labels = dict[str, str]
Values = Iterator[str]
# Rows of one metric: labels, the instants' texts, the values' texts.
Row = tuple[Labels, list[str], Values]

CONFIGURATION = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "enable_prefix_caching": "True",
    "is_attention_free": "False",
    "kv_cache_memory_bytes": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None",
    "prefix_caching_hash_algo": "sha256",
    "sliding_window": "None",
    "user_specified_block_size": "False",
}


def write_weeks(
    folder: Path, cluster: str, scrapes: list[Scrapes], calendar: Calendar
) -> Iterator[Path]:
    """Writes a file for each week, the newest with the hour after it; yields each when written."""
    buckets_from_ms = kept_from_ms(calendar)
    for number, name in enumerate(calendar.names):
        since = milliseconds(calendar.weeks[number].start)
        last = number == len(calendar.names) - 1
        until = milliseconds(calendar.horizon if last else calendar.weeks[number].end)
        path = folder / f"prometheus-{cluster}-{name}.json.gz"
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 4, raw, 0) as file:
            _write(
                file, scrapes, since, until, has_buckets=since >= buckets_from_ms, has_lengths=last
            )
        yield path


def _write(
    file: gzip.GzipFile,
    scrapes: list[Scrapes],
    since_ms: int,
    until_ms: int,
    *,
    has_buckets: bool,
    has_lengths: bool,
) -> None:
    """One answer a line, one for each metric."""
    rows: dict[str, list[Row]] = {}
    for each in scrapes:
        for metric, row in _rows(each, since_ms, until_ms, has_buckets, has_lengths):
            rows.setdefault(metric, []).append(row)
    for metric in sorted(rows):
        result = ",".join(_series(metric, row) for row in rows[metric])
        answer = f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}\n'
        file.write(answer.encode())


def _series(metric: str, row: Row) -> str:
    labels, instants, values = row
    name = json.dumps({"__name__": metric, **dict(sorted(labels.items()))}, separators=(",", ":"))
    pairs = ",".join([f'[{at},"{value}"]' for at, value in zip(instants, values, strict=False)])
    return f'{{"metric":{name},"values":[{pairs}]}}'


def _rows(
    scrapes: Scrapes, since_ms: int, until_ms: int, has_buckets: bool, has_lengths: bool
) -> Iterator[tuple[str, Row]]:
    """All series of one target in a window."""
    target = _target_labels(scrapes)
    first, last = _window(scrapes.times_ms, since_ms, until_ms)
    if first == last:
        return
    up = ("1" if is_up else "0" for is_up in scrapes.up[first:last])
    yield "up", (target, _instants(scrapes.times_ms[first:last]), up)
    for number, readings in enumerate(scrapes.engines):
        first, last = _window(readings.times_ms, since_ms, until_ms)
        if first == last:
            continue
        instants = _instants(readings.times_ms[first:last])
        lives = [scrapes.target.lives[index] for index in readings.life[first:last]]
        if number == 0:
            starts = _starts(lives)
            yield "process_start_time_seconds", (target, instants, starts)
        labels = {**target, "engine": str(number), "model_name": scrapes.service.model}
        for metric, values in _engine(readings, lives, number, first, last):
            yield metric, (labels, instants, values)
        for (metric, bound), column in zip(BUCKETS, readings.buckets, strict=True):
            if has_buckets:
                yield metric, ({**labels, "le": bound}, instants, map(str, column[first:last]))
        if has_lengths:
            for metric, more, values in _lengths(scrapes.service, readings, first, last):
                yield metric, ({**labels, **more}, instants[::EVERY], values)
        yield from _configurations(target, number, lives, instants)


def _engine(
    readings: Readings, lives: list[Life], number: int, first: int, last: int
) -> Iterator[tuple[str, Values]]:
    for kind, column in zip(KINDS, readings.counters, strict=True):
        yield COUNTERS[kind], map(str, column[first:last])
    for offset, mark in enumerate(MARKS):
        yield mark, _births(lives, 2 * number + offset)
    yield "vllm:kv_cache_usage_perc", _usage(readings.used_blocks[first:last], lives)
    yield "vllm:num_requests_running", map(str, readings.running[first:last])
    yield "vllm:num_requests_waiting", map(str, readings.waiting[first:last])


def _lengths(
    service: Service, readings: Readings, first: int, last: int
) -> Iterator[tuple[str, Labels, Values]]:
    """Lengths of requests and steps, and what was looked up in the prefix cache, of few scrapes."""
    kept = range(first, last, EVERY)
    requests, answered = readings.buckets[REQUESTS], readings.counters[1]
    for metric, edge, which, share, part in buckets(service.traffic):
        values = _shares((requests, answered)[which], kept, share, 1000 * part)
        yield metric, {"le": edge}, values
    for metric, kind in (("queries", 0), ("hits", 2)):
        values = _shares(readings.counters[kind], kept, 1, 1)
        yield f"vllm:prefix_cache_{metric}_total", {}, values


def _shares(column: list[int], kept: range, share: int, of: int) -> Values:
    return (str(column[at] * share // of) for at in kept)


def _births(lives: list[Life], offset_ms: int) -> Values:
    """When the counters of each reading's process were made."""
    return _by_life(lives, lambda life: seconds(life.born_ms + offset_ms))


def _starts(lives: list[Life]) -> Values:
    """When each reading's process started: before its counters, since loading takes time."""
    return _by_life(lives, lambda life: seconds(life.born_ms - life.loading_ms))


def _by_life(lives: list[Life], text: Callable[[Life], str]) -> Values:
    texts: dict[int, str] = {}
    for life in lives:
        if life.born_ms not in texts:
            texts[life.born_ms] = text(life)
        yield texts[life.born_ms]


def _usage(used_blocks: list[int], lives: list[Life]) -> Values:
    """The share of blocks in use as vLLM prints it; one block of the pool is never lent."""
    for used, life in zip(used_blocks, lives, strict=True):
        yield str(used / (life.pool.blocks - 1)) if used else "0"


def _configurations(
    target: Labels, number: int, lives: list[Life], instants: list[str]
) -> Iterator[tuple[str, Row]]:
    """The information series of each pool: other settings are another series."""
    pools = list(dict.fromkeys(life.pool for life in lives))
    for pool in pools:
        at = [instant for instant, life in zip(instants, lives, strict=True) if life.pool == pool]
        labels = {**target, **_configuration(pool), "engine": str(number)}
        yield "vllm:cache_config_info", (labels, at, repeat("1"))


def _configuration(pool: Pool) -> Labels:
    """The labels of a pool; a data-parallel front-end prints the blocks of all its engines."""
    concurrency = pool.tokens / pool.max_model_len
    return {
        **CONFIGURATION,
        "block_size": str(pool.block_size),
        "effective_attention_block_size": str(pool.block_size),
        "gpu_memory_utilization": pool.utilization,
        "kv_cache_max_concurrency": str(concurrency),
        "kv_cache_size_tokens": str(pool.tokens),
        "num_gpu_blocks": str(pool.blocks * pool.engines),
    }


def _target_labels(scrapes: Scrapes) -> Labels:
    service, target = scrapes.service, scrapes.target
    return {
        "cluster": service.cluster,
        "container": "vllm",
        "endpoint": "metrics",
        "instance": target.instance,
        "job": service.slug,
        "namespace": service.namespace,
        "node": target.node,
        "pod": target.pod,
        "service": service.slug,
    }


def _window(times_ms: list[int], since_ms: int, until_ms: int) -> tuple[int, int]:
    return bisect_left(times_ms, since_ms), bisect_left(times_ms, until_ms)


def _instants(times_ms: list[int]) -> list[str]:
    return [seconds(time) for time in times_ms]


def seconds(time_ms: int) -> str:
    """Milliseconds as seconds with three decimals."""
    return f"{time_ms // 1000}.{time_ms % 1000:03d}"
