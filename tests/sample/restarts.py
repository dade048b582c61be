"""What the sample's truth knows of restarts."""

from __future__ import annotations

from finops.sample.truth import Truth


def restarts_of(truth: Truth, workload: str, since_ms: int, until_ms: int) -> tuple[int, int]:
    """Restarts of engines, and how many of them no fall of a counter shows."""
    inside = [
        x for x in truth.restarts if x.workload == workload and since_ms <= x.at_ms < until_ms
    ]
    return len(inside), sum(x.hidden for x in inside)
