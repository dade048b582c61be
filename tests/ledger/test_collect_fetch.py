"""Asking a store over real sockets: what is taken, tried again, refused, and never told."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time

import pytest

from finops.ledger.access import (
    Access,
    AddressRefused,
    FetchFailed,
    checked_secret_name,
    checked_url,
    refuse_address,
)
from finops.ledger.fetch import Door, Limits
from tests.ledger.stores import Reply, replay

QUICK = Limits(
    connect_seconds=2,
    read_seconds=1,
    total_seconds=5,
    answer_bytes=1 << 20,
    pause_seconds=0.01,
    longest_pause_seconds=0.2,
)
GOOD = {"status": "success", "data": []}


def ask(url: str, limits: Limits = QUICK, **access: str) -> object:
    with Door(Access(url, **access), limits) as door:
        return door.post("/api/v1/query", [("query", "up")])


def test_a_good_answer_is_asked_for_once_without_compression() -> None:
    with replay([]) as store:
        store.replies = [Reply(json.dumps(GOOD).encode())]
        assert ask(store.url) == GOOD
        [(path, form, head)] = store.seen
    assert (path, form) == ("/api/v1/query", {"query": ["up"]})
    assert head["Accept-Encoding"] == "identity"
    assert "Authorization" not in head


def test_compression_is_a_setting() -> None:
    with replay([]) as store:
        packed = gzip.compress(json.dumps(GOOD).encode())
        store.replies = [Reply(packed, headers={"Content-Encoding": "gzip"})]
        assert ask(store.url, accept_encoding="gzip") == GOOD
        assert store.seen[0][2]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_store_is_asked_again(status: int) -> None:
    with replay([]) as store:
        store.replies = [Reply(b"busy", status), Reply(json.dumps(GOOD).encode())]
        assert ask(store.url) == GOOD
        assert len(store.seen) == 2


def test_a_store_that_stays_busy_fails_with_its_own_words() -> None:
    words = json.dumps({"status": "error", "error": "query timed out"}).encode()
    with replay([]) as store:
        store.replies = [Reply(words, 503)] * 9
        with pytest.raises(FetchFailed, match=r"status 503: query timed out \(asked 4 times\)"):
            ask(store.url)
        assert len(store.seen) == 4


def test_retry_after_is_honoured_but_only_within_bounds() -> None:
    with replay([]) as store:
        store.replies = [
            Reply(b"", 429, {"Retry-After": "86400"}),
            Reply(json.dumps(GOOD).encode()),
        ]
        began = time.monotonic()
        assert ask(store.url) == GOOD
        assert 0.2 <= time.monotonic() - began < 2


def test_a_refused_query_is_not_asked_again() -> None:
    with replay([]) as store:
        store.replies = [Reply(b'{"status":"error","error":"parse error"}', 400)] * 2
        with pytest.raises(FetchFailed, match="status 400: parse error"):
            ask(store.url)
        assert len(store.seen) == 1


def test_a_connection_cut_in_the_answer_is_asked_again() -> None:
    with replay([]) as store:
        store.replies = [
            Reply(b'{"status":', headers={"Content-Length": "5000", "Connection": "close"})
        ] * 3
        store.replies.append(Reply(json.dumps(GOOD).encode()))
        assert ask(store.url) == GOOD
        assert len(store.seen) == 4


def test_a_store_that_does_not_answer_in_time_fails() -> None:
    with replay([]) as store:
        store.delay_seconds = 1.5
        with pytest.raises(FetchFailed, match=r"no answer in 0\.2 s"):
            ask(store.url, Limits(read_seconds=0.2, attempts=2, pause_seconds=0.01))


def test_nobody_waits_for_a_store_that_stays_silent_once_a_run_is_given_up() -> None:
    """Without an end of waiting of its own: the request is cut off, and not sent again."""
    failed: list[str] = []
    with replay([]) as store, Door(Access(store.url)) as door:
        store.delay_seconds = 120

        def wait() -> None:
            try:
                door.get("/api/v1/query")
            except FetchFailed as failure:
                failed.append(str(failure))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        while not store.seen:
            time.sleep(0.01)
        door.give_up()
        thread.join(20)
        assert not thread.is_alive() and "given up" in failed[0]
        with pytest.raises(FetchFailed, match="given up"):
            door.get("/api/v1/query")
        assert len(store.seen) == 1


def test_a_connection_that_comes_to_stand_as_a_run_is_given_up_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is given up between the moment the socket connects and the one it is known."""
    failed: list[str] = []
    with replay([]) as store, Door(Access(store.url)) as door:
        store.silences["/api/v1/query"] = [120]
        looked_at: list[str] = []

        def second_gives_up(address: str) -> None:
            looked_at.append(address)
            if len(looked_at) == 2:  # the address that the socket is connected to
                door.give_up()

        def wait() -> None:
            try:
                door.get("/api/v1/query")
            except FetchFailed as failure:
                failed.append(str(failure))

        monkeypatch.setattr("finops.ledger.connecting.refuse_address", second_gives_up)
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive() and "given up" in failed[0]
        assert store.seen == []


