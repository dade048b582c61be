"""One series in a period: its hours' rows put together with gaps, edges, life and end (§2.5, §2.6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .counter import is_gap
from .tokens import Dark, Rate, SeriesPeriod


class Row(NamedTuple):
    """One hour of one series, as a period's bounds need it. `facts` holds `births`, `openings`,
    `gaps` (from, to, usual, tokens), `restarts` (dark, shown and, where the target's `up` stopped,
    the span of its silence), `alternations`, `unmarked`."""

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
    the whole source. `dark_of_end` is asked only when the series ended, `source_goes_on` (whether
    other targets have readings in a span) only when the target's `up` stopped before a restart,
    `last_of_marks` (the last reading of every process behind the address) only when they alternate.
    """

    rows: list[Row] = field(default_factory=list)
    following: Row | None = None
    born_ms: int = 0
    last_ms: int = 0
    usual_ms: int | None = None
    source_last_ms: int = 0
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
        the period holds no reading and no gap spans it.
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
            if not any(gap[0] < start and gap[1] >= end for gap in self.gaps()):
                return {}
            keys = [key_of(start)]
            parts[keys[0]] = SeriesPeriod()
        self._add_gaps(start, end, parts[keys[0]], parts[keys[-1]])
        self._add_life(start, end, parts[keys[0]], parts[keys[-1]])
        return parts

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
                first.straddles_start += tokens
                first.edge_in_gap = True
            elif from_ms < end <= to_ms:
                last.straddles_end += tokens
                last.edge_in_gap = True

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
