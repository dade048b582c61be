"""What a report states of right-sizing: each engine's verdict, and guidance of the fullest (§9).

A report keeps what its figures follow from (`inputs`), so that a second computation can make them
again from the hours alone. Guidance is stated once a workload, of the engine whose cache was
fullest: engines of one workload are configured alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from .money import plain
from .rightsizing import Window

COPIED = (
    "workload", "engine", "told_by", "counts", "verdict", "why", "setting", "coverage", "kv_blocks",
    "p50", "p95", "p99",
    "peak", "peak_running", "peak_waiting", "preemptions", "no_proposal", "money", "busiest_at",
    "inputs",
)  # fmt: skip
OF_PROPOSAL = ("utilization", "kv_blocks", "p99", "concurrency", "longest_requests", "change_bytes")
Row = Mapping[str, Any]


def inputs(window: Window) -> dict[str, Any]:
    """What a proposal follows from besides the hours, as plain values; null where not known."""
    return {
        "total_bytes": window.total_bytes,
        "block_bytes": None if window.block_bytes is None else plain(window.block_bytes),
        "block_size": window.block_size,
        "max_model_len": window.max_model_len,
        "sized_by_hand": window.sized_by_hand,
    }


def stated(rows: Iterable[Row], start: str, end: str) -> list[dict[str, Any]]:
    """The rows of `rightsize` as a report of the period from `start` to `end` states them."""
    known = list(rows)
    fullest = _fullest(known)
    return [
        _stated(row, row["counts"] and row["engine"] in fullest, start, end)
        for row in known
        if row["workload"]
    ]


def _fullest(rows: Sequence[Row]) -> set[str]:
    """By workload the engine with the highest p99 (ties by name), of those that count."""
    best: dict[str, tuple[Decimal, str]] = {}
    counting = [row for row in rows if row["counts"]]
    for row in sorted(counting, key=lambda one: one["engine"], reverse=True):
        key = Decimal(row["p99"] or 0), row["engine"]
        slug = row["workload"] or ""
        if slug not in best or key[0] >= best[slug][0]:
            best[slug] = key
    return {engine for _, engine in best.values()}


def _stated(row: Row, is_fullest: bool, start: str, end: str) -> dict[str, Any]:
    value = {name: row[name] for name in COPIED}
    proposal = row["proposal"]
    value["proposal"] = proposal and {name: proposal[name] for name in OF_PROPOSAL}
    value["load"] = row["load"]["says"]
    value["next_step"] = row["ladder"]["why"]
    value["steps"] = [one for one in row["ladder"]["steps"] if start <= one["at"] < end]
    value["guidance"] = (
        [{k: one[k] for k in ("knob", "verdict", "says", "sources")} for one in row["guidance"]]
        if is_fullest
        else None
    )
    return value
