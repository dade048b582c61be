"""Background work of the ledger: each task translates, calls one operation, translates back.

Every task may run twice at once and be killed at any instant: the operations post one window or one
document in one transaction, under a lock, and leave alone what is there already. Tasks write to the
organisation's own ledger, never to the sample's (`read_part` reads for either).
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from celery import Task, shared_task
from django.conf import settings
from kombu.exceptions import OperationalError

from finops.core.period import Period, parse_instant, rfc3339
from finops.ledger.access import FetchFailed
from finops.ledger.fetch import Door
from finops.ledger.models import Source
from finops.ledger.operations import folder, part_reading, spool, summing_again
from finops.ledger.operations.collect import collect_window
from finops.ledger.operations.planning import pieces_of, shared_out, whole_hours
from finops.ledger.operations.sources import access_to, limits_of_stores, note_probe
from finops.ledger.queries.sources import active_sources
from finops.ledger.which import use_ledger
from finops.sources.shards import Shard
from finops.trail import fingerprints

BY = "schedule"
RETRY_SECONDS = 60
WINDOWS_A_RUN = 24 * 16

logger = logging.getLogger(__name__)


@shared_task(name="finops.ledger.tasks.collect_all", acks_late=True)
def collect_all() -> int:
    """Sends one task for every source that is collected; how many there are."""
    with use_ledger("default"):
        sources = active_sources()
    for source in sources:
        collect_source.delay(source=source.name)
    return len(sources)


@shared_task(name="finops.ledger.tasks.collect_source", acks_late=True)
def collect_source(*, source: str, at: str | None = None) -> int:
    """Sends one task for every whole hour of a source that is missing, oldest first; of a large
    source, one for each shard of the hour. A long way back it is whole days, or parts of them."""
    now = _instant(at)
    with use_ledger("default"):
        row = Source.objects.get(name=source)
        note_probe(row, at=now)
        try:
            with Door(access_to(row), limits_of_stores()) as door:
                planned = whole_hours(pieces_of(row, door, at=now), now)[:WINDOWS_A_RUN]
                asked = shared_out(row, door, planned)
        except FetchFailed as error:
            logger.warning("%s cannot be collected: %s", source, error)
            return 0
    for piece in asked:
        collect_source_window.delay(
            source=source,
            start=rfc3339(piece.window.start),
            end=rfc3339(piece.window.end),
            shard=piece.shard.number,
            shards=piece.shard.count,
        )
    return len(asked)


@shared_task(
    name="finops.ledger.tasks.collect_source_window", bind=True, acks_late=True, max_retries=3
)
def collect_source_window(
    self: Task,
    *,
    source: str,
    start: str,
    end: str,
    at: str | None = None,
    shard: int = 1,
    shards: int = 1,
) -> dict[str, Any]:
    """Collects one window of a source, or a shard of it; tried again when the store does not answer
    or warns."""
    window, own = Period(parse_instant(start), parse_instant(end)), Shard(shard, shards)
    with use_ledger("default"):
        row = Source.objects.get(name=source)
        try:
            with Door(access_to(row), limits_of_stores()) as door:
                done = collect_window(row, window, door=door, by=BY, at=_instant(at), shard=own)
        except FetchFailed as error:
            logger.warning("%s %s: %s", source, start, error)
            raise self.retry(countdown=_pause(self), exc=RuntimeError(str(error))) from None
    if not done.complete:
        warnings = "; ".join(done.gathered.warnings)
        raise self.retry(countdown=_pause(self), exc=RuntimeError(f"{source} {start}: {warnings}"))
    return {"readings": done.gathered.readings, "fresh": done.fresh}


@shared_task(name="finops.ledger.tasks.look_into_invoice_folder", acks_late=True)
def look_into_invoice_folder() -> dict[str, int]:
    """Takes in the new files of the invoice folder; how many of each status."""
    with use_ledger("default"):
        return folder.take_in(Path(settings.INVOICE_FOLDER), by=BY, at=datetime.now(UTC))


@shared_task(name="finops.ledger.tasks.read_part", acks_late=True, ignore_result=True)
def read_part(*, delivery: str, part: str) -> bool:
    """Reads one long part of a delivery for whoever posts it; whether there was anything to do."""
    place = spool.folder_of(delivery)
    return place is not None and part_reading.read_left(place, part)


@shared_task(name="finops.ledger.tasks.sum_again", acks_late=True)
def sum_again() -> int:
    """Reads documents again whose kept sums a newer rule or catalogue reaches into; how many."""
    with use_ledger("default"):
        return summing_again.sum_again(by=BY, at=datetime.now(UTC))


@shared_task(name="finops.ledger.tasks.fix_rows")
def fix_rows() -> bool:
    """Keeps fingerprints of the day's new rows in the trail (method §11); whether there were any."""
    with use_ledger("default"):
        return fingerprints.fix_rows(by=BY, at=datetime.now(UTC)) is not None


def sum_again_soon() -> bool:
    """Leaves `sum_again` to a worker where it is due; whether it is. Without one the day's run does it."""
    if not summing_again.is_due():
        return False
    try:
        sum_again.apply_async(ignore_result=True, retry=False)
    except OperationalError as error:
        logger.warning("documents are not read again before the day's run: %s", error)
    return True


def _instant(text: str | None) -> datetime:
    return datetime.now(UTC) if text is None else parse_instant(text)


def _pause(task: Task) -> int:
    """One minute, then two, then four."""
    return int(RETRY_SECONDS * 2**task.request.retries)
