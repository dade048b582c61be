"""Ends and silences of single series, from the readings kept: asked for only where a period's bounds
need them (method §2.5, §2.6)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime

from django.db.models import Q

from finops.core.counter_values import Carry
from finops.core.dark import Ups, dark_of_end
from finops.core.period import HOUR_MS, milliseconds
from finops.core.tokens import Dark
from finops.ledger.models import ReadingBlock, Series, TokenHour
from finops.sources.samples import unpack, unpack_between

from .sources import unfinished_windows


def end_of_series(series: Series, last_ms: int, usual_ms: int | None, as_of: datetime) -> Dark:
    """The dark of a series' end (method §2.6)."""
    return dark_of_end(last_ms, usual_ms, _ups_after(series, last_ms, as_of))


def last_of_marks(series: Series, as_of: datetime) -> list[int]:
    """The last reading of every process remembered behind the series' address."""
    carry = (
        TokenHour.objects.filter(series=series, posted_at__lte=as_of)
        .order_by("-hour", "-revision")
        .values_list("carry", flat=True)
        .first()
    )
    return [counter.last_ms for counter in Carry.from_json(carry or {}).counters.values()]


def source_goes_on(series: Series, as_of: datetime, since_ms: int, until_ms: int) -> bool:
    """Whether other targets of the source have readings in a span, its edges left out."""
    if until_ms <= since_ms:
        return False
    blocks = (
        ReadingBlock.objects.filter(
            series__target__source=series.target.source_id, document__received_at__lte=as_of
        )
        .touching(since_ms + 1, until_ms)
        .exclude(series__target=series.target_id)
    )
    for _, start, end in unfinished_windows(as_of, series.target.source_id):
        blocks = blocks.exclude(last_ms__gte=milliseconds(start), first_ms__lt=milliseconds(end))
    if blocks.filter(Q(first_ms__gt=since_ms) | Q(last_ms__lt=until_ms)).exists():
        return True
    whole_ms = (since_ms // HOUR_MS + 1) * HOUR_MS  # the first hour that begins in the span
    if (
        whole_ms + HOUR_MS <= until_ms and blocks.exists()
    ):  # each block has readings in each of its hours
        return True
    around = blocks.filter(series__role__in=("up", "prompt")).values_list("payload", flat=True)
    times = (unpack(bytes(payload))[0] for payload in around.iterator())
    return any(bisect_left(t, until_ms) > bisect_right(t, since_ms) for t in times)


def _ups_after(series: Series, last_ms: int, as_of: datetime) -> Ups:
    """The target's `up` readings in the hours around a series' last reading."""
    hour_ms = (last_ms // HOUR_MS - 1) * HOUR_MS  # what a replica said before it counts, too
    until_ms = hour_ms + 3 * HOUR_MS
    blocks = ReadingBlock.objects.filter(
        series__target=series.target_id, series__role="up", document__received_at__lte=as_of
    ).touching(hour_ms, until_ms)
    replicas: dict[str, list[tuple[int, int]]] = {}
    for replica, payload in blocks.values_list("replica", "payload"):
        times, values = unpack_between(bytes(payload), hour_ms, until_ms)
        replicas.setdefault(replica, []).extend(zip(times, map(int, values), strict=True))
    return Ups.of(replicas)
