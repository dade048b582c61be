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
    found = memory_hours("chat", DAY, [[_row(0, 100)]], 131_072, [used], [80 * 2**30]).as_json()
    assert found["unit"] == "MiB"
    assert found["active"][0] == 200 and found["reserved_steps"][0] == [0, 2000]
    assert found["device_used"] == [71_680, 72_704, None, None, None, None]
    assert found["device_total"] == 81_920


def test_an_hour_of_a_still_gauge_has_a_reservation_and_no_active_part():
    found = memory_hours("chat", DAY, [[_row(0, 100, observed=0)]])
    assert found.reserved[0] == 16_000 and found.active[0] is None


def test_engines_that_follow_each_other_are_not_added_up():
    """A pod for two hours and 20 minutes, then its successor from 02:20 on: one pool at all times.

    02:00 to 03:00: 20 of 60 minutes a pool of 16,000 tokens, 40 of 60 one of 8,000:
    16,000 ÷ 3 + 8,000 × 2 ÷ 3 = 10,666.67; active 100 blocks, then 40: 1,600 ÷ 3 + 640 × 2 ÷ 3 = 960.
    """
    third = HOUR_MS // 3
    one = [_row(0, 100), _row(1, 100), replace(_row(2, 100, observed=third), stale_ms=0)]
    other = [
        replace(_row(2, 40, blocks=500, observed=2 * third), stale_ms=0),
        _row(3, 40, blocks=500),
    ]
    used = {START + timedelta(hours=at): 70 * 2**30 for at in range(6)}
    found = memory_hours("chat", DAY, [one, other], None, [used, used], [80 * 2**30] * 2).as_json()
    reserved = [16_000, 16_000, 10_667, 8_000, None, None]
    assert unstepped(found["reserved_steps"], 6) == reserved
    assert found["active"] == [1600, 1600, 960, 640, None, None]
    # One card, whoever was on it, also while no engine told anything.
    assert found["device_used"] == [71_680] * 6 and found["device_total"] == 81_920
    assert (found["engines"], found["engines_at_once"]) == (2, 1)


def test_an_engine_that_joins_counts_from_then_on():
    # From 01:30 on two engines: 16,000 + 16,000 × 30 ÷ 60 in that hour.
    late = replace(_row(1, 100, observed=HOUR_MS // 2), stale_ms=0)
    found = memory_hours("chat", DAY, [[_row(0, 0), _row(1, 0), _row(2, 0)], [late, _row(2, 0)]])
    assert found.reserved[:3] == (16_000, 24_000, 32_000)
    assert (found.engines, found.at_once) == (2, 2)


def test_an_hour_that_stands_alone_is_placed_by_its_first_reading():
    """Two lives of ten minutes in one hour, 14:05 and 14:30: known to follow each other, one pool;
    where nothing tells when, they count as together."""
    ten = HOUR_MS // 6
    at = [int((START + timedelta(minutes=m)).timestamp() * 1000) for m in (5, 30)]
    lives = [replace(_row(0, 100, observed=ten), stale_ms=0, first_ms=first) for first in at]
    assert memory_hours("chat", DAY, [[one] for one in lives]).reserved[0] == 16_000
    unknown = [[replace(one, first_ms=None)] for one in lives]
    assert memory_hours("chat", DAY, unknown).reserved[0] == 32_000


def test_a_pool_of_unknown_size_and_no_rows():
    silent = replace(_row(0, 1), blocks=None, pool_tokens=None)
    assert memory_hours("chat", DAY, [[silent]]).reserved[0] is None
    assert memory_hours("chat", DAY, [[]]) is None


def test_steps_give_back_every_hour():
    for values in ([5, 5, 7, None, 5], [None, None, 3, 3], [0]):
        steps = [[at, v] for at, v in enumerate(values) if at == 0 or values[at - 1] != v]
        assert unstepped(steps, len(values)) == values
