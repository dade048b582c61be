"""Collecting: from a source's store to documents of samples, fetches and posted readings.

The unit is a window of one source. A window is asked for outside any transaction; what came is kept
as one canonical document and posted in one transaction, under a lock of the source. So a window may
be collected twice at once, or be cut off at any instant, and the ledger is the same. Of a large
source, several workers take a shard of a window each (`finops/sources/shards.py`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings

from finops.core.period import HOUR, Period, hour_of, milliseconds, rfc3339
from finops.ledger.access import FetchFailed
from finops.ledger.ahead import Ahead
from finops.ledger.fetch import Door
from finops.ledger.models import Document, Fetch, Source
from finops.ledger.operations.at_hand import AtHand
from finops.ledger.operations.charges import keep_rejections
from finops.ledger.operations.documents import keep_bytes
from finops.ledger.operations.fetches import is_posted, is_shard_posted, note_fetch, take_turn
from finops.ledger.operations.locks import lock
from finops.ledger.operations.reading_ahead import ReadingAhead
from finops.ledger.operations.readings import PostedReadings, post_readings
from finops.ledger.operations.sources import access_to, limits_of_stores, note_probe
from finops.ledger.probe import kept_for
from finops.ledger.queries.sources import (
    first_collected,
    is_complete,
    named_before,
    uncollected,
)
from finops.ledger.quiet import quiet_hours
from finops.ledger.selecting import checked_matchers
from finops.ledger.store import (
    Gathered,
    ask,
    earliest,
    gather,
    live_series,
)
from finops.ledger.which import atomic
from finops.sources.samples import FORMATS, MAGIC, encode
from finops.sources.shards import WHOLE, Shard, shards

SETTLE = timedelta(minutes=2)  # a store may still be taking in the newest scrapes
REACH = timedelta(days=15)  # as far back as a store is asked unless a person says more
LONG = timedelta(hours=12)  # from here on whole days, or parts of them, are asked for at once
PARTS_OF_A_DAY = (24, 12, 8, 6, 4, 3, 2)
SPLIT_FROM = 2_000  # series from which on several workers share the work
MAX_SERIES_HOURS = 30_000  # what fits in memory twice: one window is posted, the next one read
WINDOWS_BETWEEN_SEARCHES = 12  # for cycles among the run's other objects, which are few
WARNED_ATTEMPTS = 3
WARNED_PAUSE_SECONDS = 2.0

Progress = Callable[[str], None]


@dataclass(slots=True)
class Collected:
    """What came of collecting one source: the contract's row, and the failure if there was one."""

    name: str
    series: set[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=set)
    readings: int = 0
    hours: set[datetime] = field(default_factory=set)
    incomplete_hours: set[datetime] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    refused: int = 0
    newest: list[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=list)
    """The series of the window counted last."""

    @property
    def ok(self) -> bool:
        """All that was asked for was fetched whole."""
        return not self.incomplete_hours and not self.warnings

    def as_json(self) -> dict[str, Any]:
        """The row of the command `collect`."""
        return {
            "name": self.name,
            "series": len(self.series),
            "readings": self.readings,
            "hours": len(self.hours),
            "incomplete_hours": len(self.incomplete_hours),
            "warnings": self.warnings,
            "readings_refused": self.refused,
        }


@dataclass(frozen=True, slots=True)
class Window:
    """What came of one window. `fresh` is False when the ledger held it already."""

    period: Period
    complete: bool
    fresh: bool
    gathered: Gathered
    refused: int = 0


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """A window makes hundreds of thousands of small objects, none of them in a cycle: the search
    for cycles, begun anew after each few of them, would take a third of the processor's time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_search_for_cycles()
def collect_source(
    source: Source,
    *,
    by: str,
    at: datetime,
    period: Period | None = None,
    progress: Progress = lambda _: None,
) -> Collected:
    """Collect a source, oldest window first: the given period anew, else all that is missing.

    A store that warns leaves the window incomplete and the next is tried; one that does not answer
    ends the work. Both stand in the warnings; nothing is raised for them.
    """
    result = Collected(source.name)
    note_probe(source, at=at)  # first: a store may have to be asked in its product's own way
    try:
        with Door(access_to(source), limits_of_stores()) as door:
            wanted = windows_of(source, door, at=at, period=period)
            again = period is not None
            with _reading(source, door, wanted, again=again) as reader:
                post = partial(
                    collect_window, source, door=door, by=by, at=at, again=again,
                    read=reader.read, at_hand=AtHand(),
                )  # fmt: skip
                for number, window in enumerate(wanted, 1):
                    progress(f"{source.name}: {rfc3339(window.start)} ({number} of {len(wanted)})")
                    result.incomplete_hours |= set(window.hours())  # until it has come
                    _add(result, post(window))
                    if number % WINDOWS_BETWEEN_SEARCHES == 0:
                        gc.collect()
    except FetchFailed as error:
        result.warnings.append(str(error))
    return result


def _reading(source: Source, door: Door, wanted: Sequence[Period], *, again: bool) -> ReadingAhead:
    """The windows that are not there yet, on their way."""
    matchers = checked_matchers(source.matchers)
    return ReadingAhead(
        [one for one in wanted if again or not is_complete(source, one)],
        lambda window, answers: ask(door, matchers, window, answers),
        lambda window, answers: _encoded(source, window, door, answers),
        is_asked_early=door.access.remote_read,
        give_up=door.give_up,
    )


def _encoded(source: Source, window: Period, door: Door, answers: Ahead) -> Gathered:
    """The window's samples, and their document: made while the window before is posted."""
    found = _gather(source, window, door, answers=answers)
    if found.complete:
        with suppress(ValueError):  # said when the window is posted
            found.content = encode(found.series)
    return found


