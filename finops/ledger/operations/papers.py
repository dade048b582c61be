"""What people enter, and the papers behind it: kept as documents, never read for figures.

A document is known by its bytes, and what is known is not read again. So a billing export that was
attached as a paper could never be ingested: it has to be handed over as data first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from finops.core.money import parse_decimal
from finops.ledger.models import Document
from finops.ledger.queries.documents import known
from finops.sources import currencies, registry
from finops.sources.records import Refused

from .charge_rows import storable
from .documents import Kept, keep
from .workloads import NotAccepted


def refuse_data(kept: Kept) -> None:
    """ValueError for a file that holds data of a known format and was not ingested yet."""
    if known(kept.sha256):
        return
    try:
        format = registry.detect(kept.path, kept.name)
    except Refused:
        return
    raise ValueError(
        f"{kept.name} holds data ({format}). Hand it over on the page Imports or with `ingest` "
        "first: attached as a paper it would never be read."
    )


def papers(paths: Iterable[Path]) -> list[Kept]:
    """The papers in the store, each once; NotAccepted for one that is missing or empty, or that
    holds data which nobody has ingested."""
    found: dict[str, Kept] = {}
    for path in paths:
        if not path.is_file():
            raise NotAccepted(f"{path}: there is no such file")
        if not path.stat().st_size:
            raise NotAccepted(f"{path.name} is empty")
        kept = keep(path, path.name, str(path.absolute()))
        try:
            refuse_data(kept)
        except ValueError as error:
            raise NotAccepted(str(error)) from None
        found[kept.sha256] = kept
    return list(found.values())


def row_of_paper(kept: Kept, format: str, *, by: str, at: datetime) -> Document:
    """The ledger's row of a paper, made when it holds none yet; `format` says what it is for."""
    row, _ = Document.objects.get_or_create(
        sha256=kept.sha256,
        defaults={
            "size_bytes": kept.size_bytes,
            "name": storable(kept.name),
            "origin": storable(kept.origin),
            "format": format,
            "received_at": at,
            "received_by": by,
        },
    )
    return row


def amount_over_zero(text: str, what: str) -> Decimal:
    """An amount of money as it was typed; NotAccepted, naming `what` it is, unless over zero."""
    try:
        value = parse_decimal(text)
    except ValueError as error:
        raise NotAccepted(f"the {what} is {error}") from None
    if value <= 0:
        raise NotAccepted(f"a {what} is more than zero, not {text.strip()[:40]}")
    return value


def check_currency(code: str) -> None:
    """NotAccepted for what is no code of a currency."""
    if reason := currencies.refusal(code):
        raise NotAccepted(f"{code[:20]!r} {reason}; a currency is a code like USD")
