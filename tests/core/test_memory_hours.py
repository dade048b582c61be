"""Reserved and active by the hour, recomputed by hand (method §8.3, §8.9)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from finops.core.memory import CacheRow
from finops.core.memory_hours import memory_hours, unstepped
from finops.core.period import Period

HOUR_MS = 3_600_000
START = datetime(2026, 11, 16, tzinfo=UTC)
DAY = Period(START, START + timedelta(hours=6))


def _row(hour, active_blocks, *, blocks=1000, observed=HOUR_MS):
    return CacheRow(
        hour=START + timedelta(hours=hour), blocks=blocks, block_size=16, pool_tokens=blocks * 16,
        max_model_len=4096, observed_ms=observed, active_block_ms=Decimal(active_blocks * observed),
        peak_blocks=None, peak_ms=None, peak_running=None, stale_ms=HOUR_MS - observed,
    )  # fmt: skip


def test_engines_add_up_hour_by_hour_and_unread_hours_stay_unknown():
    one = [_row(0, 100), _row(1, 50), _row(3, 10)]
    other = [_row(0, 300), _row(1, 0, blocks=500)]
    found = memory_hours("chat", DAY, [one, other]).as_json()
    assert found["unit"] == "tokens" and found["engines"] == 2 and found["hours"] == 6
    # 400 blocks × 16; 50 × 16; nothing read; 10 × 16; nothing read.
    assert found["active"] == [6400, 800, None, 160, None, None]
    reserved = [32_000, 24_000, None, 16_000, None, None]
    assert unstepped(found["reserved_steps"], 6) == reserved
    assert found["device_used"] is None


def test_bytes_are_whole_mib_and_devices_stand_beside():
    # 16,000 tokens of 131,072 bytes are 2,000 MiB, 100 blocks of them 200 MiB.
    used = {START: 70 * 2**30, START + timedelta(hours=1): 71 * 2**30}
    found = memory_hours("chat", DAY, [[_row(0, 100)]], 131_072, [used], 80 * 2**30).as_json()
    assert found["unit"] == "MiB"
    assert found["active"][0] == 200 and found["reserved_steps"][0] == [0, 2000]
    assert found["device_used"] == [71_680, 72_704, None, None, None, None]
    assert found["device_total"] == 81_920


def test_an_hour_of_a_still_gauge_has_a_reservation_and_no_active_part():
    found = memory_hours("chat", DAY, [[_row(0, 100, observed=0)]])
    assert found.reserved[0] == 16_000 and found.active[0] is None


def test_a_pool_of_unknown_size_and_no_rows():
    silent = replace(_row(0, 1), blocks=None, pool_tokens=None)
    assert memory_hours("chat", DAY, [[silent]]).reserved[0] is None
    assert memory_hours("chat", DAY, [[]]) is None


def test_steps_give_back_every_hour():
    for values in ([5, 5, 7, None, 5], [None, None, 3, 3], [0]):
        steps = [[at, v] for at, v in enumerate(values) if at == 0 or values[at - 1] != v]
        assert unstepped(steps, len(values)) == values
