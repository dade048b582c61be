"""KV cache figures of an engine over hours, recomputed by hand (method §8.3, §8.4, §8.7)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from finops.core.memory import CacheRow, kv_figures, sentence

HOUR_MS = 3_600_000
START = datetime(2026, 11, 16, tzinfo=UTC)


def _row(hour, active_blocks, *, observed=HOUR_MS, blocks=1001, peak=None, running=None, stale=0):
    return CacheRow(
        hour=START + timedelta(hours=hour), blocks=blocks, block_size=16, pool_tokens=blocks * 16,
        max_model_len=4096, observed_ms=observed, active_block_ms=Decimal(active_blocks * observed),
        peak_blocks=peak, peak_ms=None if peak is None else 1_794_787_200_000 + hour * HOUR_MS,
        peak_running=running, stale_ms=stale,
    )  # fmt: skip


def test_means_are_weighted_by_observed_time():
    # 100 blocks for a whole hour and 400 for a quarter: (100×60 + 400×15) ÷ 75 = 160 blocks.
    found = kv_figures([_row(0, 100), _row(1, 400, observed=HOUR_MS // 4)], bytes_per_token=131_072)
    assert found.active_tokens_mean == 160 * 16
    assert found.active_bytes_mean == 160 * 16 * 131_072
    assert found.reserved_bytes == 1001 * 16 * 131_072
    assert found.unreferenced_bytes_mean == (1001 - 160) * 16 * 131_072


def test_the_peak_and_what_contiguous_slots_could_have_held():
    found = kv_figures([_row(0, 1, peak=10, running=3), _row(1, 1, peak=900, running=41)])
    assert found.peak_active_tokens == 14_400
    assert found.peak_running == 41
    # The null block holds no request: 1000 × 16 = 16,000 tokens, 3 slots of 4,096.
    assert found.contiguous_slots == 3
    assert found.reserved_bytes is None and found.active_bytes_mean is None
    text = sentence(found).replace("\u202f", ",")
    assert "41 requests" in text and "held 3 in the same memory." in text and "16,016" in text


def test_one_block_decides_a_slot():
    # 257 blocks of 16 are 4,112 tokens; less the null block 4,096: one slot. 256 blocks: none.
    assert kv_figures([_row(0, 1, blocks=257)]).contiguous_slots == 1
    found = kv_figures([_row(0, 1, blocks=256, running=1)])
    assert found.contiguous_slots == 0
    # 256 × 16 ÷ 4,096 is 1: the reader is told why it is one less.
    assert "held 0 in the same memory (one block of the pool never holds a" in sentence(found)
    assert "a single request ran; an allocator" in sentence(found)


def test_the_longest_request_may_be_stated_where_the_engine_does_not_tell_it():
    silent = replace(_row(0, 1), max_model_len=None)
    assert kv_figures([silent]).contiguous_slots is None
    assert kv_figures([silent], max_model_len=2000).contiguous_slots == 8
    assert kv_figures([_row(0, 1)], max_model_len=2000).max_model_len == 4096


def test_stale_time_is_told_and_left_out():
    found = kv_figures([_row(0, 100), _row(1, 0, observed=0, stale=HOUR_MS)])
    assert found.active_tokens_mean == 1600
    assert (found.observed_ms, found.stale_ms) == (HOUR_MS, HOUR_MS)


def test_what_the_engine_does_not_tell_is_unknown():
    row = CacheRow(START, None, None, None, None, HOUR_MS, None, None, None, None, 0)
    found = kv_figures([row], 1000)
    assert found.reserved_tokens is None and found.active_tokens_mean is None
    assert "not measured" in sentence(found)
    assert kv_figures([]) is None


def test_a_pool_that_changed_has_means_that_add_up():
    """An hour of 1,001 blocks and three of 501: 626 blocks on average, 100 of them active."""
    rows = [_row(0, 100), *(_row(hour, 100, blocks=501) for hour in (1, 2, 3))]
    found = kv_figures(rows, bytes_per_token=1000)
    assert found.reserved_tokens == 501 * 16  # as it stands at the end
    assert found.reserved_tokens_mean == 626 * 16
    assert found.reserved_bytes_mean == 626 * 16 * 1000
    assert found.active_bytes_mean + found.unreferenced_bytes_mean == found.reserved_bytes_mean
    # 100 of 626, not 100 of 501.
    assert "used 16.0 % of it" in sentence(found)
    assert found.first_seen == START and found.last_seen == START + timedelta(hours=4)
