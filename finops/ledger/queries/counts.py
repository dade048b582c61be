"""Counts of engines that are not tokens: preemptions (method §2, V0 recompute)."""

from __future__ import annotations

from datetime import datetime

from finops.core.period import Period
from finops.ledger.models import Series, TokenHour

from .as_of import known_by

Engine = tuple[int, str]
"""A target and its `engine` label."""


def preemptions(period: Period, as_of: datetime | None = None) -> dict[Engine, int]:
    """Preemptions in a period by engine; an engine that does not tell is absent."""
    hours = TokenHour.objects.filter(
        known_by(as_of),
        hour__gte=period.start,
        hour__lt=period.end,
        series__role="preemptions",
    )
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    told = Series.objects.filter(role="preemptions").values_list("pk", "target_id", "engine")
    series = {pk: (target, engine) for pk, target, engine in told}
    found: dict[Engine, int] = {}
    for series_id, count in newest.values_list("series_id", "tokens"):
        engine = series[series_id]
        found[engine] = found.get(engine, 0) + count
    return found
