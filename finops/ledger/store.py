"""What is asked of a Prometheus-compatible store: which series lived, and their raw samples.

The HTTP API and nothing else: `/api/v1/series`, and `/api/v1/query` with a range selector or, of a
Prometheus, `/api/v1/read`, whose answers are the samples as they were scraped. `query_range` is
never asked: its values are stepped.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, Final

import orjson

from finops.core.period import HOUR_MS, Period, instant_of, milliseconds, rfc3339
from finops.sources.engines import bound_of, metrics_to_collect
from finops.sources.prometheus import readings
from finops.sources.records import Account, Refused, Rejection, SeriesReadings
from finops.sources.remote_read import Answers, request
from finops.sources.shards import WHOLE, Shard

from .access import FetchFailed
from .ahead import Ahead, Closed, in_order
from .fetch import REQUESTS_AT_ONCE, Door
from .listing import Listing, listings
from .quiet import Quiet, reaches_into
from .selecting import (
    NotPlain,
    Selector,
    alternatives_of,
    names_matcher,
    plain,
    seconds_of,
    text_of,
)

MAX_SERIES_HOURS_A_QUERY: Final = 2_000
MAX_SERIES_HOURS_OF_JSON: Final = 1_000
"""The same of queries, whose answers are JSON: as objects a sample takes far more memory."""
AHEAD_BYTES: Final = 16 << 20
"""How much of a window's answers, packed as they came, waits for the window before to be read."""
_SERIES: Final = "/api/v1/series"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Gathered:
    """The answers of one window: samples inside it, and whether anything may be missing.

    `content` is the document of the samples, where it was made already; `names_nothing` is whether the
    store named no series of ours at all, `up` included; `quiet` are the hours without any sample.
    """

    series: list[SeriesReadings] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    content: bytes = b""
    names_nothing: bool = False
    quiet: list[Quiet] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Nothing warned, so what is not here was not in the store (method §2.8)."""
        return not self.warnings

    @property
    def readings(self) -> int:
        """How many samples."""
        return sum(len(one.times_ms) for one in self.series)


def live_series(
    door: Door, matchers: Sequence[str], period: Period, *, limit: int | None = None
) -> tuple[list[dict[str, str]], list[str]]:
    """The label sets of all series of ours that may have lived in the period, and warnings.

    A store answers by blocks, so a series may be named that has no sample in the period; dead
    pods' series are named like all others.
    """
    form = _series_form(matchers, period)
    if limit is not None:
        form.append(("limit", str(limit)))
    return _rows(door.post(_SERIES, form), door.base)


def _series_form(matchers: Sequence[str], period: Period) -> list[tuple[str, str]]:
    names = metrics_to_collect()
    bound = [name for name in names if bound_of(name)]
    free = names_matcher(name for name in names if name not in bound)
    return [
        ("match[]", text_of((free, *matchers))),
        *(
            ("match[]", text_of((names_matcher([name]), *matchers, *own)))
            for name in bound
            for own in alternatives_of(name)
        ),
        ("start", seconds_of(milliseconds(period.start))),
        ("end", seconds_of(milliseconds(period.end) - 1)),
    ]


def _rows(answer: Any, base: str) -> tuple[list[dict[str, str]], list[str]]:
    """The label sets of an answer to /api/v1/series, and its warnings."""
    data, warnings, _ = _answer(answer, base)
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise FetchFailed(f"{base}: the answer to /api/v1/series is no list of label sets")
    return [{str(k): str(v) for k, v in row.items()} for row in data], warnings


def _listing(door: Door, matchers: Sequence[str], period: Period, shard: Shard) -> Listing:
    """The series of a window, or of a shard of it, and how they are asked for. Where shards of one
    window come one after the other, the store is asked once, unless it warned."""
    hours = -(-(milliseconds(period.end) - milliseconds(period.start)) // HOUR_MS)
    most = MAX_SERIES_HOURS_A_QUERY
    if door.without_remote_read:
        most = min(most, MAX_SERIES_HOURS_OF_JSON)
    read = partial(
        _read_listings,
        base=door.base,
        matchers=tuple(matchers),
        most=most // hours,
        count=shard.count,
    )
    form = _series_form(matchers, period)
    asked = (shard.count, *form)
    if door.listed is None or door.listed[0] != asked:
        door.listed = asked, door.post(_SERIES, form, read)
    found: Listing = door.listed[1][shard.number - 1]
    if shard.is_whole or found.warnings:
        door.listed = None
    return found


@lru_cache(maxsize=2)
def _read_listings(
    body: bytes, *, base: str, matchers: tuple[str, ...], most: int, count: int
) -> list[Listing]:
    """What an answer to /api/v1/series says, by shard; hour after hour it is the same."""
    rows, warnings = _rows(orjson.loads(body), base)
    return listings(body, rows, warnings, matchers, most, count)


def asked_ahead() -> Ahead:
    """Where the answers to one window's requests wait: see `ask`."""
    return Ahead(AHEAD_BYTES)


