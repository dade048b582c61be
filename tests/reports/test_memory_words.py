"""What the reservation bought, in words, of engines together and after each other (method §8.7)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.template.loader import render_to_string

from reports import memory_words
from reports.memory_words import active_share, at_one_time, engine_rows
from tests.reports import example


def bought(rows: list[dict[str, Any]]) -> str:
    """The sentence with plain commas between thousands."""
    return memory_words.bought(rows).replace("\u202f", ",")


def _row(first: int, last: int, **changes: Any) -> dict[str, Any]:
    """An engine that was there from one hour of a day to another."""
    return {
        "workload": "assist-8b", "first_seen": f"2026-11-16T{first:02d}:00:00Z",
        "last_seen": f"2026-11-16T{last:02d}:00:00Z", "reserved_tokens": 32_768,
        "active_tokens_mean": "8192", "observed_seconds": (last - first) * 3600, "peak_running": 7,
        "contiguous_slots": 3, "max_model_len": 8_192, "preemptions": 0,
    } | changes  # fmt: skip


def test_lives_of_one_engine_are_one_reservation() -> None:
    rows = [_row(0, 5), _row(6, 20)]
    assert (at_one_time(rows), at_one_time(rows, "reserved_tokens")) == (1, 32_768)
    text = bought(rows)
    assert text.startswith("2 engines followed one another, one at a time; each reserved room for")
    assert "32,768 tokens" in text and "65,536" not in text


def test_replicas_and_a_successor_are_told_apart() -> None:
    """Two at one time, three in the week; slots are of the engine whose requests are told."""
    rows = [_row(0, 20), _row(0, 5), _row(6, 20, peak_running=9)]
    text = bought(rows)
    assert text.startswith("3 engines, at most 2 of them at one time, reserved room for 65,536")
    assert "9 requests ran together on one engine" in text
    assert "room of that engine is 32,768 tokens" in text and "its memory would have held 3" in text


def test_one_engine_and_one_request() -> None:
    text = bought([_row(0, 20, peak_running=1)])
    assert text.startswith("The engine reserved room for 32,768 tokens")
    assert "a single request ran" in text and "the same memory would have held 3 (one block" in text
    assert "one block" not in bought([_row(0, 20, contiguous_slots=4)])


def test_older_reports_that_do_not_tell_when_add_up() -> None:
    rows = [_row(0, 5, first_seen=None), _row(6, 20, first_seen=None)]
    assert at_one_time(rows, "reserved_tokens") == 65_536


def test_the_share_in_use_is_weighed_by_time() -> None:
    """A quarter of the pool for five hours and a half for fifteen: 43.75 %."""
    rows = [_row(0, 5), _row(5, 20, active_tokens_mean="16384")]
    assert active_share(rows) == Decimal("0.4375")


def test_engines_of_one_name_say_when_each_was_there_in_the_report_s_table() -> None:
    statement = example.statement()
    (row, *_) = statement["memory"]
    lives = [row | {"first_seen": f"2026-11-{a}T06:00:00Z", "last_seen": f"2026-11-{b}T18:30:00Z"}
             for a, b in ((16, 18), (18, 22))]  # fmt: skip
    told = _table(statement | {"memory": lives})
    assert statement["period"]["zone"] == "UTC"
    assert "Mon 16 Nov 2026, 06:00 UTC to Wed 18 Nov 2026, 18:30 UTC" in told
    assert "Wed 18 Nov 2026, 06:00 UTC to Sun 22 Nov 2026, 18:30 UTC" in told
    # Alone of its name, or in a report of before that was told, an engine has its name only.
    assert " to " not in _table(statement | {"memory": lives[:1]})
    older = [{k: v for k, v in one.items() if not k.endswith("_seen")} for one in lives]
    assert " to " not in _table(statement | {"memory": older})


def _table(statement: dict[str, Any]) -> str:
    """The table of engines as a report has it."""
    s = statement
    text = render_to_string(
        "reports/parts/memory.html", {"s": s, "charts": {}, "memory_engines": engine_rows(s)}
    )
    return text[text.index("Each engine, means of the week") :]
