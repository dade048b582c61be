"""Remote read: requests and answers against the protocol's own description (prompb).

The writer below follows `remote.proto` and `types.proto` of Prometheus field by field and shares no
code with the product; a real Prometheus is asked in tests/ledger/test_stores.py.
"""

from __future__ import annotations

import math
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.sources.records import Refused, SeriesReadings
from finops.sources.remote_read import STALE_BITS, Answers, _remembered, request

NOW_MS = 1_795_910_400_000


def varint(number: int) -> bytes:
    number %= 1 << 64
    out = b""
    while number >= 128:
        out += bytes([number % 128 + 128])
        number //= 128
    return out + bytes([number])


def message(field: int, content: bytes) -> bytes:
    return bytes([field * 8 + 2]) + varint(len(content)) + content


def sample(time_ms: int, value: float) -> bytes:
    """As Go's writer: a zero is left out, and so is a time of zero."""
    bits = struct.pack("<d", value)
    content = (b"\x09" + bits if bits != bytes(8) else b"") + (
        b"\x10" + varint(time_ms) if time_ms else b""
    )
    return message(2, content)


def series(labels: dict[str, str], samples: list[tuple[int, float]], *more: bytes) -> bytes:
    pairs = [message(1, message(1, k.encode()) + message(2, v.encode())) for k, v in labels.items()]
    return b"".join((*pairs, *(sample(*one) for one in samples), *more))


def answered(*every: bytes) -> bytes:
    return message(1, b"".join(message(1, one) for one in every))


def read(*bodies: bytes) -> Answers:
    answers = Answers()
    for body in bodies:
        answers.add(body)
    return answers


def bits_of(values: list[float]) -> list[bytes]:
    return [struct.pack("<d", value) for value in values]


def test_a_request_is_what_the_protocol_says() -> None:
    asked = request([("__name__", "=~", "a|b"), ("job", "!=", "x")], NOW_MS, NOW_MS + 9)
    matchers = message(3, b"\x08\x02" + message(2, b"__name__") + message(3, b"a|b"))
    matchers += message(3, b"\x08\x01" + message(2, b"job") + message(3, b"x"))
    times = b"\x08" + varint(NOW_MS) + b"\x10" + varint(NOW_MS + 9)
    assert asked == message(1, times + matchers) + b"\x10\x00"


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 10**9))
def test_every_sample_comes_back_whatever_its_length(seed: int) -> None:
    rng = random.Random(seed)
    start = rng.choice([NOW_MS, NOW_MS, 5, -90_000, 1 << 42, (1 << 35) - 30_000, (1 << 42) - 9])
    times = sorted(rng.sample(range(start, start + 100_000), rng.randrange(1, 60)))
    kinds = [0.0, -0.0, 1.5, math.inf, float(1 << 53), 1e-300, float(rng.randrange(1, 1 << 53))]
    usual = rng.random() < 0.5
    values = [float(i + 1) if usual else rng.choice(kinds) for i in range(len(times))]
    labels = {"__name__": "up", "instance": "ü:1", "job": "x" * rng.choice([0, 1, 200])}
    (one,) = read(answered(series(labels, list(zip(times, values, strict=True))))).series
    assert one.metric == "up"
    assert dict(one.labels) == {name: labels[name] for name in ("instance", "job")}
    assert list(one.times_ms) == times
    assert bits_of(list(one.values)) == bits_of(values)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9))
