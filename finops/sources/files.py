"""Opening documents safely: compression, bounds, encoding, lines and CSV rows.

Everything is streamed. A document that would unpack to far more than it is (a bomb), that is cut
off, that is not UTF-8 or that holds NUL bytes is refused with the place where it goes wrong.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from isal import igzip, isal_zlib

from finops.sources.records import Refused

HEAD_BYTES: Final = 256 * 1024
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_FIELD_CHARACTERS: Final = 1024 * 1024
MAX_COLUMNS: Final = 16 * 1024
MAX_DOCUMENT_BYTES: Final = 1 << 30
BOMB_FLOOR_BYTES: Final = 32 * 1024 * 1024
BOMB_RATIO: Final = 250
_STEP_BYTES: Final = 128 * 1024
"""So much is unpacked at once: more would come in memory that is new each time."""

SAVE_AS: Final = "; save the file as UTF-8 (in Excel: CSV UTF-8)"

_NotGzip: Final[type[Exception]] = isal_zlib.error  # type: ignore[assignment]  # says its stub
_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
_PARQUET: Final = b"PAR1"
_Bytes = TypeVar("_Bytes", bytes, bytearray)
_BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_OTHER_PACKINGS: Final = {
    b"\xfd7zXZ": "an xz file",
    b"BZh": "a bzip2 file",
    b"(\xb5/\xfd": "a zstd file",
    b"7z\xbc\xaf": "a 7z archive",
}


class _Unpacked(io.RawIOBase):
    """The plain bytes of a gzip file, all members, refused when they grow out of proportion."""

    def __init__(self, packed: BinaryIO, name: str) -> None:
        self._packed = packed
        self._plain = igzip.IGzipFile(fileobj=packed)
        self._name = name
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            chunk = self._plain.read1(min(len(buffer), _STEP_BYTES))
        except EOFError:
            raise Refused(
                f"{self._name}: the gzip file is cut off, or what follows its end is none"
            ) from None
        except (OSError, _NotGzip) as error:
            raise Refused(f"{self._name}: the gzip file is damaged ({error})") from None
        self._given += len(chunk)
        self._check_proportion()
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _check_proportion(self) -> None:
        packed_bytes = max(1, self._packed.tell())
        if self._given > BOMB_FLOOR_BYTES and self._given > BOMB_RATIO * packed_bytes:
            raise Refused(
                f"{self._name}: {packed_bytes} packed bytes give more than {self._given}; a "
                f"document that unpacks to over {BOMB_RATIO} times its size is not read"
            )

    def close(self) -> None:
        if not self.closed:
            self._plain.close()
            self._packed.close()
        super().close()


def open_plain(path: Path, name: str) -> io.BufferedReader:
    """The document's bytes, unpacked when they are gzip; to be closed by the caller.

    Refused for archives of other kinds, UTF-16 text and a file that is not there.
    """
    try:
        packed = path.open("rb")
    except OSError as error:
        raise Refused(f"{name}: cannot be opened ({error.strerror})") from None
    start = packed.read(8)
    packed.seek(0)
    try:
        _refuse_packings(start, name)
    except Refused:
        packed.close()
        raise
    if start.startswith(_GZIP):
        return io.BufferedReader(_Unpacked(packed, name), HEAD_BYTES)
    return packed


def _refuse_packings(start: bytes, name: str) -> None:
    if start.startswith(_ZIP):
        raise Refused(f"{name}: this is a zip archive; give it a name that ends in .zip")
    for magic, what in _OTHER_PACKINGS.items():
        if start.startswith(magic):
            raise Refused(f"{name}: this is {what}; unpack it, or pack it as gzip")
    if start.startswith(_UTF16):
        raise Refused(f"{name}: this is UTF-16 text; save it as UTF-8")


def read_head(path: Path, name: str) -> bytes:
    """The first 256 KiB of the document, unpacked, without a byte order mark.

    Of a Parquet file also the last 256 KiB, where its columns are named.
    """
    with open_plain(path, name) as stream:
        head = stream.read(HEAD_BYTES)
        if head.startswith(_PARQUET) and len(head) == HEAD_BYTES:
            stream.seek(-HEAD_BYTES, io.SEEK_END)
            head += stream.read(HEAD_BYTES)
    if not head:
        raise Refused(f"{name}: the file is empty")
    return without_marks(head)


def read_whole(path: Path, name: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """All bytes of a document of at most `limit` bytes, unpacked, without a byte order mark."""
    with open_plain(path, name) as stream:
        content = stream.read(limit + 1)
    if not content:
        raise Refused(f"{name}: the file is empty")
    if len(content) > limit:
        raise Refused(f"{name}: more than {limit} bytes; split it, or give it as JSON lines")
    return without_marks(content)


def without_marks(line: _Bytes) -> _Bytes:
    """The bytes without leading byte order marks; some exporters write two."""
    while line.startswith(_BOM):
        line = line[len(_BOM) :]
    return line


def byte_lines(path: Path, name: str, *, without_nul: bool = False) -> Iterator[tuple[int, bytes]]:
    """Line number and bytes of every line, marks taken off the first two (method §3.1).

    Some exporters put a byte order mark in front of the header and again of the first data line.
    Refused for a NUL byte, with its line and place, unless they are to be passed over.
    """
    with open_plain(path, name) as stream:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise Refused(
                    f"{name}: line {number} is longer than {MAX_LINE_BYTES} bytes", line=number
                )
            if b"\0" in line and without_nul:
                line = line.replace(b"\0", b"")
            elif b"\0" in line:
                place = line.index(b"\0") + 1
                raise Refused(f"{name}: line {number} holds a NUL byte (byte {place})", line=number)
            yield number, without_marks(line) if number <= 2 else line
        if not number:
            raise Refused(f"{name}: the file is empty")


def text_lines(path: Path, name: str) -> Iterator[str]:
    """Every line of a UTF-8 document, line ends kept; Refused names line and byte."""
    for number, line in byte_lines(path, name):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            bad = line[error.start : error.start + 1].hex()
            raise Refused(
                f"{name}: line {number}, byte {error.start + 1}: 0x{bad} is not UTF-8{SAVE_AS}",
                line=number,
                value=f"0x{bad}",
            ) from None


def csv_rows(path: Path, name: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV document with the physical line each starts on; empty lines skipped."""
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    reader = csv.reader(text_lines(path, name), delimiter=delimiter, strict=True)
    start = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Refused(
                f"{name}: line {start}: not readable as CSV ({error})", line=start
            ) from None
        if len(row) > MAX_COLUMNS:
            raise Refused(
                f"{name}: line {start}: {len(row)} columns, over {MAX_COLUMNS}", line=start
            )
        if row:
            yield start, row
        start = reader.line_num + 1
