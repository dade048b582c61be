"""The invoice folder: files that people or exports leave there are taken in, each once."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from django.db import connections

from finops.ledger.operations.catching_up import catch_up
from finops.ledger.operations.ingest import ingest
from finops.ledger.operations.inputs import is_data, is_manifest
from finops.ledger.which import ledger_name

QUIET_SECONDS = 60
LOCK = 0x48464F4C  # one look into the folder at a time

logger = logging.getLogger(__name__)


def take_in(folder: Path, *, by: str, at: datetime) -> dict[str, int]:
    """Ingest the folder's settled files as one delivery; how many documents of each status.

    Bytes that were taken in before change nothing, so every look may give all files again. A
    second look at the same time does nothing.
    """
    with _alone() as first:
        paths = [str(path) for path in settled(folder, time.time())] if first else []
        documents = ingest(paths, by=by, at=at) if paths else []
        if first:
            catch_up(by=by, at=at)
    for document in documents:
        if document["status"] == "rejected":
            logger.warning("%r was refused: %s", document["path"], document.get("rejections"))
    return dict(Counter(document["status"] for document in documents))


def settled(folder: Path, now_seconds: float) -> list[Path]:
    """The files nobody has written to for a minute, in order; hidden ones are left alone.

    An export that is still being copied must not be read half.
    """
    if not folder.is_dir():
        return []
    found = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        wanted = is_data(path.name) or is_manifest(path.name)
        if hidden or not wanted or path.is_symlink() or not path.is_file():
            continue
        try:
            quiet = now_seconds - path.stat().st_mtime
        except OSError:  # taken away meanwhile
            continue
        if quiet >= QUIET_SECONDS:
            found.append(path)
    return found


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether this is the only look; the lock ends with the connection if the process is killed."""
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        (first,) = cursor.fetchone()
        try:
            yield first
        finally:
            if first:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
