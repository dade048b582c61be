"""Hours that a store answered with nothing: a fleet that scaled to zero, or a store that was down."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from finops.core.period import Period, parse_instant
from finops.ledger.access import Access
from finops.ledger.fetch import Door
from finops.ledger.models import QuietHour, Source
from finops.ledger.operations import planning
from finops.ledger.operations.collect import collect_source
from finops.ledger.operations.sources import add_source
from finops.ledger.probe import probe
from finops.ledger.queries.answers import missing_hours
from finops.ledger.queries.facts import facts
from finops.ledger.queries.source_hours import source_hours
from finops.ledger.queries.sources import health
from tests.ledger.doors import command
from tests.ledger.stores import PROMETHEUS, from_samples, prometheus, replay

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here")

START = parse_instant("2026-11-16T00:00:00Z")
HOUR = timedelta(hours=1)
SIX = Period(START, START + 6 * HOUR)
ENGINE = {"job": "vllm", "instance": "llama-0:8000"}
NODE = {"job": "node", "instance": "n1:9100"}
WITNESS = '{__name__="up",instance="n1:9100",job="node"}'


def rows(labels: dict[str, str], minutes: Iterable[int], **metrics: int) -> list[dict[str, Any]]:
    """Series of one target, read each of the minutes: `up`, and counters that rise so much a minute."""
    times = [START.timestamp() + 60 * minute for minute in minutes]
    told = {"up": lambda t: 1} | {
        name: lambda t, rise=rise: int(rise * (t - START.timestamp()) / 60)
        for name, rise in metrics.items()
    }
    return [
        {"metric": {"__name__": name.replace("__", ":"), **labels},
         "values": [[t, str(value(t))] for t in times]}
        for name, value in told.items()
    ]  # fmt: skip


def fleet() -> list[dict[str, Any]]:
    """An engine that is scaled away for the third to the fifth hour. The store reads a node meanwhile,
    but is down for twenty minutes of the fourth hour and for all of the fifth."""
    away = range(120, 300)
    engine = [m for m in range(360) if m not in away]
    node = [m for m in range(360) if not 200 <= m < 220 and not 240 <= m < 300]
    return [*rows(ENGINE, engine, vllm__prompt_tokens_total=7), *rows(NODE, node)]


def collected(folder: Path) -> Source:
    with prometheus(folder, from_samples(folder, fleet())) as url:
        source = add_source("prod", url, by="Ada", at=START, matchers='job="vllm"')
        late = SIX.end + timedelta(minutes=5)
        assert collect_source(source, by="Ada", at=late, period=SIX).ok
    return source


@needs_prometheus
@pytest.mark.parametrize("hours_of_a_window", [1, 6])
def test_an_hour_in_which_there_was_nothing_to_read_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours_of_a_window: int
) -> None:
    if hours_of_a_window > 1:
        monkeypatch.setattr(planning, "LONG", HOUR)
        monkeypatch.setattr(planning, "hours_at_once", lambda series: hours_of_a_window)
    source = collected(tmp_path)
    assert source.fetches.count() == 6 // hours_of_a_window
    # Of the third hour the node tells, sixty times; of the fourth with a gap, of the fifth not at all.
    told = QuietHour.objects.order_by("start").values_list("start", "witness", "witness_readings")
    assert list(told) == [
        (START + 2 * HOUR, WITNESS, 60), (START + 3 * HOUR, "", 0), (START + 4 * HOUR, "", 0),
    ]  # fmt: skip
    week = Period(START, START + timedelta(days=7))
    assert list(missing_hours(week)) == [("prod", [START + 3 * HOUR, START + 4 * HOUR], [])]
    (said,) = [n.text for n in facts(week, week="2026-W47").notices if n.kind == "hours-missing"]
    assert "2 hours missing (first 2026-11-16T03:00:00Z, last 2026-11-16T04:00:00Z)" in said
    assert "no other target shows that it was at work" in said


@needs_prometheus
def test_the_map_tells_answered_with_nothing_from_read_and_from_not_read(tmp_path: Path) -> None:
    source = collected(tmp_path)
    hours = source_hours(Period(START, START + 7 * HOUR))["prod"]
    assert hours == ["whole", "whole", "empty", "empty", "empty", "whole", "unread"]
    (row,) = health(SIX.end)
    assert (row["empty_hours"], row["incomplete_hours"], row["coverage"]) == (3, 0, "1.0000")
    user = User.objects.create_user("Ada")
    user.groups.add(Group.objects.get_or_create(name="engineer")[0])
    client = Client()
    client.force_login(user)
    with_clock = reverse("source-hours", args=[source.name])
    third, fifth = (
        client.get(f"{with_clock}?at=2026-11-16T0{hour}:00:00Z").content.decode() for hour in (2, 4)
    )
    assert "the store was at work" in third and "n1:9100" in third and "60 times" in third
    assert "no other target shows that the store was at work" in fifth
    assert "answered: nothing there" in client.get(reverse("sources")).content.decode()
    assert command("sources")["sources"][0]["empty_hours"] == 0  # of the last seven days: none


def test_readings_that_came_later_make_an_hour_whole() -> None:
    with replay([]) as store:
        source = add_source("prod", store.url, by="Ada", at=START)
        one = Period(START, START + HOUR)
        late = one.end + timedelta(minutes=5)
        assert collect_source(source, by="Ada", at=late, period=one).ok
        assert source_hours(one) == {"prod": ["empty"]}
        store.series = rows(ENGINE, range(60), vllm__prompt_tokens_total=7)
        assert collect_source(source, by="Ada", at=late, period=one).ok
        assert source_hours(one) == {"prod": ["whole"]}
        # And what was there once stays read, when the store has lost it later.
        store.series = []
        assert collect_source(source, by="Ada", at=late, period=one).ok
        assert source_hours(one) == {"prod": ["whole"]}


def test_hours_before_the_first_reading_of_a_long_window_are_not_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that lists its series by the day is asked from midnight on."""
    monkeypatch.setattr(planning, "LONG", HOUR)
    with replay(rows(ENGINE, range(150, 240), vllm__prompt_tokens_total=7)) as store:
        source = add_source("prod", store.url, by="Ada", at=START)
        day = Period(START, START + timedelta(days=1))
        late = day.end + timedelta(minutes=5)
        assert collect_source(source, by="Ada", at=late, period=day).ok
    assert source.fetches.count() == 1
    (row,) = missing_hours(Period(START, START + timedelta(days=7)))
    # Nothing shows that it was at work after the last one, at 03:59; before 02:30 nothing was asked for.
    assert row == ("prod", [START + n * HOUR for n in range(4, 24)], [])


