"""What came in time: the engines' latency buckets by workload, against its objectives (method §5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.db import connections

from finops.core.allocation import WORKLOAD, Assigner
from finops.core.facts import Measured, ServiceLevel
from finops.core.period import Period, instant_of, milliseconds
from finops.core.plainly import when
from finops.core.slo import (
    FIRST_TOKEN,
    INTER_TOKEN,
    MEASURES,
    BucketHour,
    InTime,
    Objective,
    in_time,
    together,
)
from finops.ledger.models import Series, ServiceObjective
from finops.ledger.which import ledger_name
from finops.sources.engines import role_of

from .token_rows import DISAGGREGATION_LABELS, LAST_INSTANT

ROLES = {"first_token_bucket": FIRST_TOKEN, "inter_token_bucket": INTER_TOKEN}
NOT_OF = {"decode": FIRST_TOKEN, "prefill": INTER_TOKEN}
"""What a half of a disaggregated service does not tell: the other half counts it (method §2.10)."""
NO_OBJECTIVE = "no service level objective is recorded"
NOT_TOLD = "no engine tells its buckets of this time"
NOT_IN_FORCE = "no objective was in force in these hours"
NO_LAST_BUCKET = "an engine's last bucket, which counts all requests, was not read"
Engine = tuple[int, str]
EngineHours = dict[tuple[int, Engine], dict[Decimal, BucketHour]]
"""By hour (ms) and engine: its buckets of one measure."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket's series: which measure of which engine, and its bound in seconds."""

    series: Series
    labels: dict[str, str]
    measure: str
    engine: Engine
    preference: int
    bound_seconds: Decimal
    hours: list[tuple[int, BucketHour]]


_ROWS = """
SELECT DISTINCT ON (series_id, hour) series_id, (extract(epoch FROM hour) * 1000)::bigint, tokens,
    readings
FROM ledger_tokenhour JOIN ledger_series ON ledger_series.id = series_id
WHERE hour >= %s AND hour < %s AND role = ANY(%s) AND posted_at <= %s
ORDER BY series_id, hour, revision DESC
"""


def buckets(period: Period, as_of: datetime | None = None) -> list[Bucket]:
    """The bucket series with rows in a period, each with its hours' counts."""
    rows: dict[int, list[tuple[int, BucketHour]]] = defaultdict(list)
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_ROWS, [period.start, period.end, list(ROLES), as_of or LAST_INSTANT])
        for series_id, hour_ms, count, readings in cursor.fetchall():
            rows[series_id].append((hour_ms, BucketHour(count, readings)))
    found = Series.objects.filter(pk__in=rows.keys()).select_related("target__source")
    every = (_bucket(series, rows[series.pk]) for series in found.order_by("pk"))
    return [one for one in every if one is not None]


def _bucket(series: Series, hours: list[tuple[int, BucketHour]]) -> Bucket | None:
    """The bucket; None where the other half of a service counts it, or the bound is no number."""
    measure = ROLES[series.role]
    half = next((v for n in DISAGGREGATION_LABELS if (v := series.labels.get(n)) in NOT_OF), None)
    role = role_of(series.metric)
    if half is not None and NOT_OF[half] == measure:
        return None
    try:
        bound = Decimal(series.labels.get("le", "").replace("+Inf", "Infinity"))
    except InvalidOperation:
        return None
    engine = (series.target_id, series.engine)
    return Bucket(
        series, series.rule_labels, measure, engine, role.alias_rank if role else 9, bound, hours
    )


def preferred(every: Iterable[Bucket]) -> list[Bucket]:
    """Of an engine that tells a measure under two names, the buckets of the preferred one."""
    best: dict[tuple[str, Engine], int] = {}
    held = list(every)
    for one in held:
        key = (one.measure, one.engine)
        best[key] = min(one.preference, best.get(key, one.preference))
    return [one for one in held if best[one.measure, one.engine] == one.preference]


