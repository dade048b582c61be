"""FOCUS Parquet files in bulk: the engine sums lines where they lie, the parser reads the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from finops.core.allocation import Rule
from finops.sources.bulk_ahead import Ahead
from finops.sources.bulk_engine import Engine, Side
from finops.sources.bulk_kept import MOST_DIGITS, QUANTITIES, KeptLines
from finops.sources.bulk_store import Found, Sums
from finops.sources.bulk_sums import (
    AMOUNTS,
    DECIMALS,
    OPTIONAL,
    SPAN,
    Amount,
    Layout,
    engine_name,
    filled,
    grouped,
)
from finops.sources.bulk_table import Table
from finops.sources.parquet import as_text
from finops.sources.records import Account, ChargeRecord, Rejection
from finops.sources.rows import Cells, Row, Warnings, charges_of

FIRST_LINE: Final = 2  # as if the names of the columns stood on line 1
WHOLE_LINES: Final = 16_384
MOST_ROWS: Final = 1 << 20
"""Of a piece; of more it takes no less work for each, only more memory, and what was found comes later."""
LEAST_ROWS: Final = 1 << 17
FEWEST_ROWS: Final = 1 << 12
_HALVES: Final = 8  # a piece is made so many times smaller before the engine gets more memory
_WHOLE_NUMBERS: Final = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""Types of whole numbers, and how many digits one has at most."""

Build = Callable[[Row], ChargeRecord | None]


