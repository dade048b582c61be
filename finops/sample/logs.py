"""Writes the start-up logs of the sample's engines, as vLLM prints them.

Only the lines that tell of memory. The figures add up: budget − weights − non-torch − activation
peak is the KV cache that the pools in `fleet` hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from finops.core.money import plain, round_half_even
from finops.core.period import instant_of
from finops.sample.calendar import Calendar
from finops.sample.fleet import Life, Pool, Service, services

GIB = 1 << 30
VERSION = "0.26.0"
MOST_AT_ONCE, MOST_IN_A_STEP = 256, 8192


@dataclass(frozen=True)
class Card:
    """A workload's GPUs: memory as CUDA tells it, GPUs of an engine, and what is not cache, in GiB."""

    total: str
    gpus: int
    weights: str
    non_torch: str
    graphs: str


CARDS = {
    "chat-70b": Card("79.15", 4, "32.86", "1.50", "0.71"),
    "code-32b": Card("44.39", 4, "15.26", "0.73", "0.42"),
    "assist-8b": Card("22.06", 1, "14.99", "0.31", "0.25"),
    "extract-7b": Card("22.06", 1, "13.51", "0.30", "0.25"),
}


def write(folder: Path, calendar: Calendar) -> Iterator[Path]:
    """A log for each pool that an engine of the fleet ever had, of the first life with it."""
    for service in services(calendar):
        seen: set[Pool] = set()
        for target in service.targets:
            for number, life in enumerate(target.lives):
                if life.pool not in seen:
                    seen.add(life.pool)
                    path = folder / f"{target.pod}-start-{number + 1}.log"
                    path.write_text("\n".join([*_lines(service, life), ""]))
                    yield path


def _lines(service: Service, life: Life) -> Iterator[str]:
    born = instant_of(life.born_ms)
    yield _stamped("(APIServer pid=880)", born, "non-default args: {"
                   f"'model': '{service.model}', 'max_model_len': {life.pool.max_model_len}, "
                   f"'max_num_seqs': {MOST_AT_ONCE}, 'max_num_batched_tokens': {MOST_IN_A_STEP}, "
                   f"'gpu_memory_utilization': {life.pool.utilization}, "
                   f"'data_parallel_size': {life.pool.engines}}}")  # fmt: skip
    for engine in range(life.pool.engines):
        yield from _engine(service, life, engine)


def _engine(service: Service, life: Life, engine: int) -> Iterator[str]:
    card, pool = CARDS[service.slug], life.pool
    several = pool.engines > 1
    born = instant_of(life.born_ms)
    core = f"(EngineCore_DP{engine} pid={900 + engine})"
    yield _stamped(core, born, f"Initializing a V1 LLM engine (v{VERSION}) with config: "
                   f"model='{service.model}', dtype=torch.bfloat16, "
                   f"max_seq_len={pool.max_model_len}, tensor_parallel_size={card.gpus}, "
                   "pipeline_parallel_size=1, kv_cache_dtype=auto")  # fmt: skip
    for rank in range(card.gpus):
        name = f"Worker_DP{engine}_TP{rank}" if several else f"Worker_TP{rank}"
        yield from _worker(f"({name} pid={910 + 10 * engine + rank})", service, life)
    later = born + timedelta(seconds=31)
    yield _stamped(core, later, f"GPU KV cache size: {pool.tokens:,} tokens")
    times = round_half_even(Decimal(pool.tokens) / pool.max_model_len, 2)
    yield _stamped(core, later, f"Maximum concurrency for {pool.max_model_len:,} tokens per "
                   f"request: {plain(times)}x")  # fmt: skip


def _worker(name: str, service: Service, life: Life) -> Iterator[str]:
    card, pool = CARDS[service.slug], life.pool
    born = instant_of(life.born_ms)
    kv = _gib(pool.tokens * service.kv_bytes_per_token)
    budget = round_half_even(Decimal(card.total) * Decimal(pool.utilization), 2)
    peak = budget - Decimal(card.weights) - Decimal(card.non_torch) - Decimal(kv)
    yield _stamped(name, born + timedelta(seconds=19), f"Model loading took {card.weights} GiB "
                   "memory and 14.2 seconds")  # fmt: skip
    yield _stamped(name, born + timedelta(seconds=30), f"Available KV cache memory: {kv} GiB")
    yield _stamped(name, born + timedelta(seconds=43), "Free memory on device "
                   f"({Decimal(card.total) - Decimal('0.42')}/{card.total} GiB) on startup. "
                   f"Desired GPU memory utilization is ({pool.utilization}, {budget} GiB). Actual "
                   f"usage is {card.weights} GiB for weight, {peak} GiB for peak activation, "
                   f"{card.non_torch} GiB for non-torch memory, and {card.graphs} GiB for CUDAGraph "
                   f"memory. Current kv cache memory in use is {kv} GiB.")  # fmt: skip


def _gib(size: int) -> str:
    return plain(round_half_even(Decimal(size) / GIB, 2))


def _stamped(process: str, at: object, text: str) -> str:
    return f"{process} INFO {at:%m-%d %H:%M:%S} [gpu_worker.py:1] {text}"
