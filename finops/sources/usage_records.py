"""Usage as gateways and applications log it, one request a line (method §6): JSON lines or CSV.

The spellings of OpenAI (cached tokens are a part of the prompt), of Anthropic and Bedrock (cache
reads and writes stand outside the input) are told apart by their keys. Of other fields only a few
labels are kept: never prompts, keys or addresses.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import orjson

from finops.sources.cells import instant, text_or_none
from finops.sources.files import csv_rows, read_head, text_lines
from finops.sources.records import Account, Parsed, Refused, Rejection, UsageRecord

FORMATS: Final[tuple[str, ...]] = ("usage-records",)
LABELS: Final = ("app", "cluster", "deployment", "host", "namespace", "pod", "service", "team")
QUALITIES: Final = {
    "measured": "measured",
    "re-tokenised": "re-tokenised",
    "re-tokenized": "re-tokenised",
    "retokenised": "re-tokenised",
    "retokenized": "re-tokenised",
    "estimated": "estimated",
}
MAX_TOKENS: Final = 1 << 53
MAX_CHOICES: Final = 1 << 10

# In falling order: a request's tokens belong to the moment it ended.
TIMES: Final = (
    "ts_end", "end_time", "endTime", "completed_at", "timestamp", "ts", "time", "created",
    "created_at",
)  # fmt: skip
MODELS: Final = ("model", "model_name", "model_id", "base_model_name")
REQUESTS: Final = ("id", "request_id", "requestId")

_PROMPT: Final = ("prompt_tokens",)
_INPUT: Final = ("input_tokens", "inputTokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens", "outputTokens", "generation_tokens")
_READ: Final = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITE: Final = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_CACHED: Final = ("cached_tokens", "cached_prompt_tokens")
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")
_ACCOUNTED: Final = frozenset((*_PROMPT, *_INPUT, *_OUTPUT, *_READ, *_WRITE, *_CACHED, "n"))
_TOKEN_KEYS: Final = frozenset((*_PROMPT, *_INPUT, *_OUTPUT))
KEYS: Final = frozenset(
    (*TIMES, *MODELS, *REQUESTS, *LABELS, *_ACCOUNTED, "total_tokens", "quality", "usage_is_final")
)
"""Every key that is read of a record; what else a record holds is passed over."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS_FROM: Final = 100_000_000_000
_LAST_S: Final = 7_258_118_400  # the year 2200


