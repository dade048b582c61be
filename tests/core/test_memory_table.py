"""The memory table closes, whatever is known (method §8.5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from finops.core.memory_table import PARTS, Means, added, table_of

HOUR = 3_600_000
GIB = 1 << 30


def table(**values):
    means = Means()
    for name, value in values.items():
        means.add(name, value, HOUR)
    return table_of(means)


def test_the_table_of_a_card_by_hand():
    found = table(total=80 * GIB, driver=GIB, free=8 * GIB, weights=15 * GIB, kv_active=10 * GIB,
                  kv_unreferenced=40 * GIB, graphs=GIB, non_torch=GIB)  # fmt: skip
    assert found.unattributed == 4 * GIB
    assert found.not_measured == ["other"]
    shown = found.as_json()
    assert sum(shown[f"{n}_bytes"] or 0 for n in (*PARTS, "unattributed")) == shown["total_bytes"]


def test_the_remainder_may_be_negative_and_is_never_forced_to_zero():
    assert table(total=10, free=4, weights=9).unattributed == -3


def test_a_device_that_is_not_measured_has_no_remainder():
    found = table(weights=5)
    assert found.unattributed is None and "total" in found.not_measured


def test_means_are_weighted_by_time():
    means = Means()
    means.add("total", 100, HOUR)
    means.add("kv_active", 90, HOUR // 4)
    means.add("kv_active", 10, HOUR)
    means.add("kv_active", None, HOUR)
    assert table_of(means).parts["kv_active"] == 26  # (90 × 15 + 10 × 60) ÷ 75


def test_a_part_of_a_group_is_known_when_all_tell_it():
    found = added([table(total=10, weights=3, free=1), table(total=20, weights=4)])
    assert (found.total, found.parts["weights"], found.parts["free"]) == (30, 7, None)
    assert found.unattributed == 23


@given(
    total=st.integers(0, 1 << 40),
    values=st.dictionaries(st.sampled_from(PARTS), st.integers(0, 1 << 40)),
)
def test_it_always_closes(total, values):
    found = table(total=total, **values)
    known = [value for value in found.parts.values() if value is not None]
    assert sum(known) + found.unattributed == total
