"""Documents on their way into the ledger: in the store, their format known, not posted yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from finops.ledger.models import Document
from finops.ledger.operations import documents, parsing
from finops.ledger.operations.charge_rows import storable
from finops.ledger.operations.manifest_files import Verdict
from finops.sources import registry
from finops.sources.records import Parsed, Refused, Rejection
from finops.trail import operations as trail

Outcome = Document | Refused | None  # None: the ledger holds these bytes already


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that is in the store and whose format is known."""

    kept: documents.Kept
    format: str
    kind: type[object] | None
    said: Verdict = field(default_factory=Verdict)  # by its manifest, if it has one

    def parse(self) -> Parsed:
        """A fresh reading of the stored bytes."""
        return parsing.parse(self.kept, self.format)


def look(kept: documents.Kept, format: str | None, said: Verdict) -> Candidate | Refused:
    """The document's format and, by its first record, what it holds."""
    try:
        chosen = parsing.exact(format or registry.detect(kept.path, kept.name), kept.name)
        records = parsing.parse(kept, chosen).records
        first = next((one for one in records if not isinstance(one, Rejection)), None)
        if isinstance(records, Iterator) and hasattr(records, "close"):
            records.close()
    except Refused as refused:
        return refused
    return Candidate(kept, chosen, None if first is None else type(first), said)


def of_broken(candidate: Candidate, reason: str) -> Refused:
    return Refused(f"{candidate.kept.name}: {reason}")


def note(document: Document, *, by: str, at: datetime) -> None:
    trail.record(
        at=at,
        actor=by,
        action="document.ingest",
        subject=document.sha256,
        detail={
            "name": storable(document.name),
            "format": document.format,
            "rows_read": document.rows_read,
            "charges": document.charges,
            "rows_summed": document.account.get("rows_summed", 0),
            "readings": document.readings,
            "rows_rejected": document.rows_rejected,
        },
    )
