"""Spans over an edge that nobody read: late first readings, and restarts shown beyond them (§2.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finops.core.period import hour_of, milliseconds

from .export_table import Table, table
from .reaches import after_hour, end_of_hour
from .reading import Reading
from .token_rows import Known

BIRTHS = ("series", "from_ms", "at_ms", "usual_ms", "tokens")
LOST = ("series", "from_ms", "dark_ms", "rate_tokens", "rate_ms")


def unread(reading: Reading) -> Iterator[Table]:
    """Births and restarts of which an edge of the week, or of its hours with cost and readings,
    may lie before the reading that shows them."""
    edges = _edges(reading)
    births: list[tuple[Any, ...]] = []
    lost: list[tuple[Any, ...]] = []
    for known in reading.ledger.known:
        births += _births(known, edges)
        lost += _lost(known, edges)
    yield table("late_births", BIRTHS, births)
    yield table("lost_before", LOST, lost)


def _edges(reading: Reading) -> list[int]:
    cost, spans = reading.cost_span, reading.source_spans.values()
    reached = [at for at in (cost.last, *cost.by_issuer.values()) if at is not None]
    edges = {
        reading.period.start,
        reading.period.end,
        *(hour_of(at) for at in (cost.first, *(span.first for span in spans)) if at is not None),
        *map(end_of_hour, reached),
        *(after_hour(span.last) for span in spans),
    }
    return sorted(milliseconds(edge) for edge in edges)


def _births(known: Known, edges: list[int]) -> Iterator[tuple[Any, ...]]:
    around = known.around
    if any(around.is_born_unread(edge) for edge in edges) and (birth := around.unread_birth()):
        usual_ms = around.first_usual_ms
        yield known.series.pk, birth.since_ms, birth.at_ms, usual_ms, birth.tokens


def _lost(known: Known, edges: list[int]) -> Iterator[tuple[Any, ...]]:
    """Where such a restart lies in a gap stands with the gaps, by the reading before both."""
    for row in filter(None, (*known.rows, known.around.following)):
        for restart in row.facts.get("restarts", ()):
            from_ms, to_ms = restart.get("from"), restart.get("to")
            if from_ms is not None and any(from_ms < edge <= to_ms for edge in edges):
                dark_ms = known.around.dark_of(row, restart).ms
                yield known.series.pk, from_ms, dark_ms, row.rate_tokens, row.rate_ms
