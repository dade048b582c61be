"""Posting readings: samples of a document become blocks of readings, and token hours from them.

Readings are kept by series, replica, hour and document, so that a ledger row leads back to the
samples it was derived from, and so that readings that arrive late change the right hours.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from math import isfinite

import numpy as np

from finops.core.period import instant_of, milliseconds, rfc3339
from finops.ledger.models import Document, Source
from finops.sources.engines import NEVER_COUNTED
from finops.sources.records import Rejection, SeriesReadings
from finops.sources.sample_columns import in_rows
from finops.sources.samples import are_rising, in_order

from .at_hand import AtHand
from .blocks import Blocks
from .charges import storable
from .copying import Copying, look_for_documents
from .derive import Affected, derive_affected, differences
from .naming import (
    Fault,
    Known,
    Named,
    Names,
)
from .plain import Plain
from .roles import MARK_ROLES, TOKEN_ROLES

LARGEST_EXACT = float(2**53)
FIRST_MS = milliseconds(datetime(2000, 1, 1, tzinfo=UTC))
END_MS = milliseconds(datetime(2200, 1, 1, tzinfo=UTC))
_OFF_THE_CALENDAR = "an instant outside the years 2000 to 2199"
_TWO_VALUES = "another value stands at the same instant; the higher one is kept"
MOST_NAMED = 100_000
SERIES_AT_ONCE = 2000
SAMPLES_AT_ONCE = 1_000_000
MOST_KNOWN = 1 << 14


@dataclass(slots=True)
class PostedReadings:
    """What became of a document's samples."""

    series: int = 0
    readings: int = 0
    refused: list[Rejection] = field(default_factory=list)
    unnamed: int = 0
    ignored_metrics: dict[str, int] = field(default_factory=dict)

    @property
    def refused_count(self) -> int:
        """How many readings were refused: the first are named, a series refused whole once."""
        return len(self.refused) + self.unnamed


def post_readings(
    document: Document,
    source: Source,
    series: Iterable[SeriesReadings],
    *,
    at: datetime,
    at_hand: AtHand | None = None,
    taken: Callable[[PostedReadings], None] | None = None,
) -> PostedReadings:
    """Keeps a document's samples and derives the hours they touch.

    To be called inside the ledger's transaction. `taken`, where given, is called between the two, when
    all there is to say of the samples is known; it writes the document's row. A token reading that is no whole number, is
    negative, NaN, infinite or beyond 2^53 is refused and named; the others count (method §1). So
    are a gauge or mark that is none, an instant off the calendar, the lower of two values at one
    instant, and a series whose labels cannot be kept.
    """
    with Copying():
        posting = _Posting(document, source, at, at_hand)
        posting.take(series)
        if taken is not None:
            taken(posting.posted)
            look_for_documents()
        return posting.derive()


class _Posting:
    def __init__(
        self, document: Document, source: Source, at: datetime, at_hand: AtHand | None = None
    ) -> None:
        self.document, self.source, self.at, self.at_hand = document.sha256, source, at, at_hand
        self.posted = PostedReadings()
        self.names = Names(source) if at_hand is None else at_hand.names(source)
        self.blocks = Blocks(document.sha256)
        standings = None if at_hand is None else at_hand.standings
        self.plain = Plain(document.sha256, self.names, at, standings)
        self.seen: set[int] = set()
        self.affected = Affected()
        self.clock = _Clock()

    def take(self, series: Iterable[SeriesReadings]) -> None:
        index = 0
        for batch in _batches(series):
            self.clock.look([one.times_ms for one in batch])
            self.blocks.look([one.times_ms for one in batch if self.clock.is_fine(one.times_ms)])
            columns = [self.clock.in_order(one.times_ms, one.values) for one in batch]
            fine = _are_fine(columns, self.clock)
            for one, name, column, is_fine in zip(
                batch, self.names.of(batch), columns, fine, strict=True
            ):
                index += 1
                if isinstance(name, Named):
                    self._take(index, name, *column, is_fine)
                else:
                    self._leave(index, one, name)
        self.blocks.flush()
        self.posted.series = len(self.seen)

    def derive(self) -> PostedReadings:
        derive_affected(
            self.source, self.affected, at=self.at, plain=self.plain, at_hand=self.at_hand
        )
        return self.posted

    def _take(
        self, index: int, name: Named, times: array[int], values: array[float], fine: _Fine
    ) -> None:
        series = name.series
        if not fine.of(series.role):
            times, values = self._refuse(index, series, times, values)
        if len(times):
            self.seen.add(series.pk)
            self.affected.add(series.target, name.job, times[0])
            self.posted.readings += len(times)
            if self.at_hand is not None:
                self.at_hand.add(self.document, series, name.replica, times, values)
            cuts = self.blocks.add(series, name.replica, times, values)
            self.plain.add(name.job, series, name.replica, cuts, values)

    def _leave(self, index: int, readings: SeriesReadings, fault: Fault | None) -> None:
        """A series that is refused whole, or that the ledger does not use."""
        if fault is not None:
            self._name(Rejection.of(index, *fault))
        elif never := NEVER_COUNTED.get(readings.metric):
            self._name(Rejection.of(index, readings.metric, _inner(readings.labels), never))
        else:
            name, ignored = storable(readings.metric), self.posted.ignored_metrics
            ignored[name] = ignored.get(name, 0) + len(readings.times_ms)
            return
        self.posted.unnamed += max(0, len(readings.times_ms) - 1)

    def _refuse(
        self, index: int, series: Known, times: array[int], values: array[float]
    ) -> tuple[array[int], array[float]]:
        why, metric = _WHY.get(series.role, _why_no_gauge), series.metric
        kept: list[int] = []
        for i, (time_ms, value) in enumerate(zip(times, values, strict=True)):
            reason = why(value) if FIRST_MS <= time_ms < END_MS else _OFF_THE_CALENDAR
            if reason:
                self._name(Rejection.of(index, metric, _shown(value, time_ms), reason))
                continue
            if kept and times[kept[-1]] == time_ms:
                lower = _shown(values[kept.pop()], time_ms)
                self._name(Rejection.of(index, metric, lower, _TWO_VALUES))
            kept.append(i)
        return array("q", (times[i] for i in kept)), array("d", (values[i] for i in kept))

    def _name(self, rejection: Rejection) -> None:
        if len(self.posted.refused) < MOST_NAMED:
            self.posted.refused.append(rejection)
        else:
            self.posted.unnamed += 1


