"""What is asked of a Prometheus-compatible store: which series lived, and their raw samples.

The HTTP API and nothing else: `/api/v1/series`, and `/api/v1/query` with a range selector or, of a
Prometheus, `/api/v1/read`, whose answers are the samples as they were scraped. `query_range` is
never asked: its values are stepped.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from finops.core.period import HOUR_MS, Period, milliseconds
from finops.sources.engines import bound_of, metrics_to_collect
from finops.sources.prometheus import readings
from finops.sources.records import Account, Refused, Rejection, SeriesReadings
from finops.sources.remote_read import Answers, request
from finops.sources.shards import WHOLE, Shard

from .access import FetchFailed
from .fetch import Door

MAX_SERIES_HOURS_A_QUERY: Final = 2_000
MAX_ALTERNATIVES: Final = 500

Selector = tuple[str, ...]
"""Matchers that together choose series, each in its plain spelling."""

logger = logging.getLogger(__name__)

_MATCHER: Final = re.compile(
    r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*")\s*'
)


@dataclass(slots=True)
class Gathered:
    """The answers of one window: samples inside it, and whether anything may be missing.

    `content` is the document of the samples, where it was made already.
    """

    series: list[SeriesReadings] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    content: bytes = b""

    @property
    def complete(self) -> bool:
        """Nothing warned, so what is not here was not in the store (method §2.8)."""
        return not self.warnings

    @property
    def readings(self) -> int:
        """How many samples."""
        return sum(len(one.times_ms) for one in self.series)


def checked_matchers(text: str) -> tuple[str, ...]:
    """Label matchers like `job="vllm",namespace=~"llm-.*"`, one by one, in their plain spelling.

    FetchFailed when they cannot be read, or select by `__name__`, which is ours to say.
    """
    found, at = [], 0
    while at < len(text.strip().rstrip(",")):
        match = _MATCHER.match(text, at)
        end = match.end() if match else at
        if match is None or (end < len(text) and text[end] != ","):
            raise FetchFailed(
                f'the matchers cannot be read from {text[at : at + 40]!r} on; write label="value", '
                'with = != =~ or !~, and commas between: job="vllm",namespace=~"llm-.*"'
            )
        if match[1] == "__name__":
            raise FetchFailed("the matchers choose labels; the metrics are chosen by Headroom")
        found.append(match[1] + match[2] + match[3])
        at = end + 1
    return tuple(found)


def live_series(
    door: Door, matchers: Sequence[str], period: Period, *, limit: int | None = None
) -> tuple[list[dict[str, str]], list[str]]:
    """The label sets of all series of ours that may have lived in the period, and warnings.

    A store answers by blocks, so a series may be named that has no sample in the period; dead
    pods' series are named like all others.
    """
    names = metrics_to_collect()
    bound = [name for name in names if bound_of(name)]
    free = _selector(_names(name for name in names if name not in bound), matchers)
    form = [
        ("match[]", free),
        *(("match[]", _selector(_names([name]), [*matchers, *_bound(name)])) for name in bound),
        ("start", _seconds(milliseconds(period.start))),
        ("end", _seconds(milliseconds(period.end) - 1)),
    ]
    if limit is not None:
        form.append(("limit", str(limit)))
    data, warnings, _ = _answer(door.post("/api/v1/series", form), door.base)
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise FetchFailed(f"{door.base}: the answer to /api/v1/series is no list of label sets")
    return [{str(k): str(v) for k, v in row.items()} for row in data], warnings


def gather(door: Door, matchers: Sequence[str], period: Period, shard: Shard = WHOLE) -> Gathered:
    """All raw samples of our metrics in `[start, end)`; FetchFailed when the store does not answer.

    By remote read where the store's gives the very series of its query API, else by queries. Of a
    shard only, where one is named.
    """
    series, warnings = live_series(door, matchers, period)
    hours = -(-(milliseconds(period.end) - milliseconds(period.start)) // HOUR_MS)
    most = MAX_SERIES_HOURS_A_QUERY // hours
    if shard.is_whole:
        selectors = list(_selectors(series, matchers, most))
    else:
        series = [row for row in series if shard.holds(row.get("instance", ""))]
        selectors = list(_of_instances(series, matchers, most))
    result = None
    if door.access.remote_read and not warnings:
        result = _gather_remotely(door, selectors, series, period)
    if result is None:
        result = _gather_by_queries(door, selectors, period)
        result.warnings = list(dict.fromkeys([*warnings, *result.warnings]))
    return result


def _gather_by_queries(door: Door, selectors: Sequence[Selector], period: Period) -> Gathered:
    """By instant queries with a range selector.

    The range is `(t − range, t]` from Prometheus 3 on and `[t − range, t]` before. Asked one
    millisecond before the end, both hold `[start, end)` whole; the one sample more that the older
    reading may bring is left out, so a window gives the same samples from either.
    """
    result = Gathered()
    start_ms, end_ms = milliseconds(period.start), milliseconds(period.end)
    forms = [
        [("query", f"{_text(one)}[{end_ms - start_ms}ms]"), ("time", _seconds(end_ms - 1))]
        for one in selectors
    ]
    for answer in _ahead([partial(door.post, "/api/v1/query", form) for form in forms]):
        _take(answer, door.base, result)
    result.series = [one for one in result.series if _inside(one, start_ms, end_ms)]
    return result


def _gather_remotely(
    door: Door,
    selectors: Sequence[Selector],
    series: Sequence[Mapping[str, str]],
    period: Period,
) -> Gathered | None:
    """The same by remote read; None where it fails, or names a series that the query API does not
    know: then its labels are not those of the series."""
    first_ms, last_ms = milliseconds(period.start), milliseconds(period.end) - 1
    answers = Answers()
    try:
        asked = [request(_plain(one), first_ms, last_ms) for one in selectors]
        for body in _ahead([partial(door.remote_read, one) for one in asked]):
            answers.add(body)
    except (FetchFailed, Refused, _NotPlain) as error:
        logger.info("%s: asked by queries, for remote read does not do: %s", door.base, error)
        return None
    known = set(map(_apart, series))
    for one in answers.series:
        if (one.metric, one.labels) not in known:
            logger.info("%s: asked by queries, for remote read adds labels", door.base)
            return None
    notes = [f"info: {name}: native histograms are not read" for name in sorted(answers.histograms)]
    return Gathered(answers.series, notes=notes)


def _apart(row: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Metric and other labels of a label set, as remote read's answers have them."""
    labels = dict(row)
    metric = labels.pop("__name__", "")
    return metric, tuple(sorted(labels.items()))