def test_series_read_together_are_those_read_alone(seed: int) -> None:
    rng = random.Random(seed)
    (stale,) = struct.unpack("<d", struct.pack("<q", STALE_BITS))
    whole = []
    for number in range(12):
        count = rng.choice([1, 4, 4, 4, 8])
        first = NOW_MS + rng.choice([0, 0, 7])
        times = [first + 15_000 * n for n in range(count)]
        if rng.random() < 0.2:
            rng.shuffle(times)
        kind = rng.choice(["rising", "rising", "zero", "zero", "mixed", "ended", "odd"])
        values = [0.0 if kind == "zero" else 5.0 + n for n in range(count)]
        if kind in ("mixed", "ended"):
            values[rng.randrange(count)] = stale if kind == "ended" else 0.0
        if kind == "odd":
            times[0] = rng.choice([-5, 3, 1 << 45])
        more = [message(4, b"\x08\x01")] if rng.random() < 0.1 else []
        name = {"__name__": f"m{number}", "job": rng.choice(["", "x\x12\x07\x10"])}
        whole.append(series(name, list(zip(times, values, strict=True)), *more))
    together = read(answered(*whole))
    alone = [read(answered(one)) for one in whole]
    assert [told(one) for one in together.series] == [
        told(one) for answer in alone for one in answer.series
    ]
    assert together.histograms == set().union(*(answer.histograms for answer in alone))


def told(one: SeriesReadings) -> tuple[object, ...]:
    return one.metric, one.labels, list(one.times_ms), bits_of(list(one.values))


def test_an_idle_counter_is_read_as_zeros() -> None:
    idle = [(NOW_MS + 15_000 * n, 0.0) for n in range(240)]
    busy = [(at, value + (n > 99)) for n, (at, value) in enumerate(idle)]
    found = read(answered(series({"__name__": "a"}, idle), series({"__name__": "b"}, busy))).series
    assert [list(zip(one.times_ms, one.values, strict=True)) for one in found] == [idle, busy]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9))
def test_gauges_that_fall_to_zero_now_and_then_come_back_as_they_are(seed: int) -> None:
    rng = random.Random(seed)
    # The last bytes of these doubles look like the beginning of a sample of another length.
    alike = [struct.unpack("<d", bytes(rng.randrange(1, 256) for _ in range(6)) + end)[0]
             for end in (b"\x12\x07", b"\x12\x10")]  # fmt: skip
    kinds = [0.0, 0.0, 1.5, float(rng.randrange(1, 1 << 53)), *(alike if seed % 2 else ())]
    whole = {}
    for number in range(9):
        count = rng.choice([1, 2, 3, 3, 40])
        whole[f"m{number}"] = [(NOW_MS + 15_000 * n, rng.choice(kinds)) for n in range(count)]
    found = read(answered(*(series({"__name__": name}, told) for name, told in whole.items())))
    assert [one.metric for one in found.series] == list(whole)
    for one, samples in zip(found.series, whole.values(), strict=True):
        assert list(one.times_ms) == [at for at, _ in samples]
        assert bits_of(list(one.values)) == bits_of([value for _, value in samples])


def test_names_are_remembered_without_the_samples_behind_them() -> None:
    at = _remembered.cache_info().currsize
    for hour in range(50):
        idle = [(NOW_MS + 3_600_000 * hour + 15_000 * n, float(n > 3)) for n in range(6)]
        read(answered(series({"__name__": "begins at zero"}, idle)))
    assert _remembered.cache_info().currsize <= at + 1


def test_ends_of_series_are_no_readings() -> None:
    (stale,) = struct.unpack("<d", struct.pack("<q", STALE_BITS))
    ended = [(NOW_MS + n, stale if n in (2, 5) else 7.0 + n) for n in range(6)]
    only_ends = series({"__name__": "gone"}, [(NOW_MS, stale)])
    found = read(answered(series({"__name__": "up"}, ended), only_ends)).series
    assert [(one.metric, list(one.values)) for one in found] == [("up", [7.0, 8.0, 10.0, 11.0])]
    assert list(found[0].times_ms) == [NOW_MS, NOW_MS + 1, NOW_MS + 3, NOW_MS + 4]


def test_another_nan_is_kept_to_be_refused_by_name() -> None:
    (one,) = read(answered(series({"__name__": "up"}, [(NOW_MS, math.nan)]))).series
    assert math.isnan(one.values[0])


