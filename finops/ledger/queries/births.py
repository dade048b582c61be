"""Births that nobody saw: since when a counter may have counted before its first reading (§2.6).

Asked for only where an edge of a period lies between a birth and a first reading, and then read for
all series of the period at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connections

from finops.core.counter_values import BIRTH_WITHIN_MS, is_gap
from finops.core.period import HOUR_MS, instant_of
from finops.core.series import Birth
from finops.ledger.models import Series
from finops.ledger.which import ledger_name
from finops.sources.samples import unpack

# By the index of each series (`OFFSET 0`: never a search through all blocks).
_FIRST = """
SELECT wanted.id, block.payload
FROM unnest(%s::bigint[], %s::timestamptz[]) AS wanted(id, hour)
CROSS JOIN LATERAL (
    SELECT * FROM ledger_readingblock
    WHERE series_id = wanted.id
      AND hour >= date_bin('12 hours', wanted.hour, 'epoch') AND hour <= wanted.hour
      AND last_ms >= (extract(epoch FROM wanted.hour) * 1000)::bigint
    OFFSET 0
) block
JOIN ledger_document document ON document.sha256 = block.document_id
WHERE document.received_at <= %s
"""
_UPS = """
SELECT wanted.id, block.payload
FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])
    AS wanted(id, target, since, until)
JOIN ledger_series up ON up.target_id = wanted.target AND up.role = 'up'
CROSS JOIN LATERAL (
    SELECT * FROM ledger_readingblock
    WHERE series_id = up.id
      AND hour >= date_bin('12 hours', wanted.since, 'epoch') AND hour <= wanted.until
      AND last_ms >= (extract(epoch FROM wanted.since) * 1000)::bigint
    OFFSET 0
) block
JOIN ledger_document document ON document.sha256 = block.document_id
WHERE document.received_at <= %s
"""


@dataclass(slots=True)
class _Wanted:
    """One series with its first reading, its mark in milliseconds where it has one, and the `up`
    readings before: the last of any value, and the last that says 1."""

    target: int
    first_ms: int
    mark_ms: int | None
    tokens: int = 0
    asked_ms: int | None = None
    answered_ms: int | None = None

    @property
    def unread_ms(self) -> int:
        """The earliest instant that its birth may have (method §2.4)."""
        if self.mark_ms is None:
            return self.first_ms - BIRTH_WITHIN_MS
        return min(self.first_ms, self.mark_ms)

    def birth(self) -> Birth:
        """A scrape that answered shows that the counter was not there yet. One without an answer
        shows it of an engine without a mark alone: a marked one was alive and may have counted."""
        told_ms = self.asked_ms if self.mark_ms is None else self.answered_ms
        since_ms = self.unread_ms if told_ms is None else max(self.unread_ms, told_ms)
        return Birth(since_ms, self.first_ms, self.tokens)


@dataclass(slots=True)
class Births:
    """The births that first readings from an instant on book, as known at another."""

    since_ms: int
    as_of: datetime
    _wanted: dict[int, _Wanted] = field(default_factory=dict)
    _is_read: bool = False

    def add(
        self, series: Series, first_ms: int, first_facts: Mapping[str, Any], usual_ms: int | None
    ) -> int | None:
        """Takes a series in where its first reading books a birth; gives the earliest instant that
        this may have, None where the first reading books nothing."""
        births = first_facts.get("births", ())
        if not births or births[0][0] != first_ms:
            return None
        mark_us = births[0][1]
        one = _Wanted(series.target_id, first_ms, None if mark_us is None else mark_us // 1000)
        is_near = usual_ms is not None and not is_gap(first_ms - one.unread_ms, usual_ms)
        if first_ms >= self.since_ms and not is_near:
            self._wanted[series.pk] = one
        return one.unread_ms

    def of(self, series: int) -> Birth | None:
        """The birth of a series that was taken in."""
        if series not in self._wanted:
            return None
        if not self._is_read:
            self._read()
        return self._wanted[series].birth()

    def _read(self) -> None:
        self._is_read = True
        with connections[ledger_name()].cursor() as cursor:
            hours = [_hour(one.first_ms) for one in self._wanted.values()]
            cursor.execute(_FIRST, [list(self._wanted), hours, self.as_of])
            for pk, time_ms, value in _samples(cursor.fetchall()):
                one = self._wanted[pk]
                if time_ms == one.first_ms:
                    one.tokens = max(one.tokens, int(value))
            since = [_hour(one.unread_ms) for one in self._wanted.values()]
            targets = [one.target for one in self._wanted.values()]
            cursor.execute(_UPS, [list(self._wanted), targets, since, hours, self.as_of])
            for pk, time_ms, value in _samples(cursor.fetchall()):
                one = self._wanted[pk]
                if time_ms < one.first_ms:
                    one.asked_ms = max(time_ms, one.asked_ms or time_ms)
                    if value == 1:
                        one.answered_ms = max(time_ms, one.answered_ms or time_ms)


def _hour(time_ms: int) -> datetime:
    return instant_of(time_ms // HOUR_MS * HOUR_MS)


def _samples(blocks: list[tuple[int, Any]]) -> Iterator[tuple[int, int, float]]:
    for pk, payload in blocks:
        times, values = unpack(bytes(payload))
        for time_ms, value in zip(times, values, strict=True):
            yield pk, time_ms, value
