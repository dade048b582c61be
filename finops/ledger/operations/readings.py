"""Posting readings: samples of a document become blocks of readings, and token hours from them.

Readings are kept by series, replica, hour and document, so that a ledger row leads back to the
samples it was derived from, and so that readings that arrive late change the right hours.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from operator import lt

from finops.core.period import HOUR_MS, instant_of, milliseconds, rfc3339
from finops.ledger.models import Document, ReadingBlock, Series, Source, Target
from finops.ledger.models.evidence import REPLICA_LABELS
from finops.sources.engines import NEVER_COUNTED, marked_metric, role_of
from finops.sources.records import Rejection, SeriesReadings
from finops.sources.samples import in_order, pack

from .bulk import copy_new_rows
from .charges import storable
from .derive import Affected, derive_affected, differences
from .locks import lock

LARGEST_EXACT = float(2**53)
TOKEN_ROLES = frozenset(
    {
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
    }
)
OTHER_ROLES = frozenset(
    {"up", "process_start", "kv_usage", "running", "waiting", "cache_config", "sleep_state"}
    | {"re_export", "gpu_request", "gpu_init_request", "gpu_capacity", "pod_running"}
    | {"node_info", "node_labels"}
)
DEVICE_ROLES = frozenset(
    {"device_used_bytes", "device_free_bytes", "device_reserved_bytes", "device_total_bytes"}
)
OTHER_ROLES |= DEVICE_ROLES | {"pool_tokens", "weights_bytes", "kv_bytes", "graphs_bytes"}
INDEXED_LABELS = ("job", "instance", *REPLICA_LABELS)
MOST_INDEXED_BYTES = 2000
"""A B-tree of Postgres holds no more than 2.7 kB in one entry."""
FIRST_MS = milliseconds(datetime(2000, 1, 1, tzinfo=UTC))
END_MS = milliseconds(datetime(2200, 1, 1, tzinfo=UTC))
_OFF_THE_CALENDAR = "an instant outside the years 2000 to 2199"
_TWO_VALUES = "another value stands at the same instant; the higher one is kept"
MOST_NAMED = 100_000
BATCH = 2000
SERIES_AT_ONCE = 500


@dataclass(slots=True)
class PostedReadings:
    """What became of a document's samples."""

    series: int = 0
    readings: int = 0
    refused: list[Rejection] = field(default_factory=list)
    unnamed: int = 0
    ignored_metrics: dict[str, int] = field(default_factory=dict)

    @property
    def refused_count(self) -> int:
        """How many readings were refused: the first are named, a series refused whole once."""
        return len(self.refused) + self.unnamed


def labels_digest(labels: Mapping[str, str]) -> str:
    """SHA-256 of a label set, the same whatever order the labels came in."""
    return hashlib.sha256(json.dumps(sorted(labels.items())).encode()).hexdigest()


def ledger_role(metric: str, labels: Mapping[str, str]) -> str | None:
    """The role under which the ledger keeps a series; None for what it does not use."""
    role = role_of(metric, labels)
    if role is not None and role.name in TOKEN_ROLES | OTHER_ROLES:
        return role.name
    marked = [role_of(name, labels) for name in marked_metric(metric)]
    return "created" if any(r is not None and r.name in TOKEN_ROLES for r in marked) else None


def post_readings(
    document: Document, source: Source, series: Iterable[SeriesReadings], *, at: datetime
) -> PostedReadings:
    """Keeps a document's samples and derives the hours they touch.

    To be called inside the ledger's transaction. A token reading that is no whole number, is
    negative, NaN, infinite or beyond 2^53 is refused and named; the others count (method §1). So
    are a gauge or mark that is none, an instant off the calendar, the lower of two values at one
    instant, and a series whose labels cannot be kept.
    """
    return _Posting(document, source, at).post(series)


