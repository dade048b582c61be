"""Where cost and readings begin and end, in whole hours (method §4).

An hour has cost, or readings, as soon as any lies in it: the first and the last hour of a span are
those that hold its first and its last moment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connections
from django.db.models import Max, Min

from finops.core.period import HOUR, Period, hour_of, instant_of
from finops.ledger.models import ReadingBlock, UsageHour
from finops.ledger.which import ledger_name

from .money import cost_reach, cost_start, reach_by_issuer
from .token_rows import LAST_INSTANT


@dataclass(frozen=True, slots=True)
class Span:
    """From the first to the last moment something is known."""

    first: datetime
    last: datetime
    ended: bool = False


ENDED_AFTER = timedelta(days=5)
"""What lies so far behind the others has ended; what lies less far behind is late."""

_READINGS = """
SELECT source.name, min(first.first_ms), max(last.last_ms)
FROM ledger_source source
JOIN ledger_target target ON target.source_id = source.id
JOIN ledger_series series ON series.target_id = target.id
CROSS JOIN LATERAL (
    SELECT first_ms FROM ledger_readingblock
    JOIN ledger_document document ON document.sha256 = document_id
    WHERE series_id = series.id AND received_at <= %s ORDER BY hour LIMIT 1
) first
CROSS JOIN LATERAL (
    SELECT hour FROM ledger_readingblock
    JOIN ledger_document document ON document.sha256 = document_id
    WHERE series_id = series.id AND received_at <= %s ORDER BY hour DESC LIMIT 1
) newest
CROSS JOIN LATERAL (
    SELECT max(last_ms) AS last_ms FROM ledger_readingblock
    JOIN ledger_document document ON document.sha256 = document_id
    WHERE series_id = series.id AND received_at <= %s
      AND hour >= date_bin('12 hours', newest.hour, 'epoch')
) last
GROUP BY source.name
"""


def source_spans(period: Period, as_of: datetime | None = None) -> dict[str, Span]:
    """The first and last reading, or usage hour, of each source that begins before the period's
    end; what lies after it is not told, so that a week reads the same later on."""
    with connections[ledger_name()].cursor() as cursor:
        until = as_of or LAST_INSTANT
        cursor.execute(_READINGS, [until] * 3)
        found = {
            name: Span(instant_of(first), instant_of(last))
            for name, first, last in cursor.fetchall()
        }
    hours = UsageHour.objects.filter(document__received_at__lte=until).order_by()
    for name, first, last in hours.values_list("source__name").annotate(Min("hour"), Max("hour")):
        span = Span(first, last + HOUR - timedelta(milliseconds=1))
        known = found.get(name, span)
        found[name] = Span(min(known.first, span.first), max(known.last, span.last))
    newest = max((span.last for span in found.values()), default=period.end)
    return {
        name: Span(span.first, min(span.last, period.end), span.last < newest - ENDED_AFTER)
        for name, span in found.items()
        if span.first < period.end
    }


def end_of_hour(instant: datetime) -> datetime:
    """The end of the hour that an instant closes or lies in."""
    hour = hour_of(instant)
    return hour if hour == instant else hour + HOUR


def after_hour(instant: datetime) -> datetime:
    """The end of the hour that holds a reading."""
    return hour_of(instant) + HOUR


@dataclass(frozen=True, slots=True)
class CostSpan:
    """Where cost begins inside a period, and how far each issuer's charges reach."""

    first: datetime | None
    last: datetime | None
    newest: datetime | None
    by_issuer: dict[str, datetime]

    def last_of(self, issuers: Collection[str]) -> datetime | None:
        """How far the cost of these issuers together reaches."""
        known = [self.by_issuer[issuer] for issuer in issuers if issuer in self.by_issuer]
        live = [at for at in known if self.newest and at >= self.newest - ENDED_AFTER]
        return min(live or known) if known else self.last


def cost_span(period: Period, as_of: datetime | None = None) -> CostSpan:
    """Where the cost of a period begins and how far it reaches."""
    newest = cost_reach(as_of)
    last = None if newest is None else min(newest, period.end)
    return CostSpan(cost_start(period, as_of), last, newest, reach_by_issuer(as_of))


def common_span(
    period: Period, cost: CostSpan, issuers: Collection[str], sources: Collection[Span]
) -> Period | None:
    """The hours of a period that have both cost and readings; None when there are none."""
    until = cost.last_of(issuers)
    if cost.first is None or until is None or not sources:
        return None
    start = max(period.start, hour_of(cost.first), hour_of(min(s.first for s in sources)))
    live = [span for span in sources if not span.ended] or sources
    end = min(period.end, end_of_hour(until), after_hour(min(span.last for span in live)))
    return Period(start, end) if end > start else None


def whole_ledger() -> Period | None:
    """The span of all readings and usage hours in the ledger, in whole hours."""
    blocks = ReadingBlock.objects.aggregate(first=Min("first_ms"), last=Max("last_ms"))
    usage = UsageHour.objects.aggregate(first=Min("hour"), last=Max("hour"))
    firsts = [] if blocks["first"] is None else [hour_of(instant_of(blocks["first"]))]
    lasts = [] if blocks["last"] is None else [after_hour(instant_of(blocks["last"]))]
    if usage["first"] is not None:
        firsts.append(usage["first"])
        lasts.append(usage["last"] + HOUR)
    return Period(min(firsts), max(lasts)) if firsts else None
