"""Samples as text with timestamps: OpenMetrics (seconds, closed by `# EOF`) or the older text form
of Prometheus (milliseconds), as `promtool tsdb dump` and back-fill files hold them.

A live scrape carries no timestamps and is refused: without them a reading has no hour.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from finops.sources.files import text_lines
from finops.sources.records import Account, Parsed, Refused, Rejection, SeriesReadings
from finops.sources.samples import in_order

FORMATS: Final[tuple[str, ...]] = ("openmetrics",)

# Seconds of this century stay below, its milliseconds above: a file that mixes them up is told.
_BETWEEN_SECONDS_AND_MS: Final = 100_000_000_000
_NO_TIMES: Final = (
    "line {line}: a sample without a timestamp; this looks like a live scrape of /metrics. Give "
    "samples from Prometheus instead (/api/v1/query with a range selector, or promtool tsdb dump)"
)
_LABELS: Final = r'\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}'
_SAMPLE: Final = re.compile(
    # Possessive: a long run of blanks that leads nowhere is looked at once.
    rf"(?P<series>(?:[a-zA-Z_:][a-zA-Z0-9_:]*+)?+(?:[ \t]*+{_LABELS})?)[ \t]*+"
    r"(?P<value>[^\s#{]+)(?:[ \t]+(?P<time>[-+0-9.eE]+))?[ \t]*(?:#.*)?"
)
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_COMMENT: Final = re.compile(rb"# (HELP|TYPE|UNIT|EOF)\b")
_HEAD_SAMPLE: Final = re.compile(
    rb'(?:[a-zA-Z_:][a-zA-Z0-9_:]*)?(?:\{[^\n]*"\})?(?:[ \t]+[-+.\w]+){1,2}'
)
_DUMP: Final = re.compile(rb'\{__name__="')


@dataclass(slots=True)
class _Series:
    metric: str
    labels: tuple[tuple[str, str], ...]
    times: list[str] = field(default_factory=list)
    values: array[float] = field(default_factory=lambda: array("d"))


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the document starts as exposition text does."""
    first = next((line for line in head.split(b"\n") if line.strip()), b"")
    is_text = _COMMENT.match(first) or _DUMP.match(first)
    is_sample = _HEAD_SAMPLE.fullmatch(first.strip()) and b"{" in first and b'="' in first
    return FORMATS[0] if is_text or (is_sample and not first.startswith(b"{")) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """Readings by series; lines that cannot be read stand beside them as rejections.

    Refused for samples without timestamps, and for times whose unit contradicts the form.
    """
    account = Account(format)
    return Parsed(account, _records(account, path, name))


def _records(account: Account, path: Path, name: str) -> Iterator[SeriesReadings | Rejection]:
    series: dict[str, _Series] = {}
    closed = False
    for number, text in enumerate(text_lines(path, name), start=1):
        line = text.strip()
        if closed and line:
            raise Refused(f"{name}: line {number}: text after # EOF", line=number)
        closed = closed or line == "# EOF"
        if not line or line.startswith("#"):
            continue
        account.rows_read += 1
        fault = _take(line, series, number, name)
        if fault:
            yield Rejection.of(number, fault[0], line, fault[1])
    account.version = "OpenMetrics" if closed else "Prometheus text"
    for one in {id(one): one for one in series.values()}.values():
        yield from _readings(one, closed, name)


def _take(
    line: str, series: dict[str, _Series], number: int, name: str
) -> tuple[str | None, str] | None:
    """Add one sample to its series, or say in which part and why it cannot be read."""
    found = _SAMPLE.fullmatch(line)
    if not found:
        return None, "not a sample: NAME{LABELS} VALUE TIME"
    if found.group("time") is None:
        raise Refused(f"{name}: {_NO_TIMES.format(line=number)}", line=number)
    key = found.group("series").strip()
    try:
        one = series.get(key) or _same_series(key, series)
        value = _float(found.group("value"))
        _float(found.group("time"))
    except ValueError as error:
        return key[:80], str(error)
    one.times.append(found.group("time"))
    one.values.append(value)
    return None


def _same_series(key: str, series: dict[str, _Series]) -> _Series:
    """The series of a spelling not met before; other spellings of the same labels share it."""
    new = _series(key)
    for known in (f"{new.metric} {new.labels}", key):
        new = series.setdefault(known, new)
    return new


def _series(key: str) -> _Series:
    metric, brace, rest = key.partition("{")
    metric, labels = metric.strip(), {}
    at, inside = 0, rest[:-1] if brace else ""
    while at < len(inside.rstrip()):
        found = _LABEL.match(inside, at)
        if not found:
            raise ValueError("labels that cannot be read")
        if found.group(1) in labels:
            raise ValueError(f"the label {found.group(1)} stands twice")
        labels[found.group(1)] = _ESCAPE.sub(_unescaped, found.group(2))
        at = found.end()
    metric = labels.pop("__name__", metric)
    if not metric:
        raise ValueError("a series without a metric name")
    return _Series(metric, tuple(sorted(labels.items())))


def _unescaped(found: re.Match[str]) -> str:
    sign = found.group(1)
    return "\n" if sign == "n" else sign if sign in '"\\' else found.group(0)


def _float(text: str) -> float:
    if "_" in text or not text.isascii():  # float reads the digits of every script
        raise ValueError("not a number")
    try:
        return float(text)
    except ValueError:
        raise ValueError("not a number") from None


def _readings(one: _Series, in_seconds: bool, name: str) -> Iterator[SeriesReadings]:
    """The series with its times in milliseconds, which only the end of the file could tell."""
    if not one.times:
        return
    times_ms: array[int] = array("q")
    for text in one.times:
        value = float(text)
        _refuse_wrong_unit(value, in_seconds, f"{name}: {one.metric}: time {text}")
        times_ms.append(round(value * 1000) if in_seconds else int(value))
    ordered = in_order(times_ms, one.values)
    yield SeriesReadings(one.metric, one.labels, *ordered)


def _refuse_wrong_unit(value: float, in_seconds: bool, where: str) -> None:
    if not math.isfinite(value) or abs(value) >= _BETWEEN_SECONDS_AND_MS * 10_000:
        raise Refused(f"{where} is no time")
    if in_seconds and abs(value) >= _BETWEEN_SECONDS_AND_MS:
        raise Refused(f"{where} looks like milliseconds; OpenMetrics (# EOF) writes seconds")
    if not in_seconds and (0 < abs(value) < _BETWEEN_SECONDS_AND_MS or value % 1):
        raise Refused(
            f"{where} looks like seconds; a file in seconds is OpenMetrics and ends with # EOF "
            "(is the file cut off?)"
        )
