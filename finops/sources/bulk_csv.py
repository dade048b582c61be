"""FOCUS CSV files in bulk: chunks of lines that the engine sums, or else the parser reads (§3.1).

A chunk is summed only where both see the same rows: one a line, quotes where rows of CSV have them.
A chunk that is not so plain, or that the engine refuses, is read line by line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from finops.core.allocation import Rule
from finops.sources.bulk_ahead import Ahead, Begun
from finops.sources.bulk_chunks import Chunk, Chunks, Content, checked_text, rows_of
from finops.sources.bulk_engine import Engine, Side
from finops.sources.bulk_harmless import Harmless
from finops.sources.bulk_kept import KeptLines
from finops.sources.bulk_picked import Picked
from finops.sources.bulk_store import Found, Sums
from finops.sources.bulk_sums import Amount, Layout, amounts_of, filled, grouped
from finops.sources.bulk_table import KeptTable, Table
from finops.sources.bulk_usual import Usual
from finops.sources.files import MAX_FIELD_CHARACTERS
from finops.sources.records import Account, ChargeRecord, Rejection
from finops.sources.rows import Cells, Row, Warnings, charges_of, delimiter_of

LONGEST_LINE: Final = 1_000_000
MOST_UNEVEN: Final = 8
"""After so many chunks whose rows are not all as long as the header, no more are hoped to be."""
_QUOTE_AFTER_BLANK: Final = re.compile(rb' "(?:[^"]|"[,;\t\r\n"])')
_BLANK_AFTER_QUOTE: Final = re.compile(rb'"[ \t]+(?:[,;\t\r\n]|\Z)')
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


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read lines of the file by the engine: how many columns, of which the last ones may be
    absent or not, what is added to them and to these, and what is asked of them."""

    columns: int
    pads: bool
    more: str
    layout: Layout
    whole: str
    marks: str = ""

    def source(self, read: str, lines_before: str) -> str:
        """What reads lines in SQL, with their numbers and all that is added to their columns."""
        line = f"{lines_before} + row_number() OVER () AS line"
        return f"(SELECT *{self.marks} FROM (SELECT *, {line}{self.more} FROM {read}))"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Summed:
    """What the engine made of a chunk: how its lines end, what reads it in SQL, and the sums."""

    line_feed: str
    way: Way
    source: str
    found: Found


