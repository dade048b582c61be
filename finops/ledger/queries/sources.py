"""Where readings come from and how far each source has been collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, Max, Min, OuterRef, Sum

from finops.core.period import Period, hour_of, instant_of, rfc3339
from finops.ledger.models import Fetch, FetchedPart, Source, TokenHour, UsageHour
from finops.ledger.models.evidence import REPLICA_LABELS

from .answers import answers, is_empty_hour

HEALTH_DAYS = 7
LATE = timedelta(hours=3)


def active_sources() -> list[Source]:
    """The Prometheus sources that are collected, by name."""
    return list(Source.objects.filter(kind="prometheus", active=True).order_by("name"))


def complete_windows(source: Source, period: Period) -> list[Period]:
    """The spans of a period that were fetched whole, joined and in order."""
    return _complete_spans(source.pk, period)


def _complete_spans(source_id: int, period: Period, as_of: datetime | None = None) -> list[Period]:
    """The same, as it was known at an instant where one is given."""
    rows = Fetch.objects.filter(
        source=source_id, complete=True, window_start__lt=period.end, window_end__gt=period.start
    ).order_by("window_start")
    if as_of is not None:
        rows = rows.filter(at__lte=as_of)
    spans = (
        Period(max(start, period.start), min(end, period.end))
        for start, end in rows.values_list("window_start", "window_end")
    )
    return list(_joined(spans))


def is_complete(source: Source, window: Period) -> bool:
    """Whether every instant of the window has been fetched whole."""
    return complete_windows(source, window) == [window]


def unfinished_windows(
    as_of: datetime, source_id: int | None = None
) -> list[tuple[int, datetime, datetime]]:
    """The windows of which some shards were fetched and others not yet, with their source; of one
    source where it is given. A window whose every instant was fetched whole in other windows, as
    when a run goes on otherwise than it was begun, is none of them."""
    span = {name: OuterRef(name) for name in ("source_id", "window_start", "window_end")}
    whole = Fetch.objects.filter(**span, complete=True, at__lte=as_of)
    fetched = FetchedPart.objects.filter(at__lte=as_of).exclude(Exists(whole))
    if source_id is not None:
        fetched = fetched.filter(source_id=source_id)
    found = fetched.values_list("source_id", "window_start", "window_end").distinct()
    return [
        (source, start, end)
        for source, start, end in found
        if _complete_spans(source, window := Period(start, end), as_of) != [window]
    ]


def uncollected(source: Source, period: Period) -> list[Period]:
    """The spans of a period that no complete fetch covers, oldest first."""
    left, at = [], period.start
    for span in complete_windows(source, period):
        if span.start > at:
            left.append(Period(at, span.start))
        at = span.end
    if at < period.end:
        left.append(Period(at, period.end))
    return left


def first_collected(source: Source) -> datetime | None:
    """The start of the oldest complete window; None for a source never collected."""
    rows = Fetch.objects.filter(source=source, complete=True)
    first: datetime | None = rows.aggregate(first=Min("window_start"))["first"]
    return first


def named_before(source: Source, window: Period) -> int:
    """How many series the source had in the last window before this one that was fetched whole."""
    rows = Fetch.objects.filter(source=source, complete=True, window_end__lte=window.start)
    newest = rows.order_by("-window_end", "-id").values_list("series", flat=True)
    return newest.first() or 0


def incomplete_hours(period: Period) -> list[tuple[str, datetime, list[str]]]:
    """Source name, hour and warnings of every hour that was asked for and not fetched whole.

    An hour that a later fetch completed is not among them (method §2.8).
    """
    rows = Fetch.objects.filter(
        complete=False, window_start__lt=period.end, window_end__gt=period.start
    ).select_related("source")
    found: dict[tuple[str, datetime], list[str]] = {}
    for fetch in rows.order_by("source__name", "window_start", "id"):
        window = Period(max(fetch.window_start, period.start), min(fetch.window_end, period.end))
        for gap in uncollected(fetch.source, window):
            for hour in gap.hours():
                found[(fetch.source.name, hour)] = list(fetch.warnings)
    return [(name, hour, warnings) for (name, hour), warnings in sorted(found.items())]


def health(at: datetime) -> list[dict[str, Any]]:
    """Each source's state at an instant: how far it reaches, how late, how whole (plain values)."""
    return [_health(source, at) for source in Source.objects.order_by("name")]


def _health(source: Source, at: datetime) -> dict[str, Any]:
    """`coverage` is the share of the last seven days' hours, since the first one, fetched whole;
    of a source without fetches, of hours that have readings or usage."""
    rows = Fetch.objects.filter(source=source)
    last = rows.order_by("-id").first()
    reach: datetime | None = rows.filter(complete=True).aggregate(reach=Max("window_end"))["reach"]
    success: datetime | None = rows.filter(complete=True).aggregate(at=Max("at"))["at"]
    coverage = _coverage(source, at)
    if last is None:
        reach, success, coverage = _of_readings(source, at)
    lag = None if reach is None else max(at - reach, timedelta(0))
    day = rows.filter(complete=True, window_end__gt=at - timedelta(days=1))
    return {
        "name": source.name,
        "kind": source.kind,
        "url": source.url,
        "matchers": source.matchers,
        "active": source.active,
        "state": _state(source, last, lag),
        "reaches": None if reach is None else rfc3339(reach),
        "lag_seconds": None if lag is None else int(lag.total_seconds()),
        "coverage": coverage,
        "incomplete_hours": len(
            list(_missing_hours(source, Period(at - timedelta(days=HEALTH_DAYS), at)))
        ),
        "empty_hours": _empty_hours(source, at),
        "backlog_hours": _backlog(source, at),
        "readings_last_day": day.aggregate(n=Sum("readings"))["n"] or 0,
        "last_success": None if success is None else rfc3339(success),
        "replica_labels": list(source.replica_labels),
        "undeclared_replicas": _undeclared(source),
        "store": dict(source.probe),
        "series_last_fetch": last.series if last is not None else 0,
        "last_fetch": None
        if last is None
        else {"at": rfc3339(last.at), "complete": last.complete, "warnings": list(last.warnings)},
    }


