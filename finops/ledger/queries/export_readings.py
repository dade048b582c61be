"""The readings behind what a person doubts first: restarts, births and the edges of a week (§2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from finops.core.counter_values import Carry, Counter, Mark
from finops.core.period import HOUR_MS, Period, instant_of, milliseconds, rfc3339
from finops.core.series import Row
from finops.ledger.models import ReadingBlock, Series, TokenHour
from finops.sources.engines import mark_of
from finops.sources.samples import unpack_between

from .export_table import Table, table
from .token_rows import Known

COLUMNS = ("series", "hour", "why", "at_ms", "value", "mark_us", "mark_kind", "replica", "document")
BEFORE = ("series", "hour", "current", "last_ms", "fall_ms", "counters", "replicas",
          "proven_ms")  # fmt: skip
Reading = tuple[int, str, int, "Mark | None", str]


def readings(known: Iterable[Known], period: Period, as_of: datetime) -> Iterator[Table]:
    """All readings of the hours in which a counter began, ended, alternated or had an unplaced
    opening, with its counters as they stood before; the first and the last reading of each series
    in the week."""
    rows: list[tuple[Any, ...]] = []
    befores: list[tuple[Any, ...]] = []
    for one in known:
        if not one.rows:
            continue
        for row in filter(_is_told, one.rows):
            rows += _lines(one.series, row, "counter", as_of)
            befores.append(_before(one.series, row, as_of))
        for why, row, at in (
            ("week's first", one.rows[0], one.rows[0].first_ms),
            ("week's last", one.rows[-1], one.rows[-1].last_ms),
        ):
            found = _lines(one.series, row, why, as_of)
            rows += [line for line in found if line[3] == at][:1]
    yield Table("readings", COLUMNS, rows)
    yield table("counters_before", BEFORE, befores)


def _is_told(row: Row) -> bool:
    facts = row.facts
    return bool(row.restarts or facts.keys() & {"openings", "births", "alternations", "continues"})


def _lines(series: Series, row: Row, why: str, as_of: datetime) -> list[tuple[Any, ...]]:
    hour = instant_of(row.hour_ms)
    learned = {at: mark for at, mark in row.facts.get("births", ()) if mark is not None}
    lines = []
    for at, replica, value, mark, document in _of_hour(series, hour, as_of):
        if mark is None and at in learned:  # a first mark that came later, taken back (§2.1)
            mark = (_kind_of(series, row, learned[at], as_of), learned[at])
        kind, born = mark or (None, None)
        lines.append((series.pk, rfc3339(hour), why, at, value, born, kind, replica, document))
    return lines


def carry_of(facts: Mapping[str, Any], first_ms: int) -> Carry | None:
    """The state before the first hour of a series that goes on with another's counter (§2.4)."""
    if "continues" not in facts:
        return None
    _, last_ms, high, marks = facts["continues"]
    return Carry({1: Counter(dict(marks), high, first_ms, last_ms)}, 1, last_ms)


def _kind_of(series: Series, row: Row, mark_us: int, as_of: datetime) -> str:
    """The kind of a counter's mark, from the state after the hour."""
    carry = _carry(series, as_of, hour=instant_of(row.hour_ms))
    kinds = [k for c in carry.counters.values() for k, us in c.marks.items() if us == mark_us]
    return kinds[0] if kinds else "created"


def _before(series: Series, row: Row, as_of: datetime) -> tuple[Any, ...]:
    """The counters of a series as they stood before an hour, and each replica's last reading."""
    hour = instant_of(row.hour_ms)
    carry = carry_of(row.facts, row.first_ms) or _carry(series, as_of, hour__lt=hour)
    counters = [
        {"number": number, "marks_us": one.marks, "high": one.high, "first_ms": one.first_ms}
        for number, one in sorted(carry.counters.items())
    ]
    replicas = {name: [one.time_ms, one.value] for name, one in sorted(carry.replicas.items())}
    current = carry.current if carry.counters else None
    proven = [at for at, _ in row.facts.get("births", ())]
    return (series.pk, hour, current, carry.last_ms, carry.fall_ms, counters, replicas, proven)


def _carry(series: Series, as_of: datetime, **hours: datetime) -> Carry:
    found = TokenHour.objects.filter(series=series, posted_at__lte=as_of, **hours)
    newest = found.order_by("-hour", "-revision").first()
    return Carry.from_json(newest.carry) if newest else Carry()


def _of_hour(series: Series, hour: datetime, as_of: datetime) -> list[Reading]:
    """Every reading of an hour once, with the mark that stood beside it. Of two values at one
    instant the higher counts."""
    marks = _marks(series, hour, as_of)
    found: dict[tuple[int, str], Reading] = {}
    for replica, document, at, value in _samples(series, hour, as_of):
        whole = int(value)
        if (at, replica) not in found or found[at, replica][2] < whole:
            found[at, replica] = (at, replica, whole, marks.get((replica, at)), document)
    return sorted(found.values(), key=lambda one: (one[0], one[2], one[1]))


def _marks(series: Series, hour: datetime, as_of: datetime) -> dict[tuple[str, int], Mark]:
    """Microseconds of birth by replica and instant; a `_created` value before the process's."""
    own = Series.objects.filter(
        target=series.target_id, role="created", metric=mark_of(series.metric),
        labels_digest=series.labels_digest,
    )  # fmt: skip
    process = Series.objects.filter(target=series.target_id, role="process_start")
    found: dict[tuple[str, int], Mark] = {}
    for one in (*own.order_by("pk"), *process.order_by("pk")):
        mine: dict[tuple[str, int], float] = {}
        for replica, _, at, value in _samples(one, hour, as_of):
            mine[replica, at] = max(value, mine.get((replica, at), value))
        for key, value in mine.items():
            found.setdefault(key, (one.role, round(value * 1_000_000)))
    return found


def _samples(
    series: Series, hour: datetime, as_of: datetime
) -> Iterator[tuple[str, str, int, float]]:
    span = milliseconds(hour), milliseconds(hour) + HOUR_MS
    blocks = ReadingBlock.objects.filter(series=series, document__received_at__lte=as_of).touching(
        *span
    )
    for block in blocks.order_by("document_id", "hour", "part"):
        times, values = unpack_between(bytes(block.payload), *span)
        for at, value in zip(times, values, strict=True):
            yield block.replica, block.document_id, at, value