@needs_prometheus
@pytest.mark.parametrize(
    ("settings", "alone"),
    [
        ("scrape_configs: []\n", True),
        ("remote_read:\n- url: http://127.0.0.1:9/read\n", False),
        ("scrape_configs:\n- job_name: a\n  metrics_path: /federate\n", False),
    ],
)
def test_only_a_store_that_reads_every_target_itself_can_be_its_own_witness(
    tmp_path: Path, settings: str, alone: bool
) -> None:
    with (
        prometheus(tmp_path, from_samples(tmp_path, rows(NODE, range(9))), settings) as url,
        Door(Access(url)) as door,
    ):
        assert probe(door, START)["scrapes_alone"] is alone


def test_of_any_other_store_nobody_asks_for_a_witness() -> None:
    """Behind it the other target may have been read by somebody else."""
    with replay(rows(NODE, range(60))) as store:
        source = add_source("prod", store.url, by="Ada", at=START, matchers='job="vllm"')
        one = Period(START, START + HOUR)
        assert collect_source(source, by="Ada", at=one.end + HOUR, period=one).ok
        queries = [form for path, form, _ in store.seen if path == "/api/v1/query"]
    assert queries == []
    assert list(QuietHour.objects.values_list("witness", flat=True)) == [""]
    assert command("sources")["sources"][0]["coverage"] is not None
