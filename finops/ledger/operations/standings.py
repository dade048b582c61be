"""Counters as they stand after the newest window of one run: the next window goes on from there.

A counter's state is a column of its newest row, and reading back what was just written takes longer
than booking the hour. It is asked instead, when the targets are locked, whether any row stands
beyond the hour that the run posted last, or beside it: as none does in a back-fill. Where one does,
states are read as ever. Of a window that is read in shards each is asked about its own counters,
for the shards before it stand an hour or many beyond.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connections

from finops.core.counter_values import DAY_MS
from finops.core.period import instant_of
from finops.core.plain_clock import Tick
from finops.core.plain_hours import Standing
from finops.ledger.which import ledger_name

from .bulk_text import numbers

_BEYOND = "SELECT 1 FROM ledger_tokenhour WHERE hour > %s LIMIT 1"
_BEYOND_OF = """
SELECT 1 FROM unnest(%s::bigint[]) AS wanted(id)
WHERE EXISTS (SELECT 1 FROM ledger_tokenhour WHERE series_id = wanted.id AND hour > %s) LIMIT 1
"""
_CORRECTED = "SELECT series_id FROM ledger_tokenhour WHERE hour = %s AND revision > 1"


class Stood(NamedTuple):
    """A counter after an hour, and what the times of that hour told."""

    standing: Standing
    tick: Tick


@dataclass(slots=True)
class Standings:
    """The counters that stand after the hours posted last, by series."""

    of_series: dict[int, Stood] = field(default_factory=dict)
    newest_ms: int = 0

    def take(self, found: Iterable[tuple[int, Stood]]) -> None:
        """Takes the counters of one window, or of a shard of it, as they stand now."""
        stood = dict(found)
        self.of_series |= stood
        newest_ms = max((one.tick.hour_ms for one in stood.values()), default=0)
        if newest_ms > self.newest_ms:
            self.newest_ms = newest_ms
            for pk in [pk for pk, one in self.of_series.items()
                       if one.tick.hour_ms < newest_ms - DAY_MS]:  # fmt: skip
                del self.of_series[pk]

    def forget(self) -> None:
        """Nothing is known any more."""
        self.newest_ms = 0
        self.of_series.clear()

    def before(self, first_hour_ms: int, wanted: Collection[int]) -> dict[int, Stood]:
        """Those of the wanted counters whose newest row is the one this run posted, before an hour:
        of the last hour that it posted of any. Nothing where the ledger holds later hours of
        whatever counter that is wanted: then each one's rows must be looked at."""
        stood = {pk: one for pk in wanted if (one := self.of_series.get(pk)) is not None}
        hour_ms = max((one.tick.hour_ms for one in stood.values()), default=first_hour_ms)
        if hour_ms >= first_hour_ms:
            return {}
        hour = instant_of(hour_ms)
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_BEYOND, [hour])
            if cursor.fetchone() is not None:
                cursor.execute(_BEYOND_OF, [numbers(wanted), hour])
                if cursor.fetchone() is not None:
                    return {}
            cursor.execute(_CORRECTED, [hour])
            corrected = {pk for (pk,) in cursor.fetchall()}
        return {
            pk: one
            for pk, one in stood.items()
            if one.tick.hour_ms == hour_ms and pk not in corrected
        }
