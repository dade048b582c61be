"""Plain hours on their way into the ledger: counted from the document's own readings, all at once.

A target is plain where nothing of it stands in the ledger from the document's first hour on, and
every hour of every counter is plain in itself (`core.plain_hours`). All other targets are derived
the careful way, from the readings kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import orjson
from django.db import connections

from finops.core.counter_values import Mark
from finops.core.plain_clock import Clock, Tick
from finops.core.plain_hours import (
    OfHour,
    Standing,
    State,
    Together,
    book_plain,
)
from finops.ledger.models import TokenHour
from finops.ledger.which import ledger_name
from finops.sources.engines import mark_of

from .blocks import Cut, Cuts
from .bulk import Line
from .bulk_text import instants, numbers
from .copying import copy_lines
from .naming import Known, Names
from .plain_rows import COLUMNS, lines_of
from .roles import COUNTER_ROLES, MARK_ROLES
from .standings import Standings, Stood

USED_ROLES = frozenset((*COUNTER_ROLES, *MARK_ROLES))
MOST_SAMPLES = 12_000_000
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
CROSS JOIN LATERAL (
    SELECT 1 FROM ledger_readingblock block
    WHERE block.series_id = wanted.id AND block.hour >= date_bin('12 hours', wanted.hour, 'epoch')
      AND block.last_ms >= (extract(epoch FROM wanted.hour) * 1000)::bigint AND block.document_id <> %s
    LIMIT 1
) found
"""


class _NotPlain(Exception):
    """A target has something that only the careful way can tell."""


@dataclass(slots=True)
class _Column:
    """A series' readings as one replica gave them, cut at the hours."""

    replica: str
    cuts: Cuts
    values: array[float]
    _marks: dict[int, int] = field(default_factory=dict)

    def mark_us(self, place: int, cut: Cut) -> int:
        """The one mark of an hour, where this column holds marks and has them at the very times of
        the hour; `place` is where to look first. _NotPlain where there is no such mark."""
        if place >= len(self.cuts) or self.cuts[place] is not cut:
            place = self._place_of(cut)
        found = self._marks.get(place)
        if found is None:
            values = self.cuts[place].of(self.values)
            if values.count(values[0]) != len(values):
                raise _NotPlain
            found = self._marks[place] = round(values[0] * 1_000_000)
        return found

    def _place_of(self, cut: Cut) -> int:
        for place, own in enumerate(self.cuts):
            if own.hour_ms == cut.hour_ms and own.times_ms == cut.times_ms:
                return place
        raise _NotPlain


Kinds = Sequence[tuple[str, _Column]]
Earliest = Callable[[], Mapping[str, int]]
"""Asks for the earliest reading of each job, in milliseconds."""
_Before = State | Stood
"""A counter before the document: as its newest row has it, or as this run left it."""


@dataclass(slots=True)
class _Held:
    """A target's counters and marks as the document gave them, by series."""

    job: str
    first_hour_ms: int
    columns: dict[int, _Column] = field(default_factory=dict)
    is_plain: bool = True


@dataclass(slots=True)
class _Group:
    """Counters of one target that one replica read at the same instants: the series, how each
    stands (in `together`), its values, and the columns that may mark it. `after` is what the times of
    the hour told that this run booked last."""

    target: int
    replica: str
    cuts: Cuts
    together: Together
    after: Tick | None
    series: list[int] = field(default_factory=list)
    values: list[array[float]] = field(default_factory=list)
    kinds: list[Kinds] = field(default_factory=list)

    def is_after(self, before: _Before) -> bool:
        """Whether a counter stands where this group's counters do, before its first hour."""
        if isinstance(before, Stood):
            return self.after is before.tick
        return self.after is None and self.together.clock.is_of(before)

    def of_hour(self, place: int) -> OfHour:
        """One hour as the core takes it; _NotPlain where its marks are not plain."""
        cut, kinds = self.cuts[place], self.kinds
        if all(each is kinds[0] for each in kinds):
            marks = [_mark(kinds[0], self.replica, place, cut)] * len(kinds)
        else:
            marks = [_mark(each, self.replica, place, cut) for each in kinds]
        return OfHour(self.together, marks, [cut.of(values) for values in self.values])


def _mark(kinds: Kinds, replica: str, place: int, cut: Cut) -> Mark | None:
    """The one mark that came with every reading of an hour; None where no column marks it.
    Another replica's marks say nothing of this one's readings."""
    for kind, column in kinds:
        if column.replica == replica:
            return kind, column.mark_us(place, cut)
    return None


