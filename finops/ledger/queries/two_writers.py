"""One series that two stores write: the halves of a pair without a label that tells them apart (§2.7).

Their readings stand between one another. Where their clocks differ, a counter without a mark seems to fall
and is taken for one that began again; where one reads soon after the other, most steps seem to be gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from finops.core.facts import Notice
from finops.core.period import HOUR_MS
from finops.core.series import Row
from finops.core.steps import lower_median
from finops.ledger.models import ReadingBlock, Series
from finops.sources.samples import unpack_between

from .as_of import known_by
from .token_rows import Known

MANY_GAPS = 10
FEW_RESTARTS = 3
ALIKE = 10


def two_writers(counters: Iterable[Known], as_of: datetime | None) -> Iterator[Notice]:
    """Counters in whose readings two stores show, with what that does to their figures."""
    for known in counters:
        hour = next((row for row in known.rows if _is_odd(row)), None)
        if hour is not None and any(
            _is_of_two(hour, times, values)
            for times, values in _readings(known.series, hour, as_of)
        ):
            yield _notice(known)


def _is_odd(row: Row) -> bool:
    restarts, gaps = row.facts.get("restarts", ()), row.facts.get("gaps", ())
    is_unmarked = bool(row.facts.get("unmarked"))
    return len(gaps) >= MANY_GAPS or (is_unmarked and len(restarts) >= FEW_RESTARTS)


def _readings(
    series: Series, row: Row, as_of: datetime | None
) -> Iterator[tuple[list[int], list[int]]]:
    """Times and values of each replica in an hour, each reading once."""
    span = row.hour_ms, row.hour_ms + HOUR_MS
    known = ReadingBlock.objects.filter(known_by(as_of, "document__received_at"), series=series)
    found: dict[str, dict[int, int]] = {}
    for block in known.touching(*span):
        times, values = unpack_between(bytes(block.payload), *span)
        mine = found.setdefault(block.replica, {})
        for at, value in zip(times, values, strict=True):
            mine[at] = max(int(value), mine.get(at, 0))
    for mine in found.values():
        ordered = sorted(mine.items())
        yield [at for at, _ in ordered], [value for _, value in ordered]


def _is_of_two(row: Row, times: Sequence[int], values: Sequence[int]) -> bool:
    is_uneven = len(row.facts.get("gaps", ())) >= MANY_GAPS
    return _falls_and_stands_again(values) or (is_uneven and _is_every_second_alike(times))


def _falls_and_stands_again(values: Sequence[int]) -> bool:
    """Whether every fall is a small one, and the next reading stands where the counter was or above. A
    counter that began again would be far below, and stay there."""
    falls = [
        (before, value, values[place + 2] if place + 2 < len(values) else before)
        for place, (before, value) in enumerate(pairwise(values))
        if value < before
    ]
    alike = all(2 * value >= before <= after for before, value, after in falls)
    return len(falls) >= FEW_RESTARTS and alike


def _is_every_second_alike(times: Sequence[int]) -> bool:
    """Whether readings that follow each other unevenly come in two rows, each as steady as a scrape's."""
    steps = [after - before for before, after in zip(times, times[2:], strict=False)]
    if len(steps) < ALIKE:
        return False
    usual = lower_median(steps)
    near = sum(ALIKE * abs(step - usual) <= usual for step in steps)
    return ALIKE * near >= (ALIKE - 1) * len(steps)


def _notice(known: Known) -> Notice:
    restarts = [one for row in known.rows for one in row.facts.get("restarts", ())]
    gaps = sum(len(row.facts.get("gaps", ())) for row in known.rows)
    begun, target = sum(one["value"] for one in restarts), known.series.target
    return Notice(
        "replicas-suspected",
        f"{target.instance} {known.series.metric} {known.series.engine} ({known.source})".strip(),
        f"{target.instance}: the readings of {known.series.metric} come from two stores that write one "
        f"series. What they show as {len(restarts):,} restarts and {gaps:,} gaps may be none: "
        f"{begun:,} tokens are booked as counted anew after a restart, and coverage is too low. Give each "
        "store an external label of its own and add the source with --replica-label.",
    )
