"""The way down (or up) a ladder of settings: each step with its predicted and observed effect (§9).

An engineer moves `gpu_memory_utilization` by 0.05, waits until enough was seen, and looks at what
came of it. A rung is a stretch of hours with one setting and one pool; a step leads from one rung
to the next. Predictions use the rung before alone, so they are what could be known then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from .money import divide, plain, round_half_even
from .period import milliseconds, rfc3339
from .rightsizing import (
    AT_RISK,
    FITS,
    LEAST_COVERAGE,
    LEAST_DAYS,
    NOT_ENOUGH,
    STEP,
    TIGHT,
    UPPER_BAND,
    Advice,
    Prediction,
    Window,
    percentile,
    predict,
    summed,
)

P99: Final = Decimal("0.99")
NEAR: Final = Decimal("0.05")
"""A prediction has come true when the observed p99 is no further away than this."""
CAME_TRUE, HIGHER, LOWER, WAITING = (
    "came true",
    "more than predicted",
    "less than predicted",
    "wait",
)


@dataclass(frozen=True, slots=True)
class SeenHour:
    """One hour of an engine as a ladder needs it; `setting` is the share of memory as configured."""

    hour: datetime
    setting: str
    blocks: int
    seen_ms: int
    levels_ms: Mapping[str, int]
    peak_blocks: int | None
    peak_waiting: int | None
    preempted: int

    @property
    def pool(self) -> tuple[str, int]:
        """What tells one rung from another: the setting, and the blocks it gave."""
        return self.setting, self.blocks


@dataclass(frozen=True, slots=True)
class Rung:
    """A stretch of hours with one setting and one pool."""

    setting: Decimal
    blocks: int
    start: datetime
    end: datetime
    seen_ms: int
    p99: Decimal | None
    peak_blocks: int | None
    peak_waiting: int | None
    preempted: int

    @property
    def coverage(self) -> Decimal:
        """The share of the stretch that readings cover."""
        whole = milliseconds(self.end) - milliseconds(self.start)
        return min(Decimal(1), divide(Decimal(self.seen_ms), Decimal(whole)))

    @property
    def is_enough(self) -> bool:
        """Whether so much was seen that a verdict holds."""
        long = self.end - self.start >= timedelta(days=LEAST_DAYS)
        return long and self.coverage >= LEAST_COVERAGE

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "setting": plain(self.setting),
            "kv_blocks": self.blocks,
            "from": rfc3339(self.start),
            "to": rfc3339(self.end),
            "coverage": plain(round_half_even(self.coverage, 4)),
            "enough": self.is_enough,
            "p99": None if self.p99 is None else plain(round_half_even(self.p99, 4)),
            "peak_blocks": self.peak_blocks,
            "peak_waiting": self.peak_waiting,
            "preemptions": self.preempted,
        }


def rungs(hours: Iterable[SeenHour]) -> list[Rung]:
    """The stretches of one setting and one pool, oldest first; hours in any order."""
    found: list[list[SeenHour]] = []
    for one in sorted(hours, key=lambda hour: hour.hour):
        if found and found[-1][0].pool == one.pool:
            found[-1].append(one)
        else:
            found.append([one])
    return [_rung(stretch) for stretch in found]


def _rung(stretch: Sequence[SeenHour]) -> Rung:
    peaks = [one.peak_blocks for one in stretch if one.peak_blocks is not None]
    waiting = [one.peak_waiting for one in stretch if one.peak_waiting is not None]
    return Rung(
        setting=Decimal(stretch[0].setting),
        blocks=stretch[0].blocks,
        start=stretch[0].hour,
        end=stretch[-1].hour + timedelta(hours=1),
        seen_ms=sum(one.seen_ms for one in stretch),
        p99=percentile(summed(one.levels_ms for one in stretch), P99),
        peak_blocks=max(peaks, default=None),
        peak_waiting=max(waiting, default=None),
        preempted=sum(one.preempted for one in stretch),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """From one rung to the next: what was predicted of it, and what was observed."""

    before: Rung
    after: Rung
    predicted: Prediction | None

    @property
    def result(self) -> str:
        """Whether the prediction came true; `wait` until enough was seen."""
        if self.predicted is None or self.predicted.p99 is None or self.after.p99 is None:
            return WAITING
        if self.after.preempted and not self.before.preempted:
            return HIGHER
        if not self.after.is_enough:
            return WAITING
        difference = self.after.p99 - min(Decimal(1), self.predicted.p99)
        if abs(difference) <= NEAR:
            return CAME_TRUE
        return HIGHER if difference > 0 else LOWER

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "at": rfc3339(self.after.start),
            "from": self.before.as_json(),
            "to": self.after.as_json(),
            "predicted": self.predicted and self.predicted.as_json(),
            "result": self.result,
        }


def steps_of(found: Sequence[Rung], window: Window) -> list[Step]:
    """The steps between rungs. `window` gives what stays the same of the engine: its card's memory
    and the bytes of a block."""
    return [
        Step(before, after, _predicted(before, after, window)) for before, after in pairwise(found)
    ]


def _predicted(before: Rung, after: Rung, window: Window) -> Prediction | None:
    """What the rung before lets expect of the setting after."""
    then = replace(
        window,
        blocks=before.blocks,
        peak_blocks=before.peak_blocks,
        peak_running=None,
        utilization=before.setting,
    )
    return predict(then, after.setting, before.p99)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Where an engine stands: its rungs, the next step, when to stop, and how to go back."""

    rungs: tuple[Rung, ...]
    steps: tuple[Step, ...]
    next_step: Prediction | None
    why: str
    stop: str
    rollback: str | None

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "rungs": [one.as_json() for one in self.rungs],
            "steps": [one.as_json() for one in self.steps],
            "next_step": self.next_step and self.next_step.as_json(),
            "why": self.why,
            "stop_rule": self.stop,
            "rollback": self.rollback,
        }


