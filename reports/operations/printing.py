"""Printing in the background: one task makes the PDF, everyone who asks finds the same file."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from finops.ledger.which import LedgerName, ledger_name, use_ledger
from reports.evidence.printed import print_report
from reports.queries import papers
from reports.queries.standing import Standing, report_of, standing

from .bounded import bounded_memory
from .sending import left_to_worker

ASK_AGAIN_SECONDS = 180
TASK = "reports.tasks.make_pdf"
PRINTER = "printer"  # who prints in the background, in the trail


def ask(stand: Standing, size: str) -> bool:
    """Sends the task unless the file is there or was asked for lately; False when no worker's
    broker can be reached."""
    key = papers.key_of(stand, size)
    if papers.path_of(key).exists() or not _mark(papers.path_of(key, "asked")):
        return True
    papers.path_of(key, "failed").unlink(missing_ok=True)
    week, revision = stand.week, stand.revision
    if left_to_worker(TASK, ledger=ledger_name(), week=week, revision=revision, size=size):
        return True
    papers.path_of(key, "asked").unlink(missing_ok=True)
    return False


def _mark(path: Path) -> bool:
    """Notes that the task was sent; False when that was done a short while ago."""
    try:
        if time.time() - path.stat().st_mtime < ASK_AGAIN_SECONDS:
            return False
    except FileNotFoundError:
        pass
    path.touch(mode=0o600)
    return True


def make(ledger: LedgerName, week: str, revision: int, size: str) -> Path:
    """Makes the PDF of a revision and keeps it; what is there already is left alone.

    Safe twice at once and killed at any instant: the file appears whole or not at all.
    """
    with use_ledger(ledger):
        report = report_of(week, revision)
        if report is None:
            raise LookupError(f"there is no revision {revision} of {week}")
        stand = standing(report)
        key = papers.key_of(stand, size)
        target = papers.path_of(key)
        if target.exists():
            return target
        try:
            with bounded_memory(settings.PDF_MEMORY_MIB << 20):
                printed = print_report(
                    stand, size=size, by=PRINTER, at=timezone.now(), sign=stand.seal is not None
                )
        except Exception as error:
            papers.path_of(key, "failed").write_text(f"{type(error).__name__}: {error}")
            raise
    if printed.signed:
        appear(papers.path_of(key, "signed.pdf"), printed.signed)
    appear(target, printed.unsigned)
    papers.path_of(key, "asked").unlink(missing_ok=True)
    return target


def appear(target: Path, content: bytes) -> None:
    """Writes a file so that it appears whole or not at all."""
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).replace(target)
