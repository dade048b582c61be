"""Sources, single hours, ledger rows and GPU time as an engineer opens them in a browser."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from finops.core.canonical import canonical_bytes, digest
from finops.core.period import Period
from finops.core.statement import statement
from finops.ledger.models import Document, Fetch, Series, Source, TokenHour
from finops.ledger.queries.answers import missing_hours
from finops.ledger.queries.explain import explain
from finops.ledger.queries.facts import facts
from finops.ledger.queries.source_hours import source_events
from reports.models import Report
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import PERIOD, START, Shown, openmetrics, take_in
from tests.ledger.test_nodes import ENGINE, FLEET, invoice
from tests.ledger.test_token_ledger_laws import a_source, few, fleet, post, series_of

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

HOUR = timedelta(hours=1)
# Restarted in the third hour, and not read between steps 24 and 30 (an hour and ten minutes).
RESTARTED = Shown("vllm:prompt_tokens_total", ENGINE, lambda s: 1000 + s if s < 14 else s)


@pytest.fixture
def engineer() -> Client:
    user = User.objects.create_user("Ada")
    user.groups.add(Group.objects.get_or_create(name="engineer")[0])
    client = Client()
    client.force_login(user)
    return client


def disturbed(folder: Path) -> None:
    up = Shown("up", {"job": "vllm", "instance": "10.0.0.1:8000"}, lambda s: 1)
    steps = [s for s in range(-6, 40) if not 24 <= s < 30]
    (folder / "f.om").write_text(openmetrics([up, RESTARTED], steps))
    ingested(folder / "f.om")


def test_restarts_and_gaps_stand_in_the_hour_that_shows_them(tmp_path: Path) -> None:
    disturbed(tmp_path)
    (mine,) = source_events(PERIOD).values()
    told = {at: (one.restarts, one.gaps) for at, one in mine.items()}
    assert told == {START + 2 * HOUR: (1, 0), START + 5 * HOUR: (0, 1)}


def test_an_engineer_walks_from_the_map_to_the_readings(tmp_path: Path, engineer: Client) -> None:
    disturbed(tmp_path)
    listing = engineer.get(reverse("sources")).content.decode()
    name = Source.objects.get().name
    address = f"{reverse('source-hours', args=[name])}?at=2026-11-16T02:00:00Z"
    assert address in listing and "1 restart" in listing

    hour = engineer.get(address).content.decode()
    series = Series.objects.get(metric="vllm:prompt_tokens_total")
    row = reverse("ledger-row", args=[series.pk, "2026-11-16T02:00:00Z"])
    assert row in hour
    page = engineer.get(row).content.decode()
    # Steps 12 and 13 show 1,012 and 1,013; after the restart 14 to 17.
    assert "(1013 − 1011) + (17 − 0) = 19" in page
    gap = engineer.get(address.replace("T02", "T05")).content.decode()
    assert "4\u202f200 s" in gap or "4,200 s" in gap or "4 200 s" in gap


@pytest.mark.parametrize("which", ["0/2026-11-16T02:00:00Z", "1/x", "1/9999-12-31T23:00:00Z"])
def test_rows_that_are_not_there_are_not_found(engineer: Client, which: str) -> None:
    assert engineer.get(f"/sources/rows/{which}/").status_code == 404


def test_a_source_shows_what_its_store_says(engineer: Client) -> None:
    Source.objects.create(
        name="prod", url="http://127.0.0.1:9", created_at=START, matchers='job="vllm"',
        probe={
            "at": "2026-11-16T00:00:00Z", "product": "victoriametrics", "name": "VictoriaMetrics",
            "version": "1.79.5", "retention": "100y", "clock_skew_seconds": 7,
            "limits": {"samples a query": "1e9"}, "ha_labels": {"replica": ["a", "b"]},
            "hints": ["its clock differs by 7 s from ours"],
        },
    )  # fmt: skip
    page = engineer.get(reverse("source", args=["prod"])).content.decode()
    for words in ("VictoriaMetrics", "1.79.5", "100y", "7 s ahead of ours", "1e9 samples a query",
                  "Replicas not declared: replica", "Its clock differs by 7 s", "never"):  # fmt: skip
        assert words in page, words
    (row,) = command("sources")["sources"]
    assert row["undeclared_replicas"] == ["replica"]
    assert row["store"]["limits"] == {"samples a query": "1e9"}
    assert row["last_success"] is None
    assert engineer.get(reverse("source", args=["none"])).status_code == 404


def test_gpu_time_shows_both_sides(tmp_path: Path, engineer: Client) -> None:
    take_in(tmp_path, FLEET)
    invoice(tmp_path)
    command("workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "llama", "--series", "model_name=llama", "--by", "Ada")
    assert "No report yet" in engineer.get(reverse("nodes")).content.decode()
    content = canonical_bytes(value := statement(facts(PERIOD, week="2026-W47")))
    Report.objects.create(
        week="2026-W47", revision=1, statement=content, digest=digest(content), method_version="1",
        created_at=START, prepared_by="Ada", headline="", figures=value["figures"] | {"currency": "USD"},
    )  # fmt: skip
    page = engineer.get(reverse("nodes")).content.decode()
    # See tests/ledger/test_nodes.py for how these come about.
    for words in ("n2", "24.00", "12.00", "36.00", "30.0", "18.0", "12.0", "GPU requests of pods",
                  "6.0 of 12.0 node-hours", "6.0 GPU-hours"):  # fmt: skip
        assert words in page, words


def fetched(
    source: Source, since: int, until: int, readings: int, *, complete: bool = True
) -> None:
    document, _ = Document.objects.get_or_create(
        pk="0" * 64, defaults={"size_bytes": 1, "format": "headroom-samples", "received_at": START}
    )
    Fetch.objects.create(
        source=source, window_start=START + since * HOUR, window_end=START + until * HOUR,
        at=START, complete=complete, readings=readings, document=document if complete else None,
    )  # fmt: skip


def test_hours_that_the_store_no_longer_holds_are_declared() -> None:
    source = Source.objects.create(name="prod", url="http://127.0.0.1:9", created_at=START)
    fetched(source, -2, 1, 500)
    fetched(source, 1, 3, 0)  # answered, with nothing
    fetched(source, 4, 5, 0, complete=False)  # asked, and not answered: another exception
    fetched(source, 5, 6, 500)
    week = Period(START - 24 * HOUR, START + 24 * HOUR)
    hours = [START + n * HOUR for n in (1, 2)], [START + n * HOUR for n in (3, 4)]
    assert list(missing_hours(week)) == [("prod", *hours)]
    notices = facts(PERIOD, week="2026-W47").notices
    empty, unasked = [n.text for n in notices if n.kind == "hours-missing"]
    assert "2 hours missing (first 2026-11-16T01:00:00Z, last 2026-11-16T02:00:00Z)" in empty
    assert "no longer holds" in empty
    assert "2 hours missing (first 2026-11-16T03:00:00Z, last 2026-11-16T04:00:00Z)" in unasked


def test_a_source_that_is_only_late_misses_nothing() -> None:
    source = Source.objects.create(name="prod", url="http://127.0.0.1:9", created_at=START)
    fetched(source, 0, 3, 500)
    assert list(missing_hours(Period(START - HOUR, datetime(2026, 12, 1, tzinfo=UTC)))) == []


def test_a_series_is_explained_by_as_much_as_tells_it_apart(tmp_path: Path) -> None:
    disturbed(tmp_path)
    other = Shown("vllm:prompt_tokens_total", ENGINE | {"engine": "1"}, lambda s: 1000 + 2 * s)
    take_in(tmp_path, [other], "other.om")
    (row, _) = command("series", "--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T06:00:00Z")[
        "rows"
    ]
    hour = "2026-11-16T02:00:00Z"
    for name in (row["series"], row["series_id"], 'vllm:prompt_tokens_total{engine="0"}'):
        told = command("explain", name, hour)
        assert (told["tokens"], told["source"]) == (19, Source.objects.get().name)
    with pytest.raises(CommandError, match="2 series fit"):
        command("explain", "vllm:prompt_tokens_total", hour)
    with pytest.raises(CommandError, match="no series"):
        command("explain", 'vllm:prompt_tokens_total{engine="7"}', hour)
    # Another source tells of the same engine: the source's name tells the two apart.
    (tmp_path / "new.om").write_text(openmetrics([RESTARTED], range(-6, 40)))
    call_command("ingest", tmp_path / "new.om", "--source", "second", stdout=StringIO())
    with pytest.raises(CommandError, match=r"2 series fit .* of second "):
        command("explain", 'vllm:prompt_tokens_total{engine="0"}', hour)
    of_one = 'vllm:prompt_tokens_total{engine="0",source="second"}'
    assert command("explain", of_one, hour)["source"] == "second"


def test_people_read_series_and_explanations_line_by_line(tmp_path: Path) -> None:
    disturbed(tmp_path)
    out = StringIO()
    period = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T06:00:00Z")
    call_command("series", *period, stdout=out)
    head, line = out.getvalue().strip().splitlines()
    assert head.split() == [
        "tokens",
        "readings",
        "restarts",
        "hidden",
        "coverage",
        "workload,",
        "series",
    ]
    assert line.split()[2] == "1" and line.endswith('model_name="llama"}')
    out = StringIO()
    call_command("explain", "vllm:prompt_tokens_total", "2026-11-16T02:00:00Z", stdout=out)
    assert "(1013 − 1011) + (17 − 0) = 19, 1 restart(s)" in out.getvalue()
    assert f"told by {Source.objects.get().name}" in out.getvalue()


def test_an_engine_s_events_are_told_once(tmp_path: Path) -> None:
    """Its counters of delivered tokens fall with the restart too."""
    delivered = Shown("vllm:request_prompt_tokens_sum", ENGINE, RESTARTED.value)
    generated = Shown("vllm:generation_tokens_total", ENGINE, RESTARTED.value)
    up = Shown("up", {"job": "vllm", "instance": "10.0.0.1:8000"}, lambda s: 1)
    tgi = Shown("tgi_request_input_length_sum", {"job": "tgi", "instance": "t:80"}, RESTARTED.value)
    take_in(tmp_path, [up, RESTARTED, delivered, generated, tgi])
    (mine,) = source_events(PERIOD).values()
    assert {at: one.restarts for at, one in mine.items()} == {START + 2 * HOUR: 2}


@few
@given(st.integers(0, 10**9))
def test_the_arithmetic_that_is_told_comes_to_what_is_booked(seed: int) -> None:
    """For every row of random fleets: restarts, hidden resets, openings, gaps, pairs."""
    source = a_source()
    post(source, list(series_of(fleet(random.Random(seed)), 0, 1 << 40)))
    for row in TokenHour.objects.filter(series__target__source=source).select_related("series"):
        told = explain(row.series, row.hour)
        text = str(told["arithmetic"])
        if "side by side" in text:
            assert len(told["readings"]) > 1
            continue
        sum_of, _, rest = text.partition(" = ")
        plain = re.sub(r"\((highest|birth)[^)]*\)", "", sum_of)
        numbers = [int(one) for one in re.findall(r"\d+", plain)]
        total = sum(numbers[0::2]) - sum(numbers[1::2])
        assert total == told["tokens"] == int(re.match(r"\d+", rest).group())  # type: ignore[union-attr]
