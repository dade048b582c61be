"""What stands behind a report when it is sealed: its ledger rows, computed a second time (§11).

The rows are read as of the instant the report was closed, kept as one archive in the store of
documents, and their digests go into the seal's record. Later rows change nothing of it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db.models import F, Prefetch

from finops.core.canonical import canonical_bytes
from finops.core.period import Period, parse_instant, week_before, week_of
from finops.core.statement import trend_row
from finops.ledger.models import Document
from finops.ledger.operations import documents
from finops.ledger.queries.export import tables
from finops.ledger.queries.export_table import Table, table
from reports.models import Report, ReportEvent
from reports.queries import weeks
from reports.queries.standing import shown_first, statement_of

from . import dictionary, verify
from .recipe import BY_HAND, recipe

logger = logging.getLogger(__name__)

FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can bear; packs have no clock of their own
MOST_NAMED = 50
DICTIONARY = "dictionary.csv"
VERIFY = Path(verify.__file__)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The files behind a report, and how the second computation went."""

    files: Mapping[str, bytes]
    computed: int
    unequal: tuple[str, ...]


def gather(report: Report, statement: Mapping[str, Any]) -> Evidence | None:
    """What stands behind a statement, computed a second time; None when this ledger does not hold
    all of its documents, so that nothing can be computed again."""
    files = rows_behind(report, statement)
    if files is None:
        return None
    computed, unequal = _recomputed(files, statement)
    files |= _by_hand(files, statement)
    files["verify.py"] = VERIFY.read_bytes()
    files[DICTIONARY] = csv_bytes(dictionary.as_table())  # of these tables, not of a later version
    return Evidence(files, computed, unequal)


def rows_behind(report: Report, statement: Mapping[str, Any]) -> dict[str, bytes] | None:
    """The rows behind a statement as of its closing, nothing computed; None as `gather`."""
    named = {one["sha256"] for one in statement["control_totals"]["documents"]}
    if Document.objects.filter(pk__in=named).count() != len(named):
        return None
    period = Period(*(parse_instant(statement["period"][name]) for name in ("start", "end")))
    files = {f"ledgers/{one.name}.csv": csv_bytes(one) for one in tables(period, report.created_at)}
    files["ledgers/earlier_weeks.csv"] = csv_bytes(earlier_weeks(report, statement))
    files["ledgers/documents_read.csv"] = csv_bytes(documents_read(named))
    previous = previous_statement(report, statement)
    if previous is not None:
        files["previous_statement.json"] = previous
    return files


def _recomputed(
    files: Mapping[str, bytes], statement: Mapping[str, Any]
) -> tuple[int, tuple[str, ...]]:
    """How many figures were computed again and which differ."""
    try:
        checks = verify.recompute(verify.Pack(dict(files)), dict(statement))
    except Exception as error:  # noqa: BLE001 - whatever stops it, the figures are not confirmed
        return 0, (f"the second computation stopped: {type(error).__name__}: {error}"[:300],)
    return len(checks.lines), tuple(line[0] for line in checks.wrong)


def _by_hand(files: Mapping[str, bytes], statement: Mapping[str, Any]) -> dict[str, bytes]:
    """The steps by hand, kept with the rows: a later version, whose tables may be others, could
    not read them off. They confirm nothing, so a week is sealed without them where they cannot be
    written; its README says so."""
    try:
        return {BY_HAND: recipe(files, statement).encode()}
    except Exception:
        logger.exception("the steps by hand could not be written")
        return {}


def previous_statement(report: Report, statement: Mapping[str, Any]) -> bytes | None:
    """The statement of the week before that this one was compared with, as bytes."""
    if not statement["previous"]:
        return None
    before = week_before(report.week, weeks.zone())
    for one in _known_then(report, [before]).get(before, ()):
        if statement_of(one)["figures"] == statement["previous"]["figures"]:
            return bytes(one.statement)
    return _unsaid(before, report, statement)


EARLIER = ("week", "revision", "digest", "effective_cost", "prompt_tokens", "generation_tokens")


def earlier_weeks(report: Report, statement: Mapping[str, Any]) -> Table:
    """The reports that the earlier rows of the trend were taken from, by the digests of their
    statements; a week that no report was made of when this one was closed has no row."""
    told = {row["week"]: row for row in statement["trend"][:-1]}
    rows = []
    for week, revisions in _known_then(report, told).items():
        one = _taken_from(revisions, told[week], statement["previous"])
        figures = statement_of(one)["figures"]
        rows.append((one.week, one.revision, one.digest, *(figures[name] for name in EARLIER[3:])))
    return table("earlier_weeks", EARLIER, rows)


