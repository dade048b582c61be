"""One series in a period: its hours' rows put together with gaps, edges, life and end (§2.5, §2.6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .counter_values import is_gap
from .period import HOUR_MS
from .tokens import Dark, Rate, SeriesPeriod


class Row(NamedTuple):
    """One hour of one series, as a period's bounds need it. `facts` holds `births`, `openings`,
    `gaps` (from, to, usual, tokens), `restarts` (from, to, dark, shown and, where the target's `up`
    stopped, the span of its silence), `alternations`, `unmarked`."""

    hour_ms: int
    tokens: int
    readings: int
    restarts: int
    hidden_resets: int
    opening_tokens: int
    rate_tokens: int
    rate_ms: int
    usual_ms: int | None
    first_ms: int
    last_ms: int
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Birth:
    """The birth of a series' first counter: since when it may have counted unread (its mark, or a
    later scrape that answered without it), its first reading, and the tokens this one booked."""

    since_ms: int
    at_ms: int
    tokens: int


def _no_birth() -> Birth | None:
    return None


def _no_dark() -> Dark:
    return Dark(0)


def _no_marks() -> list[int]:
    return []


def _no_readings(since_ms: int, until_ms: int) -> bool:
    return False


@dataclass(slots=True)
class SeriesRows:
    """What is known of one series around a period: its rows in it and the first row after it.

    `born_ms` is the proven birth, else the first reading; `source_last_ms` is the last reading of
    the whole source. `first_ms` is the first reading and `first_usual_ms` the usual interval then;
    `unread_ms` the earliest instant at which a birth that is booked may lie before it. `birth` is asked
    only where an edge of a period lies between these two. `dark_of_end` is asked only when the series ended, `source_goes_on` (whether
    other targets have readings in a span) only when the target's `up` stopped before a restart,
    `last_of_marks` (the last reading of every process behind the address) only when they alternate.
    """

    rows: list[Row] = field(default_factory=list)
    following: Row | None = None
    born_ms: int = 0
    last_ms: int = 0
    usual_ms: int | None = None
    source_last_ms: int = 0
    first_ms: int = 0
    first_usual_ms: int | None = None
    unread_ms: int | None = None
    birth: Callable[[], Birth | None] = _no_birth
    dark_of_end: Callable[[], Dark] = _no_dark
    source_goes_on: Callable[[int, int], bool] = _no_readings
    last_of_marks: Callable[[], Sequence[int]] = _no_marks

    def ended(self) -> bool:
        """Whether its source has readings more than 2.5 × usual after its last one (§2.5)."""
        return self.usual_ms is not None and is_gap(
            self.source_last_ms - self.last_ms, self.usual_ms
        )

    def gaps(self) -> Iterator[tuple[int, int, int, int]]:
        """Every gap that ends in the period or across its end: from, to, usual, tokens."""
        for row in [*self.rows, *([self.following] if self.following else [])]:
            for gap in row.facts.get("gaps", ()):
                yield gap[0], gap[1], gap[2], gap[3]

    def unread_birth(self) -> Birth | None:
        """Its birth, where the first reading came so much later that this is like a gap (§2.6)."""
        if self.unread_ms is None or not self._is_like_a_gap(self.unread_ms):
            return None
        birth = self.birth()
        if birth is None or not birth.tokens:  # it had counted nothing: no edge can divide that
            return None
        return birth if self._is_like_a_gap(birth.since_ms) else None

    def _is_like_a_gap(self, since_ms: int) -> bool:
        usual_ms, unread_ms = self.first_usual_ms, self.first_ms - since_ms
        return unread_ms > 0 and (usual_ms is None or is_gap(unread_ms, usual_ms))

    def is_born_unread(self, edge_ms: int) -> bool:
        """Whether it was born before an instant and not read until that or later, as in a gap."""
        return self._birth_over(edge_ms) is not None

    def _birth_over(self, edge_ms: int) -> Birth | None:
        """Its birth, where an edge of a period lies between that and a late first reading."""
        if self.unread_ms is None or not self.unread_ms < edge_ms <= self.first_ms:
            return None
        birth = self.unread_birth()
        return birth if birth and birth.since_ms < edge_ms else None

    def missing_readings(self, start: int, end: int) -> int:
        """Readings that did not come in [start, end): one for each usual interval of a gap."""
        count = 0
        for from_ms, to_ms, usual_ms, _ in self.gaps():
            inside = min(to_ms, end) - max(from_ms, start)
            count += max(0, inside // usual_ms - (to_ms < end)) if usual_ms else 0
        return count

    def parts(
        self, start: int, end: int, key_of: Callable[[int], Hashable]
    ) -> dict[Hashable, SeriesPeriod]:
        """The series in [start, end) milliseconds, whole hours, by the group of each hour.

        Gaps and life go to the group of the first hour, the end to that of the last. Empty where
        the period holds no reading, no gap spans it, and nothing is born unread in it.
        """
        low = bisect_left(self.rows, start, key=_hour)
        high = bisect_left(self.rows, end, key=_hour)
        parts: dict[Hashable, SeriesPeriod] = {}
        keys = [key_of(row.hour_ms) for row in self.rows[low:high]]
        for key, row in zip(keys, self.rows[low:high], strict=True):
            part = parts.setdefault(key, SeriesPeriod())
            _add_row(part, row)
            part.darks.extend(self.dark_of(row, r) for r in row.facts.get("restarts", ()))
        if not keys:
            since = self._unread_since(start, end)
            if since is None:
                return {}
            keys = [key_of(since)]
            parts[keys[0]] = SeriesPeriod()
        first, last = parts[keys[0]], parts[keys[-1]]
        self._add_gaps(start, end, first, last)
        self._add_birth(start, end, first, last)
        self._add_lost(
            start, end, self.rows[high] if high < len(self.rows) else self.following, last
        )
        self._add_life(start, end, first, last)
        if not first.readings:
            first.unobserved_ms = first.living_ms
        return parts

    def _unread_since(self, start: int, end: int) -> int | None:
        """The hour in which a period without readings begins to be one of this series: nobody read
        it, but it was there before or was born in it. None where it was not."""
        if any(gap[0] < start and gap[1] >= end for gap in self.gaps()):
            return start
        birth = self._birth_over(end)
        return max(start, birth.since_ms // HOUR_MS * HOUR_MS) if birth else None

    def dark_of(self, row: Row, restart: Mapping[str, Any]) -> Dark:
        """A restart's dark: one usual interval at most when only its target fell silent (§2.6)."""
        dark_ms, silence = restart["dark"], restart.get("silence")
        if silence and row.usual_ms is not None and self.source_goes_on(*silence):
            dark_ms = min(dark_ms, row.usual_ms)
        return Dark(dark_ms, restart["shown"])

    def _add_gaps(self, start: int, end: int, first: SeriesPeriod, last: SeriesPeriod) -> None:
        for from_ms, to_ms, usual_ms, tokens in self.gaps():
            inside = min(to_ms, end) - max(from_ms + usual_ms, start)
            first.unobserved_ms += max(0, inside)
            first.gaps += start <= to_ms < end
            if from_ms < start <= to_ms < end:
                _straddle_start(first, tokens)
            elif from_ms < end <= to_ms:
                _straddle_end(last, tokens)

    def _add_birth(self, start: int, end: int, first: SeriesPeriod, last: SeriesPeriod) -> None:
        """What a counter that was born unread showed first may lie on either side of an edge."""
        birth = self._birth_over(end)
        if birth:
            _straddle_end(last, birth.tokens)
        elif birth := self._birth_over(start):
            _straddle_start(first, birth.tokens)
        if birth:
            read_from = max(birth.since_ms + (self.first_usual_ms or 0), self.born_ms, start)
            first.unobserved_ms += max(0, min(birth.at_ms, end) - read_from)

    def _add_lost(self, start: int, end: int, row: Row | None, last: SeriesPeriod) -> None:
        """What was counted before the period's end in the dark of a restart that only a reading
        beyond a gap shows: lost in this period, bounded in that reading's as well (§2.6)."""
        for restart in row.facts.get("restarts", ()) if row else ():
            from_ms, to_ms = restart.get("from", end), restart.get("to", end)
            if row is None or row.usual_ms is None or not from_ms < end <= to_ms:
                continue
            dark_ms = min(end, from_ms + self.dark_of(row, restart).ms) - max(start, from_ms)
            if dark_ms > 0 and is_gap(to_ms - from_ms, row.usual_ms):
                last.darks.append(Dark(dark_ms))
                if not last.readings:  # it has no rate of its own
                    last.rate = max(last.rate, Rate(row.rate_tokens, row.rate_ms))

    def _add_life(self, start: int, end: int, first: SeriesPeriod, last: SeriesPeriod) -> None:
        ended = self.ended()
        until = min(end, self.last_ms) if ended else end
        first.living_ms += max(0, until - max(start, self.born_ms))
        if ended and start <= self.last_ms < end:
            last.ends += 1
            last.darks.append(self.dark_of_end())
        elif not ended and self.usual_ms and is_gap(end - self.last_ms, self.usual_ms):
            # The source itself has said nothing since: not an end, but not observed either.
            silent_from = max(start, self.last_ms + self.usual_ms)
            last.unobserved_ms += max(0, end - silent_from)
            last.edge_in_gap = True

        if first.alternations or last.alternations:
            self._add_ends_of_marks(start, end, last)

    def _add_ends_of_marks(self, start: int, end: int, last: SeriesPeriod) -> None:
        """On an alternating address a mark that was not seen for 2.5 × usual × the number of marks
        has ended (§2.6). The newest one's end is the series' own."""
        seen = sorted(self.last_of_marks())
        if self.usual_ms is None or len(seen) < 2:
            return
        for last_ms in seen[:-1]:
            away_ms = self.source_last_ms - last_ms
            if start <= last_ms < end and is_gap(away_ms, self.usual_ms * len(seen)):
                last.ends += 1
                last.darks.append(Dark(self.usual_ms))


def _straddle_start(part: SeriesPeriod, tokens: int) -> None:
    part.straddles_start += tokens
    part.edge_in_gap = True
    part.unread_edges += 1


def _straddle_end(part: SeriesPeriod, tokens: int) -> None:
    part.straddles_end += tokens
    part.edge_in_gap = True
    part.unread_edges += 1


def _hour(row: Row) -> int:
    return row.hour_ms


def _add_row(part: SeriesPeriod, row: Row) -> None:
    part.booked += row.tokens
    part.readings += row.readings
    part.restarts += row.restarts
    part.hidden_resets += row.hidden_resets
    part.opening_tokens += row.opening_tokens
    if row.facts:  # of most hours there is nothing to tell
        part.openings += len(row.facts.get("openings", ()))
        part.alternations += row.facts.get("alternations", 0)
        part.unmarked = part.unmarked or row.facts.get("unmarked", False)
    part.rate = max(part.rate, Rate(row.rate_tokens, row.rate_ms))