def ask(
    door: Door, matchers: Sequence[str], period: Period, answers: Ahead, shard: Shard = WHOLE
) -> None:
    """Asks for a window, for `gather` to read in another thread: its listing, then what remote read
    answers where the store is asked by that. What fails is raised there."""
    try:
        listing = _listing(door, matchers, period, shard)
        is_remote = not door.without_remote_read and not listing.warnings
        answers.put((listing, is_remote))
        if is_remote:
            first_ms, last_ms = milliseconds(period.start), milliseconds(period.end) - 1
            asking = [
                partial(_remote_read, door, request(plain(one), first_ms, last_ms))
                for one in listing.selectors
            ]
            for packed in in_order(asking, REQUESTS_AT_ONCE):
                answers.put(packed, len(packed))
        answers.end()
    except Closed:
        pass
    except BaseException as error:  # noqa: BLE001 - raised where the answers are read
        answers.end(error)


def _remote_read(door: Door, request: bytes) -> bytes:
    """An answer as it came. Where it fails, windows after this one are asked for by queries at once."""
    try:
        if door.without_remote_read:
            raise FetchFailed(f"{door.base}: remote read failed before")
        return door.remote_read_packed(request)
    except FetchFailed:
        door.without_remote_read = True
        raise


def gather(
    door: Door,
    matchers: Sequence[str],
    period: Period,
    shard: Shard = WHOLE,
    answers: Ahead | None = None,
) -> Gathered:
    """All raw samples of our metrics in `[start, end)`; FetchFailed when the store does not answer.

    By remote read where the store's gives the very series of its query API, else by queries. Of a
    shard only, where one is named. `answers` are those of a window that was asked for already.
    """
    if answers is None:
        with _asking(door, matchers, period, shard) as answers:
            return gather(door, matchers, period, shard, answers)
    try:
        coming = iter(answers)
        listing: Listing
        listing, is_remote = next(coming)
        result = _gather_remotely(door, listing, coming, period) if is_remote else None
    finally:
        answers.close()  # of a reading that was given up, no more is asked for
    if result is None:
        result = _gather_by_queries(door, listing.selectors, period)
        result.warnings = list(dict.fromkeys([*listing.warnings, *result.warnings]))
    result.names_nothing = listing.is_empty
    return result


@contextmanager
def _asking(door: Door, matchers: Sequence[str], period: Period, shard: Shard) -> Iterator[Ahead]:
    """A window's answers, asked for while they are read."""
    answers = asked_ahead()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(ask, door, matchers, period, answers, shard)
        yield answers  # `gather` closes them, so that the thread comes to its end


def _gather_by_queries(door: Door, selectors: Sequence[Selector], period: Period) -> Gathered:
    """By instant queries with a range selector.

    The range is `(t − range, t]` from Prometheus 3 on and `[t − range, t]` before. Asked one
    millisecond before the end, both hold `[start, end)` whole; the one sample more that the older
    reading may bring is left out, so a window gives the same samples from either.
    """
    result = Gathered()
    start_ms, end_ms = milliseconds(period.start), milliseconds(period.end)
    forms = [
        [("query", f"{text_of(one)}[{end_ms - start_ms}ms]"), ("time", seconds_of(end_ms - 1))]
        for one in selectors
    ]
    for answer in in_order([partial(door.post, "/api/v1/query", form) for form in forms], 1):
        _take(answer, door.base, result)
    # The older reading of a range brings one sample from just before the window, and no other.
    if result.series and not any(
        reaches_into(one.times_ms, start_ms - 1, end_ms) for one in result.series
    ):
        times = [
            time_ms for one in result.series for time_ms in (one.times_ms[0], one.times_ms[-1])
        ]
        raise FetchFailed(
            f"{door.base}: asked for {rfc3339(period.start)} to {rfc3339(period.end)}, it answered "
            f"with samples from {rfc3339(instant_of(min(times)))} to {rfc3339(instant_of(max(times)))}"
        )
    result.series = [one for one in result.series if _inside(one, start_ms, end_ms)]
    return result


