"""Saved answers of Prometheus with raw samples (method §2), and VictoriaMetrics exports.

Taken: the answer of `/api/v1/query` with a range selector (`m{…}[1h]`), alone, in a list or one a
line; instant answers (one sample a series); lines of `/api/v1/export`. Answers of `query_range` are
stepped values, not samples, and are refused where they can be recognised.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import orjson

from finops.sources.files import open_plain, without_marks
from finops.sources.records import Account, Parsed, Refused, Rejection, SeriesReadings
from finops.sources.samples import in_order

FORMATS: Final[tuple[str, ...]] = ("prometheus-json",)
MAX_JSON_BYTES: Final = 256 * 1024 * 1024
MAX_TIME_S: Final = 253_402_300_800  # the year 10000
MIN_STEPPED_SAMPLES: Final = 3
MAX_WARNINGS: Final = 100
MAX_WARNING_CHARACTERS: Final = 1000

_ANSWER: Final = re.compile(rb'\s*[\[{].*?("resultType"\s*:|"errorType"\s*:)', re.DOTALL)
_SERIES: Final = re.compile(rb'[\s\[]*\{\s*"metric"\s*:\s*\{.*?\}\s*,\s*"values?"\s*:', re.DOTALL)
_STEPPED: Final = (
    "these are stepped values of query_range, not samples: {targets} targets share every "
    "timestamp, {step} s apart. Ask /api/v1/query with a range selector, such as metric[1h]"
)

_Record = SeriesReadings | Rejection


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the document looks like an answer or an export of raw samples."""
    return FORMATS[0] if _ANSWER.match(head) or _SERIES.match(head) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """Readings by series; warnings of the server mark the account incomplete (method §2.8).

    Refused for a failed answer, stepped values, an answer that is no matrix or vector, or JSON
    that cannot be read. `rows_read` counts samples, and each series that has no name.
    """
    account = Account(format)
    return Parsed(account, _records(account, _documents(path, name), name))


def readings(answer: Any, account: Account, name: str) -> Iterator[_Record]:
    """The records of one answer that a collector asked for itself, so known to be raw samples.

    As `parse`, but without the look for stepped values: readings that were loaded from a file may
    rightly share their times.
    """
    for index, row in enumerate(_rows(answer, account, name), 1):
        yield from _series(row, index, account)


def _documents(path: Path, name: str) -> Iterator[Any]:
    """The JSON values of a file: one that fills it, or one a line."""
    with open_plain(path, name) as stream:
        first = without_marks(_bounded_line(stream, name, 1))
        if not first:
            raise Refused(f"{name}: the file is empty")
        whole = _value_or_none(first)
        if whole is None:
            yield _value(first + _rest(stream, name, len(first)), name, 1)
            return
        yield whole
        number = 1
        while line := _bounded_line(stream, name, number + 1):
            number += 1
            if line.strip():
                yield _value(line, name, number)


def _bounded_line(stream: BufferedReader, name: str, number: int) -> bytes:
    line = stream.readline(MAX_JSON_BYTES + 1)
    if len(line) > MAX_JSON_BYTES:
        raise Refused(
            f"{name}: line {number}: one answer of more than {MAX_JSON_BYTES} bytes", line=number
        )
    return line


def _rest(stream: BufferedReader, name: str, already: int) -> bytes:
    rest = stream.read(MAX_JSON_BYTES + 1 - already)
    if already + len(rest) > MAX_JSON_BYTES:
        raise Refused(f"{name}: one answer of more than {MAX_JSON_BYTES} bytes; ask by the hour")
    return rest