def _ahead(asking: Sequence[Callable[[], Any]]) -> Iterator[Any]:
    """The answers in order, the next one asked for while one is read: a store takes its time."""
    with ThreadPoolExecutor(1) as reader:
        asked = [reader.submit(ask) for ask in asking[:1]]
        for ask in asking[1:]:
            answer = asked.pop().result()
            asked.append(reader.submit(ask))
            yield answer
        for last in asked:
            yield last.result()


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


def _selectors(
    series: Iterable[Mapping[str, str]], matchers: Sequence[str], most: int
) -> Iterator[Selector]:
    """Selectors that together choose every metric once, each of at most so many series.

    One instance with more series of a metric than that is still asked for in one piece.
    """
    counts: dict[str, int] = defaultdict(int)
    instances: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in series:
        name = row.get("__name__", "")
        counts[name] += 1
        instances[name][row.get("instance", "")] += 1
    wanted = [name for name in metrics_to_collect() if counts[name]]
    small = [name for name in wanted if counts[name] <= most and not bound_of(name)]
    for shard in _shards({name: counts[name] for name in small}, most):
        yield (_names(shard), *matchers)
    for name in sorted(set(wanted) - set(small)):
        for shard in _shards(instances[name], most):
            yield (_names([name]), *matchers, *_bound(name), _instances(shard))


def _of_instances(
    series: Sequence[Mapping[str, str]], matchers: Sequence[str], most: int
) -> Iterator[Selector]:
    """Selectors that together choose every series of the instances at hand once, each of at most so
    many series; one instance with more than that is asked for in one piece."""
    held = {row.get("__name__", "") for row in series}
    wanted = [name for name in metrics_to_collect() if name in held]
    groups = [[name for name in wanted if not bound_of(name)]]
    groups += [[name] for name in wanted if bound_of(name)]
    for names in groups:
        counts = Counter(
            row.get("instance", "") for row in series if row.get("__name__", "") in names
        )
        for shard in _shards(counts, most):
            yield (_names(names), *matchers, *_bound(names[0]), _instances(shard))


def _instances(names: Iterable[str]) -> str:
    """The matcher of some instances; an empty name stands for series without one."""
    return f"instance=~{_quoted('|'.join(map(re.escape, names)))}"


def _shards(counts: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """The names in order, in groups of a bounded number of series."""
    shard: list[str] = []
    held = 0
    for name, count in sorted(counts.items()):
        full = held + count > most or len(shard) == MAX_ALTERNATIVES
        if shard and full:
            yield shard
            shard, held = [], 0
        shard.append(name)
        held += count
    if shard:
        yield shard


def _bound(metric: str) -> list[str]:
    """The matcher of a metric that is asked for by a label's values only."""
    bound = bound_of(metric)
    return [f"{bound[0]}=~{_quoted(bound[1])}"] if bound else []


def _names(metrics: Iterable[str]) -> str:
    return f"__name__=~{_quoted('|'.join(metrics))}"


def _selector(names: str, matchers: Sequence[str]) -> str:
    return _text((names, *matchers))


def _text(selector: Selector) -> str:
    return "{" + ",".join(selector) + "}"


class _NotPlain(Exception):
    """A matcher whose text only the store itself can read."""


def _plain(selector: Selector) -> list[tuple[str, str, str]]:
    """Label, sign and value of each matcher; _NotPlain where a value holds other escapes than
    `\\\\`, `\\"` and `\\n`."""
    found = []
    for text in selector:
        match = _MATCHER.fullmatch(text)
        if match is None or re.search(r"\\[^\\\"n]", match[3].replace("\\\\", "")):
            raise _NotPlain(text)
        value = re.sub(r"\\(.)", lambda sign: "\n" if sign[1] == "n" else sign[1], match[3][1:-1])
        found.append((match[1], match[2], value))
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _seconds(time_ms: int) -> str:
    """Milliseconds as seconds with three places, exactly."""
    return f"{time_ms // 1000}.{time_ms % 1000:03d}"


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