def test_series_read_at_the_same_instants_share_their_times() -> None:
    times = [(NOW_MS + 15_000 * n, 1.0 + n) for n in range(20)]
    one, other = read(
        answered(series({"__name__": "a"}, times)), answered(series({"__name__": "b"}, times))
    ).series
    assert one.times_ms is other.times_ms


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**9))
def test_metrics_of_the_same_instances_come_as_if_each_came_alone(seed: int) -> None:
    """Answer after answer has the times of the one before, all or some of them, or others."""
    rng = random.Random(seed)
    starts = [NOW_MS + rng.randrange(15_000) for _ in range(5)]
    bodies = []
    for number in range(6):
        some = [start + rng.choice([0, 0, 0, 1]) * (number % 3 == 2) for start in starts]
        if rng.random() < 0.3:
            some = some[: rng.randrange(1, 5)]
        if rng.random() < 0.2:
            rng.shuffle(some)
        bodies.append(
            answered(
                *(
                    series(
                        {"__name__": f"m{number}", "instance": str(place)},
                        [(start + 15_000 * n, 1.0 + n) for n in range(4)],
                    )
                    for place, start in enumerate(some)
                )
            )
        )
    place = bytearray()
    together = Answers()
    for body in bodies:  # each in the memory of the one before
        place[:] = body
        together.add(place)
    alone = [one for body in bodies for one in read(body).series]
    assert [told(one) for one in together.series] == [told(one) for one in alone]


def test_fields_of_later_versions_are_passed_over_and_histograms_named() -> None:
    more = message(4, b"\x08\x01") + message(15, b"?") + b"\x78\x05" + b"\x79" + bytes(8)
    found = read(answered(series({"__name__": "h"}, [(NOW_MS, 1.0)], more)) + message(9, b"new"))
    assert [one.metric for one in found.series] == ["h"]
    assert found.histograms == {"h"}


def test_samples_out_of_order_are_put_in_order() -> None:
    (one,) = read(answered(series({"__name__": "a"}, [(NOW_MS + 9, 2.0), (NOW_MS, 1.0)]))).series
    assert (list(one.times_ms), list(one.values)) == ([NOW_MS, NOW_MS + 9], [1.0, 2.0])


@given(st.binary(max_size=120), st.integers(0, 200))
def test_damaged_answers_are_refused_or_read_never_worse(noise: bytes, cut: int) -> None:
    whole = answered(series({"__name__": "a", "b": "c"}, [(NOW_MS + n, n) for n in range(9)]))
    for body in (noise, whole[:cut] + noise, answered(noise), answered(message(2, noise))):
        try:
            read(body)
        except Refused:
            continue


def test_an_answer_cut_short_is_refused() -> None:
    whole = answered(series({"__name__": "a"}, [(NOW_MS + n, 1.0 + n) for n in range(9)]))
    for cut in range(1, len(whole)):
        with pytest.raises(Refused, match="ends too early"):
            read(whole[:cut])


def test_labels_that_hold_the_bytes_of_a_sample_stay_labels() -> None:
    odd = "x\x12\x10\x09y"
    for labels in ({"__name__": "a", "job": odd}, {"__name__": odd, "b": "c"}):
        for _ in range(2):  # the second time they are known
            (one,) = read(
                answered(series(labels, [(NOW_MS + n, 1.0 + n) for n in range(3)]))
            ).series
            assert {"__name__": one.metric, **dict(one.labels)} == labels
            assert list(one.values) == [1.0, 2.0, 3.0]


def test_labels_after_samples_count_too() -> None:
    late = message(1, message(1, b"job") + message(2, b"late"))
    whole = series({"__name__": "a"}, [(NOW_MS + n, 1.0 + n) for n in range(3)], late)
    (one,) = read(answered(whole)).series
    assert (one.metric, one.labels) == ("a", (("job", "late"),))
