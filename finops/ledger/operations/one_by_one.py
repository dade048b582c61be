"""Posting a document that stands alone: readings, usage records, terms, evidence of memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import DataError

from finops.ledger.models import Document, Source
from finops.ledger.operations import charges, issued, terms
from finops.ledger.operations.candidates import Candidate, Outcome, note
from finops.ledger.operations.locks import lock
from finops.ledger.operations.memory_evidence import post_memory_evidence
from finops.ledger.operations.readings import post_readings
from finops.ledger.operations.usage import post_usage
from finops.ledger.queries.documents import known
from finops.ledger.which import atomic
from finops.sources.records import (
    EngineStartRecord,
    ModelConfigRecord,
    Parsed,
    Refused,
    Rejection,
    SeriesReadings,
    UsageRecord,
)

MEMORY_EVIDENCE = (EngineStartRecord, ModelConfigRecord)
WITHOUT_SOURCE = (*MEMORY_EVIDENCE, *terms.KINDS)
KINDS = (SeriesReadings, UsageRecord, *MEMORY_EVIDENCE)


def post_one(
    candidate: Candidate, source: str, told: issued.Told, *, by: str, at: datetime
) -> Outcome:
    """One document without charges, in a transaction of its own; `told` is what all invoice details
    of its delivery say."""
    try:
        with atomic():
            lock("document", candidate.kept.sha256)
            if known(candidate.kept.sha256):
                return None
            document = _post_series(candidate, source, told, by=by, at=at)
            note(document, by=by, at=at)
            return document
    except Refused as refused:
        return refused
    except DataError as error:
        said = str(error).splitlines()[0]
        return Refused(f"{candidate.kept.name}: a value does not fit into the ledger ({said})")


def _post_series(
    candidate: Candidate, source: str, told: issued.Told, *, by: str, at: datetime
) -> Document:
    """Posts the records, then the document's row with its final counts.

    The row comes last because it can never be changed; foreign keys to it are checked at the end
    of the transaction.
    """
    place = None if candidate.kind in WITHOUT_SOURCE else _source(source, by=by, at=at)
    parsed = candidate.parse()
    rejections: list[Rejection] = []
    records = _without_rejections(parsed, candidate.kind, rejections)
    document = charges.document_of(candidate.kept, candidate.format, parsed.account, by=by, at=at)
    more: dict[str, Any]
    if candidate.kind in terms.KINDS:
        posted = terms.post_terms(document, candidate.kind, records, told, by=by, at=at)
        rejections += posted.refused
        more = dict(posted.account)
        more |= {"evidence_records": posted.records, "warnings": posted.warnings}
        unnamed = 0
    else:
        more, unnamed = _post_records(document, place, candidate.kind, records, rejections, at)
    final = charges.document_of(candidate.kept, candidate.format, parsed.account, by=by, at=at)
    document.rows_read, document.version = final.rows_read, final.version
    warnings = [*final.account["warnings"], *more.pop("warnings", [])]
    if place is not None:
        more["source"] = place.name
    document.account = final.account | more | {"warnings": warnings}
    document.rows_rejected = len(rejections) + unnamed
    document.save(force_insert=True)
    charges.keep_rejections(document.sha256, rejections)
    return document


def _source(name: str, *, by: str, at: datetime) -> Source:
    made = {"kind": "files", "created_at": at, "created_by": by}
    return Source.objects.get_or_create(name=name, defaults=made)[0]


def _post_records(
    document: Document,
    place: Source | None,
    kind: type[object] | None,
    records: Iterator[Any],
    rejections: list[Rejection],
    at: datetime,
) -> tuple[dict[str, Any], int]:
    """What to say of the postings, and how many rows were refused beyond those named."""
    if place is None:
        return {"evidence_records": post_memory_evidence(document, records, at=at)}, 0
    if kind is SeriesReadings:
        read = post_readings(document, place, records, at=at)
        document.readings = read.readings
        rejections += read.refused
        unnamed = read.refused_count - len(read.refused)
        return {"series": read.series, "ignored_metrics": dict(read.ignored_metrics)}, unnamed
    used = post_usage(document, place, records)
    rejections += used.refused
    repeated = {"repeated": used.repeated} if used.repeated else {}
    return {"records": used.records, "warnings": used.warnings} | repeated, 0


def _without_rejections(
    parsed: Parsed, kind: type[object] | None, rejections: list[Rejection]
) -> Iterator[Any]:
    for record in parsed.records:
        if isinstance(record, Rejection):
            rejections.append(record)
        elif isinstance(record, kind or object):
            yield record
        else:
            raise Refused(f"{type(record).__name__} among other kinds of records in one document")
