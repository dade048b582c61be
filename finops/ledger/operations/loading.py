"""What deriving needs of some targets, read in a few queries instead of a few for each series."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import orjson
from django.db import connections

from finops.core.counter_values import Carry
from finops.core.period import instant_of
from finops.ledger.models import ReadingBlock, Series, TokenHour
from finops.ledger.which import ledger_name

from .columns import Columns, columns_since, joined

# The last row before an hour, by its index: the cost of asking must not grow with history.
_BEFORE = """
SELECT wanted.id, (extract(epoch FROM row.hour) * 1000)::bigint, row.carry::text
FROM unnest(%s::bigint[]) AS wanted(id)
CROSS JOIN LATERAL (
    SELECT hour, carry FROM ledger_tokenhour
    WHERE series_id = wanted.id AND hour < %s ORDER BY hour DESC, revision DESC LIMIT 1
) row
"""


class Loaded:
    """Readings and rows from an hour on, and the state before it, of the counters and marks given.

    Nothing of one series is there that reading it alone would not give.
    """

    def __init__(self, counters: Sequence[Series], marks: Sequence[Series], from_ms: int) -> None:
        self.from_ms = from_ms
        ids = [one.pk for one in counters]
        self.held = {*ids, *(one.pk for one in marks)}
        self.columns = _columns(sorted(self.held), from_ms)
        self.current = _current(ids, from_ms)
        self._before = _before(ids, from_ms)

    def before(self, series: Series) -> tuple[int | None, Carry]:
        """The hour (ms) of a series' last row before, and the state after it."""
        hour_ms, carry = self._before.get(series.pk, (None, ""))
        return hour_ms, Carry.from_json(orjson.loads(carry) if carry else {})


def _columns(ids: Sequence[int], from_ms: int) -> dict[int, dict[str, Columns]]:
    pieces: dict[int, dict[str, list[Columns]]] = {}
    blocks = (
        ReadingBlock.objects.filter(series__in=ids)
        .touching(from_ms)
        .order_by("series_id", "hour", "first_ms", "pk")
        .values_list("series_id", "replica", "payload")
    )
    for series_id, replica, payload in blocks.iterator(chunk_size=2000):
        parts = pieces.setdefault(series_id, {}).setdefault(replica, [])
        parts.append(columns_since(bytes(payload), from_ms))
    return {
        series_id: {replica: joined(parts) for replica, parts in replicas.items()}
        for series_id, replicas in pieces.items()
    }


def _current(ids: Sequence[int], from_ms: int) -> dict[int, dict[datetime, TokenHour]]:
    rows = (
        TokenHour.objects.filter(series__in=ids, hour__gte=instant_of(from_ms))
        .order_by("series_id", "hour", "-revision")
        .distinct("series_id", "hour")
    )
    found: dict[int, dict[datetime, TokenHour]] = {}
    for row in rows:
        found.setdefault(row.series_id, {})[row.hour] = row
    return found


def _before(ids: Sequence[int], from_ms: int) -> dict[int, tuple[int, str]]:
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_BEFORE, [list(ids), instant_of(from_ms)])
        return {pk: (hour_ms, carry) for pk, hour_ms, carry in cursor.fetchall()}
