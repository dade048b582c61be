"""Which lines of a document are kept whole and which go into kept sums (method §3.3, §4)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db.models import Max

from finops.ledger.models import Document
from finops.ledger.models import Rule as RuleRow
from finops.ledger.operations import parsing
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.reaching import Reaching
from finops.ledger.queries.allocation import rules
from finops.sources import focus, focus_bulk
from finops.sources.gpu_catalogue import catalogue_digest
from finops.sources.records import Parsed, Refused


class Reach(Reaching):
    """The charge rules in force at one moment, and whether they reach a line."""

    def __init__(self) -> None:
        newest = RuleRow.objects.filter(subject="charge").aggregate(newest=Max("pk"))["newest"]
        self.seen: int = newest or 0
        self.catalogue = catalogue_digest()
        super().__init__(rules("charge"))


def keeps_sums(kept: Kept) -> bool:
    """Whether a document has so many lines that most of them are kept as sums.

    The setting SUM_LINES_ABOVE says how many; 0 means any document.
    """
    limit = settings.SUM_LINES_ABOVE
    try:
        return not limit or _has_more_lines(kept.path, kept.name, limit)
    except Refused:
        return False  # whoever reads it says so


@lru_cache(maxsize=256)
def _has_more_lines(path: Path, name: str, limit: int) -> bool:
    """Asked several times while a document is taken in; what its path is made of is its digest."""
    return focus_bulk.has_more_lines(path, name, limit)


def parse(
    kept: Kept, format: str, reach: Reaching, parsed: Parsed | None = None, threads: int = 0
) -> Parsed:
    """A fresh reading of a document whose lines are kept as sums, in bulk where there is a way.

    `parsed` is how it is read otherwise, by default by its format; `threads` by default the
    setting's.
    """
    if format in focus.FORMATS:
        threads = threads or settings.BULK_THREADS
        return focus_bulk.parse(kept.path, kept.name, format, reach.rules, threads)
    return parsed or parsing.parse(kept, format)


def parse_again(document: Document, reach: Reach) -> tuple[Kept, Parsed]:
    """A document as it was read when it came, from the same bytes, under the rules of now."""
    kept, parsed = parsing.parse_again(document)
    return kept, parse(kept, document.format, reach, parsed) if keeps_sums(kept) else parsed
