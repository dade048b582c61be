"""Collecting from a real Prometheus and from a replay of its API, into a real ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from finops.core.period import Period, parse_instant
from finops.ledger.access import FetchFailed
from finops.ledger.fetch import Door
from finops.ledger.models import Document, Fetch, ReadingBlock, Series, Source
from finops.ledger.operations import collect
from finops.ledger.operations.collect import collect_source, collect_window
from finops.ledger.operations.documents import stored
from finops.ledger.operations.sources import access_to
from finops.ledger.queries.facts import facts
from finops.ledger.queries.sources import health, incomplete_hours, uncollected
from finops.sources.samples import decode
from tests.ledger.collecting import (
    AFTER,
    FIRST,
    GENERATION_TOKENS,
    PROMPT_TOKENS,
    RECORDING,
    SECOND,
    ledger,
    made,
)
from tests.ledger.doors import command
from tests.ledger.stores import (
    PROMETHEUS,
    SNAPSHOT,
    Reply,
    Store,
    from_samples,
    from_snapshot,
    prometheus,
    recorded,
    replay,
)
from tests.ledger.totals import token_totals

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("no_pauses"),
]


@pytest.fixture(scope="module")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus over the recording where it is installed, else the replay of its API."""
    if PROMETHEUS is None:
        with replay() as store:
            yield store.url
        return
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus(folder, from_samples(folder)) as url:
        yield url


def test_by_one_url_the_recording_is_booked_to_the_token(store_url: str) -> None:
    answer = command(
        "collect",
        "--url",
        store_url,
        "--from",
        "2026-11-29T14:33:00Z",
        "--to",
        "2026-11-29T15:16:00Z",
    )
    [row] = answer["sources"]
    assert answer["ok"] is True
    assert (row["hours"], row["incomplete_hours"], row["warnings"]) == (2, 0, [])
    # Every series of the recording that the ledger has a role for, and every sample of it.
    wanted = [one for one in recorded() if one["metric"]["__name__"] in set(_collected())]
    assert row["series"] == len(wanted)
    assert row["readings"] == sum(len(one["values"]) for one in wanted)
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)
    assert Source.objects.get().url == store_url


def _collected() -> set[str]:
    from finops.sources.engines import metrics_to_collect

    return set(metrics_to_collect())


@pytest.mark.skipif(PROMETHEUS is None or not SNAPSHOT.exists(), reason="no TSDB of the recording")
def test_prometheus_own_storage_gives_the_same_tokens(tmp_path: Path) -> None:
    with prometheus(tmp_path, from_snapshot(tmp_path)) as url:
        result = collect_source(made(url), by="ada", at=AFTER, period=RECORDING)
    assert result.ok
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)


def test_the_kept_document_is_the_stores_samples(store_url: str) -> None:
    collect_source(made(store_url), by="ada", at=AFTER, period=RECORDING)
    kept: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for fetch in Fetch.objects.order_by("window_start"):
        assert fetch.document is not None
        content = stored(fetch.document.sha256).read_bytes()
        assert len(content) == fetch.document.size_bytes <= 2 * fetch.readings  # method §2.9
        for one in decode(content):
            key = (one.metric, *(f"{k}={v}" for k, v in one.labels))
            kept.setdefault(key, []).extend(zip(one.times_ms, one.values, strict=True))
    names = _collected()
    for row in recorded():
        labels = dict(row["metric"])
        metric = labels.pop("__name__")
        key = (metric, *(f"{k}={v}" for k, v in sorted(labels.items())))
        samples = [(round(at * 1000), float(value)) for at, value in row["values"]]
        assert kept.pop(key, []) == (samples if metric in names else [])
    assert kept == {}


def test_the_same_window_again_adds_nothing(store: Store) -> None:
    source = made(store.url)
    collect_source(source, by="ada", at=AFTER, period=RECORDING)
    before = ledger()
    collect_source(source, by="bob", at=AFTER + timedelta(hours=1), period=RECORDING)
    assert ledger() == before


