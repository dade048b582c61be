"""The errors by which a vLLM engine says that memory does not suffice, over all versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from finops.core.engine_start import Failure, Printed
from finops.sources.engine_log_lines import GIB, WHOLE

_SIZE: Final = r"(?<![0-9.])(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s?([KMG]i?B|bytes)"
_UNITS: Final = {"bytes": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
LONGEST_TEXT: Final = 600

_NO_SPACE: Final = re.compile(r"No available memory for the cache blocks")
_TOKENS: Final = re.compile(
    rf"The model's max seq len \({WHOLE}\) is larger than the maximum number of tokens that can be "
    rf"stored in KV cache \({WHOLE}\)"
)
_BYTES: Final = re.compile(
    rf"To serve at least one request with the models?'s max seq len \({WHOLE}\), \(?{GIB} Gi?B KV "
    rf"cache is needed, which is larger than the available KV cache memory \({GIB} Gi?B\)"
)
_ESTIMATE: Final = re.compile(rf"estimated maximum model length is {WHOLE}")
_BUSY: Final = re.compile(
    rf"Free memory on device(?: [\w:]+)? \({GIB}/{GIB} GiB\) on startup is less than desired "
    rf"GPU memory utilization \({GIB}, {GIB} GiB\)"
)
_DISTURBED: Final = re.compile(r"Error in memory profiling")
# Whole bytes without a unit to vLLM 0.8, GiB after it.
_FREED: Final = re.compile(
    r"[Ii]nitial free memory:?\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)(?:\s?([KMG]i?B|bytes))?\b[^,]*,"
    r"\s*current free memory:?\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)(?:\s?([KMG]i?B|bytes))?\b"
)
_OUT: Final = re.compile(r"OutOfMemoryError|(?:CUDA|HIP|XPU)(?: error:)? out of memory")
_TRIED: Final = re.compile(r"out of memory\. Tried to allocate " + _SIZE)
_FREE: Final = re.compile(r"of which " + _SIZE + r" is free|; " + _SIZE + r" free;")
_CAPACITY: Final = re.compile(r"total capacity of " + _SIZE + r"|; " + _SIZE + r" total capacity")
_ANY: Final = re.compile(
    r"EngineCore failed to start|Engine core initialization failed|"
    r"Engine process failed to start"
)


def failure_of(text: str, line: int) -> Failure | None:
    """The failure that a line of a log tells; None when it tells none."""
    for pattern, make in _MAKERS:
        match = pattern.search(text)
        if match:
            return make(match, text, line)
    return None


def _gib(text: str) -> int:
    return Printed(Decimal(text)).bytes


def _size(value: str | None, unit: str | None) -> int | None:
    if value is None or unit is None:
        return None
    scale = _UNITS.get(unit) or _UNITS[unit[0]]
    return int((Decimal(value) * scale).to_integral_value())


def _either(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    found = match.groups()
    return _size(found[0], found[1]) if found[0] else _size(found[2], found[3])


def _cut(match: re.Match[str], text: str) -> str:
    return text[match.start() :].strip()[:LONGEST_TEXT]


def _no_space(match: re.Match[str], text: str, line: int) -> Failure:
    return Failure("no-kv-space", line, _cut(match, text))


def _tokens(match: re.Match[str], text: str, line: int) -> Failure:
    length, tokens = int(match[1]), int(match[2])
    found = Failure("kv-too-small", line, _cut(match, text), max_model_len=length)
    found.kv_tokens = tokens
    return found


def _bytes(match: re.Match[str], text: str, line: int) -> Failure:
    estimate = _ESTIMATE.search(text, match.end())
    return Failure(
        "kv-too-small",
        line,
        _cut(match, text),
        needed_bytes=_gib(match[2]),
        available_bytes=_gib(match[3]),
        max_model_len=int(match[1]),
        estimated_max_model_len=int(estimate[1]) if estimate else None,
    )


def _busy(match: re.Match[str], text: str, line: int) -> Failure:
    return Failure(
        "device-busy",
        line,
        _cut(match, text),
        needed_bytes=_gib(match[4]),
        available_bytes=_gib(match[1]),
        total_bytes=_gib(match[2]),
        utilization=match[3],
    )


def _disturbed(match: re.Match[str], text: str, line: int) -> Failure:
    found = Failure("profiling-disturbed", line, _cut(match, text))
    told = _FREED.search(text, match.end())
    if told:
        found.free_before_bytes = _size(told[1], told[2] or "bytes")
        found.free_after_bytes = _size(told[3], told[4] or "bytes")
    return found


def _out(match: re.Match[str], text: str, line: int) -> Failure:
    tried = _TRIED.search(text)
    return Failure(
        "out-of-memory",
        line,
        _cut(match, text),
        needed_bytes=_size(tried[1], tried[2]) if tried else None,
        available_bytes=_either(_FREE.search(text)),
        total_bytes=_either(_CAPACITY.search(text)),
    )


def _any(match: re.Match[str], text: str, line: int) -> Failure:
    return Failure("unknown", line, _cut(match, text))


_MAKERS: Final[tuple[tuple[re.Pattern[str], Callable[..., Failure]], ...]] = (
    (_NO_SPACE, _no_space),
    (_TOKENS, _tokens),
    (_BYTES, _bytes),
    (_BUSY, _busy),
    (_DISTURBED, _disturbed),
    (_OUT, _out),
    (_ANY, _any),
)
