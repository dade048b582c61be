"""Makes the sample organisation in its own database: files, import, books, and a sealed week.

Safe to run twice, also at once: the second call finds the seal and changes nothing. What a killed
call left half made is removed and made anew.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections

from finops.core.period import Period
from finops.ledger import tables
from finops.ledger.models import Document
from finops.ledger.operations import documents, ingest
from finops.ledger.operations.baselines import measure_baseline
from finops.ledger.which import use_ledger
from finops.sample import books, fleet
from finops.sample.fleet import APPROVER, PREPARER
from finops.sample.generator import Made, write_files
from reports.models import Report, Seal
from reports.operations import closing, sealing
from reports.queries.standing import standing

Progress = Callable[[str], None]
LOCK = 0x5A3B1E


class NotMade(RuntimeError):
    """The sample could not be made as it should; the text says what went wrong."""


@dataclass(frozen=True)
class Sample:
    """The sample as it stands: its weeks, and the sealed one with the digest of its seal."""

    weeks: list[str]
    sealed_week: str
    digest: str
    is_new: bool
    seconds: float
    made: Made | None = None


def make(at: datetime, *, again: bool = False, progress: Progress = lambda _: None) -> Sample:
    """The sample organisation as of an instant; made unless it is there, or anew with `again`.

    Raises NotMade when a file is not taken whole or the week cannot be sealed.
    """
    began = time.monotonic()
    with use_ledger("sample"), _alone(), _collecting_rarely():
        stands = None if again else _standing(began)
        if stands:
            return stands
        _clear(progress)
        folder = Path(settings.DATA) / "sample"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        progress("writing twelve weeks of files")
        made = write_files(folder, at, settings.ORGANISATION_ZONE, progress=progress)
        take_in(made, at, progress)
        keep_books(made, at, progress)
        seal_newest(made, at, progress)
        sample = _standing(began)
    if sample is None:
        raise NotMade("the newest week was not sealed")
    return Sample(sample.weeks, sample.sealed_week, sample.digest, True, sample.seconds, made)


def _standing(began: float) -> Sample | None:
    """The sample as the ledger in use holds it; None unless a week is sealed."""
    seal = Seal.objects.select_related("report").order_by("-number").first()
    if seal is None:
        return None
    weeks = sorted(set(Report.objects.values_list("week", flat=True)))
    return Sample(weeks, seal.report.week, seal.digest, False, time.monotonic() - began)


@contextmanager
def _alone() -> Iterator[None]:
    """One maker at a time; the lock ends with its connection if the process is killed."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Millions of readings are made and dropped, none in cycles: looking for cycles among them
    takes a quarter of the time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(500_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _clear(progress: Progress) -> None:
    """Empties the sample's database, whose tables refuse to be changed row by row."""
    digests = list(Document.objects.values_list("pk", flat=True))
    if not digests and not Report.objects.exists():
        return
    progress("removing the sample made before")
    with connections["sample"].cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE")
        cursor.execute("CREATE SCHEMA public")
    tables.migrate_all()
    for digest in digests:
        if not Document.objects.using("default").filter(pk=digest).exists():
            documents.stored(digest).unlink(missing_ok=True)


def take_in(made: Made, at: datetime, progress: Progress) -> None:
    """Hands the files in as a customer would; every row of every file must be taken."""
    _ingest([one.path for one in made.invoices], "files", at, progress)
    _ingest(made.gateway, f"gateway-{fleet.LEGACY}", at, progress)
    for cluster, paths in made.readings.items():
        _ingest(paths, f"prometheus-{cluster}", at, progress)
    for cluster, path in made.gpus.items():
        _ingest([path], f"prometheus-{cluster}", at, progress)
    _ingest([*made.logs, *made.configs], "files", at, progress)


def _ingest(paths: list[Path], source: str, at: datetime, progress: Progress) -> None:
    texts = [str(path) for path in paths]
    found = ingest.ingest(texts, by=PREPARER, at=at, source=source, progress=progress)
    for one in found:
        if one["status"] != "posted" or one["rows_rejected"]:
            raise NotMade(f"{one['path']} was not taken whole: {one['rejections'][:1]}")


def keep_books(made: Made, at: datetime, progress: Progress) -> None:
    """Workloads, rules, invoice amounts, the baseline and the notes."""
    progress("entering workloads, rules and notes")
    books.enter_workloads(made, at)
    books.enter_rules(made, at)
    books.enter_objectives(made.calendar, at)
    books.enter_budgets(made.calendar, at)
    books.enter_invoice_amounts(made, at)
    calendar = made.calendar
    measure_baseline(
        "assist-8b",
        legacy=fleet.LEGACY,
        period=Period(calendar.start, calendar.weeks[fleet.LEGACY_WEEKS - 1].end),
        by=PREPARER,
        approved_by=APPROVER,
        at=at,
    )
    books.write_notes(calendar, at)
    books.write_steps(at)
    books.confirm_changes(at)


def seal_newest(made: Made, at: datetime, progress: Progress) -> None:
    """Closes all weeks, oldest first; the newest is examined, approved and sealed."""
    for name in made.calendar.names:
        progress(f"closing {name}")
        closed = closing.close_week(name, by=PREPARER, at=at)
    report = closed.report
    for exception in standing(report).open_exceptions:
        text = books.disposition_of(exception["kind"])
        sealing.dispose(report.week, exception["id"], text=text, by=PREPARER, at=at)
    sealing.review(report, by=PREPARER, at=at)
    sealing.approve(report, by=APPROVER, at=at)
    for month in standing(report).statement["provisional_months"]:
        sealing.waive(report, "provisional-month", month, text=books.WAIVER, by=APPROVER, at=at)
    sealing.seal(report, by=APPROVER, at=at)


def as_json(sample: Sample) -> dict[str, Any]:
    """What the command prints."""
    return {
        "ok": True,
        "new": sample.is_new,
        "weeks": sample.weeks,
        "sealed_week": sample.sealed_week,
        "digest": sample.digest,
        "seconds": f"{sample.seconds:.1f}",
    }