@pytest.mark.parametrize("left_open", [False, True])
def test_edges_of_old_and_new_range_selectors_give_one_ledger(left_open: bool) -> None:
    """A sample on the edge of two windows is in the later one, in Prometheus 2 and in 3."""
    hour = FIRST.end.timestamp()
    values = [[hour + k * 300, str(1000 + k)] for k in range(-12, 13)]
    labels = {"job": "j", "instance": "i", "model_name": "m", "engine": "0"}
    series = [{"metric": {"__name__": "vllm:prompt_tokens_total"} | labels, "values": values}]
    with replay(series) as store:
        store.left_open = left_open
        source = made(store.url)
        result = collect_source(source, by="ada", at=AFTER, period=RECORDING)
    blocks = ReadingBlock.objects.order_by("hour").values_list("hour", "readings")
    assert list(blocks) == [(FIRST.start, 12), (SECOND.start, 12)]
    assert result.readings == 24


def test_a_warned_answer_is_incomplete_kept_out_and_asked_again(store: Store) -> None:
    source = made(store.url)
    store.warn = ["partial response: sidecar thanos-2 is unreachable"]
    result = collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert result.as_json()["incomplete_hours"] == 2
    assert result.as_json()["warnings"] == store.warn
    assert not Series.objects.exists() and not Document.objects.exists()
    assert [row[1] for row in ledger()["fetches"]] == [False, False]
    hours = [(name, hour) for name, hour, _ in incomplete_hours(RECORDING)]
    assert hours == [("prom", FIRST.start), ("prom", SECOND.start)]
    assert health(AFTER)[0]["state"] == "failing"
    totals = token_totals(RECORDING)
    assert totals.prompt is None  # not known, never 0

    store.warn = []
    collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert token_totals(RECORDING).prompt == PROMPT_TOKENS
    assert incomplete_hours(RECORDING) == []


def test_a_warning_that_passes_is_asked_again_at_once(store: Store) -> None:
    warned = {"status": "success", "data": [], "warnings": ["truncated"]}
    store.replies = [Reply(json.dumps(warned).encode())]
    with Door(access_to(source := made(store.url))) as door:
        window = collect_window(source, FIRST, door=door, by="ada", at=AFTER)
    assert window.complete
    assert Fetch.objects.get().complete


def test_without_a_period_all_that_is_missing_is_collected(store: Store) -> None:
    source = made(store.url)
    at = parse_instant("2026-11-29T14:52:30Z")
    first = collect_source(source, by="ada", at=at)
    assert first.ok
    spans = Fetch.objects.order_by("window_start").values_list("window_start", "window_end")
    assert list(spans) == [(FIRST.start, parse_instant("2026-11-29T14:50:00Z"))]
    later = collect_source(source, by="ada", at=AFTER)
    assert later.ok
    assert uncollected(source, Period(FIRST.start, parse_instant("2026-11-29T16:08:00Z"))) == []
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)
    seen = len(store.seen)
    collect_source(source, by="ada", at=AFTER)
    assert len(store.seen) == seen  # nothing is missing, nothing is asked


def test_a_failure_in_the_middle_keeps_what_came_and_the_next_run_fills_it(store: Store) -> None:
    source = made(store.url)
    good = Reply(json.dumps({"status": "success", "data": []}).encode())
    store.replies = [None, None, Reply(b'{"error":"gone"}', 422), good]
    result = collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert result.as_json()["incomplete_hours"] == 1
    assert "status 422: gone" in result.warnings[0]
    assert [row[1] for row in ledger()["fetches"]] == [True, False]
    store.replies = []
    assert collect_source(source, by="ada", at=AFTER).ok
    assert token_totals(RECORDING).prompt == PROMPT_TOKENS


def test_the_next_window_is_asked_for_before_the_last_is_posted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made(store.url)
    asked_when_posted: list[int] = []
    posted = collect._post

    def post(*arguments: Any, **named: Any) -> Any:
        expected, until = min(3, len(asked_when_posted) + 2), time.monotonic() + 10
        while len(_asked(store)) < expected and time.monotonic() < until:
            time.sleep(0.01)
        asked_when_posted.append(len(_asked(store)))
        return posted(*arguments, **named)

    monkeypatch.setattr(collect, "_post", post)
    period = Period(FIRST.start - timedelta(hours=1), RECORDING.end)
    assert collect_source(source, by="ada", at=AFTER, period=period).ok
    assert asked_when_posted == [2, 3, 3]
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)


