"""FOCUS Parquet files in bulk: the engine sums lines where they lie, the parser reads the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from finops.core.allocation import Rule
from finops.sources.bulk_kept import SHAPE, KeptLines
from finops.sources.bulk_store import Sums
from finops.sources.bulk_sums import (
    AMOUNTS,
    DECIMALS,
    OPTIONAL,
    SPAN,
    Amount,
    Layout,
    engine_name,
    grouped,
)
from finops.sources.bulk_table import Table
from finops.sources.parquet import as_text
from finops.sources.records import Account, ChargeRecord, Rejection
from finops.sources.rows import Cells, Row, Warnings, charges_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FIRST_LINE: Final = 2  # as if the names of the columns stood on line 1
FETCHED_ROWS: Final = 2_000
WHOLE_LINES: Final = 16_384
_WHOLE_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")

Build = Callable[[Row], ChargeRecord | None]


def described(connection: DuckDBPyConnection, file: str) -> list[tuple[str, str]]:
    """The names and types of a file's columns."""
    found: list[tuple[Any, ...]] = connection.execute(
        "DESCRIBE SELECT * FROM read_parquet($file)", {"file": file}
    ).fetchall()
    return [(str(column[0]), str(column[1])) for column in found]


class ParquetLines:
    """One Parquet file while it is read in bulk."""

    def __init__(
        self,
        file: str,
        columns: Sequence[tuple[str, str]],
        places: Mapping[str, int],
        rules: Sequence[Rule],
        connection: DuckDBPyConnection,
    ) -> None:
        self._connection, self._columns, self._places = connection, columns, places
        self._source = f"read_parquet('{file}', file_row_number = true)"
        self._line = f"(file_row_number + {FIRST_LINE})"
        texts = {name: as_text(*columns[place]) for name, place in places.items()}
        amounts = {
            name: _amount(*columns[places[name]], required=name not in OPTIONAL)
            for name in AMOUNTS.values()
            if name in places
        }
        self._layout = Layout(texts, amounts, rules)
        self._sums = Sums(connection, self._layout)
        self._kept = KeptLines(connection, places)

    def records(self, account: Account, build: Build) -> Iterator[ChargeRecord | Rejection | Table]:
        """The lines kept whole, as tables or one by one, rejections, and sums of the others."""
        whole, kinds = self._layout.stays_whole(), (*self._layout.kind, *SPAN)
        told = [name for name in SHAPE if name in self._places and name not in kinds]
        lines, more = self._sums.take_in(
            grouped(self._layout, self._source, self._line, whole, told)
        )
        uncertain = self._sums.alone("alone < 0")
        if more:
            uncertain += self._sums.refused_lines(self._source, self._line, whole)
        self._sums.keep()
        known = (*kinds, *told)
        others = [name for name in self._kept.columns if name not in known]
        count = self._wanted(others)
        account.rows_read += lines - len(uncertain)
        warnings = Warnings(account)
        for start in range(0, count, WHOLE_LINES):
            yield from self._whole_lines(start, account, build, warnings)
        rows = self._rows(uncertain)
        yield from charges_of(rows, len(self._columns), self._places, account, build, warnings)
        warnings.close()
        yield from self._sums.taken()

    def _wanted(self, others: Sequence[str]) -> int:
        """Makes a table of the lines that stay whole, with what the sums did not tell of them.

        How many there are.
        """
        texts = "".join(
            f", coalesce({self._layout.texts[name]}, '') AS {engine_name(name)}" for name in others
        )
        rows = f"(SELECT alone - {FIRST_LINE} FROM found WHERE alone >= 0)"  # noqa: S608
        self._connection.execute(
            f"CREATE TABLE others AS SELECT {self._line} AS line{texts} FROM {self._source} "  # noqa: S608
            f"WHERE file_row_number IN {rows}"
        )
        chosen = [engine_name(name) for name in (*self._kept.columns, *self._kept.amounts)]
        chosen += [f"d_{engine_name(name)}" for name in self._kept.amounts]
        self._connection.execute(
            f"CREATE TABLE whole AS SELECT line, {', '.join(chosen)} FROM found JOIN others "  # noqa: S608
            "ON alone = line ORDER BY line"
        )
        return int(self._connection.execute("SELECT count(*) FROM whole").fetchall()[0][0])

    def _whole_lines(
        self, start: int, account: Account, build: Build, warnings: Warnings
    ) -> Iterator[ChargeRecord | Rejection | Table]:
        """Some lines that stay whole: a table of the ordinary ones, then the others."""
        rows = f"rowid >= {start} AND rowid < {start + WHOLE_LINES}"
        query = f"SELECT *, TRUE AS plain FROM whole WHERE {rows}"  # noqa: S608
        table, odd = self._kept.take(query)
        if table is not None:
            yield table
        account.rows_read -= len(odd)  # counted as they are read
        places = self._kept.places
        cells = self._kept.rows("SELECT line FROM kept ANTI JOIN ready USING (line)")
        yield from charges_of(cells, len(places), places, account, build, warnings)

    def _rows(self, numbers: Sequence[int]) -> Iterator[tuple[int, Cells]]:
        """Single lines with all their columns as text."""
        if not numbers:
            return
        texts = ", ".join(as_text(*column) for column in self._columns)
        query = (
            f"SELECT {self._line}, {texts} FROM {self._source} "  # noqa: S608 - names are quoted
            f"WHERE file_row_number IN (SELECT unnest($1) - {FIRST_LINE})"
        )
        cursor = self._connection.execute(query, [list(numbers)])
        while batch := cursor.fetchmany(FETCHED_ROWS):
            for line, *cells in batch:
                yield line, cells


def _amount(column: str, kind: str, *, required: bool) -> Amount:
    """A column of money by its type; what is no exact number is taken by its text."""
    name = '"' + column.replace('"', '""') + '"'
    if kind in _WHOLE_NUMBERS:
        return Amount.of_decimal(name, 0, required=required)
    if kind.startswith("DECIMAL("):
        scale = int(kind.removesuffix(")").partition(",")[2])
        if scale <= DECIMALS:
            return Amount.of_decimal(name, scale, required=required)
    return Amount.of_text(as_text(column, kind), required=required)
