"""FOCUS CSV files in bulk: chunks of lines that the engine sums, or else the parser reads (§3.1).

A chunk is summed only where both see the same rows: one a line, quotes where rows of CSV have them.
A chunk that is not so plain, or that the engine refuses, is read line by line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from finops.core.allocation import Rule
from finops.sources.bulk_chunks import Chunk, Chunks, checked_text, rows_of
from finops.sources.bulk_store import Sums
from finops.sources.bulk_sums import Layout, amounts_of, grouped
from finops.sources.bulk_table import SumsTable
from finops.sources.files import MAX_FIELD_CHARACTERS
from finops.sources.records import Account, ChargeRecord, Rejection
from finops.sources.rows import Cells, Row, Warnings, charges_of, delimiter_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LONGEST_LINE: Final = 1_000_000
_QUOTE_AFTER_BLANK: Final = re.compile(rb' "(?:[^"]|"[,;\t\r\n"])')
_BLANK_AFTER_QUOTE: Final = re.compile(rb'"[ \t]+[,;\t\r\n]')
_BEFORE_CELL: Final = b",;\t\n\r"
_BLANK: Final = ord(" ")
_NO_CELL: Final = "\x01"

Build = Callable[[Row], ChargeRecord | None]


def plain_header(line: bytes, name: str) -> list[str] | None:
    """The names of a header that stands on one whole line; None for any other."""
    if not line.endswith(b"\n") or b"\0" in line:
        return None
    text = checked_text(line, 1, name)
    try:
        rows = list(csv.reader([text], delimiter=delimiter_of(text), strict=True))
    except csv.Error:
        return None
    return rows[0] if rows and rows[0] else None


class CsvLines:
    """One CSV file while it is read in bulk."""

    def __init__(
        self,
        chunks: Chunks,
        name: str,
        header: Sequence[str],
        places: Mapping[str, int],
        rules: Sequence[Rule],
        connection: DuckDBPyConnection,
        scratch: str,
    ) -> None:
        self._chunks, self._name, self._width = chunks, name, len(header)
        self._places = places
        self._delimiter = delimiter_of(chunks.header.decode("utf-8", "replace"))
        texts = {column: f"nullif(v{place}, '')" for column, place in places.items()}
        amounts, self._more = amounts_of(texts)
        cells = {column: f"v{place}" for column, place in places.items()}
        layout = Layout(texts, amounts, rules, cells)
        self._sums = Sums(connection, layout)
        is_ragged = f"v{self._width} IS NOT NULL OR v{self._width - 1} IS NULL"
        self._layout, self._whole = layout, f"({is_ragged} OR {layout.stays_whole()})"
        self._scratch = Path(scratch)
        self._lines = 0  # of the chunk that was summed last

    def records(
        self, account: Account, build: Build
    ) -> Iterator[ChargeRecord | Rejection | SumsTable]:
        """Charges and rejections of lines read one by one, and the sums of the others."""
        warnings = Warnings(account)
        for chunk in self._chunks:
            rows = self._left_over(chunk, account)
            yield from charges_of(rows, self._width, self._places, account, build, warnings)
            if self._sums.full:
                yield from self._sums.taken()
        yield from self._sums.taken()
        warnings.close()

    def _left_over(self, chunk: Chunk, account: Account) -> Iterator[tuple[int, Cells]]:
        """The rows of a chunk that are to be read one by one; the others are summed."""
        line_feed = line_feed_of(chunk)
        numbers = self._summed(chunk, line_feed) if line_feed else None
        if numbers is None:
            yield from rows_of(chunk, self._chunks, self._name, self._delimiter)
            return
        account.rows_read += self._lines - len(numbers)
        lines = zip(numbers, chunk.picked(numbers), strict=True)
        texts = (checked_text(line, number, self._name) for number, line in lines)
        csv.field_size_limit(MAX_FIELD_CHARACTERS)
        rows = csv.reader(texts, delimiter=self._delimiter, strict=True)
        yield from zip(numbers, rows, strict=True)

    def _summed(self, chunk: Chunk, line_feed: str) -> list[int] | None:
        """The lines of a chunk that are not in the sums now; None when none of it is."""
        import duckdb

        self._write(chunk.content)
        expected = chunk.lines
        line = f"{chunk.first_line - 1} + row_number() OVER () AS line"
        source = f"(SELECT *, {line}{self._more} FROM {self._read_csv(line_feed)})"  # noqa: S608
        query = grouped(self._layout, source, "line", self._whole)
        try:
            lines, alone, more = self._sums.take_in(query)
        except duckdb.Error:
            return None
        if lines != expected:
            return None
        if more:
            alone += self._sums.refused_lines(source, "line", self._whole)
        self._sums.keep()
        self._lines = lines
        return sorted(alone)

    def _write(self, content: bytes) -> None:
        """The chunk where the engine reads it; over the one before, whose space need not be freed."""
        mode = "r+b" if self._scratch.exists() else "wb"
        with self._scratch.open(mode, buffering=0) as file:
            file.write(content)
            file.truncate(len(content))

    def _read_csv(self, line_feed: str) -> str:
        """One column more than the header has: it is null where a row has none, as an absent cell
        is, and no other cell is. The engine would let an empty cell too many pass otherwise."""
        columns = ", ".join(f"'v{place}': 'VARCHAR'" for place in range(self._width + 1))
        return (
            f"read_csv('{self._scratch}', columns = {{{columns}}}, header = false, "
            f"auto_detect = false, delim = '{self._delimiter}', quote = '\"', escape = '\"', "
            f"new_line = '{line_feed}', nullstr = '{_NO_CELL}', comment = '', strict_mode = true, "
            f"null_padding = true, max_line_size = {LONGEST_LINE})"
        )


def line_feed_of(chunk: Chunk) -> str | None:
    """How the lines of a chunk end, as SQL has it; None when the engine could read it otherwise.

    Blanks around quotes, and carriage returns that end no line, are read differently by parsers; of
    columns that nobody asks for the engine does not see whether they are UTF-8.
    """
    content = chunk.content
    if b"\0" in content or _NO_CELL.encode() in content or not _is_utf8(content):
        return None
    if chunk.has_blanks_by_quotes() and _is_odd(content):
        return None
    if b"\r" not in content:
        return "\\n"
    is_even = content.count(b"\r") == content.count(b"\r\n") == chunk.line_feeds
    return "\\r\\n" if is_even else None


def _is_odd(content: bytes) -> bool:
    """Whether blanks stand between a quotation mark and the end of its cell that it may be of."""
    before = _QUOTE_AFTER_BLANK.finditer(content)
    if any(_begins_cell(content, found.start()) for found in before):
        return True
    return _BLANK_AFTER_QUOTE.search(content) is not None


def _is_utf8(content: bytes) -> bool:
    try:
        return content.isascii() or bool(content.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _begins_cell(content: bytes, place: int) -> bool:
    """Whether only blanks stand between a place and the beginning of its cell."""
    while place and content[place - 1] == _BLANK:
        place -= 1
    return not place or content[place - 1] in _BEFORE_CELL