def windows_of(
    source: Source, door: Door, *, at: datetime, period: Period | None = None
) -> list[Period]:
    """The windows to ask for, oldest first. FetchFailed when there is nothing to be found.

    A given period is widened to whole hours, but never beyond the present; without one, everything
    since the source's first window that no complete fetch covers: as far back as the store says it
    keeps samples, REACH where it does not say or keeps them for less.
    """
    end = (at - SETTLE).replace(second=0, microsecond=0)
    if period is not None:
        start, end = hour_of(period.start), min(_hour_from(period.end), end)
        if start >= end:
            raise FetchFailed("the period lies in the future; there is nothing to collect yet")
        return list(cut(door, checked_matchers(source.matchers), Period(start, end)))
    reach = Period(hour_of(end) - REACH, end)
    first = first_collected(source)
    if first is not None:
        told = kept_for(source.probe.get("retention"), source.probe.get("product"))
        start = max(first, hour_of(end) - max(told or REACH, REACH))
        span = Period(start, end) if start < end else None
    else:
        span = earliest(door, checked_matchers(source.matchers), reach)
        if span is None:
            raise FetchFailed(
                f"{source.url}: no series of a known engine in the last {REACH.days} days; look at "
                "the source's matchers, or say --from and --to"
            )
    gaps = uncollected(source, span) if span is not None else []
    return [window for gap in gaps for window in cut(door, checked_matchers(source.matchers), gap)]


def whole_hours(planned: list[Period], at: datetime) -> list[Period]:
    """The windows that end with a whole hour now past: what the schedule collects."""
    end = hour_of(at - SETTLE)
    return [window for window in planned if window.end <= end]


def windows(period: Period, *, hours: int = 1) -> Iterator[Period]:
    """A period cut at the UTC hours, so that the same hour is asked for in the same way always.

    With more `hours`, a divisor of 24, its whole pieces of a UTC day of so many hours are one
    window each: quicker to post, for a long way back.
    """
    at, step = period.start, hours * HOUR
    while at < period.end:
        whole = at == hour_of(at) and at.hour % hours == 0 and at + step <= period.end
        end = at + step if whole else min(hour_of(at) + HOUR, period.end)
        yield Period(at, end)
        at = end


def hours_at_once(series: int) -> int:
    """How many hours of so many series are asked for at once, for a long way back."""
    return next((n for n in PARTS_OF_A_DAY if series * n <= MAX_SERIES_HOURS), 1)


def cut(door: Door, matchers: Sequence[str], period: Period) -> Iterator[Period]:
    """The windows of a period: of a long one as many hours at once as fit in memory."""
    hours = 1
    if period.end - period.start >= LONG:
        last = Period(period.end - HOUR, period.end)
        hours = hours_at_once(len(live_series(door, matchers, last)[0]))
    return windows(period, hours=hours)


def shards_of(source: Source, door: Door, planned: Sequence[Period]) -> list[Shard]:
    """The shards in which several workers read the windows: of a source with SPLIT_FROM series or
    more, as many as the setting COLLECT_SHARDS says; else the whole alone."""
    count = settings.COLLECT_SHARDS
    if count < 2 or not planned:
        return [WHOLE]
    newest = Period(planned[-1].end - HOUR, planned[-1].end)
    series, _ = live_series(door, checked_matchers(source.matchers), newest)
    return shards(count) if len(series) >= SPLIT_FROM else [WHOLE]