def objectives(as_of: datetime | None = None) -> dict[str, list[Objective]]:
    """Every workload's objectives in the order in which they begin to hold."""
    rows = ServiceObjective.objects.filter(at__lte=as_of or LAST_INSTANT).select_related("workload")
    found: dict[str, list[Objective]] = defaultdict(list)
    for row in rows.order_by("valid_from", "pk"):
        found[row.workload.slug].append(
            Objective(
                workload=row.workload.slug,
                first_token_seconds=row.first_token_seconds,
                inter_token_seconds=row.inter_token_seconds,
                target=row.target,
                valid_from=row.valid_from,
                at=row.at,
                by=row.by,
                note=row.note,
            )
        )
    return dict(found)


def objective_rows(slug: str) -> list[dict[str, Any]]:
    """A workload's objectives as plain values, the one that begins last first."""
    return [
        {
            "workload": one.workload,
            "first_token_seconds": one.first_token_seconds,
            "inter_token_seconds": one.inter_token_seconds,
            "target": one.target,
            "valid_from": when(one.valid_from),
            "note": one.note,
            "at": when(one.at),
            "by": one.by,
        }
        for one in objectives().get(slug, [])[::-1]
    ]


def in_force(every: Sequence[Objective], instant: datetime) -> Objective | None:
    """The objective that holds at an instant."""
    held = [one for one in every if one.valid_from <= instant]
    return held[-1] if held else None


class ServiceLevels:
    """The buckets of a period read once, and each workload's service level in any part of it."""

    def __init__(self, period: Period, places: Assigner, as_of: datetime | None = None) -> None:
        self.objectives = objectives(as_of)
        self.hours: dict[tuple[str, str], EngineHours] = defaultdict(dict)
        for one in preferred(buckets(period, as_of)) if self.objectives else ():
            for hour_ms, found in one.hours:
                place = places(one.labels, instant_of(hour_ms))
                if place.kind == WORKLOAD and place.target:
                    of_engine = self.hours[place.target, one.measure]
                    bounds = of_engine.setdefault((hour_ms, one.engine), {})
                    before = bounds.get(one.bound_seconds, BucketHour(0, 0))
                    bounds[one.bound_seconds] = BucketHour(
                        before.count + found.count, before.readings + found.readings
                    )

    def of(self, slug: str, period: Period) -> ServiceLevel:
        """A workload's service level in whole hours."""
        held = self.objectives.get(slug, [])
        last = in_force(held, instant_of(milliseconds(period.end) - 1))
        if not held or last is None:
            reason = NOT_IN_FORCE if held else NO_OBJECTIVE
            return ServiceLevel(None, period, False, {}, {"objective": reason})
        counted = {name: self._measured(slug, name, period, held) for name in MEASURES}
        others = any(period.start < one.valid_from < period.end for one in held)
        return ServiceLevel(
            objective=last,
            period=period,
            changed=others and in_force(held, period.start) is not None,
            measured={name: one.in_time for name, one in counted.items() if one.in_time},
            reasons={name: one.reason for name, one in counted.items() if one.reason},
        )

    def _measured(
        self, slug: str, measure: str, period: Period, held: Sequence[Objective]
    ) -> Measured:
        """One measure, engine by engine and hour by hour against the objective in force."""
        holding = [one for one in held if period.start < one.valid_from < period.end]
        first = in_force(held, period.start)
        every = [*holding, *([first] if first else [])]
        if all(one.threshold_seconds(measure) is None for one in every):
            return Measured(None, None)
        start, end = milliseconds(period.start), milliseconds(period.end)
        parts: list[InTime] = []
        for (hour_ms, _), bounds in sorted(self.hours.get((slug, measure), {}).items()):
            holds = in_force(held, instant_of(hour_ms)) if start <= hour_ms < end else None
            threshold = holds.threshold_seconds(measure) if holds else None
            if threshold is None:
                continue
            part = in_time(bounds, threshold)
            if part is None:
                return Measured(None, NO_LAST_BUCKET)
            parts.append(part)
        whole = together(parts)
        return Measured(whole, None) if whole.counted else Measured(None, NOT_TOLD)
