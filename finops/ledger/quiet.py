"""Hours that a store answered whole and with nothing of ours: was it at work in them?

A fleet that scales to zero leaves such hours, and so does a store that was down or has lost them. They
are told apart by another target: one that the store read all through the hour shows that it would have
read ours. Only a Prometheus that has every sample from its own scrapes is asked: behind any other the
other target may have been read by somebody else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from finops.core.counter_values import is_gap
from finops.core.period import HOUR, Period, milliseconds
from finops.core.steps import lower_median
from finops.sources.records import SeriesReadings

from .access import FetchFailed, shown
from .fetch import Door
from .selecting import equals, seconds_of, text_of


@dataclass(frozen=True, slots=True)
class Quiet:
    """An hour of a window, or its part in it, without any reading of ours. `witness` is the other target
    that the store read all through it and how often; None where nothing shows that it was at work."""

    period: Period
    witness: tuple[str, int] | None = None


def quiet_hours(
    door: Door, series: Sequence[SeriesReadings], window: Period, *, asks: bool
) -> list[Quiet]:
    """The quiet hours of a window that was answered whole; with their witness where the store is asked
    for one. A question for a witness that fails gives none, and never fails the window."""
    found = []
    for piece in _pieces(window):
        start_ms, end_ms = milliseconds(piece.start), milliseconds(piece.end)
        if not any(reaches_into(one.times_ms, start_ms, end_ms) for one in series):
            found.append(Quiet(piece, _witness(door, start_ms, end_ms) if asks else None))
    return found


def _pieces(window: Period) -> Iterator[Period]:
    for hour in window.hours():
        yield Period(max(hour, window.start), min(hour + HOUR, window.end))


def reaches_into(times_ms: Sequence[int], start_ms: int, end_ms: int) -> bool:
    """Whether any of the instants, which stand in order, lies in [start, end)."""
    return bisect_left(times_ms, start_ms) < bisect_left(times_ms, end_ms)


def _witness(door: Door, start_ms: int, end_ms: int) -> tuple[str, int] | None:
    """The target that was read most often in [start, end), where no gap interrupts that (method §2.5)."""
    reach = f"[{end_ms - start_ms}ms]"
    try:
        most = _rows(door, f"topk(1, count_over_time(up{reach}))", end_ms)
        if not most:
            return None
        labels = {str(name): str(value) for name, value in most[0]["metric"].items()}
        labels["__name__"] = "up"
        selector = text_of(equals(name, value) for name, value in sorted(labels.items()))
        rows = [one for one in _rows(door, selector + reach, end_ms) if one["metric"] == labels]
        times = [round(float(at) * 1000) for one in rows for at, _ in one["values"]]
    except (FetchFailed, KeyError, TypeError, ValueError):
        return None
    inside = [at for at in times if start_ms <= at < end_ms]
    return (shown(selector), len(inside)) if _is_steady(inside, start_ms, end_ms) else None


def _rows(door: Door, query: str, end_ms: int) -> list[dict[str, Any]]:
    """The rows of a good answer; none of one that warns, for it may not be whole."""
    form = [("query", query), ("time", seconds_of(end_ms - 1))]
    answer = door.post("/api/v1/query", form)
    if answer.get("warnings") or answer["status"] != "success":
        return []
    return list(answer["data"]["result"])


def _is_steady(times_ms: Sequence[int], start_ms: int, end_ms: int) -> bool:
    """Whether readings follow each other from one edge to the other without a gap."""
    if len(times_ms) < 2:
        return False
    usual_ms = lower_median([after - before for before, after in pairwise(times_ms)])
    edges = [start_ms, *times_ms, end_ms]
    return not any(is_gap(after - before, usual_ms) for before, after in pairwise(edges))