QUERY, SMALL = "/api/v1/query", "/api/v1/status/buildinfo"
IMPATIENT = Limits(silent_seconds=0.2, pause_seconds=0.01)


def test_a_store_that_is_silent_from_the_start_is_given_up() -> None:
    """Otherwise than by the clock of a whole answer, tried four times."""
    with replay([]) as store, Door(Access(store.url), IMPATIENT) as door:
        store.silences = {QUERY: [120], SMALL: [120]}
        for _ in range(2):  # what is asked of it afterwards does not wait again
            with pytest.raises(
                FetchFailed, match=r"no answer in 0\.2 s, nor to a small question in 0\.2 s"
            ):
                door.get(QUERY)
        assert [path for path, _, _ in store.seen] == [QUERY, SMALL]


def test_a_store_that_is_slow_and_answers_is_waited_for() -> None:
    """It answers the small question: the next time it has as long as any store."""
    with replay([]) as store, Door(Access(store.url), IMPATIENT) as door:
        store.silences = {QUERY: [120, 1]}
        store.replies = [None, Reply(json.dumps(GOOD).encode())]
        assert door.get(QUERY) == GOOD
        assert [path for path, _, _ in store.seen] == [QUERY, SMALL, QUERY]


def test_a_store_that_falls_silent_later_is_given_up() -> None:
    with replay([]) as store:
        limits = Limits(read_seconds=0.3, silent_seconds=0.2, pause_seconds=0.01)
        with Door(Access(store.url), limits) as door:
            assert door.get(SMALL)["status"] == "success"
            store.silences = {QUERY: [120], SMALL: [120]}
            with pytest.raises(FetchFailed, match=r"no answer in 0\.3 s, nor to a small question"):
                door.get(QUERY)
            assert [path for path, _, _ in store.seen] == [SMALL, QUERY, SMALL]


def test_an_answer_that_trickles_is_cut_off_by_the_clock() -> None:
    def trickle(stream: object) -> None:
        for _ in range(200):
            stream.write(b" ")
            stream.flush()
            time.sleep(0.05)

    with replay([]) as store:
        store.replies = [Reply(trickle, headers={"Connection": "close"})]
        began = time.monotonic()
        with pytest.raises(FetchFailed, match="took longer than 1 s"):
            ask(store.url, Limits(read_seconds=5, total_seconds=1, attempts=1))
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_cut_off_by_its_size(packed: bool) -> None:
    def flood(stream: object) -> None:
        block = gzip.compress(b" " * (1 << 22)) if packed else b" " * (1 << 16)
        for _ in range(1 if packed else 1000):
            stream.write(block)

    head = {"Connection": "close"} | ({"Content-Encoding": "gzip"} if packed else {})
    with replay([]) as store:
        store.replies = [Reply(flood, headers=head)]
        with pytest.raises(FetchFailed, match="more than 1048576 bytes"):
            ask(store.url)
        assert len(store.seen) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with replay([]) as store, replay([]) as other:
        place = f"{other.url}/latest/meta-data?token=abc"
        store.replies = [Reply(b"", status, {"Location": place})]
        with pytest.raises(FetchFailed, match="is not followed") as failure:
            ask(store.url)
        assert other.seen == []
    assert "meta-data" not in str(failure.value)


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"[1,", b"\xff\xfe"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with replay([]) as store:
        store.replies = [Reply(body)]
        with pytest.raises(FetchFailed, match="the answer is no JSON"):
            ask(store.url)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "224.0.0.1",
        "ff02::1", "0.0.0.0", "::", "100.100.100.200", "168.63.129.16", "240.0.0.1",
        "255.255.255.255", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    ],
)  # fmt: skip
def test_addresses_of_clouds_and_of_nobody_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        refuse_address(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "10.1.2.3", "192.168.0.9", "172.16.1.1", "fd12::1", "8.8.8.8", "::ffff:10.0.0.1"],
)  # fmt: skip
def test_addresses_where_stores_live_are_asked(address: str) -> None:
    refuse_address(address)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "2852039166", "0"]
)
def test_a_refused_address_is_never_connected_to(host: str) -> None:
    began = time.monotonic()
    with pytest.raises(AddressRefused):
        ask(f"http://{host}:80")
    assert time.monotonic() - began < 1


