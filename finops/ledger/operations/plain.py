"""Plain hours on their way into the ledger: counted from the document's own readings, all at once.

A target is plain where nothing of it stands in the ledger from the document's first hour on, and
every hour of every counter is plain in itself (`core.plain_hours`). All other targets are derived
the careful way, from the readings kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np
import orjson
from django.db import connections

from finops.core.counter import DAY_MS, HourRow, Mark
from finops.core.period import HOUR_MS, instant_of
from finops.core.plain_hours import Numbers, PlainHour, State, book_plain
from finops.ledger.models import TokenHour
from finops.ledger.which import ledger_name
from finops.sources.engines import mark_of

from .blocks import Piece
from .bulk import Line, copy_lines, text_field
from .deriving import COMPARED, COUNTER_ROLES
from .naming import Known, Names

MARK_ROLES = ("created", "process_start")
MOST_SAMPLES = 6_000_000
"""A document with more is derived the careful way: its readings are not all held in memory."""

TARGETS_AT_ONCE = 400

# The newest row of each series, by its index: the cost of asking must not grow with history.
_NEWEST = """
SELECT wanted.id, (extract(epoch FROM row.hour) * 1000)::bigint, row.carry::text
FROM unnest(%s::bigint[]) AS wanted(id)
CROSS JOIN LATERAL (
    SELECT hour, carry FROM ledger_tokenhour
    WHERE series_id = wanted.id ORDER BY hour DESC, revision DESC LIMIT 1
) row
"""
_MARKED_ELSEWHERE = """
SELECT wanted.id
FROM unnest(%s::bigint[], %s::timestamptz[]) AS wanted(id, hour)
WHERE EXISTS (
    SELECT 1 FROM ledger_readingblock block
    WHERE block.series_id = wanted.id AND block.hour >= wanted.hour AND block.document_id <> %s
)
"""
_COLUMNS = ("series_id", "hour", "revision", *COMPARED, "posted_at")


class _Column(NamedTuple):
    replica: str
    times_ms: array[int]
    values: array[float]


@dataclass(slots=True)
class _Held:
    """A target's counters and marks as the document gave them, by series and hour."""

    job: str
    first_hour_ms: int
    columns: dict[int, dict[int, _Column]] = field(default_factory=dict)
    is_plain: bool = True


class Plain:
    """The plain hours of one document."""

    def __init__(self, document: str, names: Names, at: datetime) -> None:
        self.document, self.names, self.at = document, names, at
        self.held: dict[int, _Held] = {}
        self.samples = 0
        # Counters of one target are read at the same times: one column for all of them, so that
        # the clock of an hour is told once (`core.plain_hours.Clocks`).
        self._times: dict[bytes, array[int]] = {}

    def add(self, job: str, piece: Piece) -> None:
        """Remembers a piece until all of the document's are there."""
        series = piece.series
        target = self.held.setdefault(series.target, _Held(job, piece.hour_ms))
        target.first_hour_ms = min(target.first_hour_ms, piece.hour_ms)
        if series.role not in COUNTER_ROLES and series.role not in MARK_ROLES:
            return
        self.samples += len(piece.times_ms)
        hours = target.columns.setdefault(series.pk, {})
        if piece.hour_ms in hours or self.samples > MOST_SAMPLES:
            target.is_plain = False
            target.columns.clear()
        if target.is_plain:
            times_ms = self._times.setdefault(piece.times_ms.tobytes(), piece.times_ms)
            hours[piece.hour_ms] = _Column(piece.replica, times_ms, piece.values)

    def post(self, doubtful: Iterable[int], earliest: Mapping[str, int]) -> set[int]:
        """Posts the rows of all targets that are plain and gives those targets.

        `doubtful` are targets with more to derive than the document's own hours.
        """
        for target in doubtful:
            if target in self.held:
                self.held[target].is_plain = False
        self._leave_out_marked_elsewhere()
        states = self._states()
        targets = [target for target, held in self.held.items() if held.is_plain]
        plain: set[int] = set()
        for start in range(0, len(targets), TARGETS_AT_ONCE):
            plain |= self._post_some(targets[start : start + TARGETS_AT_ONCE], states, earliest)
        return plain

    def _post_some(
        self, targets: Sequence[int], states: Mapping[int, State], earliest: Mapping[str, int]
    ) -> set[int]:
        """Posts the rows of those of the targets whose hours are all plain, and gives them."""
        counters = [
            counter
            for target in targets
            for counter in self._counters(target, self.held[target], states, earliest)
        ]
        plain = set(targets) - {counter.target for counter in _booked(counters)}
        lines = [
            _line(counter.series, row, self.at)
            for counter in counters
            if counter.target in plain
            for row in counter.rows
        ]
        copy_lines(TokenHour, _COLUMNS, lines)
        return plain

    def _leave_out_marked_elsewhere(self) -> None:
        """Marks that another document gave for the same hours would have to be united with ours."""
        marks = {
            known.pk: target
            for target, held in self.held.items()
            if held.is_plain
            for known in self.names.by_target[target].values()
            if known.role in MARK_ROLES
        }
        hours = [instant_of(self.held[target].first_hour_ms) for target in marks.values()]
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_MARKED_ELSEWHERE, [list(marks), hours, self.document])
            for (pk,) in cursor.fetchall():
                self.held[marks[pk]].is_plain = False

    def _states(self) -> dict[int, State]:
        """The state of each counter after its newest row; targets with a row from the document's
        first hour on are left out."""
        targets = {
            known.pk: target
            for target, held in self.held.items()
            if held.is_plain
            for known in self.names.by_target[target].values()
            if known.role in COUNTER_ROLES
        }
        states: dict[int, State] = {}
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_NEWEST, [list(targets)])
            for pk, hour_ms, carry in cursor.fetchall():
                held = self.held[targets[pk]]
                if hour_ms >= held.first_hour_ms:
                    held.is_plain = False
                elif pk in held.columns:
                    states[pk] = orjson.loads(carry)
        return states

    def _counters(
        self,
        target: int,
        held: _Held,
        states: Mapping[int, State],
        earliest: Mapping[str, int],
    ) -> Iterator[_Counter]:
        series = self.names.by_target[target]
        marks = _Marks(series.values(), held.columns)
        for known in series.values():
            if known.role in COUNTER_ROLES and (hours := held.columns.get(known.pk)):
                yield _Counter(
                    target,
                    known.pk,
                    dict(sorted(hours.items())),
                    marks.of(known),
                    states.get(known.pk, {}),
                    earliest.get(held.job, 0),
                )