class Plain:
    """The plain hours of one document."""

    def __init__(
        self, document: str, names: Names, at: datetime, standings: Standings | None = None
    ) -> None:
        self.document, self.names, self.at = document, names, at
        self.standings = Standings() if standings is None else standings
        self.held: dict[int, _Held] = {}
        self.samples = 0

    def add(self, job: str, series: Known, replica: str, cuts: Cuts, values: array[float]) -> None:
        """Remembers a series' readings until all of the document's are there."""
        target = self.held.get(series.target)
        first_hour_ms = cuts[0].hour_ms
        if target is None:
            target = self.held[series.target] = _Held(job, first_hour_ms)
        elif first_hour_ms < target.first_hour_ms:
            target.first_hour_ms = first_hour_ms
        if series.role not in USED_ROLES:
            return
        self.samples += cuts[-1].end
        if series.pk in target.columns or self.samples > MOST_SAMPLES:
            target.is_plain = False
            target.columns.clear()
        if target.is_plain:
            target.columns[series.pk] = _Column(replica, cuts, values)

    def post(self, doubtful: Iterable[int], earliest: Earliest) -> set[int]:
        """Posts the rows of all targets that are plain and gives those targets.

        `doubtful` are targets with more to derive than the document's own hours; `earliest` is only
        asked for counters without a row yet.
        """
        for target in doubtful:
            if target in self.held:
                self.held[target].is_plain = False
        self._leave_out_marked_elsewhere()
        states = self._states()
        targets = [target for target, held in self.held.items() if held.is_plain]
        plain: dict[int, list[_Group]] = {}
        for start in range(0, len(targets), TARGETS_AT_ONCE):
            plain |= self._post_some(targets[start : start + TARGETS_AT_ONCE], states, earliest)
        self.standings.take(each for groups in plain.values() for each in _stood(groups))
        return set(plain)

    def _post_some(
        self, targets: Sequence[int], states: Mapping[int, _Before], earliest: Earliest
    ) -> dict[int, list[_Group]]:
        """Posts the rows of those of the targets whose hours are all plain, and gives them."""
        groups: list[_Group] = []
        failed: set[int] = set()
        for target in targets:
            try:
                groups += self._groups(target, states, earliest)
            except _NotPlain:
                failed.add(target)
        lines = _booked(groups, failed, self.at)
        plain = [target for target in targets if target not in failed]
        copy_lines(TokenHour, COLUMNS, [line for target in plain for line in lines.get(target, ())])
        found: dict[int, list[_Group]] = {target: [] for target in plain}
        for group in groups:
            if group.target in found:
                found[group.target].append(group)
        return found

    def _leave_out_marked_elsewhere(self) -> None:
        """Marks that another document gave for the same hours would have to be united with ours."""
        marks = {
            known.pk: target
            for target, held in self.held.items()
            if held.is_plain
            for known in self.names.by_target[target].values()
            if known.role in MARK_ROLES
        }
        hours = instants(self.held[target].first_hour_ms for target in marks.values())
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_MARKED_ELSEWHERE, [numbers(marks), hours, self.document])
            for (pk,) in cursor.fetchall():
                self.held[marks[pk]].is_plain = False

    def _states(self) -> dict[int, _Before]:
        """Each counter after its newest row; targets with a row from the document's first hour on
        are left out."""
        first_ms = min((held.first_hour_ms for held in self.held.values()), default=0)
        counters = {
            known.pk: target
            for target, held in self.held.items()
            if held.is_plain
            for known in self.names.by_target[target].values()
            if known.role in COUNTER_ROLES
        }
        stood = self.standings.before(first_ms, counters)
        targets = {
            pk: target
            for pk, target in counters.items()
            if pk not in stood and (not stood or pk in self.held[target].columns)
        }
        states: dict[int, _Before] = dict(stood)
        if not targets:
            return states
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_NEWEST, [numbers(targets)])
            for pk, hour_ms, carry in cursor.fetchall():
                held = self.held[targets[pk]]
                if hour_ms >= held.first_hour_ms:
                    held.is_plain = False
                elif pk in held.columns:
                    states[pk] = orjson.loads(carry)
        return states

    def _groups(
        self, target: int, states: Mapping[int, _Before], earliest: Earliest
    ) -> list[_Group]:
        """A target's counters, those that share times and clock together; _NotPlain where a state
        is not of one replica's one counter."""
        held, series = self.held[target], self.names.by_target[target]
        marks = _Marks(series.values(), held.columns)
        groups: list[_Group] = []
        for known in series.values():
            column = held.columns.get(known.pk)
            if column is None or known.role not in COUNTER_ROLES:
                continue
            before = states.get(known.pk, {})
            if not before:
                _refuse_others(known, column, series.values(), held.columns)
            standing = _standing(before, column.replica)
            group = _found(groups, column, before)
            if group is None:
                earliest_ms = 0 if before else earliest().get(held.job, 0)
                group = _group(target, column, before, earliest_ms)
                groups.append(group)
            group.together.counters.append(standing)
            group.series.append(known.pk)
            group.values.append(column.values)
            group.kinds.append(marks.of(known))
        return groups


