"""The readings behind what a person doubts first: restarts, births and the edges of a week (§2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from finops.core.counter import Carry
from finops.core.period import Period, instant_of, rfc3339
from finops.core.series import Row
from finops.ledger.models import ReadingBlock, Series, TokenHour
from finops.sources.engines import mark_of
from finops.sources.samples import unpack

from .tokens import Known

COLUMNS = ("series", "hour", "why", "high_before", "mark_before_us", "at_ms", "value", "mark_us",
           "replica", "document")  # fmt: skip
Reading = tuple[int, str, int, int | None, str]


def readings(known: Iterable[Known], period: Period, as_of: datetime) -> Any:
    """All readings of the hours with a restart, a birth or an opening; the first and the last
    reading of each series in the week. `high_before` is what its counter had booked before."""
    from .export import Table

    rows: list[tuple[Any, ...]] = []
    for one in known:
        if not one.rows:
            continue
        told = [row for row in one.rows if _is_told(row)]
        befores = _befores(one.series, told, as_of)
        for row in told:
            high, mark = befores[row.hour_ms]
            rows += _lines(one.series, row, "restart", high, mark, as_of)
        for why, row, at in (
            ("week's first", one.rows[0], one.rows[0].first_ms),
            ("week's last", one.rows[-1], one.rows[-1].last_ms),
        ):
            found = _lines(one.series, row, why, None, None, as_of)
            rows += [line for line in found if line[5] == at][:1]
    return Table("readings", COLUMNS, rows)


def _is_told(row: Row) -> bool:
    return bool(row.restarts or row.opening_tokens or row.facts.get("births"))


def _lines(
    series: Series, row: Row, why: str, high: int | None, mark: int | None, as_of: datetime
) -> list[tuple[Any, ...]]:
    hour = instant_of(row.hour_ms)
    return [
        (series.pk, rfc3339(hour), why, high, mark, at, value, born, replica, document)
        for at, replica, value, born, document in _of_hour(series, hour, as_of)
    ]


def _befores(
    series: Series, rows: list[Row], as_of: datetime
) -> dict[int, tuple[int | None, int | None]]:
    """What the series' counter had booked before each of the rows' hours, and its mark."""
    found = {}
    for row in rows:
        earlier = (
            TokenHour.objects.filter(
                series=series, hour__lt=instant_of(row.hour_ms), posted_at__lte=as_of
            )
            .order_by("-hour", "-revision")
            .first()
        )
        carry = Carry.from_json(earlier.carry) if earlier else Carry()
        counter = carry.counters.get(carry.current)
        marks = list(counter.marks.values()) if counter else []
        found[row.hour_ms] = (counter.high if counter else None, marks[0] if marks else None)
    return found


def _of_hour(series: Series, hour: datetime, as_of: datetime) -> list[Reading]:
    """Every reading of an hour once, with the mark that stood beside it."""
    marks = _marks(series, hour, as_of)
    found: dict[tuple[int, str, int], Reading] = {}
    for replica, document, at, value in _samples(series, hour, as_of):
        whole = int(value)
        key = (at, replica, whole)
        found.setdefault(key, (at, replica, whole, marks.get((replica, at)), document))
    return [found[key] for key in sorted(found)]


def _marks(series: Series, hour: datetime, as_of: datetime) -> dict[tuple[str, int], int]:
    """Microseconds of birth by replica and instant; a `_created` value before the process's."""
    own = Series.objects.filter(
        target=series.target_id, role="created", metric=mark_of(series.metric),
        labels_digest=series.labels_digest,
    )  # fmt: skip
    process = Series.objects.filter(target=series.target_id, role="process_start")
    found: dict[tuple[str, int], int] = {}
    for one in (*process, *own):
        for replica, _, at, value in _samples(one, hour, as_of):
            found[replica, at] = round(value * 1_000_000)
    return found


def _samples(
    series: Series, hour: datetime, as_of: datetime
) -> Iterator[tuple[str, str, int, float]]:
    blocks = ReadingBlock.objects.filter(
        series=series, hour=hour, document__received_at__lte=as_of
    ).order_by("document_id", "part")
    for block in blocks:
        times, values = unpack(bytes(block.payload))
        for at, value in zip(times, values, strict=True):
            yield block.replica, block.document_id, at, value
