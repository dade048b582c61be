"""Deriving token hours from the readings kept: the affected days of the affected targets.

A target's row is locked while it is derived, so two posts at once cannot interleave. A row is
posted only where it differs from the current one: posting the same readings again adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial

from django.db import connections

from finops.core.counter_values import DAY_MS
from finops.core.period import HOUR_MS, instant_of, milliseconds
from finops.ledger.models import Series, Source, Target, TokenHour
from finops.ledger.which import ledger_name

from .at_hand import AtHand
from .bulk import copy_rows
from .cache import derive_caches, derive_caches_at_hand
from .deriving import Deriving, current_rows, is_same
from .devices import derive_devices, derive_devices_at_hand
from .loading import Loaded
from .locks import lock, lock_shared
from .nodes import derive_nodes
from .plain import Plain
from .roles import CACHE_ROLES, COUNTER_ROLES, DEVICE_ROLES, MARK_ROLES, NODE_ROLES, PROCESS_ROLE

GAUGE_ROLES = ("kv_usage", *DEVICE_ROLES, PROCESS_ROLE, *NODE_ROLES)
READ_BESIDE = (*GAUGE_ROLES, *CACHE_ROLES)
GAUGE_TARGETS_AT_ONCE = 32
TARGET_HOURS_AT_HAND_AT_ONCE = 600
TARGET_HOURS_AT_ONCE = 64
_NO_POSTING = instant_of(0)


@dataclass(slots=True)
class Affected:
    """The targets and jobs that readings touched, each with its earliest affected instant."""

    targets: dict[int, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)

    def add(self, target: int, job: str, time_ms: int) -> None:
        """A target got readings from this instant on."""
        self.targets[target] = min(time_ms, self.targets.get(target, time_ms))
        self.jobs[job] = min(time_ms, self.jobs.get(job, time_ms))

    def moved(self, earliest: Mapping[str, int]) -> list[str]:
        """The jobs whose earliest reading is among these readings."""
        return [job for job, first in self.jobs.items() if first <= earliest.get(job, first)]


def earliest_of_jobs(source: Source) -> dict[str, int]:
    """The earliest reading of each job of a source, `up` included, in milliseconds."""
    return _of_jobs(source, _EARLIEST)


def _of_jobs(source: Source, query: str) -> dict[str, int]:
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(query, [source.pk])
        return dict(cursor.fetchall())


# The first block of each series by its index, and those of its last half day, not a scan of all blocks:
# the cost of asking must not grow with history.
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
_LATEST = """
SELECT target.job, max(block.last_ms)
FROM ledger_target target
JOIN ledger_series series ON series.target_id = target.id
CROSS JOIN LATERAL (
    SELECT max(hour) AS hour FROM ledger_readingblock WHERE series_id = series.id
) newest
CROSS JOIN LATERAL (
    SELECT max(last_ms) AS last_ms FROM ledger_readingblock
    WHERE series_id = series.id AND hour >= date_bin('12 hours', newest.hour, 'epoch')
) block
WHERE target.source_id = %s
GROUP BY target.job
"""


def derive_affected(
    source: Source,
    affected: Affected,
    *,
    at: datetime,
    plain: Plain,
    at_hand: AtHand | None = None,
) -> None:
    """Derives every affected target, and those whose births an earlier reading of their job may
    now prove (method §2.4). Plain targets are counted from the document's readings at hand, and
    gauges from those of the run, where they are.

    Who moves a job's earliest reading waits for all others that derive, and they for it: each
    must see the other's rows or the other's readings.
    """
    if not affected.targets:
        return
    told = {} if at_hand is None else at_hand.earliest_ms
    if affected.moved(told):
        told = earliest_of_jobs(source)
    alone = affected.moved(told)
    (lock if alone else lock_shared)("births", str(source.pk))
    earliest = cache(partial(earliest_of_jobs, source))  # not before the lock is held
    doubtful: set[int] = set()
    # A job's earliest reading only moves back: where none moved what was told, none moves it now.
    if alone and (moved := affected.moved(earliest())):
        for target, first in _perhaps_born(source, {job: earliest()[job] for job in moved}):
            doubtful.add(target)
            affected.targets[target] = min(first, affected.targets.get(target, first))
    locked = Target.objects.select_for_update().order_by("pk").filter(pk__in=affected.targets)
    targets = list(locked.values_list("pk", flat=True))
    done = plain.post(doubtful, earliest)
    left = [target for target in targets if target not in done]
    careful = list(Target.objects.filter(pk__in=left).order_by("pk")) if left else []
    latest_ms = max(_of_jobs(source, _LATEST).values()) if careful else 0
    for from_ms, some in _together(careful, affected.targets, latest_ms):
        _derive_together(some, from_ms, earliest(), at)
    if at_hand is not None:
        at_hand.earliest_ms = earliest() if alone else told
    done = _derive_gauges_at_hand(affected.targets, at_hand, at) if at_hand is not None else set()
    left = [target for target in targets if target not in done]
    _derive_gauges(left, affected.targets, at)


def _perhaps_born(source: Source, earliest: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """The targets of jobs with a counter whose opening may be a birth now, each with the hour (ms)
    of it. A mark from before the job's earliest reading proves none; whoever was marked again since
    then, or came near it, is asked anew."""
    openings = TokenHour.objects.filter(
        series__target__source=source, series__target__job__in=earliest, opening_tokens__gt=0
    )
    names = ("series__target", "series__target__job", "hour", "restarts", "facts", "carry")
    for target, job, hour, restarts, facts, carry in openings.values_list(*names).iterator():
        marks = [us for counter in carry["counters"] for us in counter[1].values()]
        is_plain = marks and not restarts and "alternations" not in facts
        if not is_plain or max(marks) // 1000 + HOUR_MS >= earliest[job]:
            yield target, milliseconds(hour)


def _together(
    targets: Iterable[Target], since: Mapping[int, int], latest_ms: int
) -> Iterator[tuple[int, list[Target]]]:
    """Targets that are derived from the same hour on, as many as fit in memory at once."""
    by_hour: dict[int, list[Target]] = {}
    for target in targets:
        by_hour.setdefault(since[target.pk] // HOUR_MS * HOUR_MS, []).append(target)
    for from_ms, of_hour in sorted(by_hour.items()):
        hours = max(1, (latest_ms - from_ms) // HOUR_MS + 1)
        size = max(1, TARGET_HOURS_AT_ONCE // hours)
        for start in range(0, len(of_hour), size):
            yield from_ms, of_hour[start : start + size]


def _derive_together(
    targets: Sequence[Target], from_ms: int, earliest: Mapping[str, int], at: datetime
) -> None:
    series: dict[int, list[Series]] = {target.pk: [] for target in targets}
    for one in Series.objects.filter(target__in=targets).order_by("pk"):
        series[one.target_id].append(one)
    every = [one for of_target in series.values() for one in of_target]
    loaded = Loaded(
        [one for one in every if one.role in COUNTER_ROLES],
        [one for one in every if one.role in MARK_ROLES],
        from_ms,
    )
    deriving = [
        Deriving(target, earliest.get(target.job, 0), at, series[target.pk], loaded)
        for target in targets
    ]
    copy_rows([row for each in deriving for row in each.changed(from_ms)])


def _derive_gauges_at_hand(since: Mapping[int, int], at_hand: AtHand, at: datetime) -> set[int]:
    """The hours of KV caches and devices of the targets whose gauges are at hand; gives those."""
    done: set[int] = set()
    for from_ms, wanted in sorted(at_hand.ready(since).items()):
        hours = max(1, (at_hand.latest_ms - from_ms) // HOUR_MS + 1)
        size = max(1, TARGET_HOURS_AT_HAND_AT_ONCE // hours)
        for start in range(0, len(wanted), size):
            some = wanted[start : start + size]
            derive_caches_at_hand(some, at_hand, from_ms, at=at)
            derive_devices_at_hand(some, at_hand, from_ms, at=at)
        done |= {series[0].target_id for series in wanted}
    return done | at_hand.bare(since)


def _derive_gauges(targets: Sequence[int], since: Mapping[int, int], at: datetime) -> None:
    """The hours of KV caches, devices and nodes, of targets that have such gauges, as many targets
    at once as fit in memory."""
    gauges = Series.objects.filter(target__in=targets, role__in=GAUGE_ROLES)
    with_gauges = set(gauges.values_list("target_id", flat=True).distinct())
    by_hour: dict[int, list[int]] = {}
    for target in targets:
        if target in with_gauges:
            by_hour.setdefault(since[target] // HOUR_MS * HOUR_MS, []).append(target)
    for from_ms, keys in sorted(by_hour.items()):
        for start in range(0, len(keys), GAUGE_TARGETS_AT_ONCE):
            some = _series_of(keys[start : start + GAUGE_TARGETS_AT_ONCE])
            derive_caches(some, from_ms, at=at)
            derive_devices(some, from_ms, at=at)
            for series in some:
                derive_nodes(series, from_ms // DAY_MS * DAY_MS, at=at)


def _series_of(targets: Sequence[int]) -> list[list[Series]]:
    found: dict[int, list[Series]] = {target: [] for target in targets}
    for one in Series.objects.filter(target__in=targets, role__in=READ_BESIDE).order_by("pk"):
        found[one.target_id].append(one)
    return list(found.values())


def differences(series_ids: Iterable[int]) -> list[str]:
    """Which current rows of series differ from a fresh derivation from their readings."""
    problems: list[str] = []
    for series in Series.objects.filter(pk__in=series_ids, role__in=COUNTER_ROLES):
        earliest = earliest_of_jobs(series.target.source).get(series.target.job, 0)
        deriving = Deriving(series.target, earliest, _NO_POSTING)
        fresh = {row.hour: row for row in deriving.rows_of(series, 0)}
        kept = current_rows(series, 0)
        for hour in sorted(fresh.keys() | kept.keys()):
            if hour not in kept or hour not in fresh or not is_same(kept[hour], fresh[hour]):
                problems.append(f"{series} {hour:%Y-%m-%dT%H:%MZ}: row and readings differ")
    return problems