def _refuse_others(
    known: Known, column: _Column, of_target: Iterable[Known], columns: Mapping[int, _Column]
) -> None:
    """_NotPlain for the first readings of a counter whose target had a series of its name before: it may
    be the same counter under other labels (method §2.4)."""
    for other in of_target:
        if other.metric == known.metric and other.pk != known.pk:
            beside = columns.get(other.pk)
            if beside is None or beside.cuts[0].times_ms[0] < column.cuts[0].times_ms[0]:
                raise _NotPlain


def _standing(before: _Before, replica: str) -> Standing:
    """The counter in use; _NotPlain where another replica read it, or more than one."""
    if isinstance(before, Stood):
        found = before.standing if before.tick.replica == replica else None
    else:
        found = Standing.of(before, replica)
    if found is None:
        raise _NotPlain
    return found


def _found(groups: Iterable[_Group], column: _Column, before: _Before) -> _Group | None:
    for group in groups:
        is_alike = group.cuts is column.cuts and group.replica == column.replica
        if is_alike and group.is_after(before):
            return group
    return None


def _group(target: int, column: _Column, before: _Before, earliest_ms: int) -> _Group:
    times = {cut.hour_ms: cut.times_ms for cut in column.cuts}
    tick = before.tick if isinstance(before, Stood) else None
    clock = Clock(column.replica, times) if tick is None else Clock.after(tick, times)
    if before and not isinstance(before, Stood):
        clock.last_ms, clock.day = before["last"], before.get("day")
        clock.usual, clock.steps = before["usual"], before.get("steps", {})
    return _Group(target, column.replica, column.cuts, Together(clock, earliest_ms, []), tick)


def _stood(groups: Iterable[_Group]) -> Iterator[tuple[int, Stood]]:
    for group in groups:
        assert group.after is not None  # of its last hour
        for pk, standing in zip(group.series, group.together.counters, strict=True):
            yield pk, Stood(standing, group.after)


class _Marks:
    """The marks of a target's counters, as far as the document itself tells them."""

    def __init__(self, series: Iterable[Known], columns: Mapping[int, _Column]) -> None:
        self.created: dict[tuple[str, str], list[tuple[str, _Column]]] = {}
        self.starts: list[tuple[str, _Column]] = []
        for one in series:
            column = columns.get(one.pk)
            if column is not None and one.role == "created":
                created = self.created.setdefault((one.metric, one.digest), [])
                created.append(("created", column))
            elif column is not None and one.role == "process_start":
                self.starts.append(("process_start", column))

    def of(self, counter: Known) -> Kinds:
        """The columns that may mark a counter, the preferred kind first."""
        if not self.created:
            return self.starts
        created = self.created.get((mark_of(counter.metric) or "", counter.digest))
        return [*created, *self.starts] if created else self.starts


def _booked(groups: Iterable[_Group], failed: set[int], at: datetime) -> dict[int, list[Line]]:
    """Books every hour of the groups, hour by hour: the rows' lines by target. Targets with an
    hour that is not plain are added to `failed`."""
    by_hour: dict[int, list[tuple[_Group, int]]] = {}
    for group in groups:
        for place, cut in enumerate(group.cuts):
            by_hour.setdefault(cut.hour_ms, []).append((group, place))
    lines: dict[int, list[Line]] = {}
    for hour_ms, some in sorted(by_hour.items()):
        taken: list[tuple[_Group, OfHour]] = []
        for group, place in some:
            if group.target not in failed:
                try:
                    taken.append((group, group.of_hour(place)))
                except _NotPlain:
                    failed.add(group.target)
        rows = book_plain(hour_ms, [hour for _, hour in taken])
        for (group, _), booked in zip(taken, rows, strict=True):
            if booked is None:
                failed.add(group.target)
            else:
                group.after = booked.tick
                lines.setdefault(group.target, []).extend(
                    lines_of(group.series, group.together.counters, booked, at)
                )
    return lines