class _Posting:
    def __init__(self, document: Document, source: Source, at: datetime) -> None:
        self.document, self.source, self.at = document, source, at
        self.posted = PostedReadings()
        self.targets = {(t.job, t.instance): t for t in source.targets.all()}
        self.series: dict[tuple[int, str, str], Series] = {}
        self.known: set[int] = set()
        self.seen: set[int] = set()
        self.blocks: list[ReadingBlock] = []
        self.parts: dict[tuple[int, str, int], int] = {}
        self.affected = Affected()
        self.prepared: dict[int, tuple[str, dict[str, str], str, str]] = {}
        self.locked = False

    def post(self, series: Iterable[SeriesReadings]) -> PostedReadings:
        numbered = enumerate(series)
        while batch := list(islice(numbered, SERIES_AT_ONCE)):
            self._name_new(batch)
            for index, readings in batch:
                self._take(index, readings)
        self._flush()
        self.posted.series = len(self.seen)
        derive_affected(self.source, self.affected, at=self.at)
        return self.posted

    def _take(self, index: int, readings: SeriesReadings) -> None:
        if index not in self.prepared:
            self._leave(index, readings)
            return
        role = self.prepared[index][0]
        times, values = in_order(readings.times_ms, readings.values)
        why = _WHY.get(role, _why_no_gauge)
        if not _are_fine(role, times, values):
            times, values = self._refuse(index, readings.metric, times, values, why)
        if len(times):
            self._block(index, readings, times, values)

    def _leave(self, index: int, readings: SeriesReadings) -> None:
        """A series that is refused whole, or that the ledger does not use."""
        if ledger_role(readings.metric, dict(readings.labels)) is not None:
            fault = self._fault_of_labels(dict(readings.labels)) or ("", "", "")
            self._name(Rejection.of(index + 1, *fault))
        elif never := NEVER_COUNTED.get(readings.metric):
            self._name(Rejection.of(index + 1, readings.metric, _inner(readings.labels), never))
        else:
            name, ignored = storable(readings.metric), self.posted.ignored_metrics
            ignored[name] = ignored.get(name, 0) + len(readings.times_ms)
            return
        self.posted.unnamed += max(0, len(readings.times_ms) - 1)

    def _fault_of_labels(self, labels: Mapping[str, str]) -> tuple[str, str, str] | None:
        """The label, its value and why a series with it cannot be kept; None when it can."""
        for name, value in labels.items():
            if storable(name + value) != name + value:
                return storable(name), storable(value), "a label holds a character that is no text"
        names = (*INDEXED_LABELS, *self.source.replica_labels)
        if sum(len(labels.get(name, "").encode()) for name in names) > MOST_INDEXED_BYTES:
            name = max(names, key=lambda one: len(labels.get(one, "")))
            reason = f"job, instance and replica together exceed {MOST_INDEXED_BYTES} bytes"
            return name, labels[name], reason
        return None

    def _refuse(
        self, index: int, metric: str, times: array[int], values: array[float], why: Why
    ) -> tuple[array[int], array[float]]:
        kept: list[int] = []
        for i, (time_ms, value) in enumerate(zip(times, values, strict=True)):
            reason = why(value) if FIRST_MS <= time_ms < END_MS else _OFF_THE_CALENDAR
            if reason:
                self._name(Rejection.of(index + 1, metric, _shown(value, time_ms), reason))
                continue
            if kept and times[kept[-1]] == time_ms:
                lower = _shown(values[kept.pop()], time_ms)
                self._name(Rejection.of(index + 1, metric, lower, _TWO_VALUES))
            kept.append(i)
        return array("q", (times[i] for i in kept)), array("d", (values[i] for i in kept))

    def _name(self, rejection: Rejection) -> None:
        if len(self.posted.refused) < MOST_NAMED:
            self.posted.refused.append(rejection)
        else:
            self.posted.unnamed += 1

    def _block(
        self, index: int, readings: SeriesReadings, times: array[int], values: array[float]
    ) -> None:
        _, labels, replica, digest = self.prepared[index]
        target = self.targets[labels.get("job", ""), labels.get("instance", "")]
        series = self.series[target.pk, readings.metric, digest]
        self.seen.add(series.pk)
        self.affected.add(series, labels.get("job", ""), times[0])
        self.posted.readings += len(times)
        start = 0
        while start < len(times):
            hour_ms = times[start] // HOUR_MS * HOUR_MS
            end = bisect_left(times, hour_ms + HOUR_MS, start)
            self._one_hour(series, replica, hour_ms, times[start:end], values[start:end])
            start = end

    def _one_hour(
        self, series: Series, replica: str, hour_ms: int, times: array[int], values: array[float]
    ) -> None:
        self.blocks.append(
            ReadingBlock(
                series=series,
                replica=replica,
                hour=instant_of(hour_ms),
                document=self.document,
                part=self._part(series, replica, hour_ms),
                first_ms=times[0],
                last_ms=times[-1],
                readings=len(times),
                payload=pack(times, values),
            )
        )
        if len(self.blocks) >= BATCH:
            self._flush()

    def _part(self, series: Series, replica: str, hour_ms: int) -> int:
        """How often this series, replica and hour stood in the document before: a file of several
        answers may cut an hour in pieces, and each piece counts."""
        key = (series.pk, replica, hour_ms)
        self.parts[key] = self.parts.get(key, -1) + 1
        return self.parts[key]

    def _flush(self) -> None:
        copy_new_rows(self.blocks)
        self.blocks.clear()

    def _identity(self, readings: SeriesReadings) -> tuple[dict[str, str], str]:
        """The labels without the replica's, and the replica."""
        labels = dict(readings.labels)
        labels.pop("__name__", None)
        names = (*REPLICA_LABELS, *self.source.replica_labels)
        replica = ",".join(labels.pop(name) for name in names if name in labels)
        return labels, replica

    def _name_new(self, batch: Sequence[tuple[int, SeriesReadings]]) -> None:
        """Targets and series that were never seen, all at once; the others are looked up."""
        wanted: dict[tuple[str, str], dict[tuple[str, str], tuple[str, dict[str, str]]]] = {}
        self.prepared.clear()
        for index, readings in batch:
            labels, replica = self._identity(readings)
            role = ledger_role(readings.metric, labels)
            if role is None or self._fault_of_labels(dict(readings.labels)):
                continue
            digest = labels_digest(labels)
            self.prepared[index] = role, labels, replica, digest
            of_target = wanted.setdefault((labels.get("job", ""), labels.get("instance", "")), {})
            of_target[readings.metric, digest] = role, labels
        self._make_targets(wanted.keys())
        self._look_up(self.targets[name] for name in wanted)
        new = [
            Series(
                target=self.targets[name],
                metric=metric,
                labels_digest=digest,
                role=role,
                engine=labels.get("engine", ""),
                labels=labels,
            )
            for name, of_target in wanted.items()
            for (metric, digest), (role, labels) in of_target.items()
            if (self.targets[name].pk, metric, digest) not in self.series
        ]
        if new:
            self._lock_new_names()
            Series.objects.bulk_create(new, ignore_conflicts=True)
            self.known -= {one.target_id for one in new}
            self._look_up({one.target_id: one.target for one in new}.values())

    def _make_targets(self, names: Iterable[tuple[str, str]]) -> None:
        new = [
            Target(source=self.source, job=job, instance=instance)
            for job, instance in names
            if (job, instance) not in self.targets
        ]
        if new:
            self._lock_new_names()
            Target.objects.bulk_create(new, ignore_conflicts=True)
            self.targets = {(t.job, t.instance): t for t in self.source.targets.all()}

    def _look_up(self, targets: Iterable[Target]) -> None:
        unknown = [target.pk for target in targets if target.pk not in self.known]
        for row in Series.objects.filter(target__in=unknown) if unknown else ():
            self.series[row.target_id, row.metric, row.labels_digest] = row
        self.known.update(unknown)

    def _lock_new_names(self) -> None:
        """New targets and series come one document at a time: two that named the same ones in
        different order would wait for each other for ever."""
        if not self.locked:
            lock("new series", str(self.source.pk))
            self.locked = True


