"""Counts of a period that are not tokens, by engine: histograms' buckets, lookups in the cache (§9)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import connections

from finops.core.lengths import Histogram, histogram
from finops.core.period import Period
from finops.ledger.models import Series
from finops.ledger.which import ledger_name
from finops.sources.engines import role_of

Engine = tuple[int, str]
"""A target and its `engine` label."""

LENGTHS = {
    "prompt_length_bucket": "prompts",
    "generation_length_bucket": "answers",
    "step_tokens_bucket": "steps",
}
LOOKUPS = ("prefix_queries", "prefix_hits")

_SUMS = """
SELECT series_id, sum(tokens) FROM (
    SELECT DISTINCT ON (series_id, hour) series_id, tokens FROM ledger_tokenhour
    WHERE series_id = ANY(%s) AND hour >= %s AND hour < %s AND posted_at <= %s
    ORDER BY series_id, hour, revision DESC
) newest GROUP BY series_id
"""


def histograms(period: Period, as_of: datetime | None = None) -> dict[Engine, dict[str, Histogram]]:
    """By engine: `prompts`, `answers` and `steps` of the period, those that were read."""
    found: dict[Engine, dict[str, dict[str, int]]] = {}
    for series, count in _counts(period, LENGTHS, as_of):
        name = LENGTHS[series.role]
        kept = found.setdefault((series.target_id, series.engine), {}).setdefault(name, {})
        edge = series.labels.get("le", "")
        kept[edge] = kept.get(edge, 0) + count
    return {
        engine: {name: histogram(kept) for name, kept in of_engine.items()}
        for engine, of_engine in found.items()
    }


def lookups(period: Period, as_of: datetime | None = None) -> dict[Engine, dict[str, int]]:
    """By engine: prompt tokens looked up in the prefix cache, and found there."""
    found: dict[Engine, dict[str, int]] = {}
    for series, count in _counts(period, LOOKUPS, as_of):
        kept = found.setdefault((series.target_id, series.engine), {})
        kept[series.role] = kept.get(series.role, 0) + count
    return found


def until(as_of: datetime | None) -> datetime:
    """The last instant at which a row may have been posted."""
    return as_of or datetime.max.replace(tzinfo=UTC)


def _counts(
    period: Period, roles: Iterable[str], as_of: datetime | None
) -> list[tuple[Series, int]]:
    """Counts of the period by series; of two names for one thing the preferred alone."""
    known = {one.pk: one for one in Series.objects.filter(role__in=list(roles))}
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_SUMS, [list(known), period.start, period.end, until(as_of)])
        told = [(known[key], int(count)) for key, count in cursor.fetchall()]
    best: dict[tuple[int, str, str], int] = {}
    for one, _ in told:
        key = one.target_id, one.engine, one.role
        best[key] = min(_rank(one), best.get(key, _rank(one)))
    return [(one, n) for one, n in told if _rank(one) == best[one.target_id, one.engine, one.role]]


def _rank(series: Series) -> int:
    role = role_of(series.metric)
    return role.alias_rank if role else 99
