"""Gzip files as exporters, copies and attackers leave them: read as Python's own reader does, or refused."""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.sources.files import open_plain
from finops.sources.records import Refused

ROWS = b"a,b\n" * 10
# Of one time always: they name the cases, which every process must name alike.
FIRST, SECOND, NOTHING = (gzip.compress(c, mtime=0) for c in (ROWS, b"c,d\n" * 5, b""))


def read(content: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bill.csv.gz"
        path.write_bytes(content)
        with open_plain(path, "bill.csv.gz") as stream:
            return stream.read()


def named() -> bytes:
    """A member whose header tells a long name."""
    packed = io.BytesIO()
    with gzip.GzipFile("long name" * 5000, "wb", fileobj=packed, mtime=0) as file:
        file.write(ROWS)
    return packed.getvalue()


def with_all_fields() -> bytes:
    """A member with a further field, a name and a comment in its header."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = b"\x1f\x8b\x08\x1c\0\0\0\0\0\xff" + struct.pack("<H", 5) + b"extra" + b"name\0comment\0"
    end = struct.pack("<II", zlib.crc32(ROWS), len(ROWS))
    return head + packer.compress(ROWS) + packer.flush() + end


@pytest.mark.parametrize(
    "content",
    [
        FIRST + SECOND,
        NOTHING + FIRST,
        FIRST + NOTHING * 20 + SECOND,
        FIRST + NOTHING,
        NOTHING,
        FIRST + b"\0" * 5000,
        FIRST + b"\0" * 512 + SECOND,
        named(),
        with_all_fields(),
    ],
)
def test_what_other_readers_read_is_read(content: bytes) -> None:
    assert read(content) == gzip.decompress(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (FIRST[:-4] + struct.pack("<I", 7), "Incorrect length"),
        (FIRST[:-4] + struct.pack("<I", 7) + SECOND, "Incorrect length"),
        (FIRST[:-8] + struct.pack("<I", 7) + FIRST[-4:], "CRC"),
        (FIRST[:2] + b"\x07" + FIRST[3:], "method"),
        (FIRST + b"x", "what follows its end is none"),
        (FIRST + b"garbage", "what follows its end is none"),
        (FIRST + b"Date,Amount\n" * 9, "damaged|what follows its end is none"),
        (FIRST + SECOND[:1], "cut off"),
        (FIRST + SECOND[:12], "cut off"),
    ],
)
def test_what_is_not_whole_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said):
        read(content)


@given(st.lists(st.binary(max_size=70_000), max_size=4), st.integers(0, 9))
@settings(deadline=None, max_examples=40)
def test_members_of_any_size_come_in_their_order(pieces: list[bytes], level: int) -> None:
    packed = b"".join(gzip.compress(piece, level) for piece in (*pieces, b"end"))
    assert read(packed) == b"".join(pieces) + b"end"


@given(st.binary(min_size=1, max_size=300), st.data())
@settings(deadline=None)
def test_no_beginning_of_a_file_passes_for_it(content: bytes, data: st.DataObject) -> None:
    packed = gzip.compress(content)
    cut = data.draw(st.integers(2, len(packed) - 1))
    with pytest.raises(Refused):
        read(packed[:cut])
