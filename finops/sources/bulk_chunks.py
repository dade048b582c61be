"""A CSV document in chunks of whole lines, some ahead of the reader; rows across two of them.

Unpacking, its bounds and what is refused are those of `files`: a chunk is only more lines at once.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from finops.sources.files import (
    MAX_COLUMNS,
    MAX_FIELD_CHARACTERS,
    MAX_LINE_BYTES,
    SAVE_AS,
    open_plain,
    without_marks,
)
from finops.sources.records import Refused

Content = bytes | bytearray
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.uint16]]
CHUNK_BYTES: Final = 16 * 1024 * 1024
_BLOCK_BYTES: Final = 64 * 1024
"""So much is looked at at once, so that a pass over a chunk stays within the processor's cache."""
_LINE_FEED, _QUOTE, _BLANK, _TAB = b'\n" \t'


@dataclass(slots=True)
class Chunk:
    """Whole lines and the number of the first; of the last chunk the last line may have no end."""

    first_line: int
    content: Content
    line_feeds: int = field(init=False)
    _ends: list[Places] = field(init=False)

    def __post_init__(self) -> None:
        self._ends = [_places(one) for one in _blocks(self.content)]
        self.line_feeds = sum(map(len, self._ends))

    @property
    def lines(self) -> int:
        """How many lines there are, ended or not."""
        return self.line_feeds + (not self.content.endswith(b"\n"))

    def picked(self, numbers: Sequence[int]) -> Iterator[bytes]:
        """Single lines by their numbers, each with its line feed if it has one."""
        first, ends = self.first_line, self._line_ends()
        with memoryview(self.content) as content:
            for number in numbers:
                place = number - first
                start = int(ends[place - 1]) + 1 if place else 0
                end = int(ends[place]) + 1 if place < len(ends) else len(content)
                yield bytes(content[start:end])

    def last_line(self) -> Content:
        """The last line, with its end if it has one."""
        return self.content[self.content.rfind(b"\n", 0, -1) + 1 :]

    def _line_ends(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        blocks = [ends.astype(np.int64) for ends in self._ends]
        for number, block in enumerate(blocks):
            block += number * _BLOCK_BYTES
        return np.concatenate(blocks) if blocks else np.empty(0, np.int64)

    def has_blanks_by_quotes(self) -> bool:
        """Whether a blank or tab stands right before or behind a quotation mark."""
        if b'"' not in self.content:
            return False
        has_tabs = b"\t" in self.content
        for one in _blocks(self.content, more=1):
            quotes, blanks = one == _QUOTE, one == _BLANK
            if has_tabs:
                blanks |= one == _TAB
            if (quotes[1:] & blanks[:-1]).any() or (quotes[:-1] & blanks[1:]).any():
                return True
        return False


def _blocks(content: Content, more: int = 0) -> Iterator[Bytes]:
    """The bytes in blocks, each with some more of the next one."""
    whole = np.frombuffer(content, np.uint8)
    for start in range(0, len(whole), _BLOCK_BYTES):
        yield whole[start : start + _BLOCK_BYTES + more]


def _places(block: Bytes) -> Places:
    """Where in a block lines end; in two bytes each, for a document may be nothing but line feeds."""
    return (block == _LINE_FEED).nonzero()[0].astype(np.uint16)


class Chunks:
    """The chunks of a document after its header line, the next one being unpacked meanwhile.

    What is unpacked goes to where chunks stood that were given back: memory that is new each time
    costs as much as a quarter of the unpacking. A reader that is `alone` has room for larger chunks,
    of which there are fewer to be asked for.
    """

    def __init__(self, path: Path, name: str, *, alone: bool = False) -> None:
        self._name = name
        self._chunk_bytes = CHUNK_BYTES + CHUNK_BYTES // 2 if alone else CHUNK_BYTES
        self._stream: BufferedReader = open_plain(path, name)
        self._ahead = ThreadPoolExecutor(1)
        self._spare: list[bytearray] = []
        self._rest = b""
        self._line = 1
        self._pushed: Chunk | None = None
        self.header = without_marks(self._stream.readline(MAX_LINE_BYTES + 1))
        self._line = 2
        self._next = self._ahead.submit(self._read)

    def close(self) -> None:
        """Closes the document."""
        self._ahead.shutdown(wait=True, cancel_futures=True)
        self._stream.close()

    def __iter__(self) -> Iterator[Chunk]:
        while (chunk := self.take()) is not None:
            yield chunk

    def take(self) -> Chunk | None:
        """The next chunk; None at the end."""
        if self._pushed is not None:
            chunk, self._pushed = self._pushed, None
            return chunk
        content = self._next.result()
        if not content:
            return None
        self._next = self._ahead.submit(self._read)
        chunk = Chunk(self._line, without_marks(content) if self._line == 2 else content)
        self._line += chunk.line_feeds
        return chunk

    def put_back(self, chunk: Chunk) -> None:
        """What of a chunk was not read yet comes next."""
        if chunk.content:
            self._pushed = chunk

    def give_back(self, chunk: Chunk) -> None:
        """Lets the next chunks stand where one stood that nobody reads any more."""
        content, chunk.content = chunk.content, b""
        if isinstance(content, bytearray):
            self._spare.append(content)

    def _read(self) -> bytearray:
        """The next whole lines; a line longer than a chunk comes as it is, to be refused."""
        while True:
            kept = len(self._rest)
            content = self._room(max(self._chunk_bytes, kept + self._chunk_bytes // 2))
            content[:kept] = self._rest
            with memoryview(content) as room, room[kept:] as free:
                end = kept + self._stream.readinto(free)
            if end == kept:  # the document's last line has no end
                content, self._rest = bytearray(self._rest), b""
                return content
            cut = content.rfind(b"\n", kept, end) + 1
            if not cut and end <= MAX_LINE_BYTES:
                self._rest = bytes(content[:end])
                self._spare.append(content)
                continue
            cut = cut or end
            self._rest = bytes(content[cut:end])
            del content[cut:]
            return content

    def _room(self, size_bytes: int) -> bytearray:
        """Memory for so many bytes, where some is left of earlier chunks."""
        if not self._spare:
            return bytearray(size_bytes)
        room = self._spare.pop()
        if len(room) < size_bytes:
            room.extend(bytes(size_bytes - len(room)))
        return room


class Following(Protocol):
    """Gives the chunks after one, and takes back what was not read of them."""

    def take(self) -> Chunk | None: ...

    def put_back(self, chunk: Chunk) -> None: ...


def rows_of(
    chunk: Chunk, chunks: Following, name: str, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """The rows that begin in a chunk, with the line each starts on, as `csv_rows` reads them.

    A row that ends in the next chunk takes its lines from there.
    """
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    lines = _Lines(chunk, chunks, name)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        start, lines.between_rows = lines.number, True
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


class _Lines:
    """The lines of a chunk as text, and past its end those that its last row still needs."""

    def __init__(self, chunk: Chunk, chunks: Following, name: str) -> None:
        self._lines = _split(chunk.content)
        self._chunks, self._name = chunks, name
        self.number = chunk.first_line
        self.between_rows = True

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            if self.between_rows:
                raise StopIteration
            line = self._borrowed()
        self.between_rows = False
        text = checked_text(line, self.number, self._name)
        self.number += 1
        return text

    def _borrowed(self) -> Content:
        following = self._chunks.take()
        if following is None:
            raise StopIteration
        end = following.content.find(b"\n") + 1 or len(following.content)
        line, rest = following.content[:end], following.content[end:]
        self._chunks.put_back(Chunk(following.first_line + 1, rest))
        return line


def _split(content: Content) -> Iterator[Content]:
    """Lines ended by a line feed, as a file gives them."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start) + 1 or len(content)
        yield content[start:end]
        start = end


def checked_text(line: Content, number: int, name: str) -> str:
    """A line as text; Refused for one that is too long, holds a NUL or is not UTF-8."""
    if len(line) > MAX_LINE_BYTES:
        raise Refused(f"{name}: line {number} is longer than {MAX_LINE_BYTES} bytes", line=number)
    if b"\0" in line:
        raise Refused(
            f"{name}: line {number} holds a NUL byte (byte {line.index(0) + 1})", line=number
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line[error.start : error.start + 1].hex()
        raise Refused(
            f"{name}: line {number}, byte {error.start + 1}: 0x{bad} is not UTF-8{SAVE_AS}",
            line=number,
            value=f"0x{bad}",
        ) from None