def described(engine: Engine, file: str) -> list[tuple[str, str]]:
    """The names and types of a file's columns."""
    found = engine.rows("DESCRIBE SELECT * FROM read_parquet($file)", {"file": file})
    return [(str(column[0]), str(column[1])) for column in found]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of the file that follow each other, counted from 0; `end` is no more one of them."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """How many there are."""
        return self.end - self.start

    def halves(self) -> tuple[Rows, Rows]:
        """The first and the second half."""
        middle = self.start + self.count // 2
        return Rows(self.start, middle), Rows(middle, self.end)


@dataclass(frozen=True, slots=True)
class Summed:
    """What the engine made of some rows: sums, and queries of the lines that stay whole, some thousand
    each, to be asked before the sums are kept."""

    found: Found
    whole: Sequence[str]


class ParquetLines:
    """One Parquet file while it is read in bulk, some rows at a time."""

    def __init__(
        self,
        file: str,
        columns: Sequence[tuple[str, str]],
        places: Mapping[str, int],
        rules: Sequence[Rule],
        engine: Engine,
    ) -> None:
        self._engine, self._columns, self._places = engine, columns, places
        self._file = file
        self._line = f"(file_row_number + {FIRST_LINE})"
        texts = {name: as_text(*columns[place]) for name, place in places.items()}
        amounts = {
            name: _amount(*columns[places[name]], required=name not in OPTIONAL)
            for name in AMOUNTS.values()
            if name in places
        }
        groups = {name: _group(*columns[place]) for name, place in places.items()}
        self._layout = Layout(texts, amounts, rules, filled(texts), groups)
        self._whole = self._layout.stays_whole()
        self._mark = _unused("alone", columns)
        self._sums = Sums(engine, self._layout, "alone < 0")
        numbers = [
            n for n in QUANTITIES.values() if n in places and _is_plain(columns[places[n]][1])
        ]
        self._kept = KeptLines(engine, places, self._layout.scales, numbers)
        kinds = (*self._layout.kind, *SPAN)
        self._usual_rows = self._most_rows = MOST_ROWS
        self._others = [n for n in self._kept.columns if n not in kinds]

    def records(
        self, account: Account, build: Build, threads: int
    ) -> Iterator[ChargeRecord | Rejection | Table]:
        """The lines kept whole, as tables or one by one, rejections, and sums of the others."""
        warnings = Warnings(account)

        def told(rows: Rows, summed: Summed) -> Iterator[ChargeRecord | Rejection | Table]:
            yield from self._records_of(rows, summed, account, build, warnings)

        pieces = self._pieces(threads)
        with Ahead(self._engine, threads, lambda: next(pieces, None), self._summed) as ahead:
            for one in ahead:
                try:
                    summed = one.result()
                except _out_of_memory():
                    ahead.wait()
                    yield from self._alone(one.piece, one.side, told)
                else:
                    yield from told(one.piece, summed)
        yield from self._sums.taken()
        warnings.close()

    def _pieces(self, threads: int) -> Iterator[Rows]:
        """The file's rows, whole row groups where these are not larger than a piece."""
        groups = self._engine.rows(
            "SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata($file) ORDER BY 1",
            {"file": self._file},
        )
        share = sum(count for _, count in groups) // (2 * threads)
        self._most_rows = self._usual_rows = min(MOST_ROWS, max(LEAST_ROWS, share))
        start = end = 0
        for _, count in groups:
            if end > start and end + count - start > self._most_rows:
                yield Rows(start, end)
                start = end
            end += count
            while end - start > self._most_rows:
                piece = Rows(start, start + self._most_rows)  # which may be less the next time
                start = piece.end
                yield piece
        if end > start:
            yield Rows(start, end)

    def _alone(
        self, rows: Rows, side: Side, told: Callable[[Rows, Summed], Iterator[Any]]
    ) -> Iterator[Any]:
        """Rows for which the engine had no room: nobody else at work; then in smaller pieces, then
        with more memory, as far as either goes."""
        self._engine.renew(side)
        try:
            summed = self._summed(rows, side)
        except _out_of_memory():
            if rows.count <= self._usual_rows // _HALVES and self._engine.widen():
                self._most_rows = self._usual_rows
                yield from self._alone(rows, side, told)
                return
            if rows.count <= FEWEST_ROWS:
                raise
            for half in rows.halves():
                self._most_rows = min(self._most_rows, half.count)
                yield from self._alone(half, side, told)
        else:
            yield from told(rows, summed)

    def _source(self, rows: Rows) -> str:
        return (
            f"(SELECT * FROM read_parquet('{self._file}', file_row_number = true) "  # noqa: S608
            f"WHERE file_row_number >= {rows.start} AND file_row_number < {rows.end})"
        )

    def _summed(self, rows: Rows, side: Side) -> Summed:
        """Sums of some rows, and the lines that stay whole."""
        source, run = self._source(rows), side.connection.execute
        query = grouped(self._layout, source, self._line, self._whole, signs=True, mark=self._mark)
        found = self._sums.find(query, side)
        others, whole = f"others_{side.number}", f"whole_{side.number}"
        texts = "".join(
            f", coalesce({self._layout.texts[name]}, '') AS {engine_name(name)}"
            for name in self._others
        )
        alone = f"(SELECT alone - {FIRST_LINE} FROM {found.table} WHERE alone >= 0)"  # noqa: S608
        run(
            f"CREATE OR REPLACE TABLE {others} AS SELECT {self._line} AS line{texts} FROM {source} "  # noqa: S608
            f"WHERE file_row_number IN {alone}"
        )
        chosen = [engine_name(name) for name in (*self._kept.columns, *self._kept.amounts)]
        chosen += [f"d_{engine_name(name)}" for name in self._kept.amounts]
        # An inner join would make a place in memory for every number between the first and the last.
        joined = (
            f"SELECT line, {', '.join(chosen)} FROM {others} "  # noqa: S608
            f"LEFT JOIN (SELECT * FROM {found.table} WHERE alone >= 0) ON alone = line"
        )
        ((count,),) = run(f"SELECT count(*) FROM {others}").fetchall()  # noqa: S608
        if count <= WHOLE_LINES:
            return Summed(found, [joined] if count else [])
        run(f"CREATE OR REPLACE TABLE {whole} AS {joined} ORDER BY line")
        run(f"DROP TABLE {others}")
        part = f"SELECT * FROM {whole} WHERE rowid"  # noqa: S608
        starts = range(0, count, WHOLE_LINES)
        return Summed(
            found, [f"{part} >= {start} AND rowid < {start + WHOLE_LINES}" for start in starts]
        )

    def _records_of(
        self, rows: Rows, summed: Summed, account: Account, build: Build, warnings: Warnings
    ) -> Iterator[ChargeRecord | Rejection | Table]:
        """The lines kept whole of some rows; the others go to the sums."""
        found = summed.found
        is_taken = self._sums.accepts(found)
        uncertain = list(found.alone)
        if not is_taken:
            source = self._source(rows)
            uncertain += self._sums.refused_lines(found, source, self._line, self._whole)
        account.rows_read += found.lines - len(uncertain)
        for query in summed.whole:
            yield from self._whole_lines(query, account, build, warnings)
        self._sums.keep(found)
        cells = self._cells(rows, uncertain)
        yield from charges_of(cells, len(self._columns), self._places, account, build, warnings)
        yield from self._sums.taken() if self._sums.full else self._sums.past()

    def _whole_lines(
        self, query: str, account: Account, build: Build, warnings: Warnings
    ) -> Iterator[ChargeRecord | Rejection | Table]:
        """Some lines that stay whole: a table of the ordinary ones, then the others."""
        table, odd = self._kept.take(f"SELECT *, TRUE AS plain FROM ({query})")  # noqa: S608
        if table is not None:
            yield table
        account.rows_read -= len(odd)  # counted as they are read
        places = self._kept.places
        cells = self._kept.rows("SELECT line FROM kept ANTI JOIN ready USING (line)")
        yield from charges_of(cells, len(places), places, account, build, warnings)

    def _cells(self, rows: Rows, numbers: Sequence[int]) -> Iterator[tuple[int, Cells]]:
        """Single lines with all their columns as text."""
        if not numbers:
            return
        texts = ", ".join(as_text(*column) for column in self._columns)
        query = (
            f"SELECT {self._line}, {texts} FROM {self._source(rows)} "  # noqa: S608 - names are quoted
            f"WHERE file_row_number IN (SELECT unnest($1) - {FIRST_LINE})"
        )
        for line, *cells in self._engine.streamed(query, [list(numbers)]):
            yield line, cells