class _Marks:
    """The marks of a target's counters, as far as the document itself tells them."""

    def __init__(self, series: Iterable[Known], columns: Mapping[int, dict[int, _Column]]) -> None:
        self.columns = columns
        self.created: dict[tuple[str, str], list[Known]] = {}
        self.starts: list[Known] = []
        for one in series:
            if one.pk in columns and one.role == "created":
                self.created.setdefault((one.metric, one.digest), []).append(one)
            elif one.pk in columns and one.role == "process_start":
                self.starts.append(one)
        self._whole: dict[tuple[int, int], Mark | None] = {}

    def of(self, counter: Known) -> _MarksOf:
        """The columns that may mark a counter, the preferred kind first."""
        created = self.created.get((mark_of(counter.metric) or "", counter.digest), [])
        kinds = [("created", one) for one in created]
        kinds += [("process_start", one) for one in self.starts]
        return _MarksOf(self, kinds)


@dataclass(slots=True)
class _MarksOf:
    marks: _Marks
    kinds: list[tuple[str, Known]]

    def at(self, hour_ms: int, column: _Column) -> tuple[bool, Mark | None]:
        """Whether one mark, or none at all, came with every reading of an hour; and the mark."""
        for kind, one in self.kinds:
            hours = self.marks.columns[one.pk]
            if all(each.replica != column.replica for each in hours.values()):
                continue  # another replica's marks say nothing of this one's readings
            found = hours.get(hour_ms)
            if found is None or found.replica != column.replica:
                return False, None
            if found.times_ms is not column.times_ms and found.times_ms != column.times_ms:
                return False, None
            first = found.values[0]
            if found.values.count(first) != len(found.values):
                return False, None
            return True, (kind, round(first * 1_000_000))
        return True, None


@dataclass(slots=True)
class _Counter:
    """One counter's hours in the document, and the rows made of them so far."""

    target: int
    series: int
    hours: dict[int, _Column]
    marks: _MarksOf
    state: State
    earliest_ms: int
    rows: list[HourRow] = field(default_factory=list)

    def hour(self, hour_ms: int, values: Numbers) -> PlainHour | None:
        """An hour as the core takes it; None where its marks are not plain."""
        column = self.hours[hour_ms]
        is_plain, mark = self.marks.at(hour_ms, column)
        if not is_plain:
            return None
        next_day_ms = (hour_ms // DAY_MS + 1) * DAY_MS
        same_day = [
            self.hours[at_ms].times_ms
            for at_ms in range(hour_ms, next_day_ms, HOUR_MS)
            if at_ms in self.hours
        ]
        return PlainHour(
            hour_ms,
            column.replica,
            mark,
            column.times_ms,
            values,
            same_day,
            self.state,
            self.earliest_ms,
        )


def _booked(counters: Sequence[_Counter]) -> list[_Counter]:
    """Books every hour of every counter, hour by hour; gives the counters that are not plain."""
    failed: dict[int, _Counter] = {}
    for hour_ms in sorted({hour_ms for counter in counters for hour_ms in counter.hours}):
        taking = [
            counter
            for counter in counters
            if hour_ms in counter.hours and counter.series not in failed
        ]
        hours: list[tuple[_Counter, PlainHour]] = []
        for counter in taking:
            values = np.frombuffer(counter.hours[hour_ms].values, np.float64).astype(np.int64)
            hour = counter.hour(hour_ms, values)
            if hour is None:
                failed[counter.series] = counter
            else:
                hours.append((counter, hour))
        rows = book_plain([hour for _, hour in hours])
        for (counter, _), row in zip(hours, rows, strict=True):
            if row is None:
                failed[counter.series] = counter
            else:
                counter.state = row.carry
                counter.rows.append(row)
    return list(failed.values())


def _line(series: int, row: HourRow, at: datetime) -> Line:
    """A row of TokenHour; plain hours know neither restarts nor gaps."""
    facts: dict[str, object] = {}
    if row.births:
        facts["births"] = row.births
    if row.openings:
        facts["openings"] = row.openings
    if row.unmarked:
        facts["unmarked"] = True
    opening = sum(value for _, value in row.openings)
    hour = instant_of(row.hour_ms).isoformat()
    head = (
        f"{series}\t{hour}\t1\t{row.tokens}\t{row.readings}\t0\t0\t{opening}\t{row.rate_tokens}"
        f"\t{row.rate_ms}\t{row.usual_ms}\t{row.first_ms}\t{row.last_ms}\t"
    )
    told = b"\t".join((text_field(orjson.dumps(facts)), text_field(orjson.dumps(row.carry))))
    return head.encode() + told + f"\t{at.isoformat()}\n".encode()
