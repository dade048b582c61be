"""Remote read of a real Prometheus gives what its query API gives, or is not used."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from finops.ledger.access import Access, FetchFailed
from finops.ledger.fetch import Door, Limits
from finops.ledger.operations.collect import collect_source
from finops.ledger.operations.sources import add_source
from finops.ledger.probe import probe
from finops.ledger.store import Gathered, gather
from finops.sources.samples import encode
from tests.ledger.collecting import (
    AFTER,
    FIRST,
    GENERATION_TOKENS,
    PROMPT_TOKENS,
    RECORDING,
    SECOND,
)
from tests.ledger.stores import PROMETHEUS, Reply, from_samples, prometheus, recorded, replay
from tests.ledger.totals import token_totals
from tests.sources.test_remote_read import answered
from tests.sources.test_remote_read import series as written

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed"),
]
EXTERNAL = "global: {external_labels: {seen_by: blue}}\nscrape_configs: []\n"


class Counting(Door):
    """A door that counts what it is asked."""

    def _once(self, method: str, path: str, *more: Any) -> Any:
        self.__dict__.setdefault("paths", []).append(path)
        return super()._once(method, path, *more)


def both(url: str, matchers: tuple[str, ...] = ()) -> tuple[Gathered, Gathered, list[str]]:
    """The first hour by the query API and by remote read, and the paths asked for the latter."""
    with Door(Access(url)) as door:
        plain = gather(door, matchers, FIRST)
    with Counting(Access(url, remote_read=True)) as door:
        read = gather(door, matchers, FIRST)
    return plain, read, door.paths  # type: ignore[attr-defined]


def test_the_document_is_the_same_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with prometheus(tmp_path, from_samples(tmp_path)) as url:
        for matchers, most in (((), 2000), (('namespace=~"llm-.+"', 'pod!="a\\"b\\\\c\\n"'), 3)):
            monkeypatch.setattr("finops.ledger.store.MAX_SERIES_HOURS_A_QUERY", most)
            plain, read, paths = both(url, matchers)
            assert plain.readings > 1000
            assert encode(read.series) == encode(plain.series)
            assert "/api/v1/read" in paths and "/api/v1/query" not in paths


def test_two_reads_are_asked_side_by_side_and_no_third(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first read is let go on only when a second one has come to the store, too."""
    changed, under_way, worst = threading.Condition(), [0], [0]

    class SideBySide(Counting):
        def _once(self, method: str, path: str, *more: Any) -> Any:
            with changed:
                under_way[0] += 1
                worst[0] = max(worst[0], under_way[0])
                changed.notify_all()
                if path == "/api/v1/read":
                    assert changed.wait_for(lambda: worst[0] > 1, 20)
            try:
                return super()._once(method, path, *more)
            finally:
                with changed:
                    under_way[0] -= 1

    monkeypatch.setattr("finops.ledger.store.MAX_SERIES_HOURS_A_QUERY", 3)
    with prometheus(tmp_path, from_samples(tmp_path)) as url:
        plain, _, _ = both(url)
        with SideBySide(Access(url, remote_read=True)) as door:
            read = gather(door, (), FIRST)
    assert encode(read.series) == encode(plain.series)
    assert door.paths.count("/api/v1/read") > 3 and worst == [2]  # type: ignore[attr-defined]


def test_a_prometheus_is_read_remotely_and_every_token_counted(tmp_path: Path) -> None:
    with prometheus(tmp_path, from_samples(tmp_path)) as url:
        source = add_source("prom", url, by="ada", at=AFTER)
        assert collect_source(source, by="ada", at=AFTER, period=RECORDING).ok
    assert source.probe["remote_read"] is True
    totals = token_totals(RECORDING)
    assert (totals.prompt, totals.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)


def test_labels_that_prometheus_adds_do_not_rename_series(tmp_path: Path) -> None:
    """External labels stand in the answer of a remote read and not in that of the query API."""
    with prometheus(tmp_path, from_samples(tmp_path), EXTERNAL) as url:
        with Door(Access(url)) as door:
            assert probe(door, AFTER)["remote_read"] is False
        plain, read, paths = both(url)  # even where nobody has looked
        assert encode(read.series) == encode(plain.series)
        assert paths.count("/api/v1/read") >= 1 and "/api/v1/query" in paths


