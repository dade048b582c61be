"""FOCUS Parquet files in bulk: the engine sums lines where they lie, the parser reads the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from finops.core.allocation import Rule
from finops.sources.bulk_store import Sums
from finops.sources.bulk_sums import AMOUNTS, DECIMALS, OPTIONAL, Amount, Layout, grouped
from finops.sources.bulk_table import SumsTable
from finops.sources.parquet import as_text
from finops.sources.records import Account, ChargeRecord, Rejection
from finops.sources.rows import Cells, Row, Warnings, charges_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FIRST_LINE: Final = 2  # as if the names of the columns stood on line 1
FETCHED_ROWS: Final = 2_000
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

    def records(
        self, account: Account, build: Build
    ) -> Iterator[ChargeRecord | Rejection | SumsTable]:
        """Charges and rejections of lines read one by one, and the sums of the others."""
        whole = self._layout.stays_whole()
        lines, alone, more = self._sums.take_in(
            grouped(self._layout, self._source, self._line, whole)
        )
        if more:
            alone += self._sums.refused_lines(self._source, self._line, whole)
        self._sums.keep()
        account.rows_read += lines - len(alone)
        warnings = Warnings(account)
        rows = self._rows(alone)
        yield from charges_of(rows, len(self._columns), self._places, account, build, warnings)
        warnings.close()
        yield from self._sums.taken()

    def _rows(self, numbers: Sequence[int]) -> Iterator[tuple[int, Cells]]:
        """Single lines with all their columns as text."""
        if not numbers:
            return
        self._connection.execute("CREATE TABLE wanted (line BIGINT)")
        for start in range(0, len(numbers), FETCHED_ROWS):
            values = ", ".join(f"({line})" for line in numbers[start : start + FETCHED_ROWS])
            self._connection.execute(f"INSERT INTO wanted VALUES {values}")  # noqa: S608
        texts = ", ".join(as_text(*column) for column in self._columns)
        query = (
            f"SELECT {self._line}, {texts} FROM {self._source} "  # noqa: S608 - names are quoted
            f"WHERE {self._line} IN (SELECT line FROM wanted)"
        )
        cursor = self._connection.execute(query)
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
