"""Texts that the database reads quickly: a field of COPY's lines, and arrays of many numbers.

The driver takes long over lists of thousands of values.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from finops.core.period import instant_of


def text_field(text: str | bytes) -> bytes:
    """A text as one field of a line: what COPY would take for something else is escaped."""
    raw = text.encode() if isinstance(text, str) else text
    if b"\\" in raw or b"\t" in raw or b"\n" in raw or b"\r" in raw:
        for plain, escaped in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r")):
            raw = raw.replace(plain, escaped)
    return raw


def numbers(keys: Iterable[int]) -> str:
    """Whole numbers as the text of an array, to be cast to `bigint[]`."""
    return "{" + ",".join(map(str, keys)) + "}"


def instants(times_ms: Iterable[int]) -> str:
    """Instants (ms) as the text of an array, to be cast to `timestamptz[]`; none before 1970."""
    return "{" + ",".join(map(_quoted, times_ms)) + "}"


@lru_cache(maxsize=256)
def _quoted(time_ms: int) -> str:
    return f'"{instant_of(max(0, time_ms)).isoformat()}"'
