"""What series a store says it has: asked for before each window, and mostly the same again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from finops.sources.records import SeriesReadings
from finops.sources.shards import number_of

from .selecting import Selector, selectors_of, selectors_of_instances

Name = tuple[str, tuple[tuple[str, str], ...]]
Rows = Sequence[Mapping[str, str]]


@dataclass(slots=True)
class Listing:
    """The answer of a store, as it came, and the selectors that were made of it; whether it named no
    series at all."""

    body: bytes
    rows: Rows
    warnings: list[str]
    selectors: list[Selector]
    is_empty: bool = False
    _seen: set[Name] = field(default_factory=set)

    def knows(self, series: Iterable[SeriesReadings]) -> bool:
        """Whether the store has named all of these series. Those that it has are remembered, as the
        answers have them: hour after hour they are the same."""
        new = {(one.metric, one.labels) for one in series} - self._seen
        if not new:
            return True
        rows = self.rows or orjson.loads(self.body)["data"]
        self.rows = ()  # they take several times the memory of the answer
        if not new <= set(map(_apart, rows)):
            return False
        self._seen |= new
        return True


def listings(
    body: bytes,
    rows: Sequence[Mapping[str, str]],
    warnings: list[str],
    matchers: Sequence[str],
    most: int,
    count: int,
) -> list[Listing]:
    """An answer's series as they are asked for, at most so many at once, by shard of so many."""
    if count == 1:
        return [Listing(body, rows, warnings, list(selectors_of(rows, matchers, most)), not rows)]
    shared: list[list[Mapping[str, str]]] = [[] for _ in range(count)]
    for row in rows:
        shared[number_of(row.get("instance", ""), count) - 1].append(row)
    found = []
    for own in shared:
        selectors = list(selectors_of_instances(own, matchers, most))
        # As text until it is looked at: label sets take several times the memory.
        text = orjson.dumps({"data": own})
        found.append(Listing(text, (), warnings, selectors, not rows))
    return found


def _apart(row: Mapping[str, str]) -> Name:
    """Metric and other labels of a label set, as remote read's answers have them."""
    labels = dict(row)
    metric = labels.pop("__name__", "")
    return metric, tuple(sorted(labels.items()))
