"""Counters as they stand after the newest window of one run: the next window goes on from there.

A counter's state is a column of its newest row, and reading back what was just written takes longer
than booking the hour. It is asked instead, when the targets are locked, whether any row stands
beyond the hour that the run posted last, or beside it: as none does in a back-fill. Where one does,
states are read as ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connections

from finops.core.period import instant_of
from finops.core.plain_clock import Tick
from finops.core.plain_hours import Standing
from finops.ledger.which import ledger_name

_BEYOND = "SELECT 1 FROM ledger_tokenhour WHERE hour > %s LIMIT 1"
_CORRECTED = "SELECT series_id FROM ledger_tokenhour WHERE hour = %s AND revision > 1"


class Stood(NamedTuple):
    """A counter after an hour, and what the times of that hour told."""

    standing: Standing
    tick: Tick


@dataclass(slots=True)
class Standings:
    """The counters that stand after the hour posted last, by series."""

    hour_ms: int | None = None
    of_series: dict[int, Stood] = field(default_factory=dict)

    def take(self, found: Iterable[tuple[int, Stood]]) -> None:
        """Takes the counters of one window, those that its last hour moved, in place of others."""
        stood = dict(found)
        last_ms = max((one.tick.hour_ms for one in stood.values()), default=None)
        self.hour_ms = last_ms
        self.of_series = {pk: one for pk, one in stood.items() if one.tick.hour_ms == last_ms}

    def forget(self) -> None:
        """Nothing is known any more."""
        self.hour_ms = None
        self.of_series.clear()

    def before(self, first_hour_ms: int) -> dict[int, Stood]:
        """The counters whose newest row is the one this run posted, before an hour. Nothing where
        the ledger holds later hours of whatever series: then each one's rows must be looked at."""
        if self.hour_ms is None or self.hour_ms >= first_hour_ms:
            return {}
        hour = instant_of(self.hour_ms)
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_BEYOND, [hour])
            if cursor.fetchone() is not None:
                return {}
            cursor.execute(_CORRECTED, [hour])
            corrected = {pk for (pk,) in cursor.fetchall()}
        return {pk: one for pk, one in self.of_series.items() if pk not in corrected}
