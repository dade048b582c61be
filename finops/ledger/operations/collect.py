"""Collecting: from a source's store to documents of samples, fetches and posted readings.

The unit is a window of one source, or a shard of it (`planning.py`). It is asked for outside any
transaction; what came is kept as one canonical document and posted in one transaction, under a lock
of the source. So it may be collected twice at once, or be cut off at any instant, and the ledger is
the same. Shards of a window are read one after the other, or by several workers side by side.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from finops.core.period import Period, milliseconds, rfc3339
from finops.ledger.access import FetchFailed
from finops.ledger.ahead import Ahead
from finops.ledger.fetch import Door
from finops.ledger.models import Document, Fetch, Source
from finops.ledger.operations.at_hand import AtHand
from finops.ledger.operations.charges import keep_rejections
from finops.ledger.operations.documents import keep_bytes
from finops.ledger.operations.fetches import is_posted, is_shard_posted, note_fetch, take_turn
from finops.ledger.operations.locks import lock
from finops.ledger.operations.planning import Piece, pieces_of
from finops.ledger.operations.reading_ahead import ReadingAhead
from finops.ledger.operations.readings import PostedReadings, post_readings
from finops.ledger.operations.sources import access_to, limits_of_stores, note_probe
from finops.ledger.queries.sources import is_complete, named_before
from finops.ledger.quiet import quiet_hours
from finops.ledger.selecting import checked_matchers
from finops.ledger.store import Gathered, ask, gather
from finops.ledger.which import atomic
from finops.sources.samples import FORMATS, MAGIC, encode
from finops.sources.shards import WHOLE, Shard

PIECES_BETWEEN_SEARCHES = 12  # for cycles among the run's other objects, which are few
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
    """Collect a source, oldest window first and shard after shard: the given period anew, else all
    that is missing.

    A store that warns leaves the window incomplete and the next is tried; one that does not answer
    ends the work. Both stand in the warnings; nothing is raised for them.
    """
    result = Collected(source.name)
    note_probe(source, at=at)  # first: a store may have to be asked in its product's own way
    try:
        with Door(access_to(source), limits_of_stores()) as door:
            wanted = pieces_of(source, door, at=at, period=period)
            again = period is not None
            left = Counter(piece.window for piece in wanted)
            with _reading(source, door, wanted, again=again) as reader:
                at_hand = AtHand()
                for number, piece in enumerate(wanted, 1):
                    progress(f"{source.name}: {piece} ({number} of {len(wanted)})")
                    result.incomplete_hours |= set(piece.window.hours())  # until all of it has come
                    found = collect_window(
                        source, piece.window, door=door, by=by, at=at, again=again,
                        read=partial(reader.read, piece), shard=piece.shard, at_hand=at_hand,
                    )  # fmt: skip
                    left[piece.window] -= found.complete
                    _add(result, found, is_last=not left[piece.window])
                    del found  # its samples: the next ones need the memory
                    if number % PIECES_BETWEEN_SEARCHES == 0:
                        gc.collect()
    except FetchFailed as error:
        result.warnings.append(str(error))
    return result


def _reading(
    source: Source, door: Door, wanted: Sequence[Piece], *, again: bool
) -> ReadingAhead[Piece]:
    """The pieces that are not there yet, on their way."""
    matchers = checked_matchers(source.matchers)
    return ReadingAhead(
        [one for one in wanted if again or not _is_there(source, one.window, one.shard)],
        lambda piece, answers: ask(door, matchers, piece.window, answers, piece.shard),
        lambda piece, answers: _encoded(source, piece, door, answers),
        is_asked_early=door.access.remote_read,
        give_up=door.give_up,
    )


def _is_there(source: Source, window: Period, shard: Shard) -> bool:
    """Whether the window, or the shard of it, was fetched whole before."""
    return is_complete(source, window) or is_shard_posted(source, window, shard)


def _encoded(source: Source, piece: Piece, door: Door, answers: Ahead) -> Gathered:
    """A piece's samples, and their document: made while the piece before is posted."""
    found = _gather(source, piece.window, door, piece.shard, answers)
    if found.complete:
        with suppress(ValueError):  # said when the window is posted
            found.content = encode(found.series)
    return found


@_no_search_for_cycles()
def collect_window(
    source: Source,
    window: Period,
    *,
    door: Door,
    by: str,
    at: datetime,
    again: bool = False,
    read: Callable[[], Gathered] | None = None,
    shard: Shard = WHOLE,
    at_hand: AtHand | None = None,
) -> Window:
    """Ask for one window, or a shard of it, and post what came, in one transaction.

    Without `again`, what was fetched whole before is left alone. `read` gives the samples where they
    may have been asked for already; by default the door is asked. A store that goes on warning
    leaves a fetch that says so and no readings (method §2.8); one that does not answer leaves the
    same and raises FetchFailed. `at_hand` is what the windows before brought, for a run that goes
    on window after window.
    """
    if not again and _is_there(source, window, shard):
        return Window(window, True, False, Gathered())
    try:
        gathered = read() if read is not None else _gather(source, window, door, shard)
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
    return Window(window, True, True, gathered, posted.refused_count)


def _write_document(document: Document, posted: PostedReadings, notes: list[str]) -> None:
    """The document's row, unless another window or source gave the same bytes before."""
    lock("document", document.sha256)
    if Document.objects.filter(pk=document.sha256).exists():
        return
    document.readings = posted.readings
    document.rows_rejected = posted.refused_count
    document.account = {
        "warnings": notes[:20],
        "series": posted.series,
        "ignored_metrics": posted.ignored_metrics,
    }
    document.save(force_insert=True)
    keep_rejections(document.sha256, posted.refused)


def _add(result: Collected, window: Window, *, is_last: bool) -> None:
    """Count a window, or a shard of it, into the account of its source; with the last shard its
    hours have come."""
    if not window.complete:
        result.warnings += [w for w in window.gathered.warnings if w not in result.warnings]
        return
    if is_last:
        hours = set(window.period.hours())
        result.hours |= hours
        result.incomplete_hours -= hours
    names = [(one.metric, one.labels) for one in window.gathered.series]
    if names != result.newest:  # the same again, hour after hour
        result.series.update(names)
        result.newest = names
    result.readings += window.gathered.readings
    result.refused += window.refused
