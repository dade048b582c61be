"""The usual interval of a replica on a UTC day (method §2.5): set for a day, and whether more hours leave it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from .counter_values import DAY_MS, Carry, HourReadings
from .steps import Steps, lower_median


def continues(hours: Sequence[HourReadings], carry: Carry) -> bool:
    """Whether hours of the carry's own UTC day leave its usual intervals as they are.

    Then `derive` may go on from the carry; else the day must be derived from its start, because
    its earlier hours were judged by another interval (method §2.5).
    """
    steps = {
        name: Steps(one.last_ms, None if one.counts is None else dict(one.counts))
        for name, one in carry.steps.items()
        if one.is_seen
    }
    for hour in hours:
        if hour.hour_ms // DAY_MS != carry.day:
            break
        for name, readings in hour.replicas.items():
            if name not in steps:
                return False
            steps[name].add(readings.times_ms)
    return all(
        one.usual_ms() is not None and one.usual_ms() == carry.usual_ms.get(name)
        for name, one in steps.items()
        if one.is_seen
    )


def set_usual(day: Sequence[HourReadings], carry: Carry) -> None:
    """Each replica's usual interval of the day: the lower median of its steps that end in it."""
    times: dict[str, list[int]] = {}
    for hour in day:
        for name, readings in hour.replicas.items():
            times.setdefault(name, []).extend(readings.times_ms)
    for name, seen in times.items():
        before = carry.replicas.get(name)
        whole = [before.time_ms, *seen] if before else seen
        steps = list(map(sub, whole[1:], whole))
        if len(steps) == 1 and name in carry.usual_ms:
            carry.usual_ms[name] = min(steps[0], carry.usual_ms[name])
        elif steps:
            carry.usual_ms[name] = lower_median(steps)
    for name in [n for n in carry.usual_ms if n not in times]:
        if times:
            del carry.usual_ms[name]
    last = {name: carry.replicas.get(name) for name in times}
    carry.steps = {name: Steps(one.time_ms if one else None) for name, one in last.items()}
