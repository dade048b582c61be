"""Gauges at hand: what one run of collecting has just posted, so that the next window of it need not
read it back.

Deriving an hour of memory takes the readings of an hour or two before it, and the usual interval of
its day. A run that goes on window after window has both. Whether the ledger holds anything else of
a series is asked each time, when its target is locked: a series with blocks of other documents in
the hours that count is read from the ledger as ever, and so is whatever is not usual (two replicas,
several pods on a device, a day whose usual interval changes).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connections

from finops.core.counter_values import DAY_MS
from finops.core.held_pieces import Usual
from finops.core.period import HOUR_MS
from finops.ledger.models import Series, Source
from finops.ledger.which import ledger_name

from .bulk_text import instants, numbers
from .device_labels import device_of
from .gauges import LOOK_BACK_MS, Column, Gauges
from .held_readings import KEPT_MS, Held, Late
from .naming import Known, Names
from .roles import CACHE_ROLES, DEVICE_ROLES, NODE_ROLES, PROCESS_ROLE
from .standings import Standings

TIMED = ("kv_usage", "device_used_bytes")
"""Roles whose readings' own times count; what stands beside them is only looked up."""

COUNTERS = ("prompt", "generation")
READ = frozenset((*TIMED, *CACHE_ROLES, *DEVICE_ROLES, *NODE_ROLES, PROCESS_ROLE))
ELSEWHERE = frozenset((*NODE_ROLES, PROCESS_ROLE))
DERIVED = frozenset(("kv_usage", *DEVICE_ROLES, *ELSEWHERE))
"""Roles that hours are derived of; a target without any has only counters that stand beside."""

# For each series by its index, never by all blocks: the cost of asking must not grow with history.
_OTHERS = """
SELECT wanted.id
FROM unnest(%s::bigint[], %s::timestamptz[]) AS wanted(id, hour)
CROSS JOIN LATERAL (
    SELECT 1 FROM ledger_readingblock block
    WHERE block.series_id = wanted.id AND block.hour >= date_bin('12 hours', wanted.hour, 'epoch')
      AND block.last_ms >= (extract(epoch FROM wanted.hour) * 1000)::bigint
      AND block.document_id <> ALL(%s)
    LIMIT 1
) found
"""
_COUNTS = """
SELECT target_id, count(*) FROM ledger_series
WHERE target_id = ANY(%s::bigint[]) AND role = ANY(%s) GROUP BY target_id
"""


@dataclass(frozen=True, slots=True)
class Target:
    """The gauges of one target as the ledger names them, and whether they may be taken from what
    is at hand: they tell of no nodes and no processes, and of each device by one series of use."""

    series: list[Series]
    is_usual: bool
    is_bare: bool

    @classmethod
    def of(cls, series: list[Series]) -> Target:
        used = [device_of(one.labels) for one in series if one.role == "device_used_bytes"]
        is_elsewhere = any(one.role in ELSEWHERE for one in series)
        is_bare = not any(one.role in DERIVED for one in series)
        return cls(series, not is_elsewhere and len(used) == len(set(used)), is_bare)


