"""Samples of a remote read's answer as rows of numbers: many series of them at once.

A sample of our era takes 18 bytes where its value is not zero, and 9 where it is: field 2, 16 or 7
bytes long; in it a double (field 1) and six bytes of a number (field 2). So samples stand on a grid
of 9 bytes, and where each begins is seen of all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

STALE_BITS: Final = 0x7FF0000000000002
"""The NaN by which Prometheus marks that a series has ended: no reading of anything."""

USUAL_BYTES: Final = 18
USUAL_HEAD: Final = b"\x12\x10\x09"
ZERO_BYTES: Final = 9
ZERO_HEAD: Final = b"\x12\x07\x10"
_HEAD_MASK: Final = np.uint32(0xFFFFFF)
_USUAL_SIGN: Final = np.uint32(int.from_bytes(USUAL_HEAD, "little"))
_ZERO_SIGN: Final = np.uint32(int.from_bytes(ZERO_HEAD, "little"))
_TIME_MASK: Final = np.uint64(0x80_80_80_80_80_80_FF)
_TIME_SIGN: Final = np.uint64(0x00_80_80_80_80_80_10)  # field 2, a number of six bytes
_BYTE: Final = np.uint64(8)
_SEVEN: Final = np.uint64(0x7F)
_USUAL: Final = np.dtype(
    {
        "names": ["head", "bits", "time"],
        "formats": ["<u4", "<i8", "<u8"],
        "offsets": [0, 3, 10],  # the time with the double's last byte before it
        "itemsize": USUAL_BYTES,
    }
)
_ZERO: Final = np.dtype(
    {
        "names": ["head", "time"],
        "formats": ["<u4", "<u8"],
        "offsets": [0, 1],  # the time with the length, or the double's last byte, before it
        "itemsize": ZERO_BYTES,
    }
)

Words = np.ndarray[Any, np.dtype[np.uint64]]
Column = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


class Mixed(NamedTuple):
    """The samples of some series: whether each series is nothing but such samples, how many it has,
    and all times (as they are written) and bits of values one series after the other."""

    fine: Flags
    counts: Column
    time: Words
    bits: Column


def rows_of(samples: bytes | memoryview, size: int) -> tuple[Flags, Words, Column]:
    """Of samples of one length: whether each is one, its time as it is written, its value's bits."""
    rows = np.frombuffer(samples, _USUAL if size == USUAL_BYTES else _ZERO)
    time = rows["time"] >> _BYTE
    fine = (time & _TIME_MASK) == _TIME_SIGN
    sign = _USUAL_SIGN if size == USUAL_BYTES else _ZERO_SIGN
    fine &= (rows["head"] & _HEAD_MASK) == sign
    bits = rows["bits"].copy() if size == USUAL_BYTES else np.zeros(len(rows), np.int64)
    return fine, time, bits


def mixed_rows(series: Sequence[bytes | memoryview]) -> Mixed:
    """Of series of samples of both lengths, each of a multiple of nine bytes and not empty."""
    flat = b"".join(series)
    cells = np.frombuffer(flat, _ZERO)
    ends = np.cumsum([len(one) // ZERO_BYTES for one in series])
    starts = np.concatenate(([0], ends[:-1]))
    head, time = cells["head"] & _HEAD_MASK, cells["time"] >> _BYTE
    is_usual = head == _USUAL_SIGN
    begins = is_usual | (head == _ZERO_SIGN)
    is_second = np.zeros(len(cells), bool)
    is_second[1:] = is_usual[:-1]
    # A cell is a sample's first or second, never both: a double that looks like a beginning, and a
    # sample that would go on in the next series, are for others to read.
    fine = begins ^ is_second
    fine[ends - 1] &= ~is_usual[ends - 1]
    fine &= is_usual | ((time & _TIME_MASK) == _TIME_SIGN)
    places = np.flatnonzero(begins)
    of_place = is_usual[places]
    # A double stands across two cells.
    doubles = np.ndarray((len(cells),), "<i8", flat + b"\0\0", offset=3, strides=(ZERO_BYTES,))
    bits = np.where(of_place, doubles[places], 0)
    lasts = np.minimum(places + of_place, len(cells) - 1)
    fine[places] &= bits != STALE_BITS
    counts = np.add.reduceat(begins.astype(np.int64), starts)
    return Mixed(np.logical_and.reduceat(fine, starts), counts, time[lasts], bits)


def numbers_of(time: Words) -> Column:
    """Numbers of six groups of seven bits, each in a byte, after the byte of their field."""
    found = (time >> _BYTE) & _SEVEN
    for place in range(1, 6):
        found |= ((time >> np.uint64(8 * (place + 1))) & _SEVEN) << np.uint64(7 * place)
    return found.astype(np.int64)
