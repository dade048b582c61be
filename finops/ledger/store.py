"""What is asked of a Prometheus-compatible store: which series lived, and their raw samples.

The HTTP API and nothing else: `/api/v1/series` and `/api/v1/query` with a range selector, whose
answer is the samples as they were scraped. `query_range` is never asked: its values are stepped.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from finops.core.period import HOUR_MS, Period, milliseconds
from finops.sources.engines import bound_of, metrics_to_collect
from finops.sources.prometheus import readings
from finops.sources.records import Account, Refused, Rejection, SeriesReadings

from .access import FetchFailed
from .fetch import Door

MAX_SERIES_HOURS_A_QUERY: Final = 2_000
MAX_ALTERNATIVES: Final = 500

_MATCHER: Final = re.compile(
    r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*")\s*'
)


@dataclass(slots=True)
class Gathered:
    """The answers of one window: samples inside it, and whether anything may be missing."""

    series: list[SeriesReadings] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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


def gather(door: Door, matchers: Sequence[str], period: Period) -> Gathered:
    """All raw samples of our metrics in `[start, end)`; FetchFailed when the store does not answer.

    A range selector is `(t − range, t]` from Prometheus 3 on and `[t − range, t]` before. Asked one
    millisecond before the end, both hold `[start, end)` whole; the one sample more that the older
    reading may bring is left out, so a window gives the same samples from either.
    """
    result = Gathered()
    series, warnings = live_series(door, matchers, period)
    result.warnings += warnings
    start_ms, end_ms = milliseconds(period.start), milliseconds(period.end)
    hours = -(-(end_ms - start_ms) // HOUR_MS)
    forms = [
        [("query", f"{selector}[{end_ms - start_ms}ms]"), ("time", _seconds(end_ms - 1))]
        for selector in _selectors(series, matchers, MAX_SERIES_HOURS_A_QUERY // hours)
    ]
    for answer in _ahead(door, forms):
        _take(answer, door.base, result)
    result.series = [one for one in result.series if _inside(one, start_ms, end_ms)]
    result.warnings = list(dict.fromkeys(result.warnings))
    return result


def _ahead(door: Door, forms: Sequence[list[tuple[str, str]]]) -> Iterator[Any]:
    """The answers in order, the next one asked for while one is read: a store takes its time."""
    with ThreadPoolExecutor(1) as reader:
        asked = [reader.submit(door.post, "/api/v1/query", form) for form in forms[:1]]
        for form in forms[1:]:
            answer = asked.pop().result()
            asked.append(reader.submit(door.post, "/api/v1/query", form))
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
) -> Iterator[str]:
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
        yield _selector(_names(shard), matchers)
    for name in sorted(set(wanted) - set(small)):
        for shard in _shards(instances[name], most):
            part = f"instance=~{_quoted('|'.join(map(re.escape, shard)))}"
            yield _selector(_names([name]), [*matchers, *_bound(name), part])


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
    return "{" + ",".join((names, *matchers)) + "}"


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
