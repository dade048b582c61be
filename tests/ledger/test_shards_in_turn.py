"""A long way back of a large source, read shard after shard by one run: the whole, and nothing cut
apart that is counted together (method §2, §4, §8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, transaction
from hypothesis import given
from hypothesis import strategies as st

from finops.core.period import HOUR, Period
from finops.core.statement import statement
from finops.ledger.fetch import Door
from finops.ledger.models import Fetch, FetchedPart, QuietHour, Series, Source
from finops.ledger.operations import planning
from finops.ledger.operations.at_hand import AtHand
from finops.ledger.operations.collect import Collected, collect_source, collect_window
from finops.ledger.operations.columns import read_columns
from finops.ledger.operations.planning import (
    MAX_SERIES_HOURS,
    Piece,
    hours_at_once,
    shards_at_once,
    shared_out,
    windows,
)
from finops.ledger.operations.sources import access_to, add_source
from finops.ledger.operations.standings import Standings
from finops.ledger.queries.facts import facts
from finops.ledger.queries.sources import health, is_complete, unfinished_windows
from finops.sources.shards import Shard, shards
from tests.ledger.doors import command
from tests.ledger.fleet import PERIOD, START, Shown, counter, level
from tests.ledger.stores import PROMETHEUS, Reply, from_samples, prometheus, replay
from tests.ledger.test_nodes import ENGINE, node, request
from tests.ledger.totals import token_totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

AFTER = PERIOD.end + timedelta(minutes=10)
HOURS_OF_A_WINDOW = 3
STEP_S = 60


def rows_of(series: list[Shown], hours: int = 6) -> list[dict[str, Any]]:
    """Series as a store has them, minute by minute, each target at seconds of its own; counters rise
    every ten minutes."""
    found = []
    for one in series:
        late = sum(one.labels.get("instance", "").encode()) % 50
        times = [START.timestamp() + late + STEP_S * n for n in range(hours * 60)]
        values = [[t, str(one.value(n // 10))] for n, t in enumerate(times)]
        found.append({"metric": {"__name__": one.metric, **one.labels}, "values": values})
    return found


def engine(number: int, *, pod: str = "", **labels: str) -> list[Shown]:
    """A vLLM engine with its KV cache, which started an hour before the period."""
    target = ENGINE | {"instance": f"10.0.0.{number}:8000", "pod": pod or f"llama-{number}"}
    target |= {"namespace": "llm"} | labels
    bare = {name: value for name, value in target.items() if name not in ("model_name", "engine")}
    pool = {"block_size": "16", "num_gpu_blocks": "1001", "engine": "0"}
    return [
        counter("vllm:prompt_tokens_total", 600 + number, **target),
        counter("vllm:generation_tokens_total", 60 + number, **target),
        level("process_start_time_seconds", START.timestamp() - 3600, **bare),
        level("up", 1, **bare),
        Shown("vllm:kv_cache_usage_perc", target, lambda step: (step + number) % 10 / 10),
        level("vllm:num_requests_running", 4, **target),
        level("vllm:cache_config_info", 1, **bare, **pool),
    ]


def device(number: int, on: str, **labels: str) -> list[Shown]:
    """A GPU as the exporter of its node tells it, with the pod that holds it."""
    told = {"job": "dcgm", "instance": f"{on}:9400", "gpu": str(number), "UUID": f"GPU-{number}"}
    told |= {"namespace": "llm", "pod": f"llama-{number}"} | labels
    return [
        Shown("DCGM_FI_DEV_FB_USED", told, lambda step: 70_000 + step),
        level("DCGM_FI_DEV_FB_FREE", 9_000, **told),
    ]


def restarted(number: int) -> list[Shown]:
    """An engine that another incarnation replaces at its address in the middle of the period."""
    target = ENGINE | {"instance": f"10.0.0.{number}:8000", "pod": "again", "namespace": "llm"}
    born = START.timestamp()
    return [
        Shown("vllm:prompt_tokens_total", target,
              lambda step: 5000 + 10 * step if step < 18 else 7 * (step - 18)),
        Shown("process_start_time_seconds", target,
              lambda step: born - 3600 if step < 18 else born + 180 * 60),
    ]  # fmt: skip


CLUSTER = [
    *(shown for number in range(1, 7) for shown in engine(number)),
    *(shown for number in range(1, 7) for shown in device(number, f"node-{number % 2}")),
    # Two replicas of a Prometheus read one engine; two jobs another; a third has two addresses.
    *engine(7, prometheus_replica="a"), *engine(7, prometheus_replica="b"),
    *engine(8), *engine(8, job="pods"),
    *engine(9), *engine(19, pod="llama-9"),
    # Two incarnations at one address, and a GPU that two pods share.
    *restarted(10),
    *device(11, "node-1"), *device(11, "node-1", pod="llama-1"),
    *node("n1", "aws:///eu-west-1a/i-a", 8),
    *(request(1, "llm", f"llama-{number}") for number in range(1, 7)),
    request(1, "train", "tune-0"),
]  # fmt: skip


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six hours are a long way back, and few series too many for memory."""
    monkeypatch.setattr(planning, "LONG", 3 * HOUR)
    monkeypatch.setattr(planning, "HOURS_OF_SHARDS", HOURS_OF_A_WINDOW)
    monkeypatch.setattr(planning, "MAX_SERIES_HOURS", 30)
    monkeypatch.setattr(planning, "MAX_SERIES_HOURS_OF_A_SHARD", 100)