def _asked(store: Store) -> list[str]:
    """The windows that were asked for so far."""
    return [path for path, _, _ in store.seen if path == "/api/v1/series"]


def test_an_answer_that_is_not_the_apis_fails_whole(store: Store) -> None:
    source = made(store.url)
    bad = {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {"metric": {"__name__": "up", "job": "j"}, "values": [[1795962822.0, "1,5"]]}
            ],
        },
    }
    store.replies = [None, Reply(json.dumps(bad).encode())]
    with Door(access_to(source)) as door, pytest.raises(FetchFailed, match="must be a number"):
        collect_window(source, FIRST, door=door, by="ada", at=AFTER)
    assert not ReadingBlock.objects.exists()


def test_an_answer_of_another_time_alone_is_no_answer(store: Store) -> None:
    source = made(store.url)
    row = next(one for one in recorded() if one["values"][-1][0] > SECOND.start.timestamp())
    later = row | {"values": [v for v in row["values"] if v[0] >= SECOND.start.timestamp()]}
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [later]}}
    store.replies = [None, Reply(json.dumps(answer).encode())]
    found = collect_source(source, by="ada", at=AFTER, period=FIRST)
    assert found.incomplete_hours == {FIRST.start} and found.readings == 0
    assert (
        "asked for 2026-11-29T14:00:00Z to 2026-11-29T15:00:00Z, it answered with"
        in (found.warnings[0])
    )
    assert [row[1] for row in ledger()["fetches"]] == [False]
    assert not ReadingBlock.objects.exists()
    assert collect_source(source, by="ada", at=AFTER, period=FIRST).ok
    assert ReadingBlock.objects.exists()


def test_a_sample_from_just_before_the_window_alone_is_an_honest_answer(store: Store) -> None:
    """What a range of the older reading may bring of a series that ended with the hour before."""
    labels = {"__name__": "up", "job": "vllm", "instance": "a:1"}
    store.series = [{"metric": labels, "values": [[SECOND.start.timestamp() - 0.001, "1"]]}]
    listing = json.dumps({"status": "success", "data": [labels]}).encode()
    store.replies = [Reply(listing)]
    assert collect_source(made(store.url), by="ada", at=AFTER, period=SECOND).ok
    assert [row[1] for row in ledger()["fetches"]] == [True]


def test_a_list_without_series_where_some_were_is_told(store: Store) -> None:
    source, every = made(store.url), store.series
    assert collect_source(source, by="ada", at=AFTER, period=FIRST).ok
    store.series = [one for one in every if one["metric"]["__name__"] == "up"]
    assert collect_source(source, by="ada", at=AFTER, period=SECOND).ok
    (fetch,) = Fetch.objects.filter(window_start=SECOND.start)
    # All engines are gone and `up` is there: an honest answer, of which nothing is said.
    assert (fetch.complete, fetch.readings > 0, fetch.warnings) == (True, True, [])
    assert told_missing() == []

    store.series = []
    third = Period(SECOND.end, SECOND.end + timedelta(hours=1))
    later = third.end + timedelta(minutes=5)
    assert collect_source(source, by="ada", at=later, period=third).ok
    (last,) = Fetch.objects.filter(window_start=third.start)
    assert (last.complete, last.readings) == (True, 0)
    assert last.warnings == [f"the store named no series; it named {fetch.series:,} before this"]
    (said,) = told_missing()
    assert "1 hour missing (first 2026-11-29T16:00:00Z" in said
    # A store that never named any has nothing to miss.
    with replay([]) as empty:
        assert collect_source(made(empty.url, "new"), by="ada", at=AFTER, period=FIRST).ok
    assert Fetch.objects.get(source__name="new").warnings == []
    assert len(told_missing()) == 1


def told_missing() -> list[str]:
    week = Period(parse_instant("2026-11-23T00:00:00Z"), parse_instant("2026-11-30T00:00:00Z"))
    found = facts(week, week="2026-W48").notices
    return [one.text for one in found if one.kind == "hours-missing"]