def test_an_escape_only_the_store_knows_is_asked_by_queries(tmp_path: Path) -> None:
    with prometheus(tmp_path, from_samples(tmp_path)) as url:
        plain, read, paths = both(url, ('namespace=~"\\x6clm.*"',))
    assert "/api/v1/read" not in paths
    assert encode(read.series) == encode(plain.series)


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 404), (b"not snappy", 200), (b"\x05\x10abcde", 200), (b"\x00", 200)]
)
def test_where_remote_read_fails_queries_are_asked(body: bytes, status: int) -> None:
    with replay() as store:
        with Door(Access(store.url)) as door:
            plain = gather(door, (), FIRST)
        store.replies = [None, Reply(body, status)]
        with Door(Access(store.url, remote_read=True), Limits(attempts=1)) as door:
            read = gather(door, (), FIRST)
    assert [path for path, _, _ in store.seen].count("/api/v1/read") == 1
    assert encode(read.series) == encode(plain.series)


@pytest.mark.parametrize(("status", "tried"), [(404, 1), (503, 2)])
def test_a_remote_read_that_fails_is_not_tried_again_with_each_window(
    status: int, tried: int
) -> None:
    hours = [FIRST, SECOND, FIRST]
    with replay() as store:
        with Door(Access(store.url)) as door:
            plain = [encode(gather(door, (), hour).series) for hour in hours]
        store.replies = [None, *[Reply(b"", status)] * tried]
        store.seen.clear()
        limits = Limits(pause_seconds=0.01)
        with Door(Access(store.url, remote_read=True), limits) as door:
            read = [encode(gather(door, (), hour).series) for hour in hours]
        assert [path for path, _, _ in store.seen].count("/api/v1/read") == tried
    assert read == plain


def test_samples_beyond_the_window_are_left_out_as_of_queries() -> None:
    """A store may answer by the block; the other hour's samples come with the other window."""
    import cramjam

    with replay() as store:
        with Door(Access(store.url)) as door:
            plain = gather(door, (), FIRST)
        named = {one.metric: set[tuple[tuple[str, str], ...]]() for one in plain.series}
        for one in plain.series:
            named[one.metric].add(one.labels)
        both_hours = [
            written(row["metric"], [(round(at * 1000), float(v)) for at, v in row["values"]])
            for row in recorded()
            if apart(row["metric"]) in named.get(row["metric"]["__name__"], set())
        ]
        replies = [answered(*both_hours), *[answered()] * 9]  # a metric or more in each request
        store.replies = [None, *(Reply(bytes(cramjam.snappy.compress_raw(r))) for r in replies)]
        store.seen.clear()
        with Door(Access(store.url, remote_read=True), Limits(attempts=1)) as door:
            read = gather(door, (), FIRST)
    assert "/api/v1/query" not in [path for path, _, _ in store.seen]
    assert len(both_hours) == len(plain.series) > 50
    assert encode(read.series) == encode(plain.series)


def apart(metric: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text) for name, text in metric.items() if name != "__name__"))


def test_an_answer_too_large_once_unpacked_is_refused() -> None:
    import cramjam

    body = bytes(cramjam.snappy.compress_raw(b"\0" * 5_000_000))
    with replay() as store:
        store.replies = [Reply(body)]
        limits = Limits(attempts=1, answer_bytes=1_000_000)
        with Door(Access(store.url), limits) as door, pytest.raises(FetchFailed, match="too many"):
            door.remote_read(b"")


def test_answers_unpacked_in_one_place_are_those_unpacked_apart() -> None:
    import cramjam

    place = bytearray()
    with Door(Access("http://127.0.0.1:9")) as door:
        for length in (10, 5_000, 300, 0, 70_000, 69_999, 70_000):
            whole = bytes(n * length % 251 for n in range(length))
            packed = bytes(cramjam.snappy.compress_raw(whole))
            assert door.unpacked(packed, place) == whole == door.unpacked(packed)
        for bad in (b"not snappy", packed[:-1], packed + b"x", b""):
            with pytest.raises(FetchFailed, match="no snappy"):
                door.unpacked(bad, place)
