"""What the tests of collecting share: the recording's hours and tokens, a source of it, and the ledger."""

from __future__ import annotations

from typing import Any

from finops.core.period import Period, parse_instant
from finops.ledger.models import Document, Fetch, ReadingBlock, Source, TokenHour
from finops.ledger.operations.planning import windows
from finops.ledger.operations.sources import add_source

RECORDING = Period(parse_instant("2026-11-29T14:00:00Z"), parse_instant("2026-11-29T16:00:00Z"))
FIRST, SECOND = windows(RECORDING)
AFTER = parse_instant("2026-11-29T16:10:30Z")
PROMPT_TOKENS, GENERATION_TOKENS = 1_494_578, 202_099  # the recording's own account of itself


def made(url: str, name: str = "prom", **more: Any) -> Source:
    return add_source(name, url, by="ada", at=AFTER, **more)


def ledger() -> dict[str, Any]:
    """What the ledger says, without the numbers of its rows."""
    return {
        "fetches": sorted(Fetch.objects.values_list("window_start", "complete", "document_id")),
        "documents": sorted(Document.objects.values_list("sha256", "readings", "size_bytes")),
        "hours": sorted(
            TokenHour.objects.values_list(
                "series__metric", "series__labels_digest", "hour", "revision", "tokens", "readings"
            )
        ),
        "blocks": sorted(
            ReadingBlock.objects.values_list(
                "series__metric", "series__labels_digest", "hour", "readings"
            )
        ),
    }