class Fault(Exception):
    """Why a line is no usage record: column, value, reason. Never seen outside the parsers."""

    def __init__(self, column: str | None, value: object, reason: str) -> None:
        super().__init__(reason)
        self.column, self.value, self.reason = column, value, reason


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the first line is a JSON object or a CSV header of token usage."""
    first = next((line for line in head.split(b"\n") if line.strip()), b"")
    if first.lstrip().startswith(b"{"):
        keys = _json_keys(first)
    else:
        keys = set(_short_names(_csv_header(first)))
    has_usage = "usage" in keys or bool(keys & _TOKEN_KEYS)
    return FORMATS[0] if has_usage and keys & {*TIMES} else None


def _json_keys(line: bytes) -> set[str]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return set()
    return set(value) if isinstance(value, dict) else set()


def _csv_header(line: bytes) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(line.decode("utf-8", "replace"))), [])
    except csv.Error:
        return []


def _short_names(header: Iterable[str]) -> list[str]:
    """The keys of a CSV header; `usage.prompt_tokens` is the same as `prompt_tokens`."""
    return [column.strip().rsplit(".", 1)[-1] for column in header]


def parse(path: Path, name: str, format: str) -> Parsed:
    """One record a request, or a rejection; `rows_read` counts lines.

    Refused when the file cannot be read as text. Requests without usage, with usage that is not
    final, or with counts that are no whole numbers are rejected by line.
    """
    account = Account(format)
    is_json = read_head(path, name).lstrip().startswith(b"{")
    rows = _json_rows(path, name) if is_json else _csv_rows(path, name)
    return Parsed(account, _records(rows, account))


def _records(
    rows: Iterator[tuple[int, Mapping[str, Any] | Fault]], account: Account
) -> Iterator[UsageRecord | Rejection]:
    for line, row in rows:
        account.rows_read += 1
        try:
            if isinstance(row, Fault):
                raise row
            yield record(line, row)
        except Fault as fault:
            yield Rejection.of(line, fault.column, fault.value, fault.reason)


def _json_rows(path: Path, name: str) -> Iterator[tuple[int, Mapping[str, Any] | Fault]]:
    for number, text in enumerate(text_lines(path, name), start=1):
        if not text.strip():
            continue
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            yield number, Fault(None, None, f"not JSON (column {error.colno}: {error.msg})")
            continue
        yield number, value if isinstance(value, dict) else Fault(None, None, "not a JSON object")


def _csv_rows(path: Path, name: str) -> Iterator[tuple[int, Mapping[str, Any] | Fault]]:
    rows = csv_rows(path, name)
    keys = _short_names(next(rows, (1, []))[1])
    for key in keys:
        if key in _ACCOUNTED and keys.count(key) > 1:
            raise Refused(f"{name}: line 1: the column {key} stands twice", line=1, column=key)
    for line, cells in rows:
        if len(cells) != len(keys):
            reason = f"the row has {len(cells)} fields, the header {len(keys)}"
            yield line, Fault(None, len(cells), reason)
            continue
        yield line, {key: text_or_none(cell) for key, cell in zip(keys, cells, strict=True)}


def _first(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, Any]:
    """The first of these keys that has a value, and the value; (last key, None) when none has."""
    return next(((key, row[key]) for key in keys if row.get(key) is not None), (keys[-1], None))


def record(line: int, row: Mapping[str, Any]) -> UsageRecord:
    """The usage that a record of known keys tells; Fault where it tells none."""
    usage = row.get("usage", row)
    if usage is None or not isinstance(usage, Mapping) or not set(usage) & _TOKEN_KEYS:
        raise Fault("usage", None, "no usage")
    if row.get("usage_is_final") in (False, "false", "False"):
        raise Fault("usage_is_final", False, "usage is not final")
    key, model = _first(row, MODELS)
    if not isinstance(model, str):
        raise Fault(key, model, "no model")
    prompt, cached, generation = _tokens(usage)
    request = _first(row, REQUESTS)[1]
    return UsageRecord(
        line=line,
        at=_moment(row),
        model=model,
        labels=_labels(row),
        request=None if request is None else str(request),
        prompt_tokens=prompt,
        cached_tokens=cached,
        generation_tokens=generation,
        choices=_choices(row),
        quality=_quality(row),
    )


def _tokens(usage: Mapping[str, Any]) -> tuple[int, int | None, int]:
    """Prompt (cached included), cached (None where not told) and generated tokens."""
    key, prompt_value = _first(usage, (*_PROMPT, *_INPUT))
    if prompt_value is None:
        raise Fault(key, None, "no usage")
    prompt, cached = _whole(key, prompt_value), _cached(usage)
    outside = key not in _PROMPT and any(
        _first(usage, keys)[1] is not None for keys in (_READ, _WRITE)
    )
    if outside:
        cached = _optional(usage, _READ) or 0
        prompt += cached + (_optional(usage, _WRITE) or 0)
    if cached is not None and cached > prompt:
        raise Fault("cached_tokens", cached, f"more cached than prompt tokens ({prompt})")
    return prompt, cached, _generated(usage, prompt)


def _generated(usage: Mapping[str, Any], prompt: int) -> int:
    key, value = _first(usage, _OUTPUT)
    if value is None and usage.get("total_tokens") == prompt:
        return 0  # an embedding: the total says that nothing was generated
    if value is None:
        raise Fault(key, None, "no completion tokens")
    return _whole(key, value)


def _cached(usage: Mapping[str, Any]) -> int | None:
    details = _first(usage, _DETAILS)[1]
    if isinstance(details, Mapping) and details.get("cached_tokens") is not None:
        return _whole("cached_tokens", details["cached_tokens"])
    return _optional(usage, _CACHED)


def _optional(usage: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    key, value = _first(usage, keys)
    return None if value is None else _whole(key, value)


def _whole(key: str, value: object) -> int:
    """A count of tokens; `12.0` is 12, anything else than a whole number is refused."""
    if type(value) is int:
        count = value
    elif isinstance(value, float | str) and str(value).isascii():
        try:
            exact = Decimal(str(value).replace("_", "?"))
            count = int(exact) if exact.is_finite() and exact.adjusted() < 20 else -1
        except InvalidOperation:
            raise Fault(key, value, "must be a whole number of tokens") from None
        if count != exact:
            raise Fault(key, value, "must be a whole number of tokens")
    else:
        raise Fault(key, value, "must be a whole number of tokens")
    if not 0 <= count <= MAX_TOKENS:
        raise Fault(key, value, "must lie between 0 and 2^53")
    return count


def _moment(row: Mapping[str, Any]) -> datetime:
    key, value = _first(row, TIMES)
    if value is None:
        raise Fault("timestamp", None, "no time")
    try:
        if isinstance(value, str):
            return _from_text(value.strip())
        if type(value) in (int, float):
            return _from_unix(Decimal(str(value)))
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise Fault(key, value, f"not a time ({error})") from None
    raise Fault(key, value, "not a time")


def _from_text(text: str) -> datetime:
    if text.replace(".", "", 1).isdigit() and text.isascii():
        return _from_unix(Decimal(text))
    return instant(text)


def _from_unix(number: Decimal) -> datetime:
    """Seconds since 1970, or milliseconds where seconds would lie beyond all calendars."""
    seconds = number / 1000 if abs(number) >= _MS_FROM else number
    if not 0 < seconds < _LAST_S:
        raise ValueError("beyond the calendar")
    return _EPOCH + timedelta(microseconds=int(seconds * 1_000_000))


def _labels(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((key, row[key]) for key in LABELS if isinstance(row.get(key), str))


def _choices(row: Mapping[str, Any]) -> int:
    """How many samples were asked for: the engine counts the prompt once for each of them."""
    value = row.get("n")
    if value is None:
        listed = row.get("choices")
        return max(1, len(listed)) if isinstance(listed, list) else 1
    count = _whole("n", value)
    if not 1 <= count <= MAX_CHOICES:
        raise Fault("n", value, f"must lie between 1 and {MAX_CHOICES}")
    return count


def _quality(row: Mapping[str, Any]) -> str:
    value = row.get("quality")
    if value is None:
        return "measured"
    known = QUALITIES.get(str(value).lower())
    if known is None:
        raise Fault("quality", value, "must be measured, re-tokenised or estimated")
    return known