@_no_search_for_cycles()
def collect_window(
    source: Source,
    window: Period,
    *,
    door: Door,
    by: str,
    at: datetime,
    again: bool = False,
    read: Callable[[Period], Gathered] | None = None,
    shard: Shard = WHOLE,
    at_hand: AtHand | None = None,
) -> Window:
    """Ask for one window, or a shard of it, and post what came, in one transaction.

    Without `again`, a window that was fetched whole before is left alone. `read` gives the samples
    of a window that may have been asked for already; by default the door is asked. A store that goes on
    warning leaves a fetch that says so and no readings (method §2.8); one that does not answer
    leaves the same and raises FetchFailed. `at_hand` is what the windows before brought, for a run
    that goes on window after window.
    """
    if not again and (is_complete(source, window) or is_shard_posted(source, window, shard)):
        return Window(window, True, False, Gathered())
    try:
        gathered = read(window) if read is not None else _gather(source, window, door, shard)
    except FetchFailed as error:
        _post_incomplete(source, window, [str(error)], at)
        raise
    if not gathered.complete:
        _post_incomplete(source, window, gathered.warnings, at)
        return Window(window, False, True, gathered)
    if gathered.names_nothing and (named := named_before(source, window)):
        gathered.notes.append(f"the store named no series; it named {named:,} before this")
    try:
        posted = _post(source, window, gathered, by=by, at=at, shard=shard, at_hand=at_hand)
    except BaseException:
        if at_hand is not None:
            at_hand.forget()
        raise
    if at_hand is not None:
        at_hand.end_window(milliseconds(window.end))
    return posted


def _gather(
    source: Source,
    window: Period,
    door: Door,
    shard: Shard = WHOLE,
    answers: Ahead | None = None,
) -> Gathered:
    """The window's samples, from its answers where it was asked for; what came with a warning is
    asked for again a few times."""
    matchers = checked_matchers(source.matchers)
    gathered = gather(door, matchers, window, shard, answers)
    for attempt in range(1, WARNED_ATTEMPTS):
        if gathered.complete:
            break
        time.sleep(WARNED_PAUSE_SECONDS * attempt)
        gathered = gather(door, matchers, window, shard)
    if gathered.complete:
        asks = bool(source.probe.get("scrapes_alone"))
        gathered.quiet = quiet_hours(door, gathered.series, window, asks=asks)
    return gathered


def _post_incomplete(source: Source, window: Period, warnings: list[str], at: datetime) -> None:
    """The record that a window was asked for and not fetched whole; it will be asked for again."""
    with atomic():
        Fetch.objects.create(
            source=source,
            window_start=window.start,
            window_end=window.end,
            at=at,
            complete=False,
            warnings=warnings[:20],
        )


def _post(
    source: Source,
    window: Period,
    gathered: Gathered,
    *,
    by: str,
    at: datetime,
    shard: Shard,
    at_hand: AtHand | None,
) -> Window:
    """Keep the canonical document, then post document, fetch and readings together."""
    name = f"{source.name} {rfc3339(window.start)}–{rfc3339(window.end)}"
    name += "" if shard.is_whole else f" {shard}"
    try:
        kept = keep_bytes(gathered.content or encode(gathered.series), name, source.url)
    except ValueError as error:
        raise FetchFailed(f"{name}: {error}") from None
    gathered.content = b""  # it is kept; posting needs the memory
    with atomic():
        take_turn(source, shard)
        if is_posted(source, window, shard, kept.sha256):
            return Window(window, True, False, gathered)
        document = Document(
            sha256=kept.sha256,
            size_bytes=kept.size_bytes,
            name=name,
            origin=source.url,
            format=FORMATS[0],
            version=MAGIC.decode(),
            rows_read=gathered.readings,
            received_at=at,
            received_by=by,
        )
        # Rows may name the document before it stands there (deferred foreign keys); its own row,
        # which can never be changed, is written when all its counts are known.
        posted = post_readings(
            document, source, gathered.series, at=at, at_hand=at_hand,
            taken=lambda posted: _write_document(document, posted, gathered.notes),
        )  # fmt: skip
        note_fetch(source, window, shard, document, gathered, at)
    return Window(window, True, True, gathered, len(posted.refused))


def _write_document(document: Document, posted: PostedReadings, notes: list[str]) -> None:
    """The document's row, unless another window or source gave the same bytes before."""
    lock("document", document.sha256)
    if Document.objects.filter(pk=document.sha256).exists():
        return
    document.readings = posted.readings
    document.rows_rejected = len(posted.refused)
    document.account = {
        "warnings": notes[:20],
        "series": posted.series,
        "ignored_metrics": posted.ignored_metrics,
    }
    document.save(force_insert=True)
    keep_rejections(document.sha256, posted.refused)


def _add(result: Collected, window: Window) -> None:
    """Count a window into the account of its source."""
    hours = set(window.period.hours())
    if not window.complete:
        result.warnings += [w for w in window.gathered.warnings if w not in result.warnings]
        return
    result.hours |= hours
    result.incomplete_hours -= hours
    names = [(one.metric, one.labels) for one in window.gathered.series]
    if names != result.newest:  # the same again, hour after hour
        result.series.update(names)
        result.newest = names
    result.readings += window.gathered.readings
    result.refused += window.refused


def _hour_from(instant: datetime) -> datetime:
    """The instant itself when it is a whole hour, else the next whole hour."""
    hour = hour_of(instant)
    return hour if hour == instant else hour + HOUR