def test_the_address_that_answers_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that shows a harmless address first and another one when it is connected to."""
    seen: list[str] = []

    def second_is_refused(address: str) -> None:
        seen.append(address)
        if len(seen) == 2:
            raise AddressRefused("changed")

    monkeypatch.setattr("finops.ledger.connecting.refuse_address", second_is_refused)
    with replay([]) as store:
        with pytest.raises(AddressRefused, match="changed"):
            ask(store.url)
        assert store.seen == []
    assert seen == ["127.0.0.1", "127.0.0.1"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://host/x", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("prometheus:9090", "only http and https"),
        ("http://user:secret@host", "must not hold a user or password"),
        ("http://", "names no host"),
        ("http://host:99999", "no URL"),
        ("http://host/x?y=1", "base URL only"),
        ("http://host/x#y", "base URL only"),
        ("http://ho st", "names no host"),
        ("http://host/a b", "base URL only"),
    ],
)
def test_urls_that_are_not_asked(url: str, reason: str) -> None:
    with pytest.raises(FetchFailed, match=reason) as failure:
        checked_url(url)
    assert "secret" not in str(failure.value) or "HEADROOM_SECRET_" in str(failure.value)
    assert "user:secret" not in str(failure.value)


def test_a_url_may_hold_a_path_and_loses_its_closing_slash() -> None:
    assert checked_url(" https://mimir.example/prometheus/ ") == "https://mimir.example/prometheus"


def test_nobody_listens() -> None:
    with replay([]) as store:
        url = store.url
    with pytest.raises(FetchFailed, match="connection refused"):
        ask(url)


def test_a_name_that_is_not_known() -> None:
    with pytest.raises(FetchFailed, match="the host's name is not known"):
        ask("http://nowhere.invalid:9090", Limits(attempts=1))


def test_bearer_and_basic_authentication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_SECRET_STORE", "s3cr3t-value")
    with replay([]) as store:
        store.replies = [Reply(json.dumps(GOOD).encode())] * 2
        ask(store.url, secret_name="HEADROOM_SECRET_STORE")
        ask(store.url, secret_name="HEADROOM_SECRET_STORE", user="reader")
        heads = [head["Authorization"] for _, _, head in store.seen]
    pair = base64.b64encode(b"reader:s3cr3t-value").decode()
    assert heads == ["Bearer s3cr3t-value", f"Basic {pair}"]


def test_a_secret_is_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_SECRET_STORE", "s3cr3t-value")
    with replay([]) as store:
        for reply in (
            Reply(b'{"error":"bad token s3cr3t-value"}', 400),
            Reply(b"echo s3cr3t-value", 200),
            Reply(b"s3cr3t-value", 401),
        ):
            store.replies = [reply]
            with pytest.raises(FetchFailed) as failure:
                ask(store.url, secret_name="HEADROOM_SECRET_STORE")
            assert "s3cr3t-value" not in str(failure.value)


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "HEADROOM_SECRET_", "headroom_secret_a", "PATH"])  # fmt: skip
def test_only_variables_meant_for_stores_are_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "value")
    with pytest.raises(FetchFailed, match="must begin with HEADROOM_SECRET_"):
        checked_secret_name(name)
    with replay([]) as store:
        with pytest.raises(FetchFailed, match="must begin with HEADROOM_SECRET_"):
            ask(store.url, secret_name=name)
        assert store.seen == []


def test_a_secret_that_is_not_set_is_named() -> None:
    with pytest.raises(FetchFailed, match="HEADROOM_SECRET_ABSENT is not set"):
        ask("http://127.0.0.1:9", secret_name="HEADROOM_SECRET_ABSENT")
