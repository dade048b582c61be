"""Starts that lie after their readings, of clocks that are hours ahead (method §2.4): every figure by hand.

An engine is read every ten minutes from 0:00 on and shows 1,000 more each time: 6,000 at 1:00. At 1:10
its start is another one.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from finops.core.period import milliseconds, parse_instant
from reports.evidence.verify import Booking
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import START, STEP, Shown, openmetrics

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

TARGET = {"job": "vllm", "instance": "a:8000"}
CHANGES = 7
HOURS_3 = 3 * 3600


def ingest(
    folder: Path, *, first_shown: int, start_after_s: int, marked_before: bool = True
) -> None:
    """The engine shows `first_shown` at 1:10, and a start so many seconds after that instant."""
    began = int(START.timestamp())
    changed = began + CHANGES * int(STEP.total_seconds()) + start_after_s

    def value(step: int) -> int:
        return 1000 * step if step < CHANGES else first_shown + 500 * (step - CHANGES)

    marks = Shown("process_start_time_seconds", TARGET, lambda n: began if n < CHANGES else changed)
    shown = Shown("vllm:prompt_tokens_total", TARGET | {"model_name": "llama"}, value)
    up = Shown("up", TARGET, lambda _: 1)
    parts = {
        "old.om": ([up, shown, marks] if marked_before else [up, shown], range(CHANGES)),
        "new.om": ([up, shown, marks], range(CHANGES, 12)),
    }
    for name, (series, steps) in parts.items():
        (folder / name).write_text(openmetrics(series, steps))
        ingested(folder / name)


def hour_of_the_change() -> dict[str, Any]:
    (row,) = command("series", "--from", START.isoformat(), "--to", _after(6))["rows"]
    told: dict[str, Any] = command("explain", row["series_id"], _after(1))
    return told


def _after(hours: int) -> str:
    return (START + timedelta(hours=hours)).isoformat()


@pytest.mark.parametrize(
    ("first_shown", "start_after_s", "tokens", "restarts", "opening"),
    [
        # A start within what clocks may differ tells of a reset that no fall shows.
        (7000, 5, 1000 + 7000 + 2000, 1, 0),
        # Hours ahead, and the value has risen: the same process by a clock that was set, or another
        # one. Nobody knows when the 7,000 were counted; the 2,000 after them are known.
        (7000, HOURS_3, 1000 + 2000, 1, 7000),
        # Hours ahead, and the value has fallen: all that it shows was counted since 1:00.
        (400, HOURS_3, 1000 + 400 + 2000, 1, 0),
    ],
)
def test_a_restart_whose_start_lies_after_its_reading(
    tmp_path: Path, first_shown: int, start_after_s: int, tokens: int, restarts: int, opening: int
) -> None:
    ingest(tmp_path, first_shown=first_shown, start_after_s=start_after_s)
    told = hour_of_the_change()
    openings = told["facts"].get("openings", [])
    assert told["tokens"] == tokens
    assert len(told["facts"].get("restarts", [])) == restarts
    assert sum(value for _, value in openings) == opening
    assert _booked_by_the_evidence_pack(told) == (tokens, restarts, opening)
    assert command("check-ledger")["problems"] == []


def test_a_first_start_that_lies_after_its_reading_begins_no_counter(tmp_path: Path) -> None:
    """The series had none before: it is the counter's, whose first reading then proves no birth."""
    ingest(tmp_path, first_shown=7000, start_after_s=HOURS_3, marked_before=False)
    told = hour_of_the_change()
    assert (told["tokens"], "restarts" in told["facts"]) == (1000 + 1000 + 2000, False)
    assert _booked_by_the_evidence_pack(told) == (4000, 0, 0)
    assert command("check-ledger")["problems"] == []


def _booked_by_the_evidence_pack(told: dict[str, Any]) -> tuple[int, int, int]:
    """The hour once more by the program that shares no code with the ledger."""
    before = told["before"]
    names = ("number", "marks_us", "high", "first_ms")
    booking = Booking(
        {
            "counters": [dict(zip(names, one, strict=False)) for one in before["counters"]],
            "replicas": {name: last[:2] for name, last in before["replicas"].items()},
            "proven_ms": [at for at, _ in told["facts"].get("births", [])],
            "current": before["current"],
            "last_ms": before["last"],
            "fall_ms": before["fall"],
        }
    )
    started = {one["at_ms"]: one["mark"] for one in told["readings"]}
    rows = [
        {"at_ms": one["at_ms"], "value": one["value"], "replica": one["replica"] or ""}
        | {"mark_kind": "process_start", "mark_us": _micros(started[one["at_ms"]])}
        for one in told["readings"]
    ]
    booked = booking.of(rows)
    return booked.tokens, booked.restarts, booked.opening_tokens


def _micros(written: str | None) -> int | None:
    return None if written is None else milliseconds(parse_instant(written)) * 1000