def _empty_hours(source: Source, at: datetime) -> int:
    """Hours of the last seven days that the store answered whole and with nothing."""
    period = _since(source, at)
    if period is None:
        return 0
    fetches = answers(period, source=source).get(source.name, [])
    return sum(is_empty_hour(hour, fetches) for hour in period.hours())


def _backlog(source: Source, at: datetime) -> int:
    """Whole hours since the first one collected that no complete fetch covers: what the schedule
    still has to fill, oldest first, as far as the store holds it."""
    first = first_collected(source)
    now = hour_of(at)
    if source.kind != "prometheus" or first is None or first >= now:
        return 0
    gaps = uncollected(source, Period(max(first, now - timedelta(days=400)), now))
    return sum(-(-(gap.end - gap.start) // timedelta(hours=1)) for gap in gaps)


def _undeclared(source: Source) -> list[str]:
    """Labels by which the store holds series of two replicas, and that the source does not take
    off: each token may be counted once for every value (method §2.7)."""
    taken_off = {*REPLICA_LABELS, *source.replica_labels}
    found = source.probe.get("ha_labels", {})
    return sorted(n for n, values in found.items() if n not in taken_off and len(values) > 1)


def _state(source: Source, last: Fetch | None, lag: timedelta | None) -> str:
    """One word for a page: fine, late, failing, never, idle (not collected) or files."""
    if source.kind != "prometheus":
        return "files"
    if not source.active:
        return "idle"
    if last is None:
        return "never"
    if not last.complete:
        return "failing"
    return "late" if lag is None or lag > LATE else "fine"


def _since(source: Source, at: datetime) -> Period | None:
    """The whole hours of the last seven days since the source was first collected."""
    first = first_collected(source)
    return None if first is None else _last_days(first, at)


def _last_days(first: datetime, at: datetime) -> Period | None:
    """The whole hours of the last seven days since a first one; None without any."""
    start, end = max(hour_of(at) - timedelta(days=HEALTH_DAYS), hour_of(first)), hour_of(at)
    return Period(start, end) if start < end else None


def _missing_hours(source: Source, period: Period) -> set[datetime]:
    """The hours asked for and not fetched whole."""
    rows = Fetch.objects.filter(
        source=source, complete=False, window_start__lt=period.end, window_end__gt=period.start
    )
    return {
        hour
        for start, end in rows.values_list("window_start", "window_end").distinct()
        for gap in uncollected(source, Period(start, end))
        for hour in gap.hours()
    }


def _coverage(source: Source, at: datetime) -> str | None:
    """Hours fetched whole ÷ hours, as a decimal with four places; None before the first hour."""
    period = _since(source, at)
    if period is None:
        return None
    missing = sum((gap.end - gap.start for gap in uncollected(source, period)), timedelta(0))
    whole = period.end - period.start
    return _share(whole - missing, whole)


def _share(part: timedelta, whole: timedelta) -> str:
    """A share with four places, rounded down: what is not whole never reads as 1."""
    ten_thousandths = 10_000 * part // whole
    return f"{ten_thousandths // 10_000}.{ten_thousandths % 10_000:04d}"


def _of_readings(
    source: Source, at: datetime
) -> tuple[datetime | None, datetime | None, str | None]:
    """How far, when last and how whole a source of files is, by what its documents told."""
    hours = TokenHour.objects.filter(series__target__source=source)
    usage = UsageHour.objects.filter(source=source)
    read = hours.aggregate(last=Max("last_ms"), at=Max("posted_at"), first=Min("hour"))
    used = usage.aggregate(newest=Max("hour"), at=Max("document__received_at"), first=Min("hour"))
    ends = [instant_of(read["last"])] if read["last"] is not None else []
    ends += [used["newest"] + timedelta(hours=1)] if used["newest"] is not None else []
    first = min((one["first"] for one in (read, used) if one["first"]), default=None)
    success = max((one["at"] for one in (read, used) if one["at"]), default=None)
    if first is None:
        return None, None, None
    period = _last_days(first, at)
    if period is None:
        return max(ends), success, None
    span = {"hour__gte": period.start, "hour__lt": period.end}
    held = {
        hour
        for rows in (hours, usage)
        for hour in rows.filter(**span).values_list("hour", flat=True).distinct()
    }
    share = _share(timedelta(hours=len(held)), period.end - period.start)
    return max(ends), success, share


def _joined(spans: Iterable[Period]) -> Iterator[Period]:
    """Spans in order of their start, with those that touch or overlap made one."""
    held: Period | None = None
    for span in spans:
        if held is None or span.start > held.end:
            if held is not None:
                yield held
            held = span
        else:
            held = Period(held.start, max(held.end, span.end))
    if held is not None:
        yield held