def made(url: str) -> Source:
    return add_source("prom", url, by="ada", at=AFTER)


def collected(source: Source, **more: Any) -> Collected:
    return collect_source(source, by="ada", at=AFTER, period=PERIOD, **more)


def posted() -> list[tuple[datetime, int, int]]:
    """The shards that were posted, in their order."""
    rows = FetchedPart.objects.order_by("pk")
    return list(rows.values_list("window_start", "part", "parts"))


@pytest.fixture
def went_on(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """How many targets' gauges and how many counters each posting had at hand."""
    found: dict[str, list[int]] = {"gauges": [], "counters": []}
    ready, before = AtHand.ready, Standings.before

    def of_gauges(self: AtHand, since: Any) -> Any:
        told = ready(self, since)
        found["gauges"].append(sum(map(len, told.values())))
        return told

    def of_counters(self: Standings, first_hour_ms: int, wanted: Any) -> Any:
        told = before(self, first_hour_ms, wanted)
        found["counters"].append(len(told))
        return told

    monkeypatch.setattr(AtHand, "ready", of_gauges)
    monkeypatch.setattr(Standings, "before", of_counters)
    return found


# -- the whole --------------------------------------------------------------------------------------


TABLES = {
    "ledger_tokenhour": "series", "ledger_cachehour": "series", "ledger_gpuhour": "series",
    "ledger_devicehour": "target",
}  # fmt: skip
LEFT_OUT = ("id", "series_id", "target_id", "posted_at", "document_id", "revision")


def everything() -> dict[str, list[str]]:
    """The newest rows of every table that readings are derived into, and the readings themselves,
    without numbers that a row happens to have."""
    found = {}
    for table, owner in TABLES.items():
        named = (
            "s.metric || s.labels_digest || t.job || t.instance"
            if owner == "series"
            else "t.job || t.instance || r.device"
        )
        join = "JOIN ledger_series s ON s.id = r.series_id" if owner == "series" else ""
        target = "s.target_id" if owner == "series" else "r.target_id"
        key = "r.series_id" if owner == "series" else "r.target_id, r.device"
        distinct = f"{key}, r.hour"
        with connections["default"].cursor() as cursor:
            cursor.execute(
                f"SELECT DISTINCT ON ({distinct}) {named}, (to_jsonb(r) - %s::text[])::text"
                f" FROM {table} r {join} JOIN ledger_target t ON t.id = {target}"
                f" ORDER BY {distinct}, -r.revision",
                [list(LEFT_OUT)],
            )
            found[table] = sorted(f"{who}: {what}" for who, what in cursor.fetchall())
    found["readings"] = sorted(
        f"{one.metric}{one.labels_digest}{one.target}: {replica} {columns}"
        for one in Series.objects.select_related("target")
        for replica, columns in read_columns(one, 0).items()
    )
    return found


def told(url: str) -> tuple[dict[str, Any], dict[str, list[str]], list[Any]]:
    """The statement, the rows and the shards of the cluster collected into an empty ledger, which is
    empty again afterwards."""
    with transaction.atomic(), transaction.atomic("sample"):
        command("workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada")
        command("rule", "add", "llama", "--series", "model_name=llama", "--by", "Ada")
        result = collected(made(url))
        assert result.ok, result.warnings
        value = statement(facts(PERIOD, week="2026-W47"))
        found = value, everything(), posted()
        transaction.set_rollback(True)
    return found


def differing(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Where two statements differ, the documents apart that the readings came in; what is named
    alike, as an engine at two addresses, stands in the order in which the ledger met it."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differing(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pair = (sorted(some, key=partial(json.dumps, sort_keys=True)) for some in (one, other))
        for number, (mine, others) in enumerate(zip(*pair, strict=True)):
            yield from differing(mine, others, f"{where}.{number}")
    elif one != other and where != ".control_totals.documents":
        yield f"{where}: {one} and {other}"


@pytest.mark.skipif(PROMETHEUS is None, reason="needs prometheus and promtool")
def test_nothing_that_is_counted_together_is_cut_apart(
    tmp_path: Path, went_on: dict[str, list[int]], request: pytest.FixtureRequest
) -> None:
    """Replicas, two jobs on a target, an engine at two addresses, incarnations at one, GPUs and the
    pods on them, shared ones too, nodes and what pods asked for: whole or in shards, all the same."""
    with prometheus(tmp_path, from_samples(tmp_path, rows_of(CLUSTER))) as url:
        whole, rows, none = told(url)
        assert none == []
        assert all(rows.values())
        for seen in went_on.values():
            seen.clear()
        request.getfixturevalue("narrow")
        in_shards, its_rows, pieces = told(url)
    # After the first hour, which is read whole.
    first, second = PERIOD.start + HOUR, PERIOD.start + HOURS_OF_A_WINDOW * HOUR
    few, many = pieces[0][2], pieces[-1][2]
    assert many > few > 1
    assert pieces == [
        *((first, number, few) for number in range(1, few + 1)),
        *((second, number, many) for number in range(1, many + 1)),
    ]
    assert its_rows == rows
    assert list(differing(in_shards, whole)) == []
    kinds = {one["kind"] for one in whole["exceptions"]}
    assert "duplicate-series" in kinds
    # What was posted before each shard is at hand, in however many shards it came.
    counters, gauges = went_on["counters"], went_on["gauges"]
    assert counters[0] == 0 < sum(counters[1 : 1 + few])
    assert sum(counters[1 : 1 + few]) == sum(counters[1 + few :])
    assert 0 < sum(gauges[1 : 1 + few]) == sum(gauges[1 + few :])


# -- one shard after the other ------------------------------------------------------------------------


ENGINES = [shown for number in range(1, 13) for shown in engine(number)]
INSTANCES = {f"10.0.0.{number}:8000" for number in range(1, 13)}


def plain(queries: list[str]) -> list[str]:
    """Queries without the signs by which a pattern takes a point for a point."""
    return [query.replace("\\", "") for query in queries]


def test_shards_come_in_turn_the_older_window_first(narrow: None) -> None:
    said: list[str] = []
    with replay(rows_of(ENGINES)) as store:
        result = collected(made(store.url), progress=said.append)
        asked = [form for path, form, _ in store.seen if path == "/api/v1/series"]
    assert result.ok
    assert (len(result.hours), result.readings) == (6, len(ENGINES) * 6 * 60)
    assert len(result.series) == len(ENGINES)
    # The first hour whole, then 84 series over two and three hours, of which a shard may hold 100.
    first, second = PERIOD.start + HOUR, PERIOD.start + 3 * HOUR
    assert posted() == [(first, 1, 2), (first, 2, 2), *((second, n, 3) for n in (1, 2, 3))]
    assert said[:2] == [
        "prom: 2026-11-16T00:00:00Z (1 of 6)",
        "prom: 2026-11-16T01:00:00Z shard 1 of 2 (2 of 6)",
    ]
    spans = Fetch.objects.order_by("pk").values_list("window_start", "complete", "readings")
    assert list(spans) == [
        (start, True, len(ENGINES) * hours * 60)
        for start, hours in ((PERIOD.start, 1), (first, 2), (second, 3))
    ]
    # To plan, and once for all shards of a window.
    assert len(asked) == 4
    booked = sum(35 * (600 + number) for number in range(1, 13))
    assert token_totals(PERIOD).prompt == booked


def test_what_was_cut_off_between_shards_goes_on_there(narrow: None) -> None:
    with replay(rows_of(ENGINES)) as store:
        source = made(store.url)
        queries = iter(range(1, 1000))
        answered = Reply(b'{"error":"out of order"}', 422)

        class Failing(list[Reply | None]):
            """The second window's second shard is not answered."""

            def __bool__(self) -> bool:
                return True

            def pop(self, *_: Any) -> Reply | None:  # type: ignore[override]
                path, form, _head = store.seen[-1]
                is_second = (
                    path.endswith("/query")
                    and float(form["time"][0]) > (PERIOD.start + 4 * HOUR).timestamp()
                )
                return answered if is_second and next(queries) > 1 else None

        store.replies = Failing()
        first = collect_source(source, by="ada", at=AFTER, period=PERIOD)
        assert "422" in first.warnings[0]
        assert len(first.hours) == len(first.incomplete_hours) == 3
        before = posted()
        assert {start for start, _, _ in before} >= {PERIOD.start + HOUR}
        assert not is_complete(source, Period(PERIOD.start + 3 * HOUR, PERIOD.end))
        (row,) = health(AFTER)
        assert (row["state"], row["backlog_hours"]) == ("failing", 3)
        store.replies = []
        seen = len(store.seen)
        # Without a period: what is missing, to the minute.
        again = collect_source(source, by="ada", at=PERIOD.end + timedelta(minutes=2))
        assert again.ok
        started = [
            float(form["start"][0]) for path, form, _ in store.seen[seen:] if "series" in path
        ]
        assert min(started) >= (PERIOD.start + 3 * HOUR).timestamp()
    assert is_complete(source, PERIOD)
    booked = sum(35 * (600 + number) for number in range(1, 13))
    assert token_totals(PERIOD).prompt == booked


def test_shards_that_were_posted_before_are_not_asked_for_again(narrow: None) -> None:
    window = Period(PERIOD.start, PERIOD.start + 6 * HOUR)
    with replay(rows_of(ENGINES)) as store:
        source = made(store.url)
        first, second, third = shards(3)
        half = Period(window.start, window.start + 3 * HOUR)
        with Door(access_to(source)) as door:
            for shard in (second, first):
                collect_window(source, half, door=door, by="ada", at=AFTER, shard=shard)
        Fetch.objects.create(source=source, window_start=window.start - HOUR,
                             window_end=window.start, at=AFTER, complete=True,
                             document=FetchedPart.objects.first().document, series=1,
                             readings=1)  # fmt: skip
        seen = len(store.seen)
        result = collect_source(source, by="ada", at=window.end + timedelta(minutes=2))
        assert result.ok
        asked = [form for path, form, _ in store.seen[seen:] if path.endswith("/query")]
    of_half = [f["query"][0] for f in asked if float(f["time"][0]) < half.end.timestamp()]
    names = {name for name in INSTANCES if any(name in query for query in plain(of_half))}
    assert names == {name for name in INSTANCES if third.holds(name)}
    assert posted()[2:] == [(half.start, 3, 3), *((half.end, number, 3) for number in (1, 2, 3))]


def test_an_hour_without_readings_in_any_shard_is_quiet(narrow: None) -> None:
    """In the fifth hour the store holds nothing, in the fourth only one engine's readings."""
    rows = rows_of(ENGINES)
    quiet = Period(PERIOD.start + 4 * HOUR, PERIOD.start + 5 * HOUR)
    for row in rows:
        alone = row["metric"]["instance"] == "10.0.0.1:8000"
        since = quiet.start if alone else quiet.start - HOUR
        row["values"] = [
            (at, value)
            for at, value in row["values"]
            if not since.timestamp() <= at < quiet.end.timestamp()
        ]
    with replay(rows) as store:
        assert collected(made(store.url)).ok
    assert [start for start, _, _ in posted()].count(PERIOD.start + 3 * HOUR) == 3
    assert list(QuietHour.objects.values_list("start", "end")) == [(quiet.start, quiet.end)]


# -- what is there otherwise --------------------------------------------------------------------------


def test_a_window_that_was_fetched_in_other_windows_is_not_unfinished(narrow: None) -> None:
    """A run of shards was cut off, and the hours were read one by one instead."""
    with replay(rows_of(ENGINES, hours=3)) as store:
        source = made(store.url)
        window = Period(PERIOD.start, PERIOD.start + 3 * HOUR)
        with Door(access_to(source)) as door:
            collect_window(source, window, door=door, by="ada", at=AFTER, shard=Shard(1, 3))
            left = [(source.pk, window.start, window.end)]
            for hour in windows(window):
                assert unfinished_windows(AFTER) == left
                later = AFTER + timedelta(hours=1)
                collect_window(source, hour, door=door, by="ada", at=later)
    assert unfinished_windows(AFTER) == left  # as it was known then
    assert unfinished_windows(AFTER + timedelta(hours=1)) == []
    assert unfinished_windows(AFTER + timedelta(hours=1), source.pk) == []


def test_workers_take_the_shards_of_a_long_way_back_as_they_are(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(planning, "SPLIT_FROM", 10)
    settings.COLLECT_SHARDS = 2
    hour, long = Period(PERIOD.start, PERIOD.start + HOUR), Period(PERIOD.start + HOUR, PERIOD.end)
    planned = [Piece(hour), *(Piece(long, shard) for shard in shards(3))]
    with replay(rows_of(ENGINES)) as store:
        source = made(store.url)
        with Door(access_to(source)) as door:
            found = shared_out(source, door, planned)
    assert found == [Piece(hour, Shard(1, 2)), Piece(hour, Shard(2, 2)), *planned[1:]]


# -- how narrow, how long -----------------------------------------------------------------------------


@given(series=st.integers(0, 110_000), hours=st.integers(12, 100))
def test_a_piece_is_no_more_than_memory_likes(series: int, hours: int) -> None:
    period = Period(START, START + hours * HOUR)
    for window in windows(period, hours=hours_at_once(series)):
        length = (window.end - window.start) // HOUR
        count = shards_at_once(series, window)
        assert series * length <= count * MAX_SERIES_HOURS
        assert count == 1 or series * length > MAX_SERIES_HOURS


@pytest.mark.parametrize(
    ("series", "hours", "count"),
    [
        (1_250, 24, 1),
        (2_500, 12, 1),
        (5_000, 6, 1),
        (5_001, 12, 4),
        (11_000, 12, 8),
        (14_000, 12, 12),
    ],
)
def test_few_hours_become_half_a_day_in_shards(series: int, hours: int, count: int) -> None:
    assert hours_at_once(series) == hours
    assert shards_at_once(series, Period(START, START + hours * HOUR)) == count


def test_single_hours_are_read_whole() -> None:
    for series in (0, 11_000, 30_000):
        assert shards_at_once(series, Period(START, START + HOUR)) == 1
    assert shards_at_once(30_001, Period(START, START + HOUR)) == 2


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    assert not Source.objects.exists()
    yield
