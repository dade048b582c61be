"""Sources of a store, as a person adds, tests, lists and stops them."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from finops.core.period import parse_instant
from finops.ledger.models import Source
from finops.ledger.operations.collect import collect_source
from finops.ledger.queries.sources import health
from tests.ledger.collecting import (
    AFTER,
    FIRST,
    made,
)
from tests.ledger.doors import command
from tests.ledger.stores import (
    Reply,
    Store,
    recorded,
    replay,
)

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("no_pauses"),
]


def test_what_a_store_is_is_asked_again_after_it_was_away(store: Store) -> None:
    with replay([]) as gone:
        source = made(gone.url)
    assert not collect_source(source, by="ada", at=AFTER, period=FIRST).ok
    assert source.probe == {}
    source.url = store.url
    assert collect_source(source, by="ada", at=AFTER, period=FIRST).ok
    assert source.probe["version"] == "replay"


def test_a_store_without_engines_says_so(store: Store) -> None:
    store.series = []
    result = collect_source(made(store.url), by="ada", at=AFTER)
    assert "no series of a known engine in the last 15 days" in result.warnings[0]


def test_a_source_that_fails_does_not_stop_the_others(store: Store) -> None:
    with replay([]) as gone:
        url = gone.url
    command("sources", "add", "a-gone", url)
    command("sources", "add", "b-here", store.url)
    answer = command("collect", "--from", "2026-11-29T14:00:00Z", "--to", "2026-11-29T16:00:00Z")
    gone_row, here = answer["sources"]
    assert answer["ok"] is False
    assert "connection refused" in gone_row["warnings"][0]
    assert here["readings"] > 0


def test_what_cannot_be_run_says_why() -> None:
    for arguments, words in (
        (["collect"], "There is no source to collect"),
        (["collect", "--source", "x"], "no Prometheus source named 'x'"),
        (["collect", "--url", "ftp://x"], "only http and https"),
        (["collect", "--url", "http://169.254.169.254/", "--to", "2026-11-29"], "Say --from"),
        (["collect", "--url", "http://169.254.169.254"], "no source was made: the address"),
        (["collect", "--url", "http://127.0.0.1:1"], "no source was made: .* refused"),
        (["sources", "add", "x", "http://h", "--secret", "SECRET_KEY"], "HEADROOM_SECRET_"),
        (["sources", "add", "x", "http://h", "--matchers", "job=vllm"], "cannot be read"),
        (["sources", "add", "x", "http://h", "--matchers", '__name__="up"'], "metrics are chosen"),
        (["sources", "add", "X!", "http://h"], "name is a-z"),
        (["sources", "stop", "x"], "no source named"),
        (["sources", "test", "x"], "no source named 'x'"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command(*arguments, stderr=StringIO())
    assert not Source.objects.exists()


def test_one_store_is_not_read_twice(store: Store) -> None:
    command("sources", "add", "one", store.url, "--matchers", 'job="chat-7b"')
    with pytest.raises(CommandError, match="would count twice"):
        call_command("sources", "add", "two", store.url + "/", stderr=StringIO())
    command("sources", "add", "three", store.url, "--matchers", 'job="code-3b"')
    with pytest.raises(CommandError, match="several sources read"):
        call_command("collect", "--url", store.url, stderr=StringIO())


def test_testing_a_source_tells_what_is_there(store: Store) -> None:
    now = datetime.now(UTC).timestamp()
    store.series = [
        row | {"values": [[now - 60, value] for _, value in row["values"][:1]]}
        for row in store.series
    ]
    answer = command("sources", "test", store.url)
    assert (answer["ok"], answer["version"], answer["problem"]) == (True, "replay", None)
    prompts = [r for r in recorded() if r["metric"]["__name__"] == "vllm:prompt_tokens_total"]
    assert sum(answer["jobs"].values()) >= len(prompts)
    assert list(answer["engines"]) == ["vllm"]
    store.series = []
    assert "no series of an engine" in command("sources", "test", store.url)["problem"]
    store.replies = [Reply(b"{}", 401)] * 2
    assert "status 401" in command("sources", "test", store.url)["problem"]


def test_sources_show_their_health(store: Store) -> None:
    command("sources", "add", "prom", store.url)
    assert command("sources")["sources"][0]["state"] == "never"
    collect_source(Source.objects.get(), by="ada", at=AFTER)
    [row] = health(parse_instant("2026-11-29T16:30:00Z"))
    assert (row["state"], row["reaches"], row["coverage"]) == (
        "fine", "2026-11-29T16:08:00Z", "1.0000",
    )  # fmt: skip
    assert row["lag_seconds"] == 22 * 60
    [row] = health(parse_instant("2026-11-30T02:00:00Z"))
    # Two of twelve hours, and eight minutes of a third: 2.1333 of 12, rounded down.
    assert (row["state"], row["coverage"]) == ("late", "0.1777")
    command("sources", "stop", "prom")
    assert command("sources")["sources"][0]["state"] == "idle"
