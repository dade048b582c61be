"""Changes of workloads: found in what was read, decided on by people, measured in hours (method §10)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from django.db import connections

from finops.core.allocation import WORKLOAD, Assigner
from finops.core.changes import CONFIRMED, WINDOW_HOURS, Change, LoadHour, impact
from finops.core.facts import ChangeFacts
from finops.core.money import EXACT, part
from finops.core.period import HOUR, HOUR_MS, Period, hour_of, instant_of, milliseconds
from finops.ledger.models import ChangeDecision, EngineStart, Series, Workload
from finops.ledger.which import ledger_name

from .allocation import assign_series
from .exchange_rates import rates_of
from .money import charge_parts
from .reading import Reading
from .token_rows import LAST_INSTANT
from .training import places_of

LOOK_BACK = timedelta(days=28)
STEADY_HOURS = 6
MOST_MEASURED = 5
NAMES = {
    "gpu_memory_utilization": "gpu_memory_utilization",
    "block_size": "block size",
    "cache_dtype": "cache type",
    "enable_prefix_caching": "prefix caching",
    "num_gpu_blocks_override": "blocks fixed by hand",
    "kv_cache_memory_bytes": "cache bytes fixed by hand",
}
"""The settings that people make. Numbers of blocks follow from them and differ by start."""

# Spans of hours in which an engine showed one configuration: few rows, whatever the hours.
_SPANS = """
WITH newest AS (
    SELECT DISTINCT ON (series_id, hour) series_id, hour, configuration
    FROM ledger_cachehour WHERE hour >= %s AND hour < %s AND posted_at <= %s
    ORDER BY series_id, hour, revision DESC
), marked AS (
    SELECT *, (configuration IS DISTINCT FROM lag(configuration) OVER engine)::int AS begins
    FROM newest WHERE configuration <> '{}'::jsonb
    WINDOW engine AS (PARTITION BY series_id ORDER BY hour)
), runs AS (
    SELECT *, sum(begins) OVER (PARTITION BY series_id ORDER BY hour) AS run FROM marked
)
SELECT series_id, configuration::text, min(hour), max(hour)
FROM runs GROUP BY series_id, run, configuration ORDER BY series_id, min(hour)
"""
_TOKENS = """
SELECT hour_ms, sum(tokens) FROM (
    SELECT DISTINCT ON (series_id, hour) (extract(epoch FROM hour) * 1000)::bigint AS hour_ms, tokens
    FROM ledger_tokenhour
    WHERE series_id = ANY(%s) AND hour >= %s AND hour < %s AND posted_at <= %s
    ORDER BY series_id, hour, revision DESC
) newest GROUP BY hour_ms
"""
_LEVELS = """
SELECT DISTINCT ON (series_id, hour) (extract(epoch FROM hour) * 1000)::bigint, levels_ms::text
FROM ledger_cachehour
WHERE series_id = ANY(%s) AND hour >= %s AND hour < %s AND posted_at <= %s
ORDER BY series_id, hour, revision DESC
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that was found, and what was decided of it, if anything."""

    change: Change
    verdict: str | None = None
    by: str = ""
    at: datetime | None = None
    note: str = ""


def proposals(period: Period, as_of: datetime | None = None) -> list[Proposal]:
    """Every change of a period, newest first, with the decision that holds."""
    places = assign_series(as_of)
    every = [*_from_gauges(period, places, as_of), *_versions(period, as_of)]
    decided = decisions(as_of)
    found = []
    for change in sorted(every, key=lambda c: (c.at, c.workload, c.kind), reverse=True):
        row = decided.get(change.key)
        found.append(
            Proposal(change, row.verdict, row.by, row.at, row.note) if row else Proposal(change)
        )
    return found


def decisions(as_of: datetime | None = None) -> dict[str, ChangeDecision]:
    """The newest decision on each change, by the change's key."""
    rows = ChangeDecision.objects.filter(at__lte=as_of or LAST_INSTANT).select_related("workload")
    return {change_of(row).key: row for row in rows}


