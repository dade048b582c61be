"""Memory of a GPU by the hour: counted once, whatever the exporter repeats (method §8.1)."""

from __future__ import annotations

import pytest

from finops.core.device import DeviceSeries, device_hours

HOUR = 3_600_000
START = 1_794_787_200_000  # a whole hour
MIB = 1 << 20


def every(step, until, start=START):
    return list(range(start, until, step))


def gauge(role, value, times, tenant=("", "")):
    return DeviceSeries(role, tenant, times, [value] * len(times))


def test_the_parts_of_a_real_card_and_its_total():
    # nvidia-smi of a real H100 under load; the parts exceed the total by 1 MiB, as rounded there.
    times = every(15_000, START + HOUR)
    (row,) = device_hours([
        gauge("used", 20_780_679_168, times), gauge("free", 64_238_911_488, times),
        gauge("reserved", 502_267_904, times), gauge("total", 85_520_809_984, times),
    ])  # fmt: skip
    assert row.observed_ms == HOUR
    assert row.byte_ms["used"] == 20_780_679_168 * HOUR
    assert row.total_bytes == 85_520_809_984
    assert sum(row.byte_ms.values()) // HOUR - row.total_bytes == MIB


def test_without_a_total_it_is_used_free_and_reserved():
    times = every(15_000, START + HOUR)
    (row,) = device_hours([
        gauge("used", 22_000 * MIB, times), gauge("free", 2_000 * MIB, times),
        gauge("reserved", 564 * MIB, times),
    ])  # fmt: skip
    assert row.total_bytes == 24_564 * MIB


def test_a_missing_gauge_is_unknown_not_zero():
    (row,) = device_hours([gauge("used", MIB, every(60_000, START + HOUR))])
    assert row.total_bytes is None and "free" not in row.byte_ms


def test_four_pods_that_show_the_same_device_are_one_device():
    times = every(15_000, START + HOUR)
    pods = [gauge("used", 30_000 * MIB, times, ("llm", f"pod-{n}")) for n in range(4)]
    (row,) = device_hours(pods)
    assert row.byte_ms["used"] == 30_000 * MIB * HOUR
    assert row.shared and len(row.tenants) == 4


def test_the_series_without_a_pod_is_the_device_where_pods_tell_their_own():
    times = every(15_000, START + HOUR)
    (row,) = device_hours([
        gauge("used", 30_000 * MIB, times), gauge("used", 10_000 * MIB, times, ("llm", "a")),
        gauge("used", 18_000 * MIB, times, ("llm", "b")),
    ])  # fmt: skip
    assert row.byte_ms["used"] == 30_000 * MIB * HOUR and row.shared


def test_a_pod_that_follows_another_does_not_share_with_it():
    first = gauge("used", 100, every(15_000, START + HOUR // 2), ("llm", "old"))
    second = gauge("used", 300, every(15_000, START + HOUR, START + HOUR // 2), ("llm", "new"))
    (row,) = device_hours([first, second])
    assert not row.shared and row.tenants == {("llm", "old"), ("llm", "new")}
    assert row.byte_ms["used"] == 200 * HOUR


def test_a_gap_is_not_bridged_and_the_peak_has_its_instant():
    times = [*every(15_000, START + 600_000), *every(15_000, START + HOUR, START + 1_800_000)]
    values = [100] * len(times)
    values[7] = 900
    (row,) = device_hours([DeviceSeries("used", ("", ""), times, values)])
    assert row.observed_ms == 600_000 + 1_800_000
    assert (row.peak_used_bytes, row.peak_ms) == (900, times[7])


@pytest.mark.parametrize("step", [15_000, 60_000])
def test_hours_together_hold_what_the_whole_holds(step):
    times = every(step, START + 3 * HOUR)
    values = [n % 7 * MIB for n in range(len(times))]
    rows = device_hours([DeviceSeries("used", ("", ""), times, values)])
    assert len(rows) == 3
    assert sum(row.byte_ms["used"] for row in rows) == sum(values) * step
