"""Whether the load seen stands for the load to come: hours, lengths, concurrency (method §9).

A verdict on a quiet week is a verdict on a quiet week. The window is held against the four weeks
before it, by the highest requests at once and the highest use of the cache.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from .lengths import Histogram
from .money import divide

HOURS_OF_A_WEEK: Final = 168
LEAST_HOURS: Final = Decimal("0.95")
LEAST_OF_BEFORE: Final = Decimal("0.8")
LEAST_REQUESTS: Final = 1000
YES, PARTLY, NO = "representative", "partly representative", "not representative"


@dataclass(frozen=True, slots=True)
class Load:
    """What was seen of an engine in a window, and its peaks in the four weeks before.

    `hours` are hours of the week (0 to 167) with readings, `busy_hours` those with requests.
    """

    hours: Collection[int]
    busy_hours: Collection[int]
    peak_running: int | None
    prompts: Histogram
    earlier_peak_running: int | None
    earlier_days: int

    def as_json(self) -> dict[str, Any]:
        """The verdict with its numbers, plain values."""
        verdict, reasons = judged(self)
        p95 = self.prompts.quantile(Decimal("0.95"))
        return {
            "verdict": verdict,
            "reasons": list(reasons),
            "hours_of_week": len(self.hours),
            "busy_hours_of_week": len(self.busy_hours),
            "peak_running": self.peak_running,
            "earlier_peak_running": self.earlier_peak_running,
            "earlier_days": self.earlier_days,
            "requests": self.prompts.count or None,
            "p95_prompt": p95.as_json() if p95 else None,
            "says": sentence(self),
        }


def judged(load: Load) -> tuple[str, tuple[str, ...]]:
    """The verdict and what speaks against the load seen; empty for a representative one."""
    against, unknown = [], []
    seen = divide(Decimal(len(load.hours)), Decimal(HOURS_OF_A_WEEK))
    if seen < LEAST_HOURS:
        against.append(f"only {len(load.hours)} of the {HOURS_OF_A_WEEK} hours of a week were read")
    if not load.busy_hours:
        against.append("no request ran")
    now, before = load.peak_running, load.earlier_peak_running
    if now is None:
        unknown.append("requests at once are not told")
    elif before is not None and Decimal(now) < before * LEAST_OF_BEFORE:
        against.append(
            f"at most {now:,} requests ran at once, {before:,} in the {load.earlier_days} days before"
        )
    if before is None:
        unknown.append("nothing was read before the window to compare with")
    if not load.prompts.count:
        unknown.append("lengths of requests are not told")
    elif load.prompts.count < LEAST_REQUESTS:
        unknown.append(f"only {load.prompts.count:,} requests finished")
    if against:
        return NO, (*against, *unknown)
    return (PARTLY, tuple(unknown)) if unknown else (YES, ())


def sentence(load: Load) -> str:
    """The load seen, in one sentence with its numbers."""
    verdict, reasons = judged(load)
    text = (
        f"The load seen is {verdict}: {len(load.hours)} of {HOURS_OF_A_WEEK} hours of the week "
        f"read, requests in {len(load.busy_hours)}"
    )
    if load.peak_running is not None:
        text += f", up to {load.peak_running:,} at once"
        if load.earlier_peak_running is not None:
            text += f" (up to {load.earlier_peak_running:,} in the {load.earlier_days} days before)"
    p95 = load.prompts.quantile(Decimal("0.95"))
    if p95 is not None:
        edge = f"over {p95.over:,}" if p95.most is None else f"at most {p95.most:,}"
        text += f"; 95 % of {load.prompts.count:,} prompts had {edge} tokens"
    return text + (f". Against it: {'; '.join(reasons)}." if reasons else ".")
