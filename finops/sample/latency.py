"""How fast the sample's engines answer: cumulative latency buckets, all whole numbers.

The busier an engine, the more of its requests come late; how many at its peak is a trait of its
traffic. The fleet's Prometheus keeps few of the buckets, and only in the newest weeks.
"""

from __future__ import annotations

from finops.sample.calendar import Calendar

FIRST_WEEK = 8
BUCKETS = (
    ("vllm:time_to_first_token_seconds_bucket", "0.75"),
    ("vllm:time_to_first_token_seconds_bucket", "1.0"),
    ("vllm:time_to_first_token_seconds_bucket", "+Inf"),
    ("vllm:inter_token_latency_seconds_bucket", "0.05"),
    ("vllm:inter_token_latency_seconds_bucket", "+Inf"),
)
PEAK = 10**6
PART = 1000 * PEAK


def kept_from_ms(calendar: Calendar) -> int:
    """From when on the buckets are kept."""
    return calendar.ms(FIRST_WEEK)


class Latency:
    """The buckets of one process since its birth."""

    def __init__(self, late_first: int, late_between: int) -> None:
        self.late_first, self.late_between = late_first, late_between
        self.requests = self.gaps = self.late = self.late_gaps = 0

    def count(self, requests: int, generation: int, level: int) -> None:
        """Requests and their tokens at a level of load (millionths of the peak)."""
        gaps = max(0, generation - requests)
        self.requests += requests
        self.gaps += gaps
        self.late += requests * self.late_first * level
        self.late_gaps += gaps * self.late_between * level

    def values(self) -> tuple[int, ...]:
        """The buckets' values in the order of `BUCKETS`."""
        beyond_1 = min(self.requests, self.late // PART)
        beyond_075 = min(self.requests, beyond_1 + self.late * 3 // 4 // PART)
        return (
            self.requests - beyond_075,
            self.requests - beyond_1,
            self.requests,
            self.gaps - min(self.gaps, self.late_gaps // PART),
            self.gaps,
        )
