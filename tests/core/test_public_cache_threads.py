"""KV gauges of public threads, each with the thread's own numbers (method §8.3, §8.4, §8.9)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from finops.core.cache import Engine, Gauge, Pool, cache_hours
from finops.core.memory import CacheRow, kv_figures
from finops.core.memory_table import LABELS
from finops.core.rightsizing import Window, advise, summed
from finops.sources.engines import role_of

HOUR = 3_600_000
START = 1_794_787_200_000
STEP = 15_000


def hours(usage, *, moved, running=10, waiting=0, pool=None, until=START + HOUR):
    times = list(range(START, until, STEP))
    told = usage if callable(usage) else lambda n: usage
    return cache_hours(
        Engine(
            usage=Gauge(times, [told(n) for n in range(len(times))]),
            running=Gauge(times, [running] * len(times)),
            waiting=Gauge(times, [waiting] * len(times)),
            moved_ms=[t for t in times if moved(t)],
            pools=[pool or Pool(0, 10_001, 16, 160_016, 8192)],
        )
    )


@pytest.mark.parametrize(
    ("thread", "usage", "running", "waiting"),
    [("vllm#22545", 0.904, 106, 15), ("vllm#29928", 0.99, 40, 0)],
)
def test_gauges_that_froze_when_all_requests_were_aborted(thread, usage, running, waiting):
    # Tokens moved for ten minutes; then everything was aborted and the gauges stood still.
    (row,) = hours(usage, moved=lambda t: t < START + 600_000, running=running, waiting=waiting)
    last_move = START + 600_000 - STEP
    assert row.stale_ms == START + HOUR - (last_move + 300_000 + STEP)
    assert row.observed_ms == HOUR - row.stale_ms
    # What was seen counts, what was frozen does not: the mean is over the observed time alone.
    assert row.active_block_ms == round(usage * 10_000) * row.observed_ms
    assert (row.peak_running, row.peak_waiting) == (running, waiting)


def test_a_cache_that_filled_for_hours_under_load_is_real_and_at_risk():  # vllm#27073
    rows = hours(lambda n: min(0.758 + n * 0.001, 0.998), moved=lambda t: True, running=40,
                 waiting=3, until=START + 3 * HOUR)  # fmt: skip
    assert sum(row.stale_ms for row in rows) == 0
    week = 7 * 86_400_000
    levels = summed(row.levels_ms for row in rows)
    found = advise(Window(levels, week, week, blocks=10_001, peak_blocks=9_980, peak_waiting=3))
    assert found.verdict == "at risk" and found.p99 == 1


@pytest.mark.parametrize(
    ("thread", "block_size", "said"),
    [("vllm#51163", 4, 256), ("vllm#42966", 16, 784)],  # the label, and what the pool really uses
)
def test_the_block_size_of_a_hybrid_model_is_not_its_pool_s(thread, block_size, said):
    blocks, pool_tokens = 1_001, 1_001 * said
    row = CacheRow(datetime(2026, 11, 16, tzinfo=UTC), blocks, block_size, pool_tokens, 32_768, HOUR,
                   Decimal(500 * HOUR), 800, START, 12, 0)  # fmt: skip
    found = kv_figures([row], 1_000)
    assert found.reserved_tokens == pool_tokens
    assert found.active_tokens_mean == 500 * said
    assert found.peak_active_tokens == 800 * said
    assert found.active_bytes_mean + found.unreferenced_bytes_mean == found.reserved_bytes


def test_usage_may_be_low_while_the_memory_is_taken():  # sglang#22726: 2 % used, 72 % consumed
    (row,) = hours(0.02, moved=lambda t: True)
    kept = CacheRow(datetime(2026, 11, 16, tzinfo=UTC), row.pool.blocks, 16, row.pool.pool_tokens,
                    8192, row.observed_ms, Decimal(row.active_block_ms), row.peak_blocks,
                    row.peak_ms, 10, 0)  # fmt: skip
    found = kv_figures([kept], 1_000)
    assert found.active_tokens_mean == 200 * 16
    assert found.unreferenced_bytes_mean == (160_016 - 3_200) * 1_000
    # It is neither waste nor free: it may hold prefixes that later requests reuse.
    name = LABELS["kv_unreferenced"]
    assert "reusable prefix cache" in name and "free" not in name and "waste" not in name


def test_both_names_of_one_use_count_once():
    """vllm#20302: 100 prompts of up to 500 words on Llama-3.2-3B, and kv_ and gpu_cache_usage_perc
    both exported: they say the same and are one gauge, and 100 prompts of 750 tokens at most are
    75,000, a share of the pool that a scrape between two steps may well miss."""
    roles = [role_of(f"vllm:{name}_cache_usage_perc") for name in ("kv", "gpu")]
    assert [role.name for role in roles] == ["kv_usage", "kv_usage"]
    assert [role.alias_rank for role in roles] == [0, 1]  # of one engine only the first counts
    pool = Pool(0, 10_001, 16, 160_016, 8192)
    (row,) = hours(lambda n: 0.46875 if n == 100 else 0.0, moved=lambda t: True, pool=pool)
    # 75,000 tokens are 4,688 blocks (46.875 % of 10,000), seen by one scrape of 240.
    assert row.peak_blocks == 4_688 and row.peak_ms == START + 100 * STEP
    assert row.active_block_ms == 4_688 * STEP and row.levels_ms["0"] == HOUR - STEP