STOP: Final = (
    "Stop as soon as a request is pushed out or waits for the cache, when p99 use is inside "
    "60–85 %, or when the next step would not hold one longest request and the measured peak × 1.2."
)


def ladder(found: Sequence[Rung], window: Window, advice: Advice) -> Ladder:
    """The ladder of one engine: one step of 0.05 at a time towards what is proposed."""
    steps = steps_of(found, window)
    next_step, why = _next(window, advice)
    return Ladder(tuple(found), tuple(steps), next_step, why, STOP, _rollback(steps, advice))


def _next(window: Window, advice: Advice) -> tuple[Prediction | None, str]:
    """The next step, and why it is this one or none."""
    if advice.verdict == NOT_ENOUGH:
        return (
            None,
            f"Wait: {LEAST_DAYS} days of this setting have to be seen before the next step.",
        )
    if advice.verdict == FITS:
        return None, "Stop here: the use of the cache is where it should be."
    if advice.proposal is None or window.utilization is None:
        return None, advice.no_proposal or "Stop here."
    up = advice.proposal.utilization > window.utilization
    setting = window.utilization + (STEP if up else -STEP)
    one = predict(window, setting, advice.p99)
    if one is None or (not up and (not one.fits or (one.p99 or Decimal(1)) > UPPER_BAND)):
        return None, "Stop here: the next step would not hold the peak and a longest request."
    direction = "up" if up else "down"
    return one, (
        f"One step {direction}, to {plain(setting)}; then wait {LEAST_DAYS} days and compare. The "
        f"way leads to {plain(advice.proposal.utilization)} at the load seen."
    )


def _rollback(steps: Sequence[Step], advice: Advice) -> str | None:
    """How to go back from the last step; None where no step was made."""
    if not steps:
        return None
    last = steps[-1]
    back = (
        f"restart with gpu_memory_utilization {plain(last.before.setting)} "
        f"({last.before.blocks:,} blocks)"
    )
    went_down = last.after.setting < last.before.setting
    if went_down and (advice.verdict in (AT_RISK, TIGHT) or last.after.preempted):
        return f"Go back now: {back}. Since the step the cache has been too small."
    return f"To go back: {back}."
