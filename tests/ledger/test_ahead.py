"""Answers that come ahead of whoever reads them: in order, bounded, and nobody waits for ever."""

from __future__ import annotations

import json
import sys
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.period import HOUR, Period
from finops.ledger import store
from finops.ledger.access import FetchFailed
from finops.ledger.ahead import Ahead, Closed, in_order
from finops.ledger.fetch import Door
from finops.ledger.listing import Listing
from finops.ledger.operations import collect
from finops.ledger.operations.collect import collect_source
from finops.ledger.operations.reading_ahead import ReadingAhead
from finops.ledger.operations.sources import add_source
from finops.ledger.store import Gathered
from finops.sources.records import SeriesReadings
from tests.ledger.stores import PROMETHEUS, from_samples, prometheus
from tests.ledger.test_backfill import A_STEP, START, at, series
from tests.ledger.totals import token_totals

PATIENCE_S = 20


@contextmanager
def beside(work: Any) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield thread
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 10))
@settings(deadline=None)
def test_all_come_in_order_and_what_waits_is_bounded(sizes: list[int], most: int) -> None:
    ahead, waiting, worst = Ahead(most), [0], [0]
    changing = threading.Lock()

    def put() -> None:
        for number, size in enumerate(sizes):
            ahead.put((number, size), size)
            with changing:
                waiting[0] += size
                worst[0] = max(worst[0], waiting[0])
        ahead.end()

    found = []
    with beside(put):
        for number, size in ahead:
            found.append((number, size))
            with changing:
                waiting[0] -= size
    assert found == list(enumerate(sizes))
    # The account of what waits is kept here a step after it changes there, on both sides.
    assert worst[0] <= most + 2 * max(sizes, default=0)


def test_a_failure_is_met_after_what_came_before_it() -> None:
    ahead = Ahead(10)
    ahead.put("one", 3)
    ahead.end(FetchFailed("gone"))
    coming = iter(ahead)
    assert next(coming) == "one"
    with pytest.raises(FetchFailed, match="gone"):
        next(coming)


def test_who_waits_for_room_is_let_go_of() -> None:
    ahead, met = Ahead(10), []
    ahead.put("large", 40)  # goes alone, however large

    def put() -> None:
        try:
            ahead.put("small", 1)
        except Closed:
            met.append("closed")

    with beside(put):
        ahead.close()
    assert met == ["closed"]
    with pytest.raises(Closed):
        next(iter(ahead))


def test_who_waits_for_an_answer_is_let_go_of() -> None:
    ahead, met = Ahead(10), []

    def take() -> None:
        try:
            next(iter(ahead))
        except Closed:
            met.append("closed")

    with beside(take):
        ahead.close()
    assert met == ["closed"]


# -- several at once ---------------------------------------------------------------------------------


@given(st.integers(0, 12), st.integers(1, 4), st.data())
@settings(deadline=None, max_examples=60)
def test_several_are_under_way_and_given_in_their_order(
    count: int, at_once: int, data: st.DataObject
) -> None:
    """Each waits until as many as may be asked with it have begun: so they are side by side."""
    fails = data.draw(st.none() | st.integers(0, max(0, count - 1)))
    changed, begun, under_way, worst = threading.Condition(), [], [0], [0]

    def ask(number: int) -> int:
        with changed:
            begun.append(number)
            under_way[0] += 1
            worst[0] = max(worst[0], under_way[0])
            changed.notify_all()
            if number < at_once:  # those after the first are begun as others are taken
                enough = min(at_once, count)
                assert changed.wait_for(lambda: len(begun) >= enough, PATIENCE_S)
            under_way[0] -= 1
        if number == fails:
            raise FetchFailed(f"{number} failed")
        return number

    found: list[int] = []
    coming = in_order([partial(ask, number) for number in range(count)], at_once)
    if fails is None or not count:
        found += coming
        assert found == list(range(count))
    else:
        with pytest.raises(FetchFailed, match=f"{fails} failed"):
            for one in coming:
                found.append(one)
        assert found == list(range(len(found))) and len(found) <= fails
        assert max(begun) < fails + at_once + 1
    assert worst[0] <= at_once
    assert worst[0] == min(at_once, count)


# -- windows -----------------------------------------------------------------------------------------


def hours(count: int) -> list[Period]:
    return [Period(START + n * HOUR, START + (n + 1) * HOUR) for n in range(count)]


def test_one_window_is_read_ahead_and_one_more_asked_for() -> None:
    wanted, asked, read = hours(5), [], []

    def ask(window: Period, answers: Ahead) -> None:
        asked.append(window)
        answers.put(window)
        answers.end()

    def gather(window: Period, answers: Ahead) -> Gathered:
        assert list(answers) == [window]
        read.append(window)
        return Gathered(notes=[str(window)])

    def until(told: Sequence[Period], expected: Sequence[Period]) -> None:
        pause = threading.Event()
        for _ in range(PATIENCE_S * 100):
            if len(told) >= len(expected):
                break
            pause.wait(0.01)
        assert list(told) == list(expected)

    turn = sys.getswitchinterval()
    for is_early, more in ((True, 3), (False, 2)):
        asked.clear()
        read.clear()
        with ReadingAhead(wanted, ask, gather, is_asked_early=is_early) as ahead:
            for number, window in enumerate(wanted):
                assert ahead.read(window).notes == [str(window)]
                until(read, wanted[: number + 2])
                until(asked, wanted[: number + more])
                assert sys.getswitchinterval() < turn
        assert sys.getswitchinterval() == turn


