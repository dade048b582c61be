"""Fields of COPY's binary form: what the database would read from text, as it holds it itself.

A third less of its time for rows that are mostly bytes. Each field is its length and its bytes, each
row begins with the number of its fields (PostgreSQL's documentation of COPY, *Binary Format*).
"""

from __future__ import annotations

import struct
from typing import Final

BEGINNING: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
END: Final = struct.pack(">h", -1)
_EPOCH_MS: Final = 946_684_800_000  # 2000-01-01, from which the database counts
_LENGTH: Final = struct.Struct(">i")
_INTEGER: Final = struct.Struct(">ii")
_BIGINT: Final = struct.Struct(">iq")


def integer(number: int) -> bytes:
    """A field of type integer; struct.error beyond 32 bits."""
    return _INTEGER.pack(4, number)


def bigint(number: int) -> bytes:
    """A field of type bigint; struct.error beyond 64 bits."""
    return _BIGINT.pack(8, number)


def instant(time_ms: int) -> bytes:
    """An instant (ms) as a field of type timestamp with time zone."""
    return _BIGINT.pack(8, 1000 * (time_ms - _EPOCH_MS))


def text(value: str) -> bytes:
    """A field of a type that holds text."""
    return sized(value.encode())


def sized(raw: bytes) -> bytes:
    """A field of these very bytes."""
    return _LENGTH.pack(len(raw)) + raw
