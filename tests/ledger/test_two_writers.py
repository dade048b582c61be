"""Two stores that write one series: said, with what it does to the figures (method §2.7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.core.statement import statement
from finops.ledger.queries.facts import facts
from tests.ledger.doors import ingested
from tests.ledger.fleet import PERIOD, START

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

LABELS = 'job="vllm",instance="10.0.0.1:8000"'
RATE = 7
Reading = tuple[int, int, int]
"""Seconds from START, tokens, second of birth."""


def told(folder: Path, readings: list[Reading], *, marked: bool) -> list[str]:
    """Takes readings of one counter in; what the exceptions say of replicas."""
    begin = int(START.timestamp())
    lines = ["# TYPE up unknown", *(f"up{{{LABELS}}} 1 {begin + at}" for at, _, _ in readings),
             "# TYPE vllm:prompt_tokens_total unknown",
             *(f'vllm:prompt_tokens_total{{{LABELS},model_name="m"}} {value} {begin + at}'
               for at, value, _ in readings)]  # fmt: skip
    if marked:
        lines += ["# TYPE process_start_time_seconds unknown",
                  *(f"process_start_time_seconds{{{LABELS}}} {begin + born} {begin + at}"
                    for at, _, born in readings)]  # fmt: skip
    (folder / "x.om").write_text("\n".join([*lines, "# EOF", ""]))
    ingested(folder / "x.om")
    found = statement(facts(PERIOD, week="2026-W47"))["exceptions"]
    return [one["text"] for one in found if one["kind"] == "replicas-suspected"]


def pair(offset: int, skew: int, seconds: int = 7200) -> list[Reading]:
    """Both scrape every 60 s, the second `offset` s after the first; its clock is `skew` s ahead."""
    first = [(at, RATE * at, 0) for at in range(60, seconds, 60)]
    second = [(at + offset, RATE * (at + offset - skew), 0) for at in range(60, seconds, 60)]
    return sorted(first + second)


@pytest.mark.parametrize("marked", [False, True])
def test_one_that_reads_soon_after_the_other_is_told(tmp_path: Path, marked: bool) -> None:
    (said,) = told(tmp_path, pair(2, 0), marked=marked)
    assert "two stores that write one series" in said and "0 restarts" in said


def test_falls_by_clocks_that_differ_are_told_with_their_tokens(tmp_path: Path) -> None:
    """Read at 60 s: 420 tokens; at what it takes for 90 s the other one still had those of 50 s: 350."""
    (said,) = told(tmp_path, pair(30, 40, seconds=420), marked=False)
    falls = [RATE * (at + 30 - 40) for at in range(60, 420, 60)]
    assert f"{len(falls)} restarts" in said and f"{sum(falls):,} tokens" in said


def storm() -> list[Reading]:
    """Restarts every 90 s for two hours, read every 60 s."""
    return [(at, RATE * (at % 90), at // 90 * 90) for at in range(60, 7200, 60)]


def steady_with_gaps() -> list[Reading]:
    return [(at, RATE * at, 0) for at in range(60, 7200, 60) if at // 600 % 3 != 1]


@pytest.mark.parametrize("readings", [storm(), steady_with_gaps()], ids=["storm", "gaps"])
def test_restarts_and_gaps_of_one_store_are_what_they_are(
    tmp_path: Path, readings: list[Reading]
) -> None:
    assert told(tmp_path, readings, marked=False) == []
