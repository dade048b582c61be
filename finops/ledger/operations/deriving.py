"""The derivation of one target: its counters' rows from an hour, or from a UTC day, on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from finops.core.counter import derive
from finops.core.counter_values import (
    DAY_MS,
    Carry,
    Context,
    HourReadings,
    HourRow,
    Mark,
    Readings,
    Restart,
)
from finops.core.dark import Ups, dark_of, silence_of
from finops.core.period import HOUR_MS, instant_of, milliseconds
from finops.core.usual import continues
from finops.ledger.models import Series, Target, TokenHour
from finops.sources.engines import mark_of

from .columns import Columns, read_columns
from .going_on import Before, taken_over
from .loading import Loaded
from .marks import MarkColumn, marks_at
from .roles import COUNTER_ROLES


def current_rows(series: Series, from_ms: int) -> dict[datetime, TokenHour]:
    """The current rows of a series from an instant on, by hour."""
    rows = (
        TokenHour.objects.filter(series=series, hour__gte=instant_of(from_ms))
        .order_by("hour", "-revision")
        .distinct("hour")
    )
    return {row.hour: row for row in rows}


class Deriving:
    """The derivation of one target."""

    def __init__(
        self,
        target: Target,
        earliest_ms: int,
        at: datetime,
        series: Sequence[Series] | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        self.target, self.earliest_ms, self.at = target, earliest_ms, at
        self.series = list(target.series.all()) if series is None else list(series)
        self.loaded = loaded
        self._columns: dict[tuple[int, int], dict[str, Columns]] = {}
        self._ups_since: dict[int, Ups] = {}
        self._marks_of: dict[tuple[int, int], dict[str, MarkColumn]] = {}
        self._taken_over: dict[tuple[int, int], Before] = {}
        """By series and first hour: the counter that another series left."""

    def changed(self, from_ms: int) -> Iterator[TokenHour]:
        """The rows of every counter of the target from an hour on that differ from the current."""
        for series in self.series:
            if series.role not in COUNTER_ROLES:
                continue
            fresh = self._continued(series)
            if fresh is not None and self.loaded is not None:
                kept = self.loaded.current.get(series.pk, {})
            else:
                from_day = from_ms // DAY_MS * DAY_MS
                fresh = self.rows_of(series, from_day)
                kept = current_rows(series, milliseconds(fresh[0].hour) if fresh else from_day)
            yield from _differing(fresh, kept)

    def _continued(self, series: Series) -> list[TokenHour] | None:
        """The rows from the hour on, derived from the state before it; None where the day must be
        derived from its start: its usual interval changes, or a first mark is learned."""
        loaded = self.loaded
        if loaded is None:
            return None
        hours = list(self._hours(series, loaded.from_ms))
        before_ms, carry = loaded.before(series)
        day = loaded.from_ms // DAY_MS
        is_begun = before_ms is not None and before_ms // DAY_MS == day
        if is_begun and (carry.day != day or not continues(hours, carry)):
            return None
        carry = self._going_on(series, hours, carry)
        from_day = day * DAY_MS
        rows, learned = derive(hours, carry, self._context(from_day, {}))
        return None if learned else [self._row(series, row, from_day) for row in rows]

    def _context(self, from_day: int, first_marks: Mapping[int, Mark]) -> Context:
        return Context(self.earliest_ms, _UpTimes(lambda: self._ups_from(from_day)), first_marks)

    def _ups_from(self, from_day: int) -> Ups:
        """The target's `up` readings from a day before on; read only where a birth or a restart
        asks for them."""
        if from_day not in self._ups_since:
            self._ups_since[from_day] = self._ups(from_day - DAY_MS)
        return self._ups_since[from_day]

    def rows_of(self, series: Series, from_day: int) -> list[TokenHour]:
        """The rows of a series from a day on, derived anew; they may begin earlier, where a mark
        that came later is taken back to a counter's first reading (method §2.1)."""
        first_marks: dict[int, Mark] = {}
        while True:
            hours = list(self._hours(series, from_day))
            carry = self._going_on(series, hours, self._carry_before(series, from_day))
            context = self._context(from_day, first_marks)
            rows, learned = derive(hours, carry, context)
            if not learned.keys() - first_marks.keys():
                return [self._row(series, row, from_day) for row in rows]
            first_marks |= learned
            from_day = min(from_day, *(first // DAY_MS * DAY_MS for first in learned))

    def _going_on(self, series: Series, hours: Sequence[HourReadings], carry: Carry) -> Carry:
        """The state before a series' hours: of one that is new, its counter as a series with other
        labels left it, where there is one (method §2.4)."""
        if carry.counters or not hours:
            return carry
        before = taken_over(series, self.series, hours[0], self.columns, self._marks)
        if before is None:
            return carry
        self._taken_over[series.pk, hours[0].hour_ms] = before
        first_ms = min(one.times_ms[0] for one in hours[0].replicas.values())
        return Carry({1: before.counter(first_ms)}, 1, before.last_ms)

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
        loaded = self.loaded
        if loaded is not None and from_ms == loaded.from_ms and series.pk in loaded.held:
            return loaded.columns.get(series.pk, {})
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
                    marks_at(hour_times, marks.get(replica, ())),
                )
        for hour_ms in sorted(by_hour):
            yield HourReadings(hour_ms, by_hour[hour_ms])

    def _marks(self, series: Series, from_ms: int) -> dict[str, list[MarkColumn]]:
        """By replica: the columns of marks, the preferred kind first."""
        found: dict[str, list[MarkColumn]] = {}
        for kind, marking in (
            ("created", self._created_of(series)),
            ("process_start", [s for s in self.series if s.role == "process_start"]),
        ):
            for one in marking:
                for replica, column in self._mark_columns(kind, one, from_ms).items():
                    found.setdefault(replica, []).append(column)
        return found

    def _mark_columns(self, kind: str, series: Series, from_ms: int) -> dict[str, MarkColumn]:
        key = (series.pk, from_ms)
        if key not in self._marks_of:
            self._marks_of[key] = {
                replica: MarkColumn.of(kind, times, values)
                for replica, (times, values) in self.columns(series, from_ms).items()
            }
        return self._marks_of[key]

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
        replicas: dict[str, list[tuple[int, int]]] = {}
        for series in self.series:
            if series.role == "up":
                for replica, (times, values) in self.columns(series, max(0, from_ms)).items():
                    pairs = zip(times, map(int, values), strict=True)
                    replicas.setdefault(replica, []).extend(pairs)
        return Ups.of(replicas)

    # -- writing the rows ----------------------------------------------------------------------

    def _row(self, series: Series, row: HourRow, from_day: int) -> TokenHour:
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
            facts=self._facts(row, from_day) | self._continues(series, row),
            carry=row.carry,
            posted_at=self.at,
        )

    def _facts(self, row: HourRow, from_day: int) -> dict[str, Any]:
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
                self._restart(r, row.usual_ms, self._ups_around(r, from_day)) for r in row.restarts
            ]
        return facts

    def _continues(self, series: Series, row: HourRow) -> dict[str, Any]:
        """What a counter stood at that another series left: that series, its last reading, the highest
        value booked, and the marks."""
        before = self._taken_over.get((series.pk, row.hour_ms))
        if before is None:
            return {}
        return {"continues": [before.series, before.last_ms, before.high, before.marks]}

    def _ups_around(self, restart: Restart, from_day: int) -> Ups:
        """The `up` readings from a day before a restart's dark, which may begin long before the
        days that are derived."""
        if restart.from_ms >= from_day:
            return self._ups_from(from_day)
        return self._ups((restart.from_ms // DAY_MS - 1) * DAY_MS)

    def _restart(self, restart: Restart, usual_ms: int | None, ups: Ups) -> dict[str, Any]:
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


class _UpTimes(Sequence[int]):
    """The times of a target's `up` readings, read when first looked at."""

    def __init__(self, ups: Callable[[], Ups]) -> None:
        self._ups = ups

    def __len__(self) -> int:
        return len(self._ups().times_ms)

    def __getitem__(self, index: Any) -> Any:
        return self._ups().times_ms[index]


def _differing(
    fresh: Iterable[TokenHour], kept: Mapping[datetime, TokenHour]
) -> Iterator[TokenHour]:
    """The rows that differ from the current ones, each with the next revision."""
    for row in fresh:
        old = kept.get(row.hour)
        if old is None or not is_same(old, row):
            row.revision = old.revision + 1 if old else 1
            yield row


def _hour_slices(times: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    start = 0
    while start < len(times):
        hour_ms = times[start] // HOUR_MS * HOUR_MS
        end = bisect_left(times, hour_ms + HOUR_MS, start)
        yield hour_ms, start, end
        start = end


COMPARED = (
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


def is_same(one: TokenHour, other: TokenHour) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in COMPARED)
