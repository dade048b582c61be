"""How a period is asked for: windows, shards, parts of a day; what is not asked for."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.period import Period, parse_instant
from finops.ledger.fetch import Door
from finops.ledger.models import Fetch, Series
from finops.ledger.operations import planning
from finops.ledger.operations.collect import collect_source
from finops.ledger.operations.planning import hours_at_once, windows
from finops.ledger.operations.sources import access_to
from finops.ledger.queries.sources import uncollected
from finops.ledger.store import live_series
from tests.ledger.collecting import (
    AFTER,
    GENERATION_TOKENS,
    PROMPT_TOKENS,
    RECORDING,
    SECOND,
    ledger,
    made,
)
from tests.ledger.stores import (
    Store,
    recorded,
)
from tests.ledger.totals import token_totals

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("no_pauses"),
]


def test_a_large_fleet_is_asked_in_shards(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    source = made(store.url)
    whole = collect_source(source, by="ada", at=AFTER, period=RECORDING)
    monkeypatch.setattr("finops.ledger.store.MAX_SERIES_HOURS_A_QUERY", 4)
    before, asked = ledger(), len(store.seen)
    parts = collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert (parts.readings, parts.series) == (whole.readings, whole.series)
    assert ledger() == before
    assert len(store.seen) - asked > 20


def test_a_long_way_back_is_asked_for_by_the_day(store: Store) -> None:
    source = made(store.url)
    period = Period(parse_instant("2026-11-28T22:00:00Z"), parse_instant("2026-12-01T03:00:00Z"))
    later = period.end + timedelta(minutes=30)
    result = collect_source(source, by="ada", at=later, period=period)
    assert result.ok
    spans = Fetch.objects.order_by("window_start").values_list("window_start", "window_end")
    hours = [(end - start) // timedelta(hours=1) for start, end in spans]
    assert hours == [2, 24, 24, 1, 1, 1]
    assert uncollected(source, period) == []
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)


@given(
    start=st.integers(0, 5000),
    minutes=st.integers(1, 6000),
    hours=st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24]),
)
def test_windows_cover_a_period_without_gap_or_overlap(
    start: int, minutes: int, hours: int
) -> None:
    begin = RECORDING.start + timedelta(minutes=start)
    period = Period(begin, begin + timedelta(minutes=minutes))
    cut = list(windows(period, hours=hours))
    assert (cut[0].start, cut[-1].end) == (period.start, period.end)
    assert all(a.end == b.start for a, b in pairwise(cut))
    long = [one for one in cut if one.end - one.start > timedelta(hours=1)]
    # Whole parts of a day, but for one that begins with the period's first whole hour.
    odd = [one for one in long if one.end - one.start != timedelta(hours=hours)]
    assert odd == [one for one in cut[:2] if one in odd]
    assert len(odd) <= 1
    assert all(one.end - one.start <= timedelta(hours=hours) for one in long)
    assert all(one.end.hour % hours == one.end.minute == one.start.minute == 0 for one in long)
    assert len(cut) - len(long) <= hours + 2 or hours == 1


def test_the_more_series_the_fewer_hours_are_asked_for_at_once() -> None:
    counts = (0, 1, 1_250, 1_251, 2_500, 2_501, 5_000, 7_501, 15_000, 15_001, 50_000)
    assert list(map(hours_at_once, counts)) == [24, 24, 24, 12, 12, 8, 6, 12, 12, 12, 12]


def test_a_source_of_many_series_is_asked_for_by_parts_of_a_day(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made(store.url)
    with Door(access_to(source)) as door:
        series, _ = live_series(door, (), SECOND)
    monkeypatch.setattr(planning, "MAX_SERIES_HOURS", 5 * len(series))
    monkeypatch.setattr(planning, "FEW_HOURS", 2)
    period = Period(parse_instant("2026-11-27T07:00:00Z"), RECORDING.end)
    later = period.end + timedelta(minutes=30)
    assert collect_source(source, by="ada", at=later, period=period).ok
    spans = Fetch.objects.order_by("window_start").values_list("window_start", "window_end")
    hours = [(end - start) // timedelta(hours=1) for start, end in spans]
    assert hours == [1, *[4] * 14]
    assert uncollected(source, period) == []
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)


def test_matchers_keep_other_jobs_out(store: Store) -> None:
    source = made(store.url, matchers='namespace="llm-prod"')
    collect_source(source, by="ada", at=AFTER, period=RECORDING)
    spaces = {row["namespace"] for row in Series.objects.values_list("labels", flat=True)}
    others = {row["metric"].get("namespace") for row in recorded()}
    assert spaces == {"llm-prod"}
    assert len(others) > 1


def test_the_future_is_not_collected(store: Store) -> None:
    later = Period(AFTER + timedelta(days=1), AFTER + timedelta(days=2))
    result = collect_source(made(store.url), by="ada", at=AFTER, period=later)
    assert result.warnings == ["the period lies in the future; there is nothing to collect yet"]
    assert not Fetch.objects.exists()