def change_of(row: ChangeDecision) -> Change:
    """The change that a decision is on."""
    return Change(row.workload.slug, row.kind, row.changed_at, row.before, row.after)


def confirmed_changes(reading: Reading) -> tuple[ChangeFacts, ...]:
    """The confirmed changes with what each did."""
    return tuple(
        ChangeFacts(change, row.by, row.note, impact(change, load_hours(reading, change)))
        for row in confirmed(reading)
        for change in (change_of(row),)
    )


def confirmed(reading: Reading) -> list[ChangeDecision]:
    """The changes confirmed of the four weeks to the period's end, the newest first."""
    since = reading.period.end - LOOK_BACK
    rows = [
        row
        for row in decisions(reading.as_of).values()
        if row.verdict == CONFIRMED and since <= row.changed_at < reading.period.end
    ]
    rows.sort(key=lambda row: (row.changed_at, row.pk), reverse=True)
    return rows[:MOST_MEASURED]


def load_hours(reading: Reading, change: Change) -> list[LoadHour]:
    """The hours around a change up to the period's end: own cost, tokens, time at levels of use."""
    middle = hour_of(change.at)
    reach = timedelta(hours=WINDOW_HOURS)
    span = Period(middle - reach, min(reading.period.end, middle + reach + HOUR))
    costs = _hourly_cost(reading, change.workload, span)
    ids = _series_of(reading.series_places, change)
    values = [span.start, span.end, reading.as_of or LAST_INSTANT]
    levels: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_TOKENS, [ids["prompt"] + ids["generation"], *values])
        tokens = {hour_ms: int(count) for hour_ms, count in cursor.fetchall()}
        cursor.execute(_LEVELS, [ids["kv_usage"], *values])
        for hour_ms, text in cursor.fetchall():
            for level, held in json.loads(text).items():
                levels[hour_ms][int(level)] += held
    return [
        LoadHour(hour_ms, costs.get(hour_ms, Decimal(0)), count, dict(levels.get(hour_ms, {})))
        for hour_ms, count in sorted(tokens.items())
    ]


def _hourly_cost(reading: Reading, slug: str, span: Period) -> dict[int, Decimal]:
    """A workload's own effective cost by hour, in the report's currency."""
    wanted = dict(places_of(reading, span, {slug}))
    rates = rates_of(span, reading.as_of) if reading.rates else None
    found: dict[int, Decimal] = defaultdict(Decimal)
    for one in charge_parts(span, "incurred", as_of=reading.as_of, rates=rates, only=wanted):
        if one.currency != reading.currency or not one.effective:
            continue
        start, end = max(one.start, span.start), min(one.end, span.end)
        for hour in Period(hour_of(start), max(end, hour_of(start) + HOUR)).hours():
            share = part(one.effective, start, end, hour, hour + HOUR)
            at = milliseconds(hour)
            found[at] = EXACT.add(found[at], share)
    return found


def _series_of(places: Assigner, change: Change) -> dict[str, list[int]]:
    """The series of the workload by role, as the rules place them when it changed."""
    found: dict[str, list[int]] = defaultdict(list)
    roles = ("prompt", "generation", "kv_usage")
    for one in Series.objects.filter(role__in=roles).select_related("target__source"):
        place = places(one.rule_labels, change.at)
        if place.kind == WORKLOAD and place.target == change.workload:
            found[one.role].append(one.pk)
    return found


# -- finding -------------------------------------------------------------------------------------

Span = tuple[int, int, tuple[tuple[str, str], ...]]
"""First and last hour (ms) in which an engine showed settings."""