class CsvLines:
    """One CSV file while it is read in bulk."""

    def __init__(
        self,
        chunks: Chunks,
        name: str,
        header: Sequence[str],
        places: Mapping[str, int],
        rules: Sequence[Rule],
        engine: Engine,
    ) -> None:
        self._chunks, self._name, self._width = chunks, name, len(header)
        self._places, self._engine = places, engine
        self._delimiter = delimiter_of(chunks.header.decode("utf-8", "replace"))
        self._is_ragged = f"v{self._width} IS NOT NULL OR v{self._width - 1} IS NULL"
        self._harmless = Harmless(engine, {name: f"v{place}" for name, place in places.items()})
        self._even, self._careful = self._even_way(rules), self._careful_way(rules)
        self._usual = Usual(engine, self._even.layout.kind)
        self._usual_way: Way | None = None
        self._uneven = 0
        self._sums = Sums(engine, self._careful.layout)
        self._scratch = Path(engine.folder)
        self._kept = KeptLines(engine, places)
        self._picked = Picked("\\n")

    def _careful_way(self, rules: Sequence[Rule]) -> Way:
        """One column more than the header has: it is null where a row has none, as an absent cell
        is, and no other cell is. The engine would let an empty cell too many pass otherwise."""
        cells = {column: f"v{place}" for column, place in self._places.items()}
        texts = {column: f"nullif({cell}, '')" for column, cell in cells.items()}
        amounts, more = amounts_of(texts)
        layout = Layout(texts, amounts, rules, filled(cells), cells, together=True)
        whole = f"({self._is_ragged} OR {layout.stays_whole()})"
        return Way(self._width + 1, True, more, layout, whole)

    def _even_way(self, rules: Sequence[Rule]) -> Way:
        """Of rows that all have as many cells as the header: the engine takes no others, and need not
        read the last cell of each to know that."""
        cells = {column: f"v{place}" for column, place in self._places.items()}
        amounts, more = amounts_of(cells, Amount.of_cell)
        known, marks = self._harmless.known, self._harmless.marks
        layout = Layout(cells, amounts, rules, cells, cells, together=True, is_harmless=known)
        return Way(self._width, False, more, layout, layout.stays_whole(), marks)

    def records(
        self, account: Account, build: Build, threads: int
    ) -> Iterator[ChargeRecord | Rejection | Table]:
        """The lines kept whole, as tables or one by one, rejections, and sums of the others."""
        warnings = Warnings(account)

        def one_by_one(
            rows: Iterable[tuple[int, Cells]],
        ) -> Iterator[ChargeRecord | Rejection]:
            return charges_of(rows, self._width, self._places, account, build, warnings)

        with Ahead(self._engine, threads, self._chunks.take, self._summed) as ahead:
            for one in ahead:
                summed, chunk = self._found(one, ahead), one.piece
                if summed is None:
                    rows = rows_of(chunk, ahead, self._name, self._delimiter)
                    yield from one_by_one(rows)
                    self._chunks.give_back(chunk)
                    continue
                numbers = self._kept_in(summed)
                account.rows_read += summed.found.lines - len(numbers)
                if self._picked.is_full or self._picked.line_feed != summed.line_feed:
                    yield from self._whole_lines(account, one_by_one)
                    self._picked = Picked(summed.line_feed)
                self._picked.add(numbers, chunk)
                self._chunks.give_back(chunk)
                yield from self._sums.taken() if self._sums.full else self._sums.past()
        yield from self._whole_lines(account, one_by_one)
        yield from self._sums.taken()
        warnings.close()

    def _whole_lines(
        self,
        account: Account,
        one_by_one: Callable[[Iterable[tuple[int, Cells]]], Iterator[ChargeRecord | Rejection]],
    ) -> Iterator[ChargeRecord | Rejection | Table]:
        """The lines picked so far: a table of the ordinary ones, then the others."""
        table, odd = self._prepared() if self._picked.numbers else (None, [])
        if table is not None:
            account.rows_read += sum(kind.sums for kind in table.kinds)
            yield table
        lines = self._picked.texts(odd)
        texts = (checked_text(line, number, self._name) for number, line in lines)
        csv.field_size_limit(MAX_FIELD_CHARACTERS)
        rows = csv.reader(texts, delimiter=self._delimiter, strict=True)
        yield from one_by_one(zip(odd, rows, strict=True))

    def _prepared(self) -> tuple[KeptTable | None, list[int]]:
        """What the engine makes of the lines picked so far; all are odd where it reads them otherwise."""
        import duckdb

        picked = self._picked
        scratch = self._scratch / "picked.csv"
        _write(scratch, picked.content())
        self._engine.execute(
            "CREATE OR REPLACE TABLE numbers AS SELECT unnest($1) AS line", [picked.numbers]
        )
        way = self._careful
        source = f"(SELECT *{way.more} FROM {self._read_csv(scratch, picked.line_feed, way)})"  # noqa: S608
        chosen = self._kept.select(way.layout, "line", f"({self._is_ragged})")
        try:
            table, odd = self._kept.take(f"SELECT {chosen} FROM {source} POSITIONAL JOIN numbers")  # noqa: S608
        except duckdb.Error:
            return None, picked.numbers
        lines = sum(kind.sums for kind in table.kinds) if table else 0
        return (table, odd) if lines + len(odd) == len(picked.numbers) else (None, picked.numbers)

    def _summed(self, chunk: Chunk, side: Side) -> Summed | None:
        """What the engine makes of a chunk; None where it must be read line by line."""
        import duckdb

        line_feed = line_feed_of(chunk)
        if line_feed is None:
            return None
        scratch = self._scratch / f"chunk-{side.place}.csv"
        _write(scratch, chunk.content)
        side.connection.execute(f"SET VARIABLE lines_before = {chunk.first_line - 1}")
        for way in self._ways(chunk):
            read = self._read_csv(scratch, line_feed, way)
            any_chunk = way.source(read, "getvariable('lines_before')::BIGINT")
            try:
                view = side.view(grouped(way.layout, any_chunk, "line", way.whole))
                found = self._sums.find(f"FROM {view}", side)
            except duckdb.OutOfMemoryException:
                raise
            except duckdb.Error:
                continue
            if found.lines == chunk.lines:
                return Summed(line_feed, way, way.source(read, str(chunk.first_line - 1)), found)
        return None

    def _ways(self, chunk: Chunk) -> Iterator[Way]:
        """The ways to try: quickly at first, as long as that has mostly been of use.

        Of a single row the engine would not see that it has too many cells."""
        if self._uneven < MOST_UNEVEN and chunk.lines > 1 and self._is_even(chunk.last_line()):
            if (usual := self._usual_way) is not None:
                yield usual
            yield self._even
            self._uneven += 1
        yield self._careful

    def _is_even(self, line: Content) -> bool:
        """Whether a line is a row with as many cells as the header."""
        text = line.decode("utf-8", "replace")
        try:
            rows = list(csv.reader([text], delimiter=self._delimiter, strict=True))
        except csv.Error:
            return False
        return len(rows) == 1 and len(rows[0]) == self._width

    def _found(
        self, one: Begun[Chunk, Summed | None], ahead: Ahead[Chunk, Summed | None]
    ) -> Summed | None:
        """What the engine makes of a chunk; None also where its memory is not enough for that even
        while nobody else is at work."""
        import duckdb

        try:
            return one.result()
        except duckdb.OutOfMemoryException:
            ahead.wait()
        self._engine.renew(one.side)
        try:
            return self._summed(one.piece, one.side)
        except duckdb.OutOfMemoryException:
            return None

    def _kept_in(self, summed: Summed) -> list[int]:
        """Adds a chunk to the sums; the numbers of its lines that are not in them."""
        found = summed.found
        is_taken = self._sums.accepts(found)
        alone = list(found.alone)
        if not is_taken:
            alone += self._sums.refused_lines(found, summed.source, "line", summed.way.whole)
        if summed.way is self._even:
            self._learn_usual(found.table)
        self._sums.keep(found)
        if summed.way is not self._careful:
            self._harmless.learn(summed.source)
        return sorted(alone)

    def _learn_usual(self, table: str) -> None:
        self._usual.learn(table)
        layout = replace(self._even.layout, usual=self._usual.texts)
        self._usual_way = replace(self._even, layout=layout) if layout.usual else None

    def _read_csv(self, scratch: Path, line_feed: str, way: Way) -> str:
        columns = ", ".join(f"'v{place}': 'VARCHAR'" for place in range(way.columns))
        return (
            f"read_csv('{scratch}', columns = {{{columns}}}, header = false, "
            f"auto_detect = false, delim = '{self._delimiter}', quote = '\"', escape = '\"', "
            f"new_line = '{line_feed}', nullstr = '{_NO_CELL}', comment = '', strict_mode = true, "
            f"null_padding = {str(way.pads).lower()}, max_line_size = {LONGEST_LINE})"
        )


def _write(scratch: Path, content: Content) -> None:
    """Lines where the engine reads them; over those before, whose space need not be freed."""
    mode = "r+b" if scratch.exists() else "wb"
    with scratch.open(mode, buffering=0) as file:
        file.write(content)
        file.truncate(len(content))


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


def _is_odd(content: Content) -> bool:
    """Whether blanks stand between a quotation mark and the end of its cell that it may be of."""
    before = _QUOTE_AFTER_BLANK.finditer(content)
    if any(_begins_cell(content, found.start()) for found in before):
        return True
    return _BLANK_AFTER_QUOTE.search(content) is not None


def _is_utf8(content: Content) -> bool:
    try:
        return content.isascii() or bool(content.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _begins_cell(content: Content, place: int) -> bool:
    """Whether only blanks stand between a place and the beginning of its cell."""
    while place and content[place - 1] == _BLANK:
        place -= 1
    return not place or content[place - 1] in _BEFORE_CELL
