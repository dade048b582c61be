"""The memory table closes, whatever is known (method §8.5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from finops.core.memory_table import PARTS, Means, table_of, together

HOUR = 3_600_000
GIB = 1 << 30


def table(**values):
    means = Means()
    for name, value in values.items():
        means.add(name, value, HOUR)
    return table_of(means.exact())


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
    assert table_of(means.exact()).parts["kv_active"] == 26  # (90 × 15 + 10 × 60) ÷ 75


def exact(**values):
    means = Means()
    for name, value in values.items():
        means.add(name, value, HOUR)
    return means.exact()


def test_a_part_of_a_group_is_known_when_all_tell_it():
    pieces = [(exact(total=10, weights=3, free=1), HOUR), (exact(total=20, weights=4), HOUR)]
    found = table_of(together(pieces, HOUR))
    assert (found.total, found.parts["weights"], found.parts["free"]) == (30, 7, None)
    assert found.unattributed == 23


def test_engines_that_follow_each_other_on_a_card_are_not_added_up():
    """Two hours of 40 and two of 60 are four hours of 50; over eight hours they are 25."""
    pieces = [(exact(weights=40), 2 * HOUR), (exact(weights=60), 2 * HOUR)]
    assert table_of(together(pieces, 4 * HOUR)).parts["weights"] == 50
    assert table_of(together(pieces, 8 * HOUR)).parts["weights"] == 25
    # Another that was there for no time does not make the part unknown.
    assert table_of(together([*pieces, (exact(), 0)], 4 * HOUR)).parts["weights"] == 50


def test_rounded_parts_of_the_pool_add_up():
    # 10 ÷ 4 and 6 ÷ 4 are 2.5 and 1.5, half even 2 and 2; what is left of 2 is 0.
    pieces = [(exact(kv_reserved=10, kv_active=6, kv_unreferenced=4), HOUR)]
    found = table_of(together(pieces, 4 * HOUR))
    assert (found.beside["kv_reserved"], found.parts["kv_active"]) == (2, 2)
    assert found.parts["kv_unreferenced"] == 0


@given(
    total=st.integers(0, 1 << 40),
    values=st.dictionaries(st.sampled_from(PARTS), st.integers(0, 1 << 40)),
)
def test_it_always_closes(total, values):
    found = table(total=total, **values)
    known = [value for value in found.parts.values() if value is not None]
    assert sum(known) + found.unattributed == total
