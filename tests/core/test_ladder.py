"""The ladder of settings: what each step was to bring and what it brought (method §9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from finops.core.ladder import SeenHour, ladder, rungs, steps_of
from finops.core.rightsizing import Window, advise

GIB, HOUR_MS, DAY = 1 << 30, 3_600_000, 86_400_000
START = datetime(2026, 11, 2, tzinfo=UTC)


def hours(setting, blocks, level, *, first=0, days=7, **changes):
    values = {"peak_blocks": 5_000, "peak_waiting": 0, "preempted": 0} | changes
    return [
        SeenHour(START + timedelta(hours=at), setting, blocks, HOUR_MS, {str(level): HOUR_MS},
                 **values)
        for at in range(first, first + days * 24)
    ]  # fmt: skip


def window(setting, blocks, level, **changes):
    values = {
        "levels_ms": {str(level): 7 * DAY}, "window_ms": 7 * DAY, "seen_ms": 7 * DAY,
        "blocks": blocks, "block_size": 16, "max_model_len": 8192, "peak_blocks": 5_000,
        "peak_running": 50, "peak_waiting": 0, "preemptions": 0, "utilization": Decimal(setting),
        # 80 GiB × 0.05 is 4 GiB, 2,048 blocks of 2 MiB.
        "total_bytes": 80 * GIB, "block_bytes": Decimal(2 << 20),
    }  # fmt: skip
    return Window(**values | changes)


def test_a_step_is_predicted_from_the_rung_before_and_compared_with_the_one_after():
    # 25 % of 20,000 blocks are 27.85 % of 17,952; 28 % were observed.
    seen = rungs([*hours("0.90", 20_001, 49), *hours("0.85", 17_953, 55, first=168)])
    assert [(one.setting, one.blocks, one.is_enough) for one in seen] == [
        (Decimal("0.90"), 20_001, True), (Decimal("0.85"), 17_953, True),
    ]  # fmt: skip
    (step,) = steps_of(seen, window("0.85", 17_953, 55))
    assert (step.predicted.blocks, step.predicted.p99) == (17_953, Decimal("0.2785"))
    assert step.after.p99 == Decimal("0.28") and step.result == "came true"


@pytest.mark.parametrize(
    ("level", "days", "changes", "result"),
    [
        (70, 7, {}, "more than predicted"),  # 35.5 %
        (40, 7, {}, "less than predicted"),  # 20.5 %
        (64, 7, {}, "came true"),  # 32.5 % is within five points of 27.85 %
        (70, 6, {}, "wait"),
        (55, 1, {"preempted": 2}, "more than predicted"),  # nobody waits a week for that
    ],
)
def test_what_came_of_a_step(level, days, changes, result):
    after = hours("0.85", 17_953, level, first=168, days=days, **changes)
    (step,) = steps_of(rungs([*hours("0.90", 20_001, 49), *after]), window("0.85", 17_953, level))
    assert step.result == result


def test_the_way_goes_one_step_at_a_time_and_stops():
    now = window("0.85", 17_953, 55)
    found = ladder(rungs(hours("0.85", 17_953, 55)), now, advise(now))
    # 5,000 × 1.2 needs 6,001 blocks: five steps leave 7,713. The next one is one step.
    assert advise(now).proposal.utilization == Decimal("0.60")
    assert found.next_step.utilization == Decimal("0.80") and "0.60" in found.why
    assert found.rollback is None and not found.steps
    fits = window("0.85", 17_953, 140)
    assert ladder([], fits, advise(fits)).next_step is None
    assert "where it should be" in ladder([], fits, advise(fits)).why
    short = window("0.85", 17_953, 55, window_ms=3 * DAY)
    assert ladder([], short, advise(short)).why.startswith("Wait")
    # One step lower leaves 5,953 blocks, 6,001 are needed.
    last = window("0.60", 8_001, 110)
    stop = ladder([], last, advise(last))
    assert stop.next_step is None and "longest request" in stop.why


def test_the_way_back_is_named_and_urgent_when_requests_were_pushed_out():
    seen = rungs([*hours("0.90", 20_001, 49), *hours("0.85", 17_953, 55, first=168)])
    now = window("0.85", 17_953, 55)
    calm = ladder(seen, now, advise(now))
    assert calm.rollback == "To go back: restart with gpu_memory_utilization 0.90 (20,001 blocks)."
    bad = window("0.85", 17_953, 195, preemptions=4)
    assert ladder(seen, bad, advise(bad)).rollback.startswith("Go back now: restart with")


def test_an_earlier_setting_that_comes_back_is_a_rung_of_its_own():
    told = [*hours("0.90", 20_001, 49, days=1), *hours("0.85", 17_953, 55, first=24, days=1),
            *hours("0.90", 20_001, 49, first=48, days=1)]  # fmt: skip
    assert [str(one.setting) for one in rungs(reversed(told))] == ["0.90", "0.85", "0.90"]
