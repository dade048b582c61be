"""A window read in shards by several workers is the window read whole (method §2: order is nothing)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from finops.core.period import Period, parse_instant
from finops.ledger.fetch import Door
from finops.ledger.models import Document, Fetch, FetchedPart, Source, TokenHour
from finops.ledger.operations import collect, planning
from finops.ledger.operations.collect import collect_source, collect_window
from finops.ledger.operations.planning import shards_of, windows
from finops.ledger.operations.sources import access_to, add_source
from finops.ledger.queries.source_hours import fetches_of
from finops.ledger.queries.sources import health, is_complete, uncollected
from finops.ledger.queries.tokens import TokenLedger
from finops.sources.engines import metrics_to_collect
from finops.sources.shards import WHOLE, Shard, shards
from tests.ledger.stores import PROMETHEUS, Store, from_samples, prometheus, recorded, replay
from tests.ledger.totals import token_totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

RECORDING = Period(parse_instant("2026-11-29T14:00:00Z"), parse_instant("2026-11-29T16:00:00Z"))
FIRST, SECOND = windows(RECORDING)
AFTER = parse_instant("2026-11-29T16:10:30Z")
PROMPT_TOKENS, GENERATION_TOKENS = 1_494_578, 202_099  # the recording's own account of itself


@pytest.fixture
def store() -> Iterator[Store]:
    with replay() as running:
        yield running


def made(url: str, name: str = "prom") -> Source:
    return add_source(name, url, by="ada", at=AFTER)


def take(source: Source, window: Period, shard: Shard, **more: Any) -> Any:
    with Door(access_to(source)) as door:
        return collect_window(source, window, door=door, by="ada", at=AFTER, shard=shard, **more)


def rows(source: Source) -> list[tuple[Any, ...]]:
    """The current rows of a source's counters, without the numbers under which they stand."""
    mine = TokenHour.objects.filter(series__target__source=source)
    newest = mine.order_by("series", "hour", "-revision").distinct("series", "hour")
    told = newest.values_list(
        "series__metric",
        "series__labels_digest",
        "hour",
        "tokens",
        "readings",
        "restarts",
        "opening_tokens",
        "facts",
        "carry",
    )
    return sorted(told, key=lambda row: row[:3])


@given(st.text(max_size=60), st.integers(1, 64))
@example("", 2)
@example("\ud800", 3)
def test_an_instance_belongs_to_one_shard(instance: str, count: int) -> None:
    assert sum(shard.holds(instance) for shard in shards(count)) == 1


def test_instances_are_shared_out_evenly_and_always_in_the_same_way() -> None:
    counts = [
        sum(shard.holds(f"10.0.{n // 250}.{n % 250}:8000") for n in range(2000))
        for shard in shards(2)
    ]
    assert sum(counts) == 2000
    assert min(counts) > 900
    number = int(hashlib.sha256(b"10.0.0.1:8000").hexdigest()[:16], 16)
    assert Shard(number % 7 + 1, 7).holds("10.0.0.1:8000")


@pytest.mark.parametrize(("number", "count"), [(0, 1), (2, 1), (3, 2), (1, 0), (-1, 4)])
def test_a_shard_that_there_is_not(number: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"no shard {number} of {count}"):
        Shard(number, count)


@pytest.fixture
def whole_rows(store: Store) -> list[tuple[Any, ...]]:
    """The rows of the recording read whole, by a source that is gone afterwards."""
    with replay() as other:
        source = made(other.url, "whole")
        collect_source(source, by="ada", at=AFTER, period=RECORDING)
    return rows(source)


@pytest.mark.parametrize("seed", range(8))
def test_shards_in_any_order_give_the_rows_of_the_whole(
    store: Store, whole_rows: list[tuple[Any, ...]], seed: int
) -> None:
    chance = random.Random(seed)
    count = chance.randint(2, 6)
    work = [(window, shard) for window in (FIRST, SECOND) for shard in shards(count)]
    chance.shuffle(work)
    source = made(store.url)
    for window, shard in work + work[:3]:
        take(source, window, shard)
    assert rows(source) == whole_rows
    assert [row.complete for row in Fetch.objects.filter(source=source)] == [True, True]
    assert FetchedPart.objects.count() == 2 * count
    assert uncollected(source, RECORDING) == []


def test_a_window_is_read_when_its_last_part_is(store: Store) -> None:
    source = made(store.url)
    first, second, third = shards(3)
    for shard in (third, first):
        assert take(source, FIRST, shard).fresh
        assert not is_complete(source, FIRST)
        assert uncollected(source, RECORDING) == [RECORDING]
    asked = len(store.seen)
    assert not take(source, FIRST, third).fresh
    assert len(store.seen) == asked  # a shard that stands there is not asked for again
    take(source, FIRST, second)
    assert is_complete(source, FIRST)
    fetch = Fetch.objects.get(source=source)
    fetched = FetchedPart.objects.filter(source=source)
    assert fetch.readings == sum(one.readings for one in fetched)
    assert fetch.series == sum(one.series for one in fetched)
    start, end = FIRST.start.timestamp(), FIRST.end.timestamp()
    wanted = [row for row in recorded() if row["metric"]["__name__"] in metrics_to_collect()]
    assert fetch.readings == sum(start <= at < end for row in wanted for at, _ in row["values"])
    assert health(AFTER)[0]["state"] == "fine"
    assert not take(source, FIRST, first).fresh
    assert Fetch.objects.count() == 1


