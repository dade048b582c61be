"""Posting readings: samples of a document become blocks of readings, and token hours from them.

Readings are kept by series, replica, hour and document, so that a ledger row leads back to the
samples it was derived from, and so that readings that arrive late change the right hours.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from finops.core.period import HOUR_MS, instant_of, rfc3339
from finops.ledger.models import Document, ReadingBlock, Series, Source, Target
from finops.sources.engines import marked_metric, role_of
from finops.sources.records import Refused, Rejection, SeriesReadings
from finops.sources.samples import in_order, pack

from .bulk import copy_new_rows
from .derive import Affected, derive_affected, earliest_of_jobs

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
    }
)
OTHER_ROLES = frozenset(
    {"up", "process_start", "kv_usage", "running", "waiting", "cache_config", "sleep_state"}
)
REPLICA_LABELS = ("prometheus_replica", "__replica__", "receive_replica")
MOST_REFUSED = 100_000
BATCH = 2000


@dataclass(slots=True)
class PostedReadings:
    """What became of a document's samples."""

    series: int = 0
    readings: int = 0
    refused: list[Rejection] = field(default_factory=list)
    ignored_metrics: dict[str, int] = field(default_factory=dict)

    @property
    def refused_count(self) -> int:
        """How many readings were refused; every one is named."""
        return len(self.refused)


def labels_digest(labels: Mapping[str, str]) -> str:
    """SHA-256 of a label set, the same whatever order the labels came in."""
    return hashlib.sha256(json.dumps(sorted(labels.items())).encode()).hexdigest()


def ledger_role(metric: str) -> str | None:
    """The role under which the ledger keeps a metric; None for what it does not use."""
    role = role_of(metric)
    if role is not None and role.name in TOKEN_ROLES | OTHER_ROLES:
        return role.name
    marked = [role_of(name) for name in marked_metric(metric)]
    return "created" if any(r is not None and r.name in TOKEN_ROLES for r in marked) else None


def post_readings(
    document: Document, source: Source, series: Iterable[SeriesReadings], *, at: datetime
) -> PostedReadings:
    """Keeps a document's samples and derives the hours they touch.

    To be called inside the ledger's transaction. A token reading that is no whole number, is
    negative, NaN, infinite or beyond 2^53 is refused and named; the others count (method §1).
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
        self.affected = Affected()

    def post(self, series: Iterable[SeriesReadings]) -> PostedReadings:
        before = earliest_of_jobs(self.source)
        for index, readings in enumerate(series):
            self._take(index, readings)
        self._flush()
        self.posted.series = len(self.seen)
        derive_affected(self.source, self.affected, before, at=self.at)
        return self.posted

    def _take(self, index: int, readings: SeriesReadings) -> None:
        role = ledger_role(readings.metric)
        if role is None:
            ignored = self.posted.ignored_metrics
            ignored[readings.metric] = ignored.get(readings.metric, 0) + len(readings.times_ms)
            return
        times, values = in_order(readings.times_ms, readings.values)
        if role in TOKEN_ROLES and not all(map(_is_count, values)):
            times, values = self._refuse(index, readings.metric, times, values)
        elif role not in TOKEN_ROLES and not all(value == value for value in values):
            kept = [i for i, value in enumerate(values) if value == value]
            times = array("q", (times[i] for i in kept))
            values = array("d", (values[i] for i in kept))
        if len(times):
            self._block(role, readings, times, values)

    def _refuse(
        self, index: int, metric: str, times: array[int], values: array[float]
    ) -> tuple[array[int], array[float]]:
        kept: list[int] = []
        for i, value in enumerate(values):
            if _is_count(value):
                kept.append(i)
                continue
            if len(self.posted.refused) >= MOST_REFUSED:
                raise Refused(f"{self.document.name}: more than {MOST_REFUSED} refused readings")
            shown = f"{value!r} at {rfc3339(instant_of(times[i]))}"
            self.posted.refused.append(Rejection.of(index + 1, metric, shown, _why_no_count(value)))
        return array("q", (times[i] for i in kept)), array("d", (values[i] for i in kept))

    def _block(
        self, role: str, readings: SeriesReadings, times: array[int], values: array[float]
    ) -> None:
        labels = dict(readings.labels)
        labels.pop("__name__", None)
        replica = ",".join(
            labels.pop(name)
            for name in (*REPLICA_LABELS, *self.source.replica_labels)
            if name in labels
        )
        series = self._series(readings.metric, role, labels)
        self.seen.add(series.pk)
        self.affected.add(series, times[0])
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
                first_ms=times[0],
                last_ms=times[-1],
                readings=len(times),
                payload=pack(times, values),
            )
        )
        if len(self.blocks) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        copy_new_rows(self.blocks)
        self.blocks.clear()

    def _series(self, metric: str, role: str, labels: dict[str, str]) -> Series:
        target = self._target(labels.get("job", ""), labels.get("instance", ""))
        digest = labels_digest(labels)
        key = (target.pk, metric, digest)
        if target.pk not in self.known:
            self.known.add(target.pk)
            for row in target.series.all():
                self.series[row.target_id, row.metric, row.labels_digest] = row
        if key not in self.series:
            self.series[key], _ = Series.objects.get_or_create(
                target=target,
                metric=metric,
                labels_digest=digest,
                defaults={"role": role, "engine": labels.get("engine", ""), "labels": labels},
            )
        return self.series[key]

    def _target(self, job: str, instance: str) -> Target:
        if (job, instance) not in self.targets:
            self.targets[job, instance], _ = Target.objects.get_or_create(
                source=self.source, job=job, instance=instance
            )
        return self.targets[job, instance]


def _is_count(value: float) -> bool:
    """Whether a float64 says a number of tokens exactly (method §1)."""
    return 0.0 <= value <= LARGEST_EXACT and value.is_integer()


def _why_no_count(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "not a number of tokens"
    if value < 0:
        return "a negative number of tokens"
    if value > LARGEST_EXACT:
        return "beyond 2^53, where a float64 cannot tell single tokens"
    return "not a whole number of tokens"


def recheck(series_ids: Sequence[int]) -> list[str]:
    """Derives series anew from their readings and says which current rows differ."""
    from .derive import differences

    return differences(series_ids)