def _gather_remotely(
    door: Door, listing: Listing, coming: Iterable[bytes], period: Period
) -> Gathered | None:
    """The same by remote read; None where it fails, holds nothing of the series that the store named, or
    names one that the query API does not know: then its labels are not those of the series. Samples
    beyond the window, which a store may answer by the block, are left out."""
    answers, place = Answers(), bytearray()
    try:
        for packed in coming:
            answers.add(door.unpacked(packed, place))
    except (FetchFailed, Refused, NotPlain) as error:
        logger.info("%s: asked by queries, for remote read does not do: %s", door.base, error)
        door.without_remote_read = True
        return None
    if not listing.knows(answers.series):
        logger.info("%s: asked by queries, for remote read adds labels", door.base)
        door.without_remote_read = True
        return None
    start_ms, end_ms = milliseconds(period.start), milliseconds(period.end)
    if listing.selectors and not any(
        reaches_into(one.times_ms, start_ms, end_ms) for one in answers.series
    ):  # nothing, or another time: the query API must say so as well
        logger.info("%s: asked by queries, for remote read tells nothing of the time", door.base)
        return None
    series = [one for one in answers.series if _inside(one, start_ms, end_ms)]
    notes = [f"info: {name}: native histograms are not read" for name in sorted(answers.histograms)]
    return Gathered(series, notes=notes)


def earliest(door: Door, matchers: Sequence[str], period: Period) -> Period | None:
    """The part of the period from the first hour with series of ours on; None when there are none.

    Found by asking for one series a day, then an hour: a store does not tell how far it reaches.
    """
    for step in (timedelta(days=1), timedelta(hours=1)):
        at = period.start
        while not live_series(door, matchers, Period(at, min(at + step, period.end)), limit=1)[0]:
            at += step
            if at >= period.end:
                return None
        period = Period(at, period.end)
    return period


def version(door: Door) -> str | None:
    """The store's own version; None from a store that does not tell."""
    try:
        data, _, _ = _answer(door.get("/api/v1/status/buildinfo"), door.base)
    except FetchFailed:
        return None
    return str(data.get("version", "")) or None if isinstance(data, dict) else None


def _answer(answer: Any, base: str) -> tuple[Any, list[str], list[str]]:
    """The data of a good answer, its warnings and its notes; FetchFailed for every other."""
    if not isinstance(answer, dict) or answer.get("status") != "success" or "data" not in answer:
        words = answer.get("error") if isinstance(answer, dict) else None
        raise FetchFailed(f"{base}: the answer is not one of Prometheus's API{_said(words)}")
    warnings = [str(text)[:500] for text in answer.get("warnings") or ()]
    if answer.get("isPartial") is True:
        warnings.append("the store marks its answer as partial")
    return answer["data"], warnings, [str(text)[:500] for text in answer.get("infos") or ()]


def _said(words: object) -> str:
    return f" ({str(words)[:300]})" if words else ""


def _take(answer: Any, base: str, result: Gathered) -> None:
    """The samples of one answer. One that cannot be read fails the fetch: it is not the API's."""
    _, warnings, notes = _answer(answer, base)
    result.warnings += warnings
    result.notes += notes
    account = Account("prometheus-json")
    try:
        for record in readings(answer, account, base):
            if isinstance(record, Rejection):
                raise FetchFailed(
                    f"{base}: series {record.line} of an answer: {record.reason} ({record.value})"
                )
            result.series.append(record)
    except Refused as error:
        raise FetchFailed(str(error)) from None


def _inside(one: SeriesReadings, start_ms: int, end_ms: int) -> bool:
    """Cut the readings, which stand in order of time, to the window; False when none is left."""
    first, last = bisect_left(one.times_ms, start_ms), bisect_left(one.times_ms, end_ms)
    if first == 0 and last == len(one.times_ms):
        return bool(last)  # the column stays shared with the target's other series
    one.times_ms, one.values = one.times_ms[first:last], one.values[first:last]
    return bool(one.times_ms)
