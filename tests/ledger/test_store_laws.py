"""What stores do to readings, as laws: windows that overlap, samples twice and out of order, marks of
staleness, counters past 2^53; and sums of hours, days and weeks (method §1, §2).
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.period import Period
from finops.ledger.queries.tokens import TokenLedger
from finops.sources.records import SeriesReadings
from tests.ledger.doors import ingested
from tests.ledger.test_token_ledger_laws import (
    BASE_S,
    DAY_S,
    a_source,
    few,
    fleet,
    post,
    rows,
    series_of,
)
from tests.ledger.totals import token_totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

LABELS = {"job": "vllm", "instance": "e:8000", "model_name": "m"}
UP = {"__name__": "up", "job": "vllm", "instance": "e:8000"}


def windows(rng: random.Random, since: int, until: int) -> Iterator[tuple[int, int]]:
    """Windows that cover the span whole, overlap each other, and some of which come twice."""
    at = since
    while at < until:
        end = at + rng.randrange(600, 30_000)
        yield max(since, at - rng.choice([0, 0, 60, 5000])), end
        if rng.random() < 0.3:
            yield at, end
        at = end


def disordered(rng: random.Random, one: SeriesReadings) -> SeriesReadings:
    """The samples of one series out of order, some of them twice."""
    pairs = list(zip(one.times_ms, one.values, strict=True))
    pairs += rng.sample(pairs, len(pairs) // 4)
    rng.shuffle(pairs)
    times, values = zip(*pairs, strict=True)
    return replace(one, times_ms=array("q", times), values=array("d", values))


@few
@given(st.integers(0, 10**9))
def test_windows_that_overlap_and_samples_out_of_order_give_the_same_rows(seed: int) -> None:
    rng = random.Random(seed)
    targets = fleet(rng)
    whole, apart = a_source(), a_source()
    post(whole, list(series_of(targets, 0, 1 << 40)))
    times = [r.at for one in targets for r in one.readings] or [BASE_S]
    times += [at for one in targets for at, _ in one.ups]
    for since, until in windows(rng, min(times), max(times) + 1):
        document = [disordered(rng, one) for one in series_of(targets, since, until)]
        if document:
            post(apart, document)
    assert rows(apart) == rows(whole)


@few
@given(st.integers(0, 10**9))
def test_hours_sum_to_days_and_days_to_the_week(seed: int) -> None:
    rng = random.Random(seed)
    source = a_source()
    post(source, list(series_of(fleet(rng), 0, 1 << 40)))
    start = datetime.fromtimestamp(BASE_S - 3 * DAY_S, UTC)
    ledger = TokenLedger(Period(start, start + timedelta(days=14)))

    def booked(period: Period) -> int:
        parts = ledger.by(lambda labels, _: labels["source"], period)
        return (parts[source.name].prompt or 0) if source.name in parts else 0

    whole = booked(ledger.period)
    for step in (timedelta(hours=1), timedelta(days=1), timedelta(days=7)):
        cuts = [Period(at, at + step) for at in _steps(ledger.period, step)]
        assert sum(map(booked, cuts)) == whole


def _steps(period: Period, step: timedelta) -> Iterator[datetime]:
    at = period.start
    while at < period.end:
        yield at
        at += step


def answer(
    folder: Path, name: str, values: list[list[object]], ups: list[int]
) -> dict[str, object]:
    """One saved answer of the API with a counter and its `up`, through `ingest`."""
    counter = {"__name__": "vllm:prompt_tokens_total", **LABELS}
    result = [
        {"metric": UP, "values": [[at, "1"] for at in ups]},
        {"metric": counter, "values": values},
    ]
    data = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    (folder / name).write_text(json.dumps(data))
    (document,) = ingested(folder / name)
    return document


@pytest.mark.parametrize("seed", range(12))
def test_marks_of_staleness_are_named_and_change_no_token(tmp_path: Path, seed: int) -> None:
    """Prometheus keeps a marker where a series ends; stores that export it give NaN for it."""
    rng = random.Random(seed)
    start = BASE_S + 3600
    times = sorted(rng.sample(range(start, start + 7000, 15), 60))
    values = [[at, str(7 * (at - start))] for at in times]
    stale = sorted(rng.sample(range(start + 7, start + 7000, 15), rng.randrange(1, 20)))
    mixed = sorted([*values, *([at, "NaN"] for at in stale)], key=lambda pair: pair[0])
    document = answer(tmp_path, "s.json", mixed, [start - 15, *times])

    assert document["rows_rejected"] == len(stale)
    rejections = document["rejections"]
    assert isinstance(rejections, list)
    assert all("NaN" in row["value"] or "nan" in row["value"] for row in rejections)
    day = Period(datetime.fromtimestamp(BASE_S, UTC), datetime.fromtimestamp(BASE_S + DAY_S, UTC))
    found = token_totals(day)
    assert (found.prompt, found.readings) == (7 * (times[-1] - start), len(times))


@pytest.mark.parametrize("seed", range(8))
def test_past_the_exact_whole_numbers_each_reading_is_named(tmp_path: Path, seed: int) -> None:
    """Beyond 2^53 a float64 skips whole numbers: such readings are refused, the others count."""
    rng = random.Random(seed)
    start, exact = BASE_S + 3600, 2**53
    step = rng.randrange(1, 1 << 40)
    times = [start + 15 * n for n in range(100)]
    shown = [exact + (n - 60) * step for n in range(100)]
    values = [[at, str(value)] for at, value in zip(times, shown, strict=True)]
    document = answer(tmp_path, "s.json", values, [start - 15, *times])

    assert document["rows_rejected"] == sum(value > exact for value in shown) == 39
    day = Period(datetime.fromtimestamp(BASE_S, UTC), datetime.fromtimestamp(BASE_S + DAY_S, UTC))
    found = token_totals(day)
    # The value 2^53 itself is exact: it and all before it are booked, from 0 at the birth.
    assert (found.prompt, found.readings) == (exact, 61)
