"""The canonical form of samples: lossless, canonical, small, and safe to read."""

import json
import lzma
import struct
import zlib
from array import array
from itertools import pairwise

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.sources.records import Refused, SeriesReadings
from finops.sources.sample_columns import write_all_times, write_times
from finops.sources.samples import (
    MAGIC,
    MAGIC_BY_LZMA,
    PACKED,
    PLAIN,
    are_rising,
    decode,
    encode,
    is_rising,
    pack,
    unpack,
)
from tests.paths import RECORDED
from tests.sources.reading import read

BIT_PATTERNS = st.integers(0, 2**64 - 1)
COUNTS = st.integers(0, 2**53).map(float)
TIMES = st.integers(-(2**52), 2**52)


def floats_of(patterns: list[int]) -> array:
    values = array("d")
    values.frombytes(struct.pack(f"<{len(patterns)}Q", *patterns))
    return values


COLUMNS = st.one_of(
    st.lists(st.tuples(TIMES, BIT_PATTERNS), max_size=40).map(
        lambda rows: (array("q", [row[0] for row in rows]), floats_of([row[1] for row in rows]))
    ),
    st.lists(st.tuples(TIMES, COUNTS), max_size=40).map(
        lambda rows: (array("q", [row[0] for row in rows]), array("d", [row[1] for row in rows]))
    ),
)
LABELS = st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=3).map(
    lambda labels: tuple(sorted(labels.items()))
)
SERIES = st.builds(
    lambda metric, labels, columns: SeriesReadings(metric, labels, *columns),
    st.text(max_size=8),
    LABELS,
    COLUMNS,
)


def as_set(series: list[SeriesReadings]) -> dict[tuple, set[tuple[int, int]]]:
    """Every sample by series, values as bit patterns, so that a NaN equals itself."""
    samples: dict[tuple, set[tuple[int, int]]] = {}
    for one in series:
        bits = struct.unpack(f"<{len(one.values)}Q", one.values.tobytes())
        samples.setdefault((one.metric, one.labels), set()).update(
            zip(one.times_ms, bits, strict=True)
        )
    return samples


@settings(deadline=None)
@given(st.text(st.one_of(st.characters(max_codepoint=0x80), st.characters(codec=None)), max_size=9))
def test_names_are_written_as_the_format_says_whatever_they_hold(text: str) -> None:
    one = SeriesReadings("m", (("a", text),), array("q", [1]), array("d", [2.0]))
    payload = cramjam.zstd.decompress(encode([one])[8:]).read()
    size = int.from_bytes(payload[:4], "little")
    assert (
        payload[4 : 4 + size] == json.dumps([["m", ["a", text], 0]], separators=(",", ":")).encode()
    )


@settings(deadline=None)
@given(COLUMNS)
def test_a_block_gives_back_every_bit_in_its_order(columns: tuple[array, array]) -> None:
    times_ms, values = unpack(pack(*columns))
    assert times_ms.tobytes() == columns[0].tobytes()
    assert values.tobytes() == columns[1].tobytes()


@settings(deadline=None)
@given(st.lists(SERIES, max_size=6))
def test_a_document_gives_back_every_sample(series: list[SeriesReadings]) -> None:
    assert as_set(list(decode(encode(series)))) == as_set(series)


