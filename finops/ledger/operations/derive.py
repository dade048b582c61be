"""Deriving token hours from the readings kept: the affected days of the affected targets.

A target's row is locked while it is derived, so two posts at once cannot interleave. A row is
posted only where it differs from the current one: posting the same readings again adds nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.models import Max, Min

from finops.core import counter as core
from finops.core.counter import DAY_MS, Carry, Context, HourReadings, HourRow, Mark, Readings
from finops.core.dark import Ups, dark_of, silence_of
from finops.core.period import HOUR_MS, instant_of, milliseconds
from finops.ledger.models import ReadingBlock, Series, Source, Target, TokenHour
from finops.ledger.which import ledger_name
from finops.sources.engines import mark_of

from .bulk import copy_rows
from .cache import derive_cache
from .columns import Columns, read_columns
from .devices import derive_devices
from .locks import lock, lock_shared
from .nodes import derive_nodes

COUNTER_ROLES = (
    "prompt",
    "generation",
    "cached_prompt",
    "prefix_hits",
    "delivered_prompt",
    "delivered_generation",
    "preemptions",
    "external_prompt",
    "answers",
    "answered",
)
_NO_POSTING = instant_of(0)


@dataclass(slots=True)
class Affected:
    """The targets and jobs that readings touched, each with its earliest affected instant."""

    targets: dict[int, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)

    def add(self, series: Series, job: str, time_ms: int) -> None:
        """A series got readings from this instant on."""
        target = series.target_id
        self.targets[target] = min(time_ms, self.targets.get(target, time_ms))
        self.jobs[job] = min(time_ms, self.jobs.get(job, time_ms))

    def moved(self, earliest: Mapping[str, int]) -> list[str]:
        """The jobs whose earliest reading is among these readings."""
        return [job for job, first in self.jobs.items() if first <= earliest.get(job, first)]


def earliest_of_jobs(source: Source) -> dict[str, int]:
    """The earliest reading of each job of a source, `up` included, in milliseconds."""
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_EARLIEST, [source.pk])
        return dict(cursor.fetchall())


# The first block of each series by its index, not a scan of all blocks: the cost of asking must
# not grow with history.
_EARLIEST = """
SELECT target.job, min(block.first_ms)
FROM ledger_target target
JOIN ledger_series series ON series.target_id = target.id
CROSS JOIN LATERAL (
    SELECT first_ms FROM ledger_readingblock
    WHERE series_id = series.id ORDER BY hour, first_ms LIMIT 1
) block
WHERE target.source_id = %s
GROUP BY target.job
"""


def derive_affected(source: Source, affected: Affected, *, at: datetime) -> None:
    """Derives every affected target, and those whose births an earlier reading of their job may
    now prove (method §2.4).

    Who moves a job's earliest reading waits for all others that derive, and they for it: each
    must see the other's rows or the other's readings.
    """
    if not affected.targets:
        return
    alone = affected.moved(earliest_of_jobs(source))
    (lock if alone else lock_shared)("births", str(source.pk))
    earliest = earliest_of_jobs(source)
    if moved := affected.moved(earliest):
        openings = TokenHour.objects.filter(
            series__target__source=source, series__target__job__in=moved, opening_tokens__gt=0
        )
        for target, hour in openings.values_list("series__target").annotate(Min("hour")):
            first = milliseconds(hour)
            affected.targets[target] = min(first, affected.targets.get(target, first))
    locked = Target.objects.select_for_update().order_by("pk").filter(pk__in=affected.targets)
    for target in locked:
        from_day = affected.targets[target.pk] // DAY_MS * DAY_MS
        _Deriving(target, earliest.get(target.job, 0), at).derive(from_day)


def differences(series_ids: Iterable[int]) -> list[str]:
    """Which current rows of series differ from a fresh derivation from their readings."""
    problems: list[str] = []
    for series in Series.objects.filter(pk__in=series_ids, role__in=COUNTER_ROLES):
        earliest = earliest_of_jobs(series.target.source).get(series.target.job, 0)
        deriving = _Deriving(series.target, earliest, _NO_POSTING)
        fresh = {row.hour: row for row in deriving.rows_of(series, 0)}
        kept = current_rows(series, 0)
        for hour in sorted(fresh.keys() | kept.keys()):
            if hour not in kept or hour not in fresh or not _same(kept[hour], fresh[hour]):
                problems.append(f"{series} {hour:%Y-%m-%dT%H:%MZ}: row and readings differ")
    return problems


def current_rows(series: Series, from_ms: int) -> dict[datetime, TokenHour]:
    """The current rows of a series from an instant on, by hour."""
    rows = (
        TokenHour.objects.filter(series=series, hour__gte=instant_of(from_ms))
        .order_by("hour", "-revision")
        .distinct("hour")
    )
    return {row.hour: row for row in rows}


class _Deriving:
    """The derivation of one target."""

    def __init__(self, target: Target, earliest_ms: int, at: datetime) -> None:
        self.target, self.earliest_ms, self.at = target, earliest_ms, at
        self.series = list(target.series.all())
        self._columns: dict[tuple[int, int], dict[str, Columns]] = {}

    def derive(self, from_day: int) -> None:
        """Posts the rows of every counter of the target from a UTC day on."""
        new: list[TokenHour] = []
        for series in self.series:
            if series.role in COUNTER_ROLES:
                new.extend(self._changed(series, from_day))
        copy_rows(new)
        derive_cache(self.target, self.series, from_day, at=self.at)
        derive_devices(self.target, self.series, from_day, at=self.at)
        derive_nodes(self.series, from_day, at=self.at)

    def _changed(self, series: Series, from_day: int) -> Iterator[TokenHour]:
        fresh = self.rows_of(series, from_day)
        kept = current_rows(series, milliseconds(fresh[0].hour) if fresh else from_day)
        for row in fresh:
            old = kept.get(row.hour)
            if old is None or not _same(old, row):
                row.revision = old.revision + 1 if old else 1
                yield row

    def rows_of(self, series: Series, from_day: int) -> list[TokenHour]:
        """The rows of a series from a day on, derived anew; they may begin earlier, where a mark
        that came later is taken back to a counter's first reading (method §2.1)."""
        first_marks: dict[int, Mark] = {}
        while True:
            carry = self._carry_before(series, from_day)
            ups = self._ups(from_day - DAY_MS)
            context = Context(self.earliest_ms, ups.times_ms, first_marks)
            rows, learned = core.derive(self._hours(series, from_day), carry, context)
            if not learned.keys() - first_marks.keys():
                return [self._row(series, row, from_day, ups) for row in rows]
            first_marks |= learned
            from_day = min(from_day, *(first // DAY_MS * DAY_MS for first in learned))

    def _carry_before(self, series: Series, day: int) -> Carry:
        row = (
            TokenHour.objects.filter(series=series, hour__lt=instant_of(day))
            .order_by("-hour", "-revision")
            .first()
        )
        return Carry.from_json(row.carry) if row else Carry()

    # -- reading the blocks --------------------------------------------------------------------

    def columns(self, series: Series, from_ms: int) -> dict[str, Columns]:
        """Times and values by replica from an instant on, in time order, each reading once."""
        key = (series.pk, from_ms)
        if key not in self._columns:
            self._columns[key] = read_columns(series, from_ms)
        return self._columns[key]

    def _hours(self, series: Series, from_ms: int) -> Iterator[HourReadings]:
        marks = self._marks(series, from_ms)
        by_hour: dict[int, dict[str, Readings]] = {}
        for replica, (times, values) in self.columns(series, from_ms).items():
            for hour_ms, start, end in _hour_slices(times):
                hour_times = times[start:end]
                by_hour.setdefault(hour_ms, {})[replica] = Readings(
                    hour_times,
                    list(map(int, values[start:end])),
                    _marks_at(hour_times, marks.get(replica, ())),
                )
        for hour_ms in sorted(by_hour):
            yield HourReadings(hour_ms, by_hour[hour_ms])

    def _marks(self, series: Series, from_ms: int) -> dict[str, list[tuple[str, dict[int, int]]]]:
        """By replica: the kinds of marks in order of preference, each as time to microseconds."""
        found: dict[str, list[tuple[str, dict[int, int]]]] = {}
        for kind, marking in (
            ("created", self._created_of(series)),
            ("process_start", [s for s in self.series if s.role == "process_start"]),
        ):
            for one in marking:
                for replica, (times, values) in self.columns(one, from_ms).items():
                    # The mark only tells incarnations apart; it is no amount.
                    whole = {t: round(v * 1_000_000) for t, v in zip(times, values, strict=True)}
                    found.setdefault(replica, []).append((kind, whole))
        return found

    def _created_of(self, series: Series) -> list[Series]:
        name = mark_of(series.metric)
        return [
            one
            for one in self.series
            if one.role == "created"
            and one.metric == name
            and one.labels_digest == series.labels_digest
        ]

    def _ups(self, from_ms: int) -> Ups:
        readings: list[tuple[int, int]] = []
        for series in self.series:
            if series.role == "up":
                for times, values in self.columns(series, max(0, from_ms)).values():
                    readings.extend(zip(times, map(int, values), strict=True))
        readings.sort()
        return Ups([t for t, _ in readings], [v for _, v in readings])

    # -- writing the rows ----------------------------------------------------------------------

    def _row(self, series: Series, row: HourRow, from_day: int, ups: Ups) -> TokenHour:
        return TokenHour(
            series=series,
            hour=instant_of(row.hour_ms),
            revision=1,
            tokens=row.tokens,
            readings=row.readings,
            restarts=len(row.restarts),
            hidden_resets=sum(restart.hidden for restart in row.restarts),
            opening_tokens=sum(value for _, value in row.openings),
            rate_tokens=row.rate_tokens,
            rate_ms=row.rate_ms,
            usual_ms=row.usual_ms,
            first_ms=row.first_ms,
            last_ms=row.last_ms,
            facts=self._facts(row, from_day, ups),
            carry=row.carry,
            posted_at=self.at,
        )

    def _facts(self, row: HourRow, from_day: int, ups: Ups) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if row.births:
            facts["births"] = [list(birth) for birth in row.births]
        if row.openings:
            facts["openings"] = [list(opening) for opening in row.openings]
        if row.gaps:
            facts["gaps"] = [[g.from_ms, g.to_ms, g.usual_ms, g.tokens] for g in row.gaps]
        if row.alternations:
            facts["alternations"] = row.alternations
        if row.unmarked:
            facts["unmarked"] = True
        if row.restarts:
            facts["restarts"] = [
                self._restart(r, row.usual_ms, self._ups_around(r, from_day, ups))
                for r in row.restarts
            ]
        return facts

    def _ups_around(self, restart: core.Restart, from_day: int, ups: Ups) -> Ups:
        """The `up` readings from a day before a restart's dark, which may begin long before the
        days that are derived."""
        if restart.from_ms >= from_day:
            return ups
        return self._ups((restart.from_ms // DAY_MS - 1) * DAY_MS)

    def _restart(self, restart: core.Restart, usual_ms: int | None, ups: Ups) -> dict[str, Any]:
        dark = dark_of(
            from_ms=restart.from_ms,
            to_ms=restart.to_ms,
            mark_us=restart.mark_us,
            value=restart.value,
            ups=ups,
        )
        facts: dict[str, Any] = {
            "from": restart.from_ms,
            "to": restart.to_ms,
            "mark": restart.mark_us,
            "value": restart.value,
            "hidden": restart.hidden,
            "dark": dark.ms,
            "shown": dark.shown,
        }
        silence = silence_of(restart.from_ms, restart.to_ms, usual_ms, ups)
        return facts | ({"silence": list(silence)} if silence else {})


def _hour_slices(times: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    start = 0
    while start < len(times):
        hour_ms = times[start] // HOUR_MS * HOUR_MS
        end = bisect_left(times, hour_ms + HOUR_MS, start)
        yield hour_ms, start, end
        start = end


def _marks_at(
    times: Sequence[int], kinds: Sequence[tuple[str, dict[int, int]]]
) -> Mark | list[Mark | None] | None:
    """The mark of each reading, the preferred kind first; one value where all are the same."""
    marks: list[Mark | None] = []
    for time_ms in times:
        mark: Mark | None = None
        for kind, at in kinds:
            if time_ms in at:
                mark = (kind, at[time_ms])
                break
        marks.append(mark)
    return marks[0] if len(set(marks)) == 1 else marks


_COMPARED = (
    "tokens",
    "readings",
    "restarts",
    "hidden_resets",
    "opening_tokens",
    "rate_tokens",
    "rate_ms",
    "usual_ms",
    "first_ms",
    "last_ms",
    "facts",
    "carry",
)


def _same(one: TokenHour, other: TokenHour) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _COMPARED)


def last_reading_of(source: Source) -> int | None:
    """The last reading of a source, in milliseconds."""
    return ReadingBlock.objects.filter(series__target__source=source).aggregate(
        last=Max("last_ms")
    )["last"]
