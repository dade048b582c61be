"""A counter that goes on under other labels: the series that a new one of its target takes over from.

Who changes the labels of a living engine in the scrape's configuration ends one series and begins
another; the process and its counter stay. What the one has booked, the other must not book again (§2.4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import gt

from finops.core.counter_values import BIRTH_WITHIN_MS, Counter, HourReadings, Mark
from finops.core.period import HOUR_MS, instant_of, milliseconds
from finops.ledger.models import ReadingBlock, Series
from finops.sources.engines import role_of

from .columns import Columns
from .marks import MarkColumn, marks_at

OWN_LABELS = ("le", "model_name", "is_streaming", "WorkerId", "ReplicaId", "cache_source")
"""Labels of which each value has a counter of its own, even where the scrape's configuration sets them."""
WITHOUT_OWN_LABELS = ("up", "process_start")
POD_LABELS = ("pod", "pod_name", "kubernetes_pod_name", "uid")
"""Another pod is another process; a pod that was not told before may be the same."""

ColumnsOf = Callable[[Series, int], Mapping[str, Columns]]
MarksOf = Callable[[Series, int], Mapping[str, Sequence[MarkColumn]]]


@dataclass(frozen=True, slots=True)
class Before:
    """The counter as another series left it: its last reading, highest value and mark."""

    series: int
    last_ms: int
    high: int
    marks: dict[str, int]

    def counter(self, first_ms: int) -> Counter:
        """The counter for the series that goes on with it from an instant."""
        return Counter(dict(self.marks), self.high, first_ms, self.last_ms)


def are_one_counter(one: Series, other: Series, of_target: Sequence[Series]) -> bool:
    """Whether two series of a target may be one engine's one counter under other labels.

    What the scrape's configuration adds stands on every series of a target: only labels that those
    without labels of their own bore, too, can be what was changed. Others are the engine's own.
    """
    if one.pk == other.pk or (one.metric, one.engine) != (other.metric, other.engine):
        return False
    names = {
        name
        for name in one.labels.keys() | other.labels.keys()
        if one.labels.get(name) != other.labels.get(name)
    }
    if names & {*OWN_LABELS}:
        return False
    if any(_both_differ(one.labels.get(n), other.labels.get(n)) for n in names & {*POD_LABELS}):
        return False
    bare = [each.labels for each in of_target if each.role in WITHOUT_OWN_LABELS]
    return all(
        any(all(labels.get(name) == each.labels.get(name) for name in names) for labels in bare)
        for each in (one, other)
    )


def _both_differ(one: str | None, other: str | None) -> bool:
    return bool(one and other and one != other)


def taken_over(
    series: Series,
    of_target: Sequence[Series],
    first: HourReadings,
    columns: ColumnsOf,
    marks: MarksOf,
) -> Before | None:
    """The counter that a series' first hour goes on from; None for a counter of its own.

    It was read in the 24 h before the first reading and, in that hour, by no replica of Prometheus that read
    the new series already: of a pair, one takes a changed configuration after the other. Of several the last
    one. With marks both are of one mark. Without, the value has not fallen, as of one series.
    """
    role = role_of(series.metric, series.labels)
    if role is None or role.layer == "gateway":
        return None
    others = [one for one in of_target if are_one_counter(series, one, of_target)]
    if not others:
        return None
    at_ms, value, mark = min(_readings(first), key=lambda one: one[:2])
    new = _New(first, at_ms, value, mark)
    found = [
        before for other in others if (before := _left(other, new, columns, marks)) is not None
    ]
    return max(found, key=lambda one: (one.last_ms, one.series), default=None)


def _readings(hour: HourReadings) -> Iterator[tuple[int, int, Mark | None]]:
    for readings in hour.replicas.values():
        yield readings.times_ms[0], readings.values[0], readings.mark_at(0)


@dataclass(frozen=True, slots=True)
class _New:
    """A new series' first hour, and its first reading: time, value, mark."""

    hour: HourReadings
    at_ms: int
    value: int
    mark: Mark | None

    def since(self, replica: str) -> int:
        """When a replica began to read it; of one that did not in that hour, when the first did."""
        readings = self.hour.replicas.get(replica)
        return self.at_ms if readings is None else readings.times_ms[0]


def _left(other: Series, new: _New, columns: ColumnsOf, marks: MarksOf) -> Before | None:
    """How another series left its counter before a new one, if that is the one that goes on."""
    blocks = ReadingBlock.objects.filter(
        series=other, hour__lte=instant_of(new.at_ms), first_ms__lt=new.at_ms
    )
    hour = blocks.order_by("-hour").values_list("hour", flat=True).first()
    if hour is None:
        return None
    hour_ms = milliseconds(hour)
    last_ms, high = 0, 0
    of_marks = marks(other, hour_ms)
    for replica, (times, values) in columns(other, hour_ms).items():
        end = bisect_left(times, (new.at_ms // HOUR_MS + 1) * HOUR_MS)
        if not end:
            continue
        if times[end - 1] >= new.since(replica):
            return None  # it goes on to read the one beside the other
        own = marks_at(times[end - 1 : end], of_marks.get(replica, ()))
        is_same = (own[0] if isinstance(own, list) else own) == new.mark
        if not is_same and (new.mark is None or times[end - 1] >= new.at_ms):
            return None
        if new.mark is None and _falls(times, values, end, new):
            return None
        if is_same:
            last_ms, high = max(last_ms, times[end - 1]), max(high, int(values[end - 1]))
    if not last_ms or new.at_ms - last_ms > BIRTH_WITHIN_MS:
        return None
    return Before(other.pk, last_ms, high, dict([new.mark]) if new.mark else {})


def _falls(times: Sequence[int], values: Sequence[float], end: int, new: _New) -> bool:
    """Whether the value has fallen from a replica's readings before the new series to this one's first,
    or in those that it still took of the old one."""
    before = bisect_left(times, new.at_ms, 0, end)
    return bool(before) and (
        new.value < values[before - 1]
        or any(map(gt, values[before - 1 : end - 1], values[before:end]))
    )
