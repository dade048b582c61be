"""Papers that stand behind what people enter: kept as documents, never read for figures.

A document is known by its bytes, and what is known is not read again. So a billing export that was
attached as a paper could never be ingested: it has to be handed over as data first.
"""

from __future__ import annotations

from finops.ledger.queries.documents import known
from finops.sources import registry
from finops.sources.records import Refused

from .documents import Kept


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
