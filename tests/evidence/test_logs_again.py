"""Which start-up log tells of an engine, chosen again from the pack's rows (method §8.2)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reports.evidence import verify

HOUR = verify.HOUR
LOG = {
    "document": "first", "number": 0, "started_at": 5 * HOUR, "posted_at": 90 * HOUR,
    "failed": "0", "model": "acme/llama", "served_names": ["llama"], "rank": None,
    "kv_tokens": 4096, "workload": "", "pod": "",
}  # fmt: skip


def chosen(*logs: dict[str, Any], engine: str = "0", pool: int | None = 4096) -> str:
    """The log of an engine of the workload `chat` in pod `a`, begun at hour 10 and last seen in
    hour 20, of logs that differ from `LOG`."""
    rows = [LOG | {"document": f"log {at}"} | one for at, one in enumerate(logs)]
    check = verify.Checks()
    week = SimpleNamespace(
        pack=SimpleNamespace(table=lambda name: rows),
        workloads={"chat": {"model": "acme/other"}},
        check=check,
    )
    last = {"labels": {"pod": "a", "model_name": "llama"}, "pool_tokens": pool, "engine": engine,
            "hour": 20 * HOUR, "name": "a engine 0"}  # fmt: skip
    settings = {"7": {"slug": "chat", "begun": 10 * HOUR, "log": ""}}
    verify.check_logs(week, {"7": [last]}, settings)
    return str(check.lines[-1][2])


def test_the_nearest_before_the_first_reading_counts() -> None:
    assert chosen({}, {"started_at": 9 * HOUR}, {"started_at": 11 * HOUR}) == "log 1"
    assert chosen({"started_at": 11 * HOUR}) == ""
    assert chosen({"started_at": None}, {"started_at": 2 * HOUR}) == "log 1"
    assert chosen({"started_at": None}, {"started_at": None, "posted_at": 91 * HOUR}) == "log 1"


@pytest.mark.parametrize(
    "other",
    [
        {"failed": "1"},
        {"kv_tokens": 8192},
        {"rank": 1},
        {"model": "acme/stray", "served_names": ["stray"]},
        {"workload": "search"},
        {"workload": "chat", "pod": "b"},
    ],
)
def test_a_log_of_another_start_engine_or_model_is_not_used(other: dict[str, Any]) -> None:
    nearer = {"started_at": 9 * HOUR}
    assert chosen({}, nearer) == "log 1"
    assert chosen({}, nearer | other) == "log 0"


def test_a_link_decides_before_the_name() -> None:
    stray = {"model": "acme/stray", "served_names": [], "started_at": 1 * HOUR}
    assert chosen({}, stray | {"workload": "chat"}) == "log 1"
    later = stray | {"workload": "chat", "pod": "a", "started_at": 19 * HOUR}
    assert chosen({}, stray | {"workload": "chat"}, later) == "log 2"
    assert chosen(later | {"started_at": 22 * HOUR}) == ""


def test_names_ranks_and_pools_that_nothing_tells_keep_no_log_away() -> None:
    assert chosen({"model": "acme/other", "served_names": []}) == "log 0"  # as the workload's
    assert chosen({"model": "llama", "served_names": []}) == "log 0"
    assert chosen({"rank": 1}, engine="1") == "log 0" and chosen({"rank": 1}, engine="") == "log 0"
    assert chosen({"kv_tokens": None}) == "log 0" and chosen({}, pool=None) == "log 0"
