"""What goes into the derivation of a counter and what comes out: readings, the state between two hours,
and an hour's row with the facts that a period's bounds need (method §2.1–2.6).

Times are whole milliseconds, values whole tokens, marks whole microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .period import HOUR_MS
from .steps import Steps

DAY_MS = 24 * HOUR_MS
SKEW_MS = 5_000
BIRTH_WITHIN_MS = 24 * HOUR_MS
REMEMBERED_COUNTERS = 16
"""How many earlier incarnations are remembered behind one address."""

Mark = tuple[str, int]
"""The mark of an incarnation: its kind (`created` or `process_start`) and microseconds."""


@dataclass(slots=True)
class Readings:
    """One replica's readings in one hour, in time order; one mark for all, or one for each."""

    times_ms: Sequence[int]
    values: Sequence[int]
    marks: Mark | list[Mark | None] | None = None

    def mark_at(self, index: int) -> Mark | None:
        """The mark that came with a reading."""
        return self.marks[index] if isinstance(self.marks, list) else self.marks


@dataclass(slots=True)
class HourReadings:
    """All replicas' readings of one series in one hour."""

    hour_ms: int
    replicas: Mapping[str, Readings]


@dataclass(slots=True)
class Counter:
    """One incarnation's counter: its marks by kind, highest value booked, first and last reading."""

    marks: dict[str, int]
    high: int
    first_ms: int
    last_ms: int


@dataclass(slots=True)
class Last:
    """A replica's last reading, and which counter it was of."""

    time_ms: int
    value: int
    counter: int


@dataclass(slots=True)
class Carry:
    """The counters of a series as they stand between two hours.

    `day` is the UTC day of the last hour and `steps` its steps so far, so that an hour more of
    the day can be derived without the hours before it where the usual interval stays.
    """

    counters: dict[int, Counter] = field(default_factory=dict)
    current: int = 0
    last_ms: int | None = None
    fall_ms: int | None = None
    replicas: dict[str, Last] = field(default_factory=dict)
    usual_ms: dict[str, int] = field(default_factory=dict)
    day: int | None = None
    steps: dict[str, Steps] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain values, the same for the same state."""
        return {
            "counters": [
                [number, dict(sorted(c.marks.items())), c.high, c.first_ms, c.last_ms]
                for number, c in sorted(self.counters.items())
            ],
            "current": self.current,
            "last": self.last_ms,
            "fall": self.fall_ms,
            "replicas": {
                name: [last.time_ms, last.value, last.counter]
                for name, last in sorted(self.replicas.items())
            },
            "usual": dict(sorted(self.usual_ms.items())),
            "day": self.day,
            "steps": {
                name: steps.as_json() for name, steps in sorted(self.steps.items()) if steps.is_seen
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Carry:
        """The state that `as_json` wrote; an empty mapping is the state before any reading."""
        if not value:
            return cls()
        return cls(
            {
                number: Counter(dict(marks), high, first, last)
                for number, marks, high, first, last in value["counters"]
            },
            value["current"],
            value["last"],
            value["fall"],
            {n: Last(*r) for n, r in value["replicas"].items()},
            dict(value["usual"]),
            value.get("day"),
            {name: Steps.from_json(steps) for name, steps in value.get("steps", {}).items()},
        )


@dataclass(frozen=True, slots=True)
class Restart:
    """An incarnation that ended and the next that was seen: what lies between is dark (§2.6).

    `value` is what the next one's first reading booked: 0 where it is an unplaced opening.
    """

    from_ms: int
    to_ms: int
    mark_us: int | None
    value: int
    hidden: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """A step over 2.5 times the usual interval, and the tokens its last reading booked."""

    from_ms: int
    to_ms: int
    usual_ms: int
    tokens: int


@dataclass(slots=True)
class HourRow:
    """What one hour of one series is worth, with the facts a period's bounds need."""

    hour_ms: int
    tokens: int = 0
    readings: int = 0
    restarts: list[Restart] = field(default_factory=list)
    openings: list[tuple[int, int]] = field(default_factory=list)
    births: list[tuple[int, int | None]] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    alternations: int = 0
    rate_tokens: int = 0
    rate_ms: int = 1
    usual_ms: int | None = None
    first_ms: int = 0
    last_ms: int = 0
    unmarked: bool = False
    carry: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """What must be known of a series' surroundings to prove a birth (method §2.4).

    `earliest_ms`: the earliest reading of the same job in this source. `ups_ms`: times of the
    target's `up` readings, ascending. `first_marks`: marks learned later for counters whose first
    reading had none, by that reading's time.
    """

    earliest_ms: int
    ups_ms: Sequence[int] = ()
    first_marks: Mapping[int, Mark] = field(default_factory=dict)


def proves_birth(mark_ms: int, first_ms: int, earliest_ms: int) -> bool:
    """Whether a mark says that all a first reading shows was counted since the job's earliest reading
    and in the 24 h before (method §2.4). One that lies after the reading by more than clocks may differ
    says nothing: a clock that is wrong by a day makes an old process look unborn."""
    return (
        earliest_ms <= mark_ms
        and not is_ahead(mark_ms, first_ms)
        and first_ms - mark_ms <= BIRTH_WITHIN_MS
    )


def is_ahead(mark_ms: int, time_ms: int) -> bool:
    """Whether a mark lies after a reading that came with it by more than clocks may differ: the clock
    that wrote it is wrong, and it tells nothing but that this is one process and that another."""
    return mark_ms > time_ms + SKEW_MS


def is_gap(step_ms: int, usual_ms: int) -> bool:
    """A step over 2.5 times the usual interval (method §2.5)."""
    return 2 * step_ms > 5 * usual_ms
