"""Blocks read many at a time give what each gives alone, and are refused where it is."""

import struct
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.sources.records import Refused
from finops.sources.sample_blocks import unpack_all
from finops.sources.samples import PLAIN, pack, unpack

FIRST = st.integers(-(2**50), 2**50)
STEPS = st.one_of(st.just(15_000), st.integers(0, 2**20))
VALUES = st.one_of(
    st.integers(0, 2**53).map(float),
    st.integers(0, 100).map(float),
    st.just(7.0),
    st.floats(0, 1),
    st.floats(),
)


@st.composite
def columns(draw) -> tuple[array, array]:
    count = draw(st.sampled_from([0, 1, 2, 3, 4, 12, 12, 12, 240]))
    first, one_step = draw(FIRST), draw(STEPS)
    steps = draw(st.lists(STEPS, min_size=8, max_size=8) | st.just([one_step] * 8))
    some = draw(st.lists(VALUES, min_size=8, max_size=8) | VALUES.map(lambda v: [v] * 8))
    times = array("q")
    for place in range(count):
        times.append(first if not place else times[-1] + steps[place % 8])
    return times, array("d", (some[place % 8] for place in range(count)))


def bits(times, values) -> tuple[list[int], bytes]:
    return list(map(int, times)), struct.pack(f"<{len(values)}d", *values)


@settings(deadline=None)
@given(st.lists(columns(), max_size=12))
def test_many_blocks_give_what_went_into_each(given_columns: list[tuple[array, array]]) -> None:
    blocks = [pack(*one) for one in given_columns]
    found = unpack_all(blocks)
    assert [bits(*one) for one in found] == [bits(*one) for one in given_columns]
    assert [(t.dtype.str, v.dtype.str) for t, v in found] == [("<i8", "<f8")] * len(blocks)


def outcome(read) -> object:
    try:
        return [bits(*one) for one in read()]
    except Refused as error:
        return str(error)


@settings(deadline=None)
@given(columns(), st.data())
def test_a_damaged_block_among_others_ends_as_it_does_alone(
    column: tuple[array, array], data: st.DataObject
) -> None:
    raw = bytearray(pack(*column))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    block = bytes(raw[: data.draw(st.integers(max(0, len(raw) - 30), len(raw)))])
    sound = pack(array("q", [1, 2, 3, 4]), array("d", [1.0, 2.0, 0.5, 4.0]))
    expected = outcome(lambda: [unpack(sound), unpack(block), unpack(sound)])
    assert outcome(lambda: unpack_all([sound, block, sound])) == expected


def test_sums_beyond_64_bits_are_refused_and_not_wrapped() -> None:
    times = struct.pack("<Iqqb", 4, 1, 1, 0)
    values = struct.pack("<bqb", 0, 1 << 62, 8)
    changes = struct.pack("<3q", 1 << 62, 1 << 62, 1 << 62)
    planes = bytes(changes[8 * row + plane] for plane in range(8) for row in range(3))
    with pytest.raises(Refused, match="out of range"):
        unpack_all([PLAIN + times + values + planes])


def test_columns_that_are_shared_cannot_be_written() -> None:
    block = pack(array("q", [1, 2, 3, 4]), array("d", [1.0, 2.0, 3.0, 4.0]))
    times, _ = unpack_all([block])[0]
    with pytest.raises(ValueError, match="read-only"):
        times[0] = 9