def test_a_run_that_is_given_up_leaves_no_thread_waiting() -> None:
    wanted = hours(3)

    def ask(window: Period, answers: Ahead) -> None:
        try:
            for _ in range(3):
                answers.put(b"", store.AHEAD_BYTES)
        except Closed:
            return
        answers.end()

    def gather(window: Period, answers: Ahead) -> Gathered:
        if window == wanted[1]:
            raise FetchFailed("gone")
        list(answers)
        return Gathered()

    def run() -> None:
        with (
            pytest.raises(FetchFailed, match="gone"),
            ReadingAhead(wanted, ask, gather, is_asked_early=True) as ahead,
        ):
            for window in wanted:
                ahead.read(window)

    with beside(run):
        pass


def test_a_run_that_fails_gives_up_what_is_being_asked() -> None:
    wanted, silent = hours(2), threading.Event()

    def ask(window: Period, answers: Ahead) -> None:
        if window == wanted[1]:
            assert silent.wait(PATIENCE_S)  # until nobody wants the answer
        answers.end()

    def gather(window: Period, answers: Ahead) -> Gathered:
        list(answers)
        return Gathered()

    def run() -> None:
        with (
            pytest.raises(ValueError, match="posting failed"),
            ReadingAhead(wanted, ask, gather, is_asked_early=True, give_up=silent.set) as ahead,
        ):
            ahead.read(wanted[0])
            raise ValueError("posting failed")

    with beside(run):
        pass
    assert silent.is_set()


@pytest.mark.django_db(databases=["default", "sample"])
@pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed")
def test_the_store_is_asked_for_two_windows_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a window waits to be posted, a real store has answered for the next two."""
    reads: list[bytes] = []
    come = threading.Condition()

    class Counting(Door):
        def remote_read_packed(self, request: bytes) -> bytes:
            found = super().remote_read_packed(request)
            with come:
                reads.append(request)
                come.notify_all()
            return found

    posted, seen = collect._post, []

    def post(*arguments: Any, **named: Any) -> Any:
        with come:
            come.wait_for(lambda: len(reads) >= min(5, len(seen) + 3), PATIENCE_S)
            seen.append(len(reads))
        return posted(*arguments, **named)

    monkeypatch.setattr(collect, "Door", Counting)
    monkeypatch.setattr(collect, "_post", post)
    period = Period(START, START + 5 * HOUR)
    with prometheus(tmp_path, from_samples(tmp_path, series(5))) as url:
        source = add_source("prom", url, by="ada", at=at(5))
        found = collect_source(source, by="ada", at=at(5), period=period)
    assert found.ok
    assert token_totals(period).prompt == A_STEP * (5 * 60 - 1)
    assert seen == [3, 4, 5, 5, 5]


# -- what a store says it has -------------------------------------------------------------------------


def named(*pods: str) -> list[SeriesReadings]:
    return [
        SeriesReadings("up", (("job", "vllm"), ("pod", pod)), array("q", [1]), array("d", [1.0]))
        for pod in pods
    ]


def listing(*pods: str) -> Listing:
    rows = [{"pod": pod, "__name__": "up", "job": "vllm"} for pod in pods]
    body = json.dumps({"status": "success", "data": rows}).encode()
    return Listing(body, rows, [], [])


def test_a_listing_knows_the_series_it_names_and_no_others() -> None:
    found = listing("a", "b", "c")
    assert found.knows(named("a"))
    assert found.knows(named("a", "b"))  # the rows were let go of: read from the bytes again
    assert not found.knows(named("a", "d"))
    assert not found.knows(named("d"))  # nor by being asked for once more
    assert found.knows(named("c", "a", "b"))


def test_a_listing_serves_again_for_the_same_answer_to_the_same() -> None:
    body = listing("a", "b", "c").body
    asked = {"base": "http://x", "matchers": (), "most": 2, "count": 1}
    found = store._read_listings(body, **asked)
    assert store._read_listings(bytes(bytearray(body)), **asked) is found
    assert store._read_listings(body + b" ", **asked) is not found
    for other in ({"most": 3}, {"count": 2}, {"matchers": ('job="vllm"',)}):
        again = store._read_listings(body, **asked | other)
        assert again is not found and again[0].warnings == []
    with pytest.raises(FetchFailed, match=r"http://y: .* no list of label sets"):
        store._read_listings(b'{"status":"success","data":[1]}', **asked | {"base": "http://y"})