def _batches(series: Iterable[SeriesReadings]) -> Iterator[list[SeriesReadings]]:
    """Series in the order given, as many at once as memory likes."""
    batch: list[SeriesReadings] = []
    samples = 0
    for one in series:
        batch.append(one)
        samples += len(one.times_ms)
        if len(batch) >= SERIES_AT_ONCE or samples >= SAMPLES_AT_ONCE:
            yield batch
            batch, samples = [], 0
    if batch:
        yield batch


class _Clock:
    """What was found of columns of times: series of one target share theirs."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[array[int], bool, bool]] = {}  # by identity, while it is held

    def look(self, columns: Iterable[array[int]]) -> None:
        """Looks at many columns at once: quicker than one by one."""
        new = {id(each): each for each in columns if id(each) not in self._known}
        if len(self._known) + len(new) > MOST_KNOWN:
            self._known.clear()
        rising = are_rising(list(new.values()))
        for (key, times), rises in zip(new.items(), rising, strict=True):
            is_fine = rises and len(times) > 0 and times[0] >= FIRST_MS and times[-1] < END_MS
            self._known[key] = times, rises, is_fine

    def in_order(self, times: array[int], values: array[float]) -> tuple[array[int], array[float]]:
        """The columns in order of time."""
        return (times, values) if self._of(times)[1] else in_order(times, values)

    def is_fine(self, times: array[int]) -> bool:
        """Whether times (at least one) rise and lie on the calendar."""
        return self._of(times)[2]

    def _of(self, times: array[int]) -> tuple[array[int], bool, bool]:
        known = self._known.get(id(times))
        if known is None:
            self.look([times])
            known = self._known[id(times)]
        return known


def _inner(labels: Iterable[tuple[str, str]]) -> str:
    return storable(",".join(f'{name}="{value}"' for name, value in labels))


@dataclass(frozen=True, slots=True)
class _Fine:
    """Whether nothing of a column need be refused, by what it is taken for."""

    tokens: bool
    gauge: bool
    mark: bool

    def of(self, role: str) -> bool:
        if role in TOKEN_ROLES:
            return self.tokens
        return self.mark if role in MARK_ROLES else self.gauge


_FINE = _Fine(True, True, True)
_DOUBTFUL = _Fine(False, False, False)
_KINDS = {each: _Fine(*each) for each in product((True, False), repeat=3)}


def _are_fine(columns: Sequence[tuple[array[int], array[float]]], clock: _Clock) -> list[_Fine]:
    """The usual case, told quickly for many columns: the same as `_WHY` says value by value."""
    found = [_FINE] * len(columns)
    for places, rows in in_rows([values for _, values in columns]):
        if not rows.shape[1]:
            continue
        low, high = rows.min(axis=1), rows.max(axis=1)  # NaN where any value is NaN
        whole = (np.trunc(rows) == rows).all(axis=1)
        tokens = whole & (low >= 0) & (high <= LARGEST_EXACT)
        gauge = (low >= -LARGEST_EXACT) & (high <= LARGEST_EXACT)
        mark = (low >= 0) & (high * 1000 < END_MS)
        flags = zip(tokens.tolist(), gauge.tolist(), mark.tolist(), strict=True)
        for place, each in zip(places, flags, strict=True):
            found[place] = _KINDS[each] if clock.is_fine(columns[place][0]) else _DOUBTFUL
    return found


def _shown(value: float, time_ms: int) -> str:
    try:
        return f"{value!r} at {rfc3339(instant_of(time_ms))}"
    except OverflowError:
        return f"{value!r} at {time_ms} ms"


def _why_no_count(value: float) -> str | None:
    """Why a float64 does not say a number of tokens exactly (method §1); None when it does."""
    if 0.0 <= value <= LARGEST_EXACT and value.is_integer():
        return None
    if not isfinite(value):
        return "not a number of tokens"
    if value < 0:
        return "a negative number of tokens"
    if value > LARGEST_EXACT:
        return "beyond 2^53, where a float64 cannot tell single tokens"
    return "not a whole number of tokens"


def _why_no_mark(value: float) -> str | None:
    return None if 0 <= value * 1000 < END_MS else "not a time within the years to 2199"


def _why_no_gauge(value: float) -> str | None:
    return None if -LARGEST_EXACT <= value <= LARGEST_EXACT else "not a number a gauge can show"


Why = Callable[[float], str | None]
_WHY: Mapping[str, Why] = dict.fromkeys(TOKEN_ROLES, _why_no_count) | dict.fromkeys(
    MARK_ROLES, _why_no_mark
)


def recheck(series_ids: Sequence[int]) -> list[str]:
    """Derives series anew from their readings and says which current rows differ."""
    return differences(series_ids)