def _value_or_none(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _value(text: bytes, name: str, line: int) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        at = line + error.lineno - 1
        told = f"line {at}, column {error.colno}: not readable as JSON ({error.msg})"
        raise Refused(f"{name}: {told}", line=at) from None


def _records(account: Account, documents: Iterable[Any], name: str) -> Iterator[_Record]:
    """Every series of every answer, numbered through the document."""
    index = 0
    for document in documents:
        for answer in _answers(document):
            rows = _rows(answer, account, name)
            _refuse_stepped(rows, name)
            for row in rows:
                index += 1
                yield from _series(row, index, account)


def _answers(document: Any) -> Iterable[Any]:
    """The answers in one JSON value; a bare list of series counts as one answer."""
    if not isinstance(document, list):
        return (document,)
    if document and all(isinstance(item, dict) and "metric" in item for item in document):
        return ({"result": document},)
    return document


def _rows(answer: Any, account: Account, name: str) -> list[Any]:
    """The series of one answer, its warnings noted; Refused for a failure."""
    if not isinstance(answer, dict):
        raise Refused(f"{name}: an answer must be a JSON object, this is {_shown(answer)}")
    if "metric" in answer:
        return [answer]
    _note_warnings(answer, account)
    if answer.get("status", "success") != "success":
        what = ": ".join(str(answer[key]) for key in ("errorType", "error") if answer.get(key))
        raise Refused(f"{name}: the server answered with an error ({what or 'not said'})")
    data = answer.get("data", answer)
    rows = data.get("result") if isinstance(data, dict) else None
    kind = data.get("resultType", "matrix") if isinstance(data, dict) else None
    if kind not in ("matrix", "vector") or not isinstance(rows, list):
        raise Refused(f"{name}: resultType {_shown(kind)} holds no samples; a matrix is needed")
    return rows


def _note_warnings(answer: Mapping[str, Any], account: Account) -> None:
    """A warning, or a partial answer, leaves the fetch incomplete; an info does not."""
    warnings = _texts(answer.get("warnings"))
    if answer.get("isPartial") is True:
        warnings.append("the server marks its answer as partial")
    account.incomplete = account.incomplete or bool(warnings)
    account.warnings += warnings
    account.warnings += [f"info: {text}" for text in _texts(answer.get("infos"))]


def _texts(value: object) -> list[str]:
    """A list of messages as the API gives it; anything else that is there is one message."""
    found = value if isinstance(value, list) else [value] if value else []
    return [str(text)[:MAX_WARNING_CHARACTERS] for text in found[:MAX_WARNINGS]]


def _refuse_stepped(rows: list[Any], name: str) -> None:
    """Refuse the answer when several targets share one grid of times (contract of the format).

    Scrapes of different targets fall on different milliseconds; a grid that all of them share,
    with one constant step, was made by the server. A single target cannot be told.
    """
    grids: dict[str, list[float]] = {}
    for row in rows:
        target = row["metric"].get("instance") if _has_samples(row) else None
        known = grids.get(str(target), ())
        # Most series of a target are as long as its longest: their times need not be looked at.
        if target is not None and len(row["values"]) >= max(MIN_STEPPED_SAMPLES, len(known) + 1):
            times = [pair[0] for pair in row["values"] if _is_time(pair)]
            if len(times) > len(known):
                grids[str(target)] = times
    step = _shared_step(list(grids.values()))
    if step is not None:
        raise Refused(f"{name}: {_STEPPED.format(targets=len(grids), step=step)}")


def _has_samples(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("metric"), dict)
        and isinstance(row.get("values"), list)
    )


