"""Whole columns of a device give exactly what the rules give reading by reading (method §8.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core import device, device_columns
from finops.core.device import ROLES, DeviceSeries

HOUR, MIB = 3_600_000, 1 << 20
START = 1_794_787_200_000 - 2 * HOUR
TENANTS = [("", ""), ("llm", "chat-0"), ("llm", "chat-1"), ("", "alone")]
gaps = st.lists(
    st.one_of(st.sampled_from([15_000, 60_000, 300_000]), st.integers(1, 3 * HOUR)), max_size=30
)
sizes = st.one_of(st.integers(0, 200_000).map(lambda n: n * MIB), st.just(1 << 61))


@st.composite
def one_series(draw):
    times = [START + draw(st.sampled_from([0, 0, 7_000, 3_599_999]))]
    for gap in draw(gaps):
        times.append(times[-1] + gap)
    role = draw(st.sampled_from([*ROLES, "used"]))
    return DeviceSeries(role, draw(st.sampled_from(TENANTS)), times, [draw(sizes) for _ in times])


@settings(max_examples=500, deadline=None)
@given(st.lists(one_series(), max_size=6))
def test_columns_and_readings_give_the_same_hours(series):
    assert device_columns.device_hours(series) == device.device_hours(series)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(one_series(), max_size=4), max_size=5))
def test_devices_together_give_what_each_gives_alone(devices):
    twice = [*devices, *devices]  # equally many readings at least once
    hours = device_columns.device_hours_together(twice)
    assert hours == [device.device_hours(series) for series in twice]


@settings(max_examples=200, deadline=None)
@given(st.lists(one_series(), min_size=1, max_size=4), st.sampled_from([-1, 1 << 61, 1 << 62]))
def test_columns_of_the_machine_s_numbers_never_run_over(series, value):
    """Sums of an hour would pass 2^63 in arrays of 64 bits; the rules know no largest number."""
    series = [replace(one, values=[value, *one.values[1:]]) for one in series]
    columns = [
        replace(one, times_ms=np.array(one.times_ms), values=np.array(one.values)) for one in series
    ]
    assert device_columns.device_hours(columns) == device.device_hours(series)


def test_two_replicas_of_one_pod_are_no_two_tenants():
    times = [START, START + 60_000]
    one = DeviceSeries("used", ("llm", "chat-0"), times, [MIB, MIB])
    for hours in (device.device_hours, device_columns.device_hours):
        (row,) = hours([one, one])
        assert row.tenants == {("llm", "chat-0")} and not row.shared
        (shared,) = hours([one, DeviceSeries("used", ("llm", "chat-1"), times, [MIB, MIB])])
        assert shared.shared
