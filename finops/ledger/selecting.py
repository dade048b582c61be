"""Selectors: how the series of a store are chosen, and its matchers read and written."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from finops.sources.engines import bound_of, bounds_of, metrics_to_collect

from .access import FetchFailed

MAX_ALTERNATIVES: Final = 500

Selector = tuple[str, ...]
"""Matchers that together choose series, each in its plain spelling."""

_MATCHER: Final = re.compile(
    r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*")\s*'
)


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


def selectors_of(
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
        yield (names_matcher(shard), *matchers)
    for name in sorted(set(wanted) - set(small)):
        for shard in _shards(instances[name], most):
            for own in alternatives_of(name):
                yield (names_matcher([name]), *matchers, *own, _instances(shard))


def selectors_of_instances(
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
            for own in alternatives_of(names[0]):
                yield (names_matcher(names), *matchers, *own, _instances(shard))


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


def alternatives_of(metric: str) -> list[list[str]]:
    """The matchers by which a metric is asked for: of one that is asked for by a label's values only,
    that label's; of one with several such labels a selection for each, no series in two of them."""
    found: list[list[str]] = []
    others: list[str] = []
    for label, pattern in bounds_of(metric):
        found.append([f"{label}=~{_quoted(pattern)}", *others])
        others.append(equals(label, ""))
    return found or [[]]


def names_matcher(metrics: Iterable[str]) -> str:
    """The matcher of some metrics."""
    return f"__name__=~{_quoted('|'.join(metrics))}"


def equals(label: str, value: str) -> str:
    """The matcher of one value of a label."""
    return f"{label}={_quoted(value)}"


def text_of(selector: Iterable[str]) -> str:
    """The selector as the query language has it."""
    return "{" + ",".join(selector) + "}"


class NotPlain(Exception):
    """A matcher whose text only the store itself can read."""


def plain(selector: Selector) -> list[tuple[str, str, str]]:
    """Label, sign and value of each matcher; NotPlain where a value holds other escapes than
    `\\\\`, `\\"` and `\\n`."""
    found = []
    for text in selector:
        match = _MATCHER.fullmatch(text)
        if match is None or re.search(r"\\[^\\\"n]", match[3].replace("\\\\", "")):
            raise NotPlain(text)
        value = re.sub(r"\\(.)", lambda sign: "\n" if sign[1] == "n" else sign[1], match[3][1:-1])
        found.append((match[1], match[2], value))
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def seconds_of(time_ms: int) -> str:
    """Milliseconds as a query's seconds with three places, exactly."""
    return f"{time_ms // 1000}.{time_ms % 1000:03d}"