def _inner(labels: Iterable[tuple[str, str]]) -> str:
    return storable(",".join(f'{name}="{value}"' for name, value in labels))


def _are_fine(role: str, times: array[int], values: array[float]) -> bool:
    """Whether nothing of a series in time order need be refused; the usual case, told quickly."""
    if not len(times):
        return True
    in_years = times[0] >= FIRST_MS and times[-1] < END_MS
    if not in_years or not all(map(lt, times, times[1:])):
        return False
    if role in TOKEN_ROLES:
        whole = all(map(float.is_integer, values))
        return whole and min(values) >= 0 and max(values) <= LARGEST_EXACT
    return not any(map(_WHY.get(role, _why_no_gauge), values))


def _shown(value: float, time_ms: int) -> str:
    try:
        return f"{value!r} at {rfc3339(instant_of(time_ms))}"
    except OverflowError:
        return f"{value!r} at {time_ms} ms"


def _why_no_count(value: float) -> str | None:
    """Why a float64 does not say a number of tokens exactly (method §1); None when it does."""
    if 0.0 <= value <= LARGEST_EXACT and value.is_integer():
        return None
    if not isfinite(value):
        return "not a number of tokens"
    if value < 0:
        return "a negative number of tokens"
    if value > LARGEST_EXACT:
        return "beyond 2^53, where a float64 cannot tell single tokens"
    return "not a whole number of tokens"


def _why_no_mark(value: float) -> str | None:
    return None if 0 <= value * 1000 < END_MS else "not a time within the years to 2199"


def _why_no_gauge(value: float) -> str | None:
    return None if -LARGEST_EXACT <= value <= LARGEST_EXACT else "not a number a gauge can show"


Why = Callable[[float], str | None]
_WHY: Mapping[str, Why] = dict.fromkeys(TOKEN_ROLES, _why_no_count) | {
    "created": _why_no_mark,
    "process_start": _why_no_mark,
}


def recheck(series_ids: Sequence[int]) -> list[str]:
    """Derives series anew from their readings and says which current rows differ."""
    return differences(series_ids)
