"""Readings of small fleets, written as OpenMetrics: what each counter shows every ten minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from finops.core.period import Period
from tests.ledger.doors import ingested

START = datetime(2026, 11, 16, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(hours=6))
STEP = timedelta(minutes=10)
STEPS = range(-6, 40)


@dataclass(frozen=True)
class Shown:
    """One series: its metric, labels, and its value at a step."""

    metric: str
    labels: Mapping[str, str]
    value: Callable[[int], float]


def counter(metric: str, each_step: int, **labels: str) -> Shown:
    """A counter that stands at a thousand before the period and rises by so much a step."""
    return Shown(metric, labels, lambda step: 1000 + max(0, min(step, 35)) * each_step)


def level(metric: str, value: float, **labels: str) -> Shown:
    """A gauge that stands still."""
    return Shown(metric, labels, lambda _: value)


def booked(each_step: int) -> int:
    """What `counter` books in the period."""
    return 35 * each_step


def openmetrics(series: Iterable[Shown], steps: Iterable[int] = STEPS) -> str:
    """The text of the series' readings, one family after another."""
    lines: list[str] = []
    named: dict[str, list[Shown]] = {}
    for one in series:
        named.setdefault(one.metric, []).append(one)
    for metric, ones in named.items():
        lines.append(f"# TYPE {metric} unknown")
        for one in ones:
            labels = ",".join(f'{name}="{value}"' for name, value in one.labels.items())
            for step in steps:
                at = int((START + step * STEP).timestamp())
                lines.append(f"{metric}{{{labels}}} {one.value(step)} {at}")
    return "\n".join([*lines, "# EOF", ""])


def take_in(folder: Path, series: Iterable[Shown], name: str = "fleet.om") -> dict[str, object]:
    """Ingests the series as one document and gives its account."""
    (folder / name).write_text(openmetrics(series))
    (document,) = ingested(folder / name)
    return document