def _from_gauges(period: Period, places: Assigner, as_of: datetime | None) -> Iterator[Change]:
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_SPANS, [period.start, period.end, as_of or LAST_INSTANT])
        rows = cursor.fetchall()
    ids = {row[0] for row in rows}
    series = {s.pk: s for s in Series.objects.filter(pk__in=ids).select_related("target__source")}
    spans: dict[str, list[Span]] = defaultdict(list)
    for pk, text, first, last in rows:
        place = places(series[pk].rule_labels, first)
        if place.kind == WORKLOAD and place.target:
            given = json.loads(text)
            settings = tuple((name, str(given[name])) for name in NAMES if name in given)
            spans[place.target].append((milliseconds(first), milliseconds(last), settings))
    for slug, of_workload in sorted(spans.items()):
        yield from configuration_changes(slug, of_workload)
        yield from replica_changes(slug, of_workload)


def configuration_changes(slug: str, spans: Sequence[Span]) -> Iterator[Change]:
    """From one setting that all engines show to the next; hours in which they differ are between."""
    shown: dict[int, set[tuple[tuple[str, str], ...]]] = defaultdict(set)
    for first, last, settings in spans:
        for hour_ms in range(first, last + HOUR_MS, HOUR_MS):
            shown[hour_ms].add(settings)
    before: tuple[tuple[str, str], ...] | None = None
    since_ms = 0
    for hour_ms in sorted(shown):
        if len(shown[hour_ms]) > 1:
            since_ms = since_ms or hour_ms  # the first hour in which both were seen
            continue
        (settings,) = shown[hour_ms]
        if before is not None and settings != before:
            old, new = _told(before, settings)
            at = instant_of(since_ms or hour_ms)
            yield Change(slug, "configuration", at, old, new)
        before, since_ms = settings, 0


def _told(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The settings that differ, in words."""
    old, new = dict(before), dict(after)
    names = [name for name in NAMES if old.get(name) != new.get(name)]
    texts = (
        ", ".join(f"{NAMES[name]} {side.get(name, 'not told')}" for name in names)
        for side in (old, new)
    )
    return next(texts), next(texts)


def replica_changes(slug: str, spans: Sequence[Span]) -> Iterator[Change]:
    """Where the number of engines stays another one for six hours."""
    count: dict[int, int] = defaultdict(int)
    for first, last, _ in spans:
        for hour_ms in range(first, last + HOUR_MS, HOUR_MS):
            count[hour_ms] += 1
    runs: list[list[int]] = []  # first hour, hours, engines
    for hour_ms in sorted(count):
        if runs and runs[-1][2] == count[hour_ms]:
            runs[-1][1] += 1
        else:
            runs.append([hour_ms, 1, count[hour_ms]])
    steady = [run for run in runs if run[1] >= STEADY_HOURS]
    for early, late in pairwise(steady):
        if early[2] != late[2]:
            words = (f"{n} engine{'' if n == 1 else 's'}" for n in (early[2], late[2]))
            yield Change(slug, "replicas", instant_of(late[0]), next(words), next(words))


def _versions(period: Period, as_of: datetime | None) -> Iterator[Change]:
    """Engine versions by the start-up logs whose model is a workload's."""
    slugs: dict[str, str] = dict(Workload.objects.values_list("model", "slug"))
    rows = EngineStart.objects.filter(
        posted_at__lte=as_of or LAST_INSTANT, has_failed=False, started_at__lt=period.end
    ).exclude(engine_version="")
    last: dict[str, str] = {}
    for row in rows.order_by("started_at", "pk"):
        slug = slugs.get(row.model)
        if slug is None or row.started_at is None:
            continue
        before = last.get(slug)
        if before is not None and before != row.engine_version and row.started_at >= period.start:
            at = hour_of(row.started_at)
            yield Change(slug, "engine version", at, before, row.engine_version)
        last[slug] = row.engine_version


def proposal_value(one: Proposal) -> Mapping[str, Any]:
    """A proposal as plain values."""
    return {
        "key": one.change.key,
        "workload": one.change.workload,
        "kind": one.change.kind,
        "at": one.change.at,
        "before": one.change.before,
        "after": one.change.after,
        "verdict": one.verdict,
        "by": one.by or None,
        "decided_at": one.at,
        "note": one.note,
    }
