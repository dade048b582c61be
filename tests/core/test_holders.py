"""Who holds a GPU's memory, by pod and by process (method §8.5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from finops.core.holders import Holding, holders_by_hour, other_byte_ms
from finops.core.period import HOUR_MS

MINUTE = 60_000
TIMES = list(range(0, HOUR_MS, MINUTE))
GIB = 1 << 30


def held(kind, name, value, times=TIMES, number=""):
    return Holding(kind, name, times, [value] * len(times), number)


def test_pods_beside_the_device_s_own_series_are_told_apart():
    pods = [held("pods", "llm/chat-0", 20 * GIB), held("pods", "ml/notebook-0", 5 * GIB)]
    found = holders_by_hour(pods, {0: 26 * GIB * HOUR_MS})
    assert found == {0: {"pods": {"llm/chat-0": 20 * GIB * HOUR_MS,
                                  "ml/notebook-0": 5 * GIB * HOUR_MS}}}  # fmt: skip
    assert other_byte_ms(found[0], {"llm/chat-0"}, 1) == 5 * GIB * HOUR_MS


def test_copies_of_the_device_s_figure_tell_nothing_of_the_pods():
    # dcgm-exporter before 4.5.3: each of four pods showed the whole device.
    pods = [held("pods", f"llm/chat-{n}", 26 * GIB) for n in range(4)]
    (told,) = holders_by_hour(pods, {0: 26 * GIB * HOUR_MS}).values()
    assert told == {} and other_byte_ms(told, {"llm/chat-0"}, 1) is None
    (alone,) = holders_by_hour(pods[:1], {0: 26 * GIB * HOUR_MS}).values()
    assert alone == {}


def test_a_pod_that_came_at_half_past_holds_half_an_hour():
    late = held("pods", "ml/notebook-0", 4 * GIB, TIMES[30:])
    found = holders_by_hour([late], {0: 20 * GIB * HOUR_MS})
    assert found[0]["pods"] == {"ml/notebook-0": 4 * GIB * HOUR_MS // 2}


def processes(**names):
    return {"processes": {name.replace("_", "::"): list(told) for name, told in names.items()}}


def test_engines_are_told_by_their_process_s_name():
    told = processes(VLLM_EngineCore=(1, 70), memhog=(2, 4), python3=(1, 3))
    assert other_byte_ms(told, (), 1) == 4 + 3


def test_a_python_is_the_engine_where_no_other_program_may_be_it():
    told = {"processes": {"/usr/bin/python3.12": [1, 70], "./gpu_burn": [1, 9]}}
    assert other_byte_ms(told, (), 1) == 9
    two = {"processes": {"/usr/bin/python3.12": [2, 70], "./gpu_burn": [1, 9]}}
    assert other_byte_ms(two, (), 1) is None  # which of the two is the engine, nobody tells
    assert other_byte_ms(two, (), 2) == 9  # several engines on one GPU


def test_without_an_engine_all_are_others_unless_one_may_be_an_engine():
    assert other_byte_ms(processes(memhog=(2, 4), xorg=(1, 1)), (), 0) == 5
    assert other_byte_ms(processes(memhog=(2, 4), VLLM_Worker=(1, 70)), (), 0) is None
    assert other_byte_ms({}, (), 1) is None


@given(st.lists(st.integers(0, 1 << 36), min_size=1, max_size=5), st.integers(1, 4))
def test_the_hours_of_a_process_hold_what_it_held(values, hours):
    times = range(0, hours * HOUR_MS, MINUTE)
    used = {hour * HOUR_MS: sum(values) * HOUR_MS for hour in range(hours)}
    found = holders_by_hour(
        [held("processes", "p", value, times, str(n)) for n, value in enumerate(values)], used
    )
    assert all(one["processes"]["p"] == [len(values), sum(values) * HOUR_MS]
               for one in found.values()) and len(found) == hours  # fmt: skip