class AtHand:
    """What one run has posted of one source, window after window."""

    def __init__(self) -> None:
        self._documents: dict[str, int] = {}
        self._held: dict[int, Held] = {}
        self._targets: dict[int, Target] = {}
        self._bare: set[int] = set()
        self._fresh: set[int] = set()
        self._times: dict[int, tuple[array[int], Column]] = {}  # by identity, while it is held
        self._from_ms = 0
        self._names: Names | None = None
        self.standings = Standings()
        self.earliest_ms: dict[str, int] = {}
        """Of each job; what stands in the ledger is no later."""
        self.latest_ms = 0
        """The last reading of all."""

    def forget(self) -> None:
        """Nothing is at hand any more: what was to be posted was not."""
        self._documents.clear()
        self._held.clear()
        self._targets.clear()
        self._bare.clear()
        self._fresh.clear()
        self._times.clear()
        self._names = None
        self.standings.forget()
        self.earliest_ms = {}

    def names(self, source: Source) -> Names:
        """The names of the run's source; to be asked for once in each transaction."""
        if self._names is None:
            self._names = Names(source)
        else:
            self._names.look_again()
        return self._names

    def add(
        self, document: str, series: Known, replica: str, times: array[int], values: array[float]
    ) -> None:
        """Takes the readings of a series in one window, in order of time."""
        if series.role not in READ:
            return
        if series.target in self._bare and series.role not in DERIVED:
            return
        last = max(times[-1], self._documents.get(document, times[-1]))
        self._documents[document] = last
        self.latest_ms = max(self.latest_ms, last)
        held = self._held.get(series.pk)
        if held is None:
            held = self._held[series.pk] = Held(replica, times[0])
        self._fresh.add(series.pk)
        shared = self._times.setdefault(id(times), (times, np.frombuffer(times, np.int64)))[1]
        held.add(replica, shared, np.frombuffer(values, np.float64), series.role in TIMED)

    def ready(self, since: Mapping[int, int]) -> dict[int, list[list[Series]]]:
        """The series of those of the targets that can be derived from what is at hand, by the hour
        from which they are; each target comes with the earliest of its new readings.

        To be called when the targets are locked: nobody else can add to what stands there.
        """
        self._look_up(list(since))
        targets = {
            key: target
            for key in since
            if (target := self._targets.get(key)) is not None
            and not target.is_bare
            and key not in self._bare  # once: of its counters readings were let go
        }
        if not targets:
            return {}
        wanted = {
            one.pk: self._needed(one, since[key])
            for key, target in targets.items()
            if target.is_usual
            for one in target.series
        }
        others = self._others(wanted)
        found: dict[int, list[list[Series]]] = {}
        for key, target in targets.items():
            is_ours = target.is_usual and not any(one.pk in others for one in target.series)
            from_ms = self._since(target, since[key]) if is_ours else None
            if from_ms is not None:
                found.setdefault(from_ms, []).append(target.series)
        return found

    def bare(self, keys: Iterable[int]) -> set[int]:
        """Those of the targets just made ready that have nothing to derive."""
        found = {key for key in keys if key in self._targets and self._targets[key].is_bare}
        for key in found - self._bare:
            for series in self._targets[key].series:
                self._held.pop(series.pk, None)
        self._bare |= found
        return found

    def gauges(self, series: Iterable[Series], from_ms: int) -> Gauges:
        """The readings of series from an instant on, as if read from the ledger; of counters the
        one before as well, so that it is known whether tokens moved over a gap."""
        columns = {}
        for one in series:
            held = self._held.get(one.pk)
            before = one.role in COUNTERS
            if held and (told := held.columns(from_ms, and_before=before)) is not None:
                columns[one.pk] = {held.replica: told}
        return Gauges.of(columns)

    def first_ms(self, series: Series) -> int | None:
        """The first reading of a series in this run."""
        held = self._held.get(series.pk)
        return None if held is None else held.first_ms

    def usual(self, series: Series) -> Usual:
        """The usual interval of the days that this run has read of a series."""
        held = self._held.get(series.pk)
        return {} if held is None else held.usual

    def end_window(self, until_ms: int) -> None:
        """Lets go of what no window from an instant on needs: of the series just posted at once, of
        all others (those of shards whose turn comes, and those that have ended) a window later."""
        from_ms = until_ms // HOUR_MS * HOUR_MS - KEPT_MS
        if from_ms != self._from_ms:
            for pk, held in self._held.items():
                if pk not in self._fresh:
                    held.forget_before(self._from_ms, {})
            self._from_ms = from_ms
        late: Late = {}
        for pk in self._fresh:
            if pk in self._held:
                self._held[pk].forget_before(from_ms, late)
        self._fresh.clear()
        self._times.clear()
        # The other shards of this window are asked for from the day before it on, and an hour earlier.
        day_ms = (from_ms // DAY_MS - 2) * DAY_MS
        self._documents = {name: last for name, last in self._documents.items() if last >= day_ms}

    def _look_up(self, keys: Sequence[int]) -> None:
        """The series of targets, read anew where there are others than before."""
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_COUNTS, [numbers(keys), sorted(READ)])
            counts = dict(cursor.fetchall())
        unknown = [key for key in counts
                   if key not in self._targets or len(self._targets[key].series) != counts[key]]  # fmt: skip
        found: dict[int, list[Series]] = {key: [] for key in unknown}
        if unknown:
            rows = Series.objects.filter(target__in=unknown, role__in=READ).order_by("pk")
            for one in rows:
                found[one.target_id].append(one)
        self._targets |= {key: Target.of(series) for key, series in found.items()}

    def _needed(self, series: Series, from_ms: int) -> int:
        """From when on all readings of a series must be at hand."""
        before = from_ms // HOUR_MS * HOUR_MS - HOUR_MS
        return (before // DAY_MS * DAY_MS if series.role in TIMED else before) - LOOK_BACK_MS

    def _others(self, wanted: Mapping[int, int]) -> set[int]:
        """The series of which the ledger holds blocks of other documents in the hours needed."""
        with connections[ledger_name()].cursor() as cursor:
            hours = instants(wanted.values())
            cursor.execute(_OTHERS, [numbers(wanted), hours, list(self._documents)])
            return {key for (key,) in cursor.fetchall()}

    def _since(self, target: Target, from_ms: int) -> int | None:
        """From when on rows of a target may change; None where that is further back than what is
        at hand.

        The hour before the new readings stays as it was where its last reading held to its end
        already and nothing new stands beside it.
        """
        new_ms = from_ms // HOUR_MS * HOUR_MS
        held = [one for series in target.series if (one := self._held.get(series.pk)) is not None]
        if not all(one.is_usual for one in held):
            return None
        timed = [one for series in target.series if series.role in TIMED
                 and (one := self._held.get(series.pk)) is not None]  # fmt: skip
        day = (new_ms - HOUR_MS) // DAY_MS
        if any(one.was.get(day, one.usual.get(day)) != one.usual.get(day) for one in timed):
            return None
        is_new = any(one.is_new for one in held) and not all(one.is_new for one in held)
        if is_new or not all(one.held_hour_before(new_ms) for one in timed):
            return new_ms - HOUR_MS
        return new_ms