def _known_then(report: Report, names: Iterable[str]) -> dict[str, list[Report]]:
    """The revisions that weeks had when a report was closed, in the order of the weeks: first the
    one that readers were shown then, and so the closing too, then the others, newest first."""
    acts = Prefetch("events", ReportEvent.objects.filter(at__lte=report.created_at))
    known = Report.objects.filter(week__in=list(names), created_at__lte=report.created_at)
    found: dict[str, list[Report]] = {}
    for one in known.defer("statement").prefetch_related(acts).order_by("week", "-revision"):
        found.setdefault(one.week, []).append(one)
    for revisions in found.values():
        first = shown_first(revisions)
        revisions.sort(key=lambda one: one is not first)
    return found


def _taken_from(
    revisions: list[Report], row: Mapping[str, Any], previous: Mapping[str, Any] | None
) -> Report:
    """The first revision that gives the trend's row, and the comparison's figures where it is of
    the week before. Else the first, so that the second computation finds the difference."""
    compared = previous["figures"] if previous and previous["week"] == row["week"] else None
    for one in revisions:
        value = statement_of(one)
        if compared is not None and value["figures"] != compared:
            continue
        gives = json.loads(canonical_bytes(trend_row(value)))
        if all(gives.get(name) == said for name, said in row.items()):
            return one
    return revisions[0]


READ = ("sha256", "name", "format", "format_version", "size_bytes", "rows_read", "charges", "readings",
        "rows_rejected", "received_at")  # fmt: skip


def documents_read(named: Iterable[str]) -> Table:
    """What was counted when each document behind a report was read."""
    found = Document.objects.filter(pk__in=named).annotate(format_version=F("version"))
    rows = found.order_by("pk").values_list(*READ)
    return table("documents_read", READ, rows)


def _unsaid(before: str, report: Report, statement: Mapping[str, Any]) -> bytes | None:
    """A week before that no report was made of, as the ledger stood at the closing."""
    from finops.core.statement import statement as stated
    from finops.ledger.queries.facts import facts

    found = facts(week_of(before, weeks.zone()), week=before, as_of=report.created_at)
    value: dict[str, Any] = stated(found, None, [])
    for name, said in statement["previous"]["figures"].items():
        if name != "tokens_per_dollar_change" and value["figures"].get(name) != said:
            return None
    kept = {name: value[name] for name in ("period", "currency", "bridge_groups")}
    figures = statement["previous"]["figures"]
    return canonical_bytes(kept | {"figures": figures, "note": "no report was made of this week"})


def csv_bytes(one: Table) -> bytes:
    """A table as CSV: a header, comma, quotes where needed, a line feed at each end, UTF-8."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in (one.columns, *one.rows):
        # A carriage return ends a line for every reader, but the writer does not quote it.
        returns = any("\r" in cell for cell in row if isinstance(cell, str))
        (quoting if returns else writer).writerow(row)
    return text.getvalue().encode()


def zip_bytes(files: Mapping[str, bytes], *, compressed: bool) -> bytes:
    """A zip of files in the order of their names, with a fixed date and mode.

    Not compressed, the bytes depend on the files alone; compressed, also on the zlib in use.
    """
    target = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", kind, compresslevel=6) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, FIXED_DATE)
            entry.compress_type, entry.create_system = kind, 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return target.getvalue()


def keep(evidence: Evidence | None) -> dict[str, Any] | None:
    """Keeps the files; what the seal's record says of them."""
    if evidence is None:
        return None
    archive = zip_bytes(evidence.files, compressed=True)
    kept = documents.keep_bytes(archive, "evidence.zip", "sealing")
    return {
        "files": {
            name: hashlib.sha256(content).hexdigest()
            for name, content in sorted(evidence.files.items())
        },
        "archive": kept.sha256,
        "archive_bytes": kept.size_bytes,
        "figures_computed_again": evidence.computed,
        "figures_unequal": list(evidence.unequal[:MOST_NAMED]),
        "figures_unequal_count": len(evidence.unequal),
    }


class Gone(LookupError):
    """The evidence of a seal is not there, or not what was sealed."""


def sealed_files(record: Mapping[str, Any]) -> dict[str, bytes]:
    """The files behind a seal, each checked against its sealed digest. Raises Gone."""
    evidence = record.get("evidence")
    if not evidence:
        raise Gone(
            "This report was sealed without its rows: the ledger did not hold all its documents."
        )
    path = documents.stored(evidence["archive"])
    try:
        if documents.digest_of(path) != evidence["archive"]:
            raise Gone(f"The evidence {evidence['archive']} is not what was sealed.")
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, EOFError, ValueError) as error:
        raise Gone(f"The evidence {evidence['archive']} cannot be read: {error}") from error
    found = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    if found != evidence["files"]:
        raise Gone(f"The evidence {evidence['archive']} is not what was sealed.")
    return files