def _is_time(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in (int, float)


def _shared_step(grids: list[list[float]]) -> float | None:
    """The step of the longest grid when it is constant and holds every time of all others."""
    if len(grids) < 2:
        return None
    longest = max(grids, key=len)
    if len(longest) < MIN_STEPPED_SAMPLES:
        return None
    steps = {round((b - a) * 1000) for a, b in pairwise(longest)}
    smallest = min(steps)
    if smallest <= 0 or any(step % smallest for step in steps):
        return None
    held = set(longest)
    return smallest / 1000 if all(held.issuperset(grid) for grid in grids) else None


def _series(row: Any, index: int, account: Account) -> Iterator[_Record]:
    """One series' readings; samples that cannot be read stand beside it as rejections."""
    if not isinstance(row, dict) or not isinstance(row.get("metric"), dict):
        account.rows_read += 1
        yield Rejection.of(index, None, _shown(row), "not a series: it has no labels")
        return
    labels = {str(key): str(value) for key, value in row["metric"].items()}
    metric = labels.pop("__name__", "")
    if not metric:
        account.rows_read += 1
        reason = "a series without a metric name is the answer of a function, not raw samples"
        yield Rejection.of(index, "__name__", row["metric"], reason)
        return
    if "histogram" in row or "histograms" in row:
        account.warnings.append(f"{metric}: native histograms are not read")
    pairs, broken = _pairs(row)
    account.rows_read += len(pairs)
    if broken:
        account.rows_read += 1
        yield Rejection.of(index, metric, _shown(row), broken)
    columns = _quick_columns(pairs)
    if columns is None:
        columns, bad = _careful_columns(pairs)
        for value, reason in bad:
            yield Rejection.of(index, metric, value, reason)
    if columns[0]:
        times_ms, values = in_order(*columns)
        yield SeriesReadings(metric, tuple(sorted(labels.items())), times_ms, values)


def _pairs(row: Mapping[str, Any]) -> tuple[list[Any], str | None]:
    """The [time in seconds, value] pairs of a series, whichever of three spellings it has."""
    if "timestamps" in row:
        times, values = row["timestamps"], row.get("values")
        if not isinstance(times, list) or not isinstance(values, list):
            return [], "an export line needs the lists values and timestamps"
        if len(times) != len(values):
            return [], f"{len(times)} timestamps stand against {len(values)} values"
        return [
            [_seconds(time), _as_text(value)] for time, value in zip(times, values, strict=True)
        ], None
    values = row.get("values", [row["value"]] if "value" in row else [])
    return (values, None) if isinstance(values, list) else ([], "values is not a list")


def _seconds(milliseconds: object) -> object:
    return milliseconds / 1000 if type(milliseconds) in (int, float) else milliseconds  # type: ignore[operator]


def _as_text(value: object) -> object:
    """Exports write numbers bare, and `null` for what is not a number."""
    if value is None:
        return "NaN"
    return repr(value) if type(value) in (int, float) else value


def _quick_columns(pairs: list[Any]) -> tuple[array[int], array[float]] | None:
    """Both columns when every sample is as it should be, else None."""
    try:
        times, texts = zip(*pairs, strict=True) if pairs else ((), ())
        joined = "".join(texts)
        if "_" in joined or not joined.isascii() or not set(map(type, times)) <= {int, float}:
            return None
        times_ms = _milliseconds(times)
        return None if times_ms is None else (times_ms, array("d", map(float, texts)))
    except (TypeError, ValueError, OverflowError):
        return None


@lru_cache(maxsize=4096)
def _milliseconds(times_s: tuple[float, ...]) -> array[int] | None:
    """Times in milliseconds, None for one off every calendar. The counters of one target share
    their times, and so their column; nobody changes it."""
    if times_s and not -MAX_TIME_S < min(times_s) <= max(times_s) < MAX_TIME_S:
        return None
    return array("q", [round(time * 1000) for time in times_s])


def _careful_columns(
    pairs: list[Any],
) -> tuple[tuple[array[int], array[float]], list[tuple[str, str]]]:
    """Columns of the samples that can be read, and value and reason of those that cannot."""
    times_ms, values = array("q"), array("d")
    bad: list[tuple[str, str]] = []
    for pair in pairs:
        reason = _fault(pair)
        if reason:
            bad.append((_shown(pair), reason))
            continue
        times_ms.append(round(pair[0] * 1000))
        values.append(float(pair[1]))
    return (times_ms, values), bad


def _fault(pair: Any) -> str | None:
    """Why a sample cannot be taken, or None."""
    if not isinstance(pair, list) or len(pair) != 2:
        return "a sample must be [time, value]"
    time, text = pair
    if type(time) not in (int, float) or not math.isfinite(time) or abs(time) >= MAX_TIME_S:
        return "the time of a sample must be a number of seconds"
    if not isinstance(text, str) or "_" in text or not text.isascii():
        return "the value of a sample must be a number written as text"
    try:
        float(text)
    except ValueError:
        return "the value of a sample must be a number"
    return None


def _shown(value: object) -> str:
    """A value as short text for a message; large ones are named by their kind alone."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list) and len(value) > 2:
        return "a list"
    return str(value)[:80]
