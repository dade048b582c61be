"""Blocks of many hours tell of each hour, and of any instant on, what their readings do (method §2.9)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count, pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from finops.core.period import instant_of
from finops.ledger.models import Document, ReadingBlock, Series, Source
from finops.ledger.operations.columns import read_columns
from finops.ledger.operations.gauges import Gauges
from finops.ledger.operations.readings import post_readings
from finops.ledger.queries.explain import Unknown, explain_gauge
from finops.ledger.which import atomic
from finops.sources.records import SeriesReadings
from finops.sources.samples import unpack

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
AT = datetime(2026, 11, 29, 17, tzinfo=UTC)
HOUR_MS = 3_600_000
MIDNIGHT_MS = 1_795_910_400_000
HOURS = 40
LABELS = (("job", "vllm"), ("instance", "10.0.0.1:8000"))
NUMBERS = count(1)

STEPS_MS = st.sampled_from([15_000, 60_000, 1_799_999, HOUR_MS, 2 * HOUR_MS, 7 * HOUR_MS])
TIMES = st.tuples(
    st.integers(0, 3 * HOUR_MS), st.lists(STEPS_MS, min_size=1, max_size=60), st.integers(1, 30)
)


def times_of(drawn: tuple[int, Sequence[int], int]) -> list[int]:
    """Instants with steps as drawn, each step some times over, until the last hour."""
    first, steps, often = drawn
    times = [MIDNIGHT_MS + first]
    for step in steps:
        times += [times[-1] + step * (1 + k) for k in range(often if step < HOUR_MS else 1)]
    return [at for at in times if at < MIDNIGHT_MS + HOURS * HOUR_MS]


def posted(times: Sequence[int], cuts: Sequence[int]) -> Series:
    """A gauge with readings at these instants, in documents cut at some of them."""
    name = f"store {next(NUMBERS)}"
    source = Source.objects.create(
        name=name, url=f"http://{next(NUMBERS)}", created_at=AT, created_by="Ada"
    )
    edges = sorted({0, len(times), *(cut % len(times) for cut in cuts)})
    for low, high in pairwise(edges):
        document = Document.objects.create(
            sha256=f"{next(NUMBERS):064x}", size_bytes=1, name="a.json", origin="test",
            format="prometheus-json", received_at=AT, received_by="Ada",
        )  # fmt: skip
        some = array("q", times[low:high])
        values = array("d", (value_at(at) for at in some))
        one = SeriesReadings("vllm:kv_cache_usage_perc", LABELS, some, values)
        with atomic():
            assert post_readings(document, source, [one], at=AT).refused == []
    return Series.objects.get(target__source=source)


def value_at(time_ms: int) -> float:
    return time_ms // 15_000 % 97 / 100


def hour_of(time_ms: int) -> int:
    return time_ms // HOUR_MS * HOUR_MS


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(TIMES, st.lists(st.integers(0, 4000), max_size=3))
@example((0, [HOUR_MS] * 30, 1), [])
@example((HOUR_MS - 1, [15_000] * 60, 30), [7])
@example((0, [2 * HOUR_MS] * 8, 1), [])
def test_readings_are_found_by_hour_and_from_any_instant(
    drawn: tuple[int, Sequence[int], int], cuts: Sequence[int]
) -> None:
    times = times_of(drawn)
    series = posted(times, cuts)
    blocks = ReadingBlock.objects.filter(series=series)
    assert sum(block.readings for block in blocks) == len(times)
    for block in blocks:
        own, _ = unpack(bytes(block.payload))
        hours = {hour_of(at) for at in own}
        assert block.hour == instant_of(min(hours))
        assert len({at // (12 * HOUR_MS) for at in own}) == 1
        assert max(hours) - min(hours) == (len(hours) - 1) * HOUR_MS  # none of them is empty
    for hour_ms in range(MIDNIGHT_MS - HOUR_MS, MIDNIGHT_MS + (HOURS + 1) * HOUR_MS, HOUR_MS):
        wanted = [at for at in times if hour_of(at) == hour_ms]
        assert blocks.touching(hour_ms, hour_ms + HOUR_MS).exists() == bool(wanted)
        if wanted:
            told = explain_gauge(series, instant_of(hour_ms))["readings"]
            assert [one["value"] for one in told] == [value_at(at) for at in wanted]
        else:
            with pytest.raises(Unknown):
                explain_gauge(series, instant_of(hour_ms))


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(TIMES, st.lists(st.integers(0, 4000), max_size=3), st.integers(-1, HOURS + 1))
def test_columns_begin_where_they_are_asked_for(
    drawn: tuple[int, Sequence[int], int], cuts: Sequence[int], hour: int
) -> None:
    times = times_of(drawn)
    series = posted(times, cuts)
    from_ms = MIDNIGHT_MS + hour * HOUR_MS
    since = [at for at in times if at >= from_ms]
    told = {"": (since, [value_at(at) for at in since])} if since else {}
    assert read_columns(series, from_ms) == told
    assert listed(Gauges([series], from_ms).first(series)) == since
    before = [at for at in times if at < from_ms]
    last_hour = [at for at in before if hour_of(at) == hour_of(before[-1])]
    assert listed(Gauges([series], from_ms, and_before=True).first(series)) == last_hour + since


def listed(columns: tuple[object, object]) -> list[int]:
    times, values = (list(one) for one in columns)  # type: ignore[call-overload]
    assert values == [value_at(at) for at in times]
    return times
