"""A pair of Prometheus replicas of which one cannot reach the engine (method §2.6): every figure by hand.

The engine counts ten tokens a second. Replica `a` reads it at each full minute; replica `b` asks seven
seconds later and, from minute 20 on, gets no answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ledger.doors import command, ingested
from tests.ledger.fleet import START

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

RATE, BLIND_FROM, RESTART_S, LAST = 10, 20, 30 * 60 + 50, 40
SPAN = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T03:00:00Z")
BEGAN = int(START.timestamp())


def text(*, b_is_new: bool) -> str:
    """Readings from minute 1 on. At 30:50 the engine is replaced; from minute 41 on `a` gets no answer
    either. Another engine is read for longer. `b_is_new`: `b` first asks when it is blind already."""
    families: dict[str, list[str]] = {}

    def add(metric: str, replica: str, at_s: int, value: int, instance: str = "a:8000") -> None:
        labels = f'job="vllm",instance="{instance}",prometheus_replica="{replica}"'
        families.setdefault(metric, []).append(f"{metric}{{{labels}}} {value} {BEGAN + at_s}")

    def read(replica: str, at_s: int) -> None:
        born_s = RESTART_S if at_s >= RESTART_S else 0
        add("up", replica, at_s, 1)
        add("process_start_time_seconds", replica, at_s, BEGAN + born_s)
        add("vllm:prompt_tokens_total", replica, at_s, RATE * (at_s - born_s))

    for minute in range(90):
        add("vllm:prompt_tokens_total", "a", 60 * minute, 5 * minute, "other:8000")
        if 0 < minute <= LAST:
            read("a", 60 * minute)
        elif minute:
            add("up", "a", 60 * minute, 0)
        if minute >= BLIND_FROM:
            add("up", "b", 60 * minute + 7, 0)
        elif minute and not b_is_new:
            read("b", 60 * minute + 7)
    text = [line for name, lines in families.items() for line in (f"# TYPE {name} unknown", *lines)]
    return "\n".join([*text, "# EOF", ""])


def the_engine() -> dict[str, Any]:
    rows = command("series", *SPAN)["rows"]
    (row,) = [row for row in rows if row["labels"]["instance"] == "a:8000"]
    return dict(row)


@pytest.mark.parametrize("b_is_new", [False, True])
def test_a_replica_that_says_0_all_along_ends_no_dark(tmp_path: Path, b_is_new: bool) -> None:
    (tmp_path / "pair.om").write_text(text(b_is_new=b_is_new))
    ingested(tmp_path / "pair.om")
    row = the_engine()
    # 30:00 shows 18,000; 40:00 shows the 550 s since 30:50. All is born in sight of `up`.
    assert (row["tokens"], row["restarts"]) == (18_000 + 5_500, 1)
    # Unseen: the 50 s from 30:00 to the new start, and at the end up to a minute after 40:00.
    assert (row["lower"], row["upper"]) == (23_500, 23_500 + 500 + 600)
    assert command("check-ledger")["problems"] == []


def test_the_first_0_of_a_replica_ends_the_dark(tmp_path: Path) -> None:
    """`b` reads the engine as well until it is gone: both its 0 at 40:07 and the mark count."""
    lines = text(b_is_new=False).splitlines()
    at_b = [BEGAN + 60 * minute + 7 for minute in range(BLIND_FROM, LAST)]
    kept = [
        line.replace("} 0 ", "} 1 ")
        if line.startswith("up") and int(line.split()[-1]) in at_b
        else line
        for line in lines
    ]
    (tmp_path / "pair.om").write_text("\n".join([*kept, ""]))
    ingested(tmp_path / "pair.om")
    assert the_engine()["upper"] == 23_500 + 500 + 70
