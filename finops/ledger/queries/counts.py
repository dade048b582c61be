"""Counts of engines that are not tokens: preemptions by workload (method §2, V0 recompute)."""

from __future__ import annotations

from finops.core.allocation import WORKLOAD, Assigner
from finops.core.period import Period
from finops.ledger.models import Series, TokenHour


def preemptions(period: Period, assign: Assigner) -> dict[str, int]:
    """Preemptions in a period by workload; a workload whose engines do not tell is absent."""
    hours = TokenHour.objects.filter(
        hour__gte=period.start, hour__lt=period.end, series__role="preemptions"
    )
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    series = {
        one.pk: one.labels | {"source": one.target.source.name}
        for one in Series.objects.filter(role="preemptions").select_related("target__source")
    }
    found: dict[str, int] = {}
    for series_id, hour, count in newest.values_list("series_id", "hour", "tokens"):
        place = assign(series[series_id], hour)
        if place.kind == WORKLOAD and place.target:
            found[place.target] = found.get(place.target, 0) + count
    return found
