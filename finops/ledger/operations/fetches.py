"""The record of what was fetched: windows whole, and the shards that several workers read of one.

A window read in shards stands as a fetch, complete, from the moment its last shard is posted; until
then only its shards stand, so every reader of fetches takes the window for not yet read. Shards of
one window, or of several, are posted side by side: no target lies in two of them. Who posts a
window whole waits for all of its source's shards, and they for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Sum

from finops.core.period import Period, milliseconds
from finops.ledger.models import Document, Fetch, FetchedPart, QuietHour, ReadingBlock, Source
from finops.ledger.operations.locks import lock, lock_shared
from finops.ledger.quiet import Quiet
from finops.ledger.store import Gathered
from finops.sources.shards import Shard


def take_turn(source: Source, shard: Shard) -> None:
    """Waits until nobody else posts the same shard of the source, or the source whole."""
    if shard.is_whole:
        lock("collect", source.name)
    else:
        lock_shared("collect", source.name)
        lock("collect shard", source.name, str(shard))


def is_shard_posted(source: Source, window: Period, shard: Shard, document: str = "") -> bool:
    """Whether the shard of the window was posted before, with the document where one is named."""
    if shard.is_whole:
        return False
    rows = FetchedPart.objects.filter(
        source=source,
        window_start=window.start,
        window_end=window.end,
        part=shard.number,
        parts=shard.count,
    )
    return (rows.filter(document_id=document) if document else rows).exists()


def is_posted(source: Source, window: Period, shard: Shard, document: str) -> bool:
    """Whether this very document was posted for the window, or for the shard of it."""
    if not shard.is_whole:
        return is_shard_posted(source, window, shard, document)
    return Fetch.objects.filter(
        source=source,
        window_start=window.start,
        window_end=window.end,
        complete=True,
        document_id=document,
    ).exists()


def note_fetch(
    source: Source, window: Period, shard: Shard, document: Document, found: Gathered, at: datetime
) -> None:
    """Records that a window, or a shard of it, was fetched whole with what it brought.

    To be called last in the transaction that posts it.
    """
    counts = {"series": len(found.series), "readings": found.readings}
    span = {"source": source, "window_start": window.start, "window_end": window.end}
    notes = found.notes[:20]
    if not shard.is_whole:
        own = {"part": shard.number, "parts": shard.count}
        lock("fetched shards", source.name)  # who comes second sees the first
        FetchedPart.objects.create(**span, **own, at=at, document=document, notes=notes, **counts)
        together = _together(source, window, shard.count)
        if together is None:
            return
        counts, notes = together
    fetch = Fetch.objects.create(
        **span, at=at, complete=True, warnings=notes, document=document, **counts
    )
    # Of the last shard's quiet hours another shard may hold readings.
    quiet = [one for one in found.quiet if shard.is_whole or not _is_read(source, one.period)]
    _note_quiet(fetch, quiet)


def _is_read(source: Source, period: Period) -> bool:
    """Whether the ledger holds readings of the source in an hour, or a part of one."""
    blocks = ReadingBlock.objects.filter(series__target__source=source)
    return blocks.touching(milliseconds(period.start), milliseconds(period.end)).exists()


def _note_quiet(fetch: Fetch, quiet: Sequence[Quiet]) -> None:
    """Records the hours of a window that the store answered with nothing."""
    rows = []
    for one in quiet:
        name, readings = one.witness or ("", 0)
        rows.append(
            QuietHour(
                fetch=fetch,
                start=one.period.start,
                end=one.period.end,
                witness=name,
                witness_readings=readings,
            )
        )
    QuietHour.objects.bulk_create(rows)


def _together(
    source: Source, window: Period, count: int
) -> tuple[dict[str, int], list[str]] | None:
    """The counts and notes of all shards of a window; None while some are missing."""
    rows = FetchedPart.objects.filter(
        source=source, window_start=window.start, window_end=window.end, parts=count
    )
    if rows.values("part").distinct().count() < count:
        return None
    newest = rows.order_by("part", "-pk").distinct("part")
    sums = FetchedPart.objects.filter(pk__in=newest.values("pk")).aggregate(
        series=Sum("series"), readings=Sum("readings")
    )
    notes = dict.fromkeys(note for row in newest for note in row.notes)
    return sums, list(notes)[:20]
