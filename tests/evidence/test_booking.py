"""The pack's own booking of an hour against the ledger's, on hours with any sequence of readings.

`verify.Booking` was written from the method alone (§2.1, §2.2, §2.4); what a pack tells of an hour is its
readings and its counters as they stood before. Neither shares code with the other.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.counter import derive
from finops.core.counter_values import Carry, Context, HourReadings, HourRow, Readings
from reports.evidence import verify

HOUR_MS, BASE_MS = 3_600_000, 1_795_910_400_000
KINDS = ("created", "process_start")


@st.composite
def days(draw: st.DrawFn) -> list[HourReadings]:
    """A few hours of one address: one to three processes, alternating or not, one or two replicas,
    marks there, missing or late."""
    marked, replicas = draw(st.booleans()), draw(st.sampled_from([("",), ("a", "b")]))
    births = [draw(st.integers(-90 * HOUR_MS, 4 * HOUR_MS)) for _ in range(3)]
    hours, now = [], [draw(st.integers(0, 10**6)) for _ in births]
    alive = 0
    for hour in range(4):
        found: dict[str, Readings] = {}
        for name in replicas:
            times, values, marks = [], [], []
            for minute in range(draw(st.integers(0, 5))):
                alive = draw(st.sampled_from([alive, alive, 0, 1, 2]))
                now[alive] += draw(st.integers(0, 5000))
                if draw(st.integers(0, 9)) == 0:
                    now[alive] = draw(st.integers(0, 2000))
                    births[alive] = hour * HOUR_MS + minute * 600_000 - draw(st.integers(0, 60_000))
                times.append(BASE_MS + hour * HOUR_MS + minute * 600_000 + len(name))
                values.append(now[alive])
                kind = draw(st.sampled_from([None, *KINDS])) if draw(st.booleans()) else KINDS[1]
                mark = (kind, (BASE_MS + births[alive]) * 1000) if kind else None
                marks.append(mark if marked else None)
            if times:
                found[name] = Readings(times, values, list(marks))
        if found:
            hours.append(HourReadings(BASE_MS + hour * HOUR_MS, found))
    return hours


def before_of(carry: Carry, row: HourRow) -> dict[str, Any]:
    return {
        "current": carry.current or "",
        "last_ms": carry.last_ms,
        "fall_ms": carry.fall_ms,
        "counters": [
            {"number": n, "marks_us": dict(c.marks), "high": c.high, "first_ms": c.first_ms}
            for n, c in carry.counters.items()
        ],
        "replicas": {name: [last.time_ms, last.value] for name, last in carry.replicas.items()},
        "proven_ms": [at for at, _ in row.births],
    }


def rows_of(hour: HourReadings, row: HourRow) -> list[dict[str, Any]]:
    found = []
    for name, readings in hour.replicas.items():
        for index, (at, value) in enumerate(zip(readings.times_ms, readings.values, strict=True)):
            kind, mark = readings.mark_at(index) or ("", "")
            found.append({"at_ms": at, "value": value, "replica": name, "mark_kind": kind,
                          "mark_us": str(mark)})  # fmt: skip
    return sorted(found, key=lambda one: (one["at_ms"], one["value"], one["replica"]))


def told(row: HourRow) -> verify.Hour:
    return verify.Hour(
        row.tokens, row.readings, len(row.restarts), sum(one.hidden for one in row.restarts),
        len(row.openings), sum(value for _, value in row.openings), row.alternations,
        int(row.unmarked), row.rate_tokens, row.rate_ms, row.first_ms, row.last_ms,
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(days())
def test_every_hour_is_booked_alike(hours: list[HourReadings]) -> None:
    rows, _ = derive(hours, Carry(), Context(earliest_ms=0, ups_ms=[BASE_MS - 1]))
    states = [Carry(), *(Carry.from_json(row.carry) for row in rows)]
    for hour, row, state in zip(hours, rows, states[:-1], strict=True):
        said = told(row)
        booked = verify.Booking(before_of(state, row)).of(rows_of(hour, row))
        for name in ("tokens", "readings", "restarts", "hidden_resets", "openings",
                     "opening_tokens", "alternations", "first_ms", "last_ms"):  # fmt: skip
            assert getattr(booked, name) == getattr(said, name), name


@pytest.mark.parametrize("what", ["value", "mark_us", "high"])
def test_a_changed_reading_changes_what_is_booked(what: str) -> None:
    """Two processes take turns behind one address; each counter goes on where it was."""
    carry = Carry()
    old, new = (KINDS[1], (BASE_MS - 9 * HOUR_MS) * 1000), (KINDS[1], (BASE_MS - 5000) * 1000)
    hour = HourReadings(
        BASE_MS, {"": Readings([BASE_MS + 1, BASE_MS + 2, BASE_MS + 3], [100, 7, 130], [old, new, old])}
    )  # fmt: skip
    (row,), _ = derive([hour], carry, Context(earliest_ms=BASE_MS - 20 * HOUR_MS))
    rows = rows_of(hour, row)
    before, other = (
        before_of(Carry(), row),
        before_of(Carry({1: carry.counters[1]}, 1, BASE_MS), row),
    )
    assert verify.Booking(before).of(rows).tokens == row.tokens > 0
    if what == "high":
        before = other
    else:
        rows[-1][what] = (
            rows[-1][what] + 1 if what == "value" else str(int(rows[-1][what]) - 10**12)
        )
    assert verify.Booking(before).of(rows).tokens != row.tokens
