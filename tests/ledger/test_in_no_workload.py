"""What the register says of engines that no rule gives to a workload: nothing of them is left untold."""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.ledger.queries.facts import facts
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import (
    PERIOD,
    START,
    STEP,
    Shown,
    booked,
    counter,
    level,
    openmetrics,
    take_in,
)

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

ENGINE = {"job": "vllm", "instance": "a:8000", "model_name": "m"}


def told() -> list[str]:
    notices = facts(PERIOD, week="2026-W47").notices
    return [one.text for one in notices if one.kind == "series-without-workload"]


def test_tokens_of_unknown_time_are_told_with_their_size(tmp_path: Path) -> None:
    """First seen thirty minutes into the period, nobody knows since when they counted (method §2.4)."""
    take_in(tmp_path, [counter("vllm:prompt_tokens_total", 1, job="vllm", instance="old:1")])
    late = [
        counter("vllm:prompt_tokens_total", 600, **ENGINE),
        counter("vllm:generation_tokens_total", 60, **ENGINE),
    ]
    (tmp_path / "late.om").write_text(openmetrics(late, range(3, 40)))
    ingested(tmp_path / "late.om")

    text = next(one for one in told() if "a:8000" in one)
    assert f"{32 * 600:,} prompt and {32 * 60:,} generation tokens stand in no unit cost." in text
    assert f"{1000 + 3 * 600 + 1000 + 3 * 60:,} tokens of unknown time are not booked." in text
    assert not any("unknown time" in one for one in told() if "old:1" in one)


@pytest.mark.parametrize(
    ("seconds_after", "opening"), [(5, 0), (6, 1000 + 3 * 600), (14 * 3600, 1000 + 3 * 600)]
)
def test_a_start_that_lies_after_the_first_reading_proves_no_birth(
    tmp_path: Path, seconds_after: int, opening: int
) -> None:
    """Of an engine whose clock is hours ahead nobody knows how long it has counted (method §2.4)."""
    take_in(tmp_path, [counter("vllm:prompt_tokens_total", 1, job="vllm", instance="old:1")])
    start = int((START + 3 * STEP).timestamp()) + seconds_after
    of_target = {"job": "vllm", "instance": "a:8000"}
    late = [
        counter("vllm:prompt_tokens_total", 600, **ENGINE),
        level("process_start_time_seconds", start, **of_target),
    ]
    (tmp_path / "late.om").write_text(openmetrics(late, range(3, 40)))
    ingested(tmp_path / "late.om")

    asked = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T06:00:00Z")
    rows = command("totals", *asked, "--by", "series")["rows"]
    (tokens,) = [row["tokens"] for row in rows if row["labels"].get("instance") == "a:8000"]
    born = 0 if opening else 1000 + 3 * 600
    assert (tokens["prompt"], tokens["opening_tokens"]) == (born + 32 * 600, opening)


def test_two_processes_behind_one_address_are_told(tmp_path: Path) -> None:
    """Each of the period's 36 readings comes from the other process than the one before it."""
    days = (int(START.timestamp()) - 40_000, int(START.timestamp()) - 80_000)
    mark = Shown("process_start_time_seconds", {"job": "vllm", "instance": "a:8000"},
                 lambda step: days[step % 2])  # fmt: skip
    take_in(tmp_path, [counter("vllm:prompt_tokens_total", 600, **ENGINE), mark])

    (text,) = told()
    # One rises from step -2 to step 34, the other from step -1 to step 35; both stood still till 0.
    assert f"{(34 + 35) * 600:,} prompt tokens" in text
    assert "36 alternations: more than one process answered behind its address." in text


def test_what_the_other_half_counts_is_not_told_again(tmp_path: Path) -> None:
    """Prompts count in the prefill role, answers in the decode role: each stands once (method §2.10)."""
    series = [
        counter(f"vllm:{name}_tokens_total", each, role=role, job="vllm", instance=f"{role}:1")
        for role in ("prefill", "decode")
        for name, each in (("prompt", 600), ("generation", 60))
    ]
    take_in(tmp_path, series)

    decode, prefill = told()
    assert f": {booked(60):,} generation tokens stand" in decode
    assert f": {booked(600):,} prompt tokens stand" in prefill
    tokens = command("totals", "--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T06:00:00Z")
    assert tokens["tokens"]["prompt"] == booked(600)
    assert tokens["tokens"]["generation"] == booked(60)