def test_a_shard_that_warns_leaves_the_window_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "WARNED_PAUSE_SECONDS", 0.0)
    source = made(store.url)
    first, second = shards(2)
    take(source, FIRST, first)
    store.warn = ["partial response: sidecar thanos-2 is unreachable"]
    assert not take(source, FIRST, second).complete
    assert list(Fetch.objects.values_list("complete", flat=True)) == [False]
    assert uncollected(source, FIRST) == [FIRST]
    store.warn = []
    assert take(source, FIRST, second).complete
    assert uncollected(source, FIRST) == []


def test_a_window_read_whole_needs_no_shards(store: Store) -> None:
    source = made(store.url)
    collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert not take(source, FIRST, Shard(1, 2)).fresh
    assert not FetchedPart.objects.exists()


def test_another_number_of_shards_begins_anew_and_counts_nothing_twice(
    store: Store, whole_rows: list[tuple[Any, ...]]
) -> None:
    """The setting changed while half of a window was read."""
    source = made(store.url)
    take(source, FIRST, Shard(1, 2))
    for window in (FIRST, SECOND):
        for shard in shards(3):
            take(source, window, shard)
    assert rows(source) == whole_rows
    assert Fetch.objects.filter(source=source, complete=True).count() == 2


def test_each_part_keeps_its_own_document_that_names_it(store: Store) -> None:
    source = made(store.url)
    for shard in shards(2):
        take(source, FIRST, shard)
    documents = dict(Document.objects.values_list("pk", "name"))
    (told,) = fetches_of("prom", FIRST.start)
    assert [documents[one] for one in told["documents"]] == [
        f"prom 2026-11-29T14:00:00Z–2026-11-29T15:00:00Z shard {shard} of 2" for shard in (1, 2)
    ]


def test_only_large_sources_are_shared_out(
    store: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made(store.url)
    with Door(access_to(source)) as door:
        assert shards_of(source, door, [FIRST, SECOND]) == [WHOLE]
        monkeypatch.setattr(planning, "SPLIT_FROM", 10)
        assert shards_of(source, door, [FIRST, SECOND]) == shards(2)
        assert shards_of(source, door, []) == [WHOLE]
        settings.COLLECT_SHARDS = 1
        assert shards_of(source, door, [FIRST, SECOND]) == [WHOLE]


@pytest.mark.skipif(PROMETHEUS is None, reason="needs prometheus and promtool")
def test_a_real_prometheus_gives_the_recording_in_shards(tmp_path: Any) -> None:
    """By remote read, with metrics of nodes and devices among the series."""
    with prometheus(tmp_path, from_samples(tmp_path)) as url:
        source = made(url)
        for window in (FIRST, SECOND):
            for shard in shards(3):
                take(source, window, shard)
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)


def test_series_without_an_instance_are_in_one_part() -> None:
    """The matcher `instance=~""` chooses series that have no such label."""
    at: datetime = FIRST.start
    values = [[at.timestamp() + 15 * n, str(10 * n)] for n in range(1, 200)]
    labels = {"__name__": "vllm:prompt_tokens_total", "job": "vllm", "model_name": "m"}
    named = labels | {"instance": "10.0.0.1:8000"}
    with replay([{"metric": one, "values": values} for one in (labels, named)]) as bare:
        source = made(bare.url)
        for shard in shards(4):
            take(source, FIRST, shard)
    assert sum(one.readings for one in FetchedPart.objects.all()) == 2 * len(values)
    assert sum(one.series for one in FetchedPart.objects.all()) == 2


@pytest.mark.parametrize("cut", ["2026-11-29T15:00:00Z", "2026-11-29T15:10:00Z"])
def test_targets_of_a_part_that_is_not_there_yet_have_not_ended(store: Store, cut: str) -> None:
    """What one shard tells of the next window says nothing of the other's targets: their bounds stay
    as they were before (§2.6: an end is what stops while its source goes on)."""
    source = made(store.url)
    begun = Period(RECORDING.start, parse_instant(cut))
    next_one = Period(begun.end, RECORDING.end)
    here, missing = shards(2)

    def told() -> dict[str, tuple[int | None, ...]]:
        ledger = TokenLedger(RECORDING)
        by = ledger.by(lambda labels, hour: labels["instance"])
        return {
            name: (one.prompt, one.prompt_lower, one.prompt_upper, one.ends)
            for name, one in by.items()
            if missing.holds(name)
        }

    for shard in (here, missing):
        for window in windows(begun):
            take(source, window, shard)
    before = told()
    assert before
    take(source, next_one, here)
    assert told() == before
    take(source, next_one, missing)
    assert told() != before