def _out_of_memory() -> type[BaseException]:
    import duckdb

    return duckdb.OutOfMemoryException


def _group(column: str, kind: str) -> str:
    """What lines are grouped by for a column's text: the column itself, where texts differ as it does,
    for then each text is made once for all lines that have it."""
    if kind == "VARCHAR" or kind.startswith("TIMESTAMP"):
        return _quoted(column)
    return as_text(column, kind)


def _unused(name: str, columns: Sequence[tuple[str, str]]) -> str:
    """A name like this one that no column has."""
    taken = {column.lower() for column, _ in columns}
    while name in taken:
        name += "_"
    return name


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _amount(column: str, kind: str, *, required: bool) -> Amount:
    """A column of money by its type; what is no exact number is taken by its text."""
    name, exact = _quoted(column), _digits(kind)
    if exact is not None and exact[1] <= DECIMALS:
        return Amount.of_decimal(name, kind, *exact, required=required)
    return Amount.of_text(as_text(column, kind), required=required)


def _digits(kind: str) -> tuple[int, int] | None:
    """How many digits a number of an exact type has at most, before the point and behind it."""
    if kind in _WHOLE_NUMBERS:
        return _WHOLE_NUMBERS[kind], 0
    if not kind.startswith("DECIMAL("):
        return None
    width, scale = map(int, kind.removeprefix("DECIMAL(").removesuffix(")").split(","))
    return width - scale, scale


def _is_plain(kind: str) -> bool:
    """Whether every number of a type is copied as it stands, where it is a quantity."""
    digits = _digits(kind)
    return digits is not None and max(digits) <= MOST_DIGITS
