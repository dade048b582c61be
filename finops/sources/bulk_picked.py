"""Lines of a CSV that stay single lines, picked out of its chunks until there are enough to be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from finops.sources.bulk_chunks import Chunk

PICKED_BYTES: Final = 4 * 1024 * 1024
ENDS: Final = {"\\n": b"\n", "\\r\\n": b"\r\n"}
"""How lines end, by what SQL calls it."""


class Picked:
    """Whole lines of some chunks that stay single lines, ended alike."""

    def __init__(self, line_feed: str) -> None:
        self.line_feed = line_feed
        self.numbers: list[int] = []
        self._lines: list[bytes] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether they should be read now, so that memory stays what it is."""
        return self._bytes > PICKED_BYTES

    def add(self, numbers: Sequence[int], chunk: Chunk) -> None:
        """Adds lines of a chunk, in the order of the document."""
        lines = list(chunk.picked(numbers))
        self.numbers += numbers
        self._lines += lines
        self._bytes += sum(map(len, lines))

    def content(self) -> bytes:
        """The lines as a document of their own, each of them ended."""
        content = b"".join(self._lines)
        return content if content.endswith(b"\n") else content + ENDS[self.line_feed]

    def texts(self, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Some of the lines by their numbers."""
        wanted = set(numbers)
        for number, line in zip(self.numbers, self._lines, strict=True):
            if number in wanted:
                yield number, line
