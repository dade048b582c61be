"""The rows of plain hours, as lines of COPY: a counter's hour and how the counter stands after it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import orjson

from finops.core.period import instant_of
from finops.core.plain_hours import Booked, Standing, states_after

from .bulk import Line
from .bulk_text import text_field
from .deriving import COMPARED

COLUMNS = ("series_id", "hour", "revision", *COMPARED, "posted_at")


def lines_of(
    series: Sequence[int], counters: Sequence[Standing], booked: Booked, at: datetime
) -> list[Line]:
    """Rows of TokenHour; plain hours know neither restarts nor gaps."""
    tick = booked.tick
    hour = f"\t{instant_of(tick.hour_ms).isoformat()}\t1\t"
    readings = f"\t{tick.readings}\t0\t0\t"
    times = f"\t{tick.usual_ms}\t{tick.first_ms}\t{tick.last_ms}\t"
    posted = f"\t{at.isoformat()}\n"
    states = states_after(tick, counters)
    if "\\" in states[0]:  # of the replica's name
        states = [text_field(state).decode() for state in states]
    facts = _facts(booked)
    lines = []
    for place, (pk, tokens, (rate, rate_ms), state) in enumerate(
        zip(series, booked.tokens, booked.rates, states, strict=True)
    ):
        opening = booked.openings[place][1] if place in booked.openings else 0
        lines.append(
            f"{pk}{hour}{tokens}{readings}{opening}\t{rate}\t{rate_ms}{times}"
            f"{facts.get(place, '{}')}\t{state}{posted}".encode()
        )
    return lines


def _facts(booked: Booked) -> dict[int, str]:
    """The facts of the rows that have any, as JSON, by their place."""
    found: dict[int, dict[str, object]] = {}
    for place, birth in booked.births.items():
        found.setdefault(place, {})["births"] = [birth]
    for place, opening in booked.openings.items():
        found.setdefault(place, {})["openings"] = [opening]
    if any(booked.unmarked):
        for place, is_unmarked in enumerate(booked.unmarked):
            if is_unmarked:
                found.setdefault(place, {})["unmarked"] = True
    return {place: orjson.dumps(facts).decode() for place, facts in found.items()}
