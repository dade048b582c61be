"""Engines that go on under another address or job: what their counters booked twice (method §2.4).

Who changes how a scrape writes `instance` or `job` makes another target of an engine that lives on. Its
series are born there, with all that the process has counted since its start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from finops.core.allocation import OUT_OF_SCOPE, Assigner
from finops.core.counter_values import BIRTH_WITHIN_MS, Carry, is_gap
from finops.core.facts import Notice
from finops.core.period import HOUR_MS, instant_of, rfc3339
from finops.ledger.models import Series, TokenHour

from .as_of import known_by
from .token_rows import Known

COUNTED = ("prompt", "generation", "delivered_prompt", "delivered_generation")
MODEL = "model_name"


class _Born(NamedTuple):
    """A series that was born with what its process had counted: when it was first read, its process's
    start in microseconds, and what its first hour booked."""

    known: Known
    first_ms: int
    mark_us: int
    tokens: int


class _Twice(NamedTuple):
    """A pair of targets, the process's start in microseconds, and its tokens that stand in both."""

    old: Known
    new: Known
    mark_us: int
    tokens: int


def moved(
    found: Iterable[Known], assign: Assigner, as_of: datetime | None = None
) -> Iterator[Notice]:
    """Targets whose engine was read under another one before, until a rule puts one of the two out of scope
    from the process's start on."""
    pairs: dict[tuple[int, int], list[_Twice]] = {}
    for one in _twice(found, as_of):
        both = one.old.series.target_id, one.new.series.target_id
        if _counts(one.old, one.mark_us, assign) and _counts(one.new, one.mark_us, assign):
            pairs.setdefault(both, []).append(one)
    for some in pairs.values():
        yield _notice(some)


def _twice(found: Iterable[Known], as_of: datetime | None) -> Iterator[_Twice]:
    groups: dict[tuple[int, str, str, str], list[Known]] = {}
    for known in found:
        series = known.series
        if series.role in COUNTED and not known.is_gateway:
            key = (
                series.target.source_id,
                series.metric,
                series.engine,
                series.labels.get(MODEL, ""),
            )
            groups.setdefault(key, []).append(known)
    maybe = [pair for group in groups.values() for pair in _pairs(group)]
    carries = _carries({old.series.pk for _, old in maybe}, as_of) if maybe else {}
    for born, old in maybe:
        counters = carries[old.series.pk].counters.values()
        high = max((c.high for c in counters if born.mark_us in c.marks.values()), default=0)
        if 0 < high <= born.tokens:
            yield _Twice(old, born.known, born.mark_us, high)


def _pairs(group: list[Known]) -> Iterator[tuple[_Born, Known]]:
    """Births, each with the series that may have told the process before. Of a large fleet few end between
    the start of a process and its first reading."""
    group = sorted(group, key=_last_ms)
    ends_ms = [_last_ms(known) for known in group]
    longest_ms = max(known.around.usual_ms or 0 for known in group)
    for born in _births(group):
        first = bisect_right(ends_ms, max(born.mark_us // 1000, born.first_ms - BIRTH_WITHIN_MS))
        last = bisect_right(ends_ms, born.first_ms + 3 * longest_ms)
        for old in group[first:last]:
            is_other = old.series.target_id != born.known.series.target_id
            if is_other and not _is_read_on(old, born.first_ms):
                yield born, old


def _last_ms(known: Known) -> int:
    return known.around.last_ms


def _births(group: Iterable[Known]) -> Iterator[_Born]:
    for known in group:
        for row in known.rows[:1]:
            at_ms, mark_us = next(iter(row.facts.get("births", ())), (None, None))
            if at_ms == known.first_ms and mark_us is not None and row.tokens:
                yield _Born(known, known.first_ms, mark_us, row.tokens)


def _is_read_on(old: Known, since_ms: int) -> bool:
    """Whether a series was read for longer than a pair takes that changes one after the other."""
    return is_gap(_last_ms(old) - since_ms, old.around.usual_ms or 0)


def _carries(series: Iterable[int], as_of: datetime | None) -> dict[int, Carry]:
    """The counters of series as their newest rows leave them."""
    newest = (
        TokenHour.objects.filter(known_by(as_of, "posted_at"), series__in=list(series))
        .order_by("series_id", "-hour", "-revision")
        .distinct("series_id")
    )
    return {row.series_id: Carry.from_json(row.carry) for row in newest}


def _counts(known: Known, mark_us: int, assign: Assigner) -> bool:
    """Whether any hour of a series since the process's start is in scope."""
    place_of = assign.by_hour(known.labels)
    since_ms = mark_us // 1000 // HOUR_MS * HOUR_MS
    hours = (row.hour_ms for row in known.rows if row.hour_ms >= since_ms)
    return any(place_of(hour_ms).kind != OUT_OF_SCOPE for hour_ms in hours)


def _notice(some: list[_Twice]) -> Notice:
    old, new = some[0].old.series, some[0].new.series
    told = " and ".join(f"{one.tokens:,} of {one.new.series.metric}" for one in some)
    since = rfc3339(instant_of(some[0].mark_us // 1000 // HOUR_MS * HOUR_MS))
    return Notice(
        "labels-changed",
        f"{_named(old)} {_named(new)} ({some[0].new.source})",
        f"The engine that was read as {_named(old)} is read as {_named(new)} now: both tell one start of the "
        f"process. The new series are booked from that start on, so up to {told} stand in the ledger a second "
        f"time: put {_named(old)} out of scope by a rule on the label that was changed, from {since} on.",
    )


def _named(series: Series) -> str:
    return f"{series.target.instance} (job {series.target.job})"