@settings(deadline=None)
@given(st.lists(SERIES, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_change_the_bytes(
    series: list[SeriesReadings], random
) -> None:
    shuffled = list(series)
    random.shuffle(shuffled)
    assert encode(shuffled) == encode(series)


@given(st.binary(max_size=200))
def test_hostile_blocks_are_refused(noise: bytes) -> None:
    frame = struct.pack("<I", len(noise)) + bytes(cramjam.zstd.compress(noise))
    for hostile in (noise, PLAIN + noise, PACKED + noise, PACKED + frame, zlib.compress(noise)):
        try:
            unpack(hostile)
        except Refused:
            continue


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_hostile_documents_are_refused(noise: bytes) -> None:
    framed = struct.pack("<I", len(noise)) + bytes(cramjam.zstd.compress(noise))
    by_lzma = MAGIC_BY_LZMA + lzma.compress(noise)
    for hostile in (noise, MAGIC + noise, MAGIC + framed, MAGIC_BY_LZMA + noise, by_lzma):
        try:
            list(decode(hostile))
        except Refused:
            continue


OLD_DOCUMENT = bytes.fromhex(
    "48525331fd377a585a000004e6d6b4460200210116000000742fe5a3e00048003c00000c8035d336"
    "d4bf60f5996e7700a3572b22761418de8d0160aea61793e1e03175e24933208ad5d740b0fce2b197"
    "0550b19625f6f69caf3234136660000031ad210aaaa2edc300015849439be45d1fb6f37d01000000"
    "0004595a"
)
OLD_BLOCK = bytes.fromhex(
    "789c63660002355df5458c0c0c33ac18c08091918111c26260d176611400f1003fd9027b"
)


def test_documents_and_blocks_of_the_first_form_are_still_read() -> None:
    (one,) = decode(OLD_DOCUMENT)
    assert (one.metric, one.labels) == ("up", (("job", "vllm"),))
    for times_ms, values in ((one.times_ms, one.values), unpack(OLD_BLOCK)):
        assert list(times_ms) == [1795953600000, 1795953615000, 1795953630001]
        assert list(values) == [1.0, 300.0, 70000.0]


def test_parts_of_one_series_are_joined_and_ordered() -> None:
    late = SeriesReadings("m", (("a", "b"),), array("q", [3, 2]), array("d", [30, 20]))
    early = SeriesReadings("m", (("a", "b"),), array("q", [1, 2]), array("d", [10, 20]))
    (one,) = decode(encode([late, early]))
    assert (list(one.times_ms), list(one.values)) == ([1, 2, 3], [10, 20, 30])


def test_a_truncated_document_is_refused() -> None:
    document = encode([SeriesReadings("m", (), array("q", range(99)), array("d", range(99)))])
    with pytest.raises(Refused):
        list(decode(document[:-9]))


def test_a_count_larger_than_the_document_is_refused() -> None:
    head = b'[["m",[],0]]'
    payload = struct.pack("<I", len(head)) + head + struct.pack("<IIqq", 1, 2**32 - 1, 0, 0) + b"\1"
    with pytest.raises(Refused, match="ends too early"):
        list(decode(MAGIC_BY_LZMA + lzma.compress(payload)))
    framed = struct.pack("<I", len(payload)) + bytes(cramjam.zstd.compress(payload))
    with pytest.raises(Refused, match="ends too early"):
        list(decode(MAGIC + framed))


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finops.sources.samples.MAX_PAYLOAD_BYTES", 1 << 20)
    with pytest.raises(Refused, match="too large"):
        list(decode(MAGIC_BY_LZMA + lzma.compress(b"\0" * (2 << 20))))
    frame = bytes(cramjam.zstd.compress(b"\0" * (2 << 20)))
    with pytest.raises(Refused, match="too large"):
        list(decode(MAGIC + struct.pack("<I", 2 << 20) + frame))
    with pytest.raises(Refused, match="cannot be read"):
        list(decode(MAGIC + struct.pack("<I", 1 << 19) + frame))
    with pytest.raises(Refused, match="too large"):
        unpack(zlib.compress(b"\0" * (2 << 20)))
    with pytest.raises(Refused, match="block is too large"):
        unpack(PACKED + struct.pack("<I", 2 << 20) + frame)
    with pytest.raises(Refused, match="block cannot be read"):
        unpack(PACKED + struct.pack("<I", 1 << 19) + frame)


def test_a_length_that_is_not_the_payloads_is_refused() -> None:
    frame = bytes(cramjam.zstd.compress(b"\0" * 100))
    for length, why in ((99, "cannot be read"), (101, "ends too early")):
        with pytest.raises(Refused, match=why):
            list(decode(MAGIC + struct.pack("<I", length) + frame))


def test_a_column_of_zeros_too_long_for_any_document_is_refused() -> None:
    with pytest.raises(Refused, match="ends too early"):
        unpack(PLAIN + struct.pack("<IqqB", 2**32 - 1, 0, 0, 0))


def test_two_columns_of_different_length_are_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="2 times stand against 1 values"):
        pack(array("q", [1, 2]), array("d", [1]))


def test_the_recording_takes_less_than_two_bytes_a_sample(tmp_path) -> None:
    recorded = read(RECORDED / "raw-samples-5s.json.gz").series
    document = encode(recorded)
    count = sum(len(one.values) for one in recorded)

    assert count == 19_968
    assert as_set(list(decode(document))) == as_set(recorded)
    assert len(document) / count < 1.1

    (tmp_path / "samples").write_bytes(document)
    again = read(tmp_path / "samples")
    assert (again.account.format, again.account.rows_read) == ("headroom-samples", count)


STEPPED = st.builds(
    lambda first, step, count, off: [first + step * n + (off if n == count // 2 else 0)
                                     for n in range(count)],
    TIMES, st.integers(-20_000, 20_000), st.integers(0, 9), st.sampled_from([0, 0, 1]),
)  # fmt: skip
"""Columns of times with one step throughout, or nearly."""


@given(st.lists(st.one_of(STEPPED, st.lists(TIMES, max_size=5)), max_size=12))
def test_columns_of_times_written_together_are_those_written_alone(columns: list) -> None:
    times = [array("q", column) for column in columns]
    assert write_all_times(times) == [write_times(one) for one in times]
    assert are_rising(times) == [is_rising(one) for one in times]
    assert are_rising(times) == [all(a < b for a, b in pairwise(one)) for one in columns]


@pytest.mark.parametrize("end", [2**53, -(2**53), 2**62])
def test_an_instant_no_clock_can_show_is_refused_among_others(end: int) -> None:
    times = [array("q", [0, 15_000, 30_000]), array("q", [end - 1, end, end + 1])]
    with pytest.raises(Refused, match="clock"):
        write_all_times(times)
