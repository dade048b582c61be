"""A late collection fills itself: a real Prometheus is stopped, started, and has forgotten hours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from finops.core.period import Period, parse_instant
from finops.ledger.models import Fetch, Source
from finops.ledger.operations.collect import collect_source
from finops.ledger.operations.sources import add_source
from finops.ledger.probe import LONGEST, kept_for
from finops.ledger.queries.discovery import proposed_workloads
from finops.ledger.queries.facts import facts
from finops.ledger.queries.sources import health
from tests.ledger.stores import PROMETHEUS, from_samples, prometheus
from tests.ledger.totals import token_totals

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here"),
]

START = parse_instant("2026-11-16T00:00:00Z")
HOUR = timedelta(hours=1)
STEP_S, A_STEP = 60, 11


def series(hours: int, *, but: tuple[int, int] = (0, 0), pod: str = "llama-0") -> list[dict]:  # type: ignore[type-arg]
    """An engine that counts 11 tokens a minute, born ten seconds after START and after the first
    `up` of its job; without the hours `but` that the store no longer holds."""
    born, labels = START.timestamp(), {"job": "vllm", "instance": f"{pod}:8000"}
    times = [born + n * STEP_S for n in range(hours * 60)]
    times = [t for t in times if not but[0] <= (t - born) // 3600 < but[1]]
    counted = {"model_name": "llama", "namespace": "llm", "pod": pod}
    told = {
        ("up",): lambda t: t > born,
        ("process_start_time_seconds",): lambda t: born + 10,
        ("vllm:prompt_tokens_total", *counted): lambda t: A_STEP * (t - born) // STEP_S,
    }
    return [
        {
            "metric": {"__name__": name, **labels} | (counted if own else {}),
            "values": [[t, str(int(value(t)))] for t in times if t > born or name == "up"],
        }
        for (name, *own), value in told.items()
    ]


@contextmanager
def store(folder: Path, rows: list[dict], source: Source | None = None) -> Iterator[str]:  # type: ignore[type-arg]
    """A Prometheus that holds the rows; the source is pointed at its port."""
    folder.mkdir()
    with prometheus(folder, from_samples(folder, rows)) as url:
        if source is not None:
            source.url = url
            source.save(update_fields=["url"])
        yield url


def at(hour: int, minute: int = 5) -> datetime:
    return START + hour * HOUR + timedelta(minutes=minute)


def tokens(hours: int) -> int | None:
    return token_totals(Period(START, START + hours * HOUR)).prompt


def test_an_outage_of_the_store_heals_by_itself(tmp_path: Path) -> None:
    with store(tmp_path / "a", series(2)) as url:
        source = add_source("prod", url, by="Ada", at=START)
        collect_source(source, by="Ada", at=at(2), period=Period(START, START + 2 * HOUR))
    assert tokens(2) == A_STEP * 119

    # It is down: said, and nothing is lost.
    down = collect_source(source, by="Ada", at=at(3))
    assert not down.ok and "connection refused" in down.warnings[0]
    (row,) = health(at(3))
    assert row["state"] == "failing"

    # It is back and has scraped on meanwhile: every hour comes, oldest first, with progress.
    said: list[str] = []
    with store(tmp_path / "b", series(9), source):
        found = collect_source(source, by="Ada", at=at(9), progress=said.append)
    assert found.ok
    assert said[0] == "prod: 2026-11-16T02:00:00Z (1 of 8)"
    assert [line.split()[1] for line in said] == sorted(line.split()[1] for line in said)
    assert tokens(9) == A_STEP * (9 * 60 - 1)
    (row,) = health(at(9))
    assert (row["state"], row["incomplete_hours"], row["coverage"]) == ("fine", 0, "1.0000")
    assert not [n for n in facts(week(), week="2026-W47").notices if n.kind == "incomplete-fetches"]


def week() -> Period:
    return Period(START, START + timedelta(days=7))


def test_what_fell_out_of_the_store_is_declared_missing(tmp_path: Path) -> None:
    """Collecting stopped for five hours; when it goes on the store has forgotten three of them."""
    with store(tmp_path / "a", series(2)) as url:
        source = add_source("prod", url, by="Ada", at=START)
        collect_source(source, by="Ada", at=at(2), period=Period(START, START + 2 * HOUR))
    with store(tmp_path / "b", series(7, but=(0, 5)), source):
        assert collect_source(source, by="Ada", at=at(7)).ok
    (told,) = [n for n in facts(week(), week="2026-W47").notices if n.kind == "hours-missing"]
    assert "3 hours missing (first 2026-11-16T02:00:00Z, last 2026-11-16T04:00:00Z)" in told.text
    assert "no longer holds them" in told.text
    # The counter lived on: not a token is lost, and the time nobody saw lowers the coverage.
    found = token_totals(Period(START, START + 7 * HOUR))
    assert found.prompt == A_STEP * (7 * 60 - 1)
    assert (found.gaps, found.coverage < 1) == (1, True)


def test_a_new_engine_is_proposed_with_the_next_hour(tmp_path: Path) -> None:
    with store(tmp_path / "a", series(2)) as url:
        source = add_source("prod", url, by="Ada", at=START)
        collect_source(source, by="Ada", at=at(2), period=Period(START, START + 2 * HOUR))
    (found,) = proposed_workloads(at(2))
    assert (found["slug"], found["namespace"], found["stack"]) == ("llama", "llm", "vllm")
    assert found["tokens"] == A_STEP * 119


def test_a_store_that_keeps_months_is_asked_for_months(tmp_path: Path) -> None:
    """Headroom was away for twenty days; the store keeps ten years (as it is started here)."""
    with store(tmp_path / "a", series(2)) as url:
        source = add_source("prod", url, by="Ada", at=START)
        collect_source(source, by="Ada", at=at(2), period=Period(START, START + 2 * HOUR))
        late = START + timedelta(days=20)
        assert collect_source(source, by="Ada", at=late).ok
    first = Fetch.objects.filter(readings=0).order_by("window_start")[0]
    assert first.window_start == START + 2 * HOUR


@pytest.mark.parametrize(
    ("told", "product", "days"),
    [
        ("15d", "prometheus", 15),
        ("15d or 10GiB", "prometheus", 15),
        ("2w", "prometheus", 14),
        ("36h", "prometheus", 1.5),
        ("100y", "victoriametrics", LONGEST.days),
        ("3", "victoriametrics", 93),
        ("10GiB", "prometheus", None),
        ("3", "prometheus", None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_retention_in_the_store_s_own_words(
    told: str | None, product: str | None, days: float | None
) -> None:
    assert kept_for(told, product) == (None if days is None else timedelta(days=days))
