"""Rows of a Parquet file as text, streamed; the database engine behind it is opened for one file.

Decimals and integers come exactly; a DOUBLE comes as the shortest text that gives it back. Decimals
of more digits than the engine has would come as binary floats, so such a file is refused. The first row is called line 2, as if the names of the columns stood on line 1.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from finops.sources.files import MAX_COLUMNS
from finops.sources.records import Refused

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Ask = Callable[[str, dict[str, Any]], list[tuple[Any, ...]]]

MAGIC: Final = b"PAR1"
BATCH_ROWS: Final = 2048
LARGEST_DESCRIPTION_BYTES: Final = 32 * 1024 * 1024
MOST_DECIMAL_DIGITS: Final = 38  # of the engine's DECIMAL; it reads wider ones as DOUBLE
_TAIL_BYTES: Final = 8  # the description's size, and the mark at the end
_SETTINGS: Final = {
    "threads": "1",
    "memory_limit": "1GB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_SEPARATORS: Final = b" _-/."
_NESTED: Final = ("MAP", "STRUCT", "UNION")


def is_parquet(head: bytes) -> bool:
    """Whether a document starts as Parquet files do."""
    return head.startswith(MAGIC)


def has_columns(head: bytes, *columns: str) -> bool:
    """Whether the names of columns stand in a Parquet file's bytes, however they are spelled there.

    As in headers of text, upper and lower case, blanks, `_`, `-`, `/` and `.` make no difference: a
    warehouse through which an export went writes names in its own way.
    """
    plain = head.lower().translate(None, _SEPARATORS)
    return all(column.lower().encode().translate(None, _SEPARATORS) in plain for column in columns)


def parquet_rows(path: Path, name: str) -> Iterator[tuple[int, list[str | None]]]:
    """Line 1 with the columns' names, then each row with its line; cells are text or None.

    Refused when the file is damaged, or is no Parquet file after all.
    """
    import duckdb  # kept out of start-up: only Parquet files need it

    with tempfile.TemporaryDirectory(prefix="headroom-parquet-") as folder:
        plain = Path(folder) / "document.parquet"  # a name without the signs of a glob
        plain.symlink_to(path.resolve())
        try:
            with duckdb.connect(":memory:", config=dict(_SETTINGS)) as connection:
                yield from _rows(connection, str(plain), str(path.resolve()), name)
        except duckdb.Error as error:
            first = str(error).splitlines()[0].replace(str(plain), name)
            raise Refused(f"{name}: not readable as Parquet ({first[:200]})") from None


def check_description(ask: Ask, file: str, name: str) -> None:
    """Refused for a file of too many columns, or of decimals that would not come exactly (method §1).

    The engine's time grows with the square of the columns. The size of the file's own description is looked at first, for it is read into memory whole.
    """
    with open(file, "rb") as stream:
        stream.seek(-min(_TAIL_BYTES, stream.seek(0, io.SEEK_END)), io.SEEK_END)
        tail = stream.read()
    described_bytes = int.from_bytes(tail[:4], "little")
    if len(tail) == _TAIL_BYTES and described_bytes > LARGEST_DESCRIPTION_BYTES:
        raise Refused(
            f"{name}: not readable as Parquet (its columns take {described_bytes} bytes to describe)"
        )
    query = "SELECT count(*) - 1 FROM parquet_schema($file)"
    ((columns,),) = ask(query, {"file": file})
    if columns > MAX_COLUMNS:
        raise Refused(f"{name}: {columns} columns, over {MAX_COLUMNS}")
    wide = ask(
        "SELECT name, precision, scale FROM parquet_schema($file) WHERE precision > $most LIMIT 1",
        {"file": file, "most": MOST_DECIMAL_DIGITS},
    )
    for column, precision, scale in wide:
        raise Refused(
            f"{name}: the column {column} is DECIMAL({precision}, {scale}); over {MOST_DECIMAL_DIGITS} "
            f"digits are not read exactly from Parquet. Write it as DECIMAL({MOST_DECIMAL_DIGITS}, …) "
            "or as text",
            column=str(column),
        )


def _rows(
    connection: DuckDBPyConnection, file: str, target: str, name: str
) -> Iterator[tuple[int, list[str | None]]]:
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET allowed_paths = [$a, $b]", {"a": file, "b": target})
    connection.execute("SET enable_external_access = false")
    check_description(
        lambda query, values: connection.execute(query, values).fetchall(), file, name
    )
    described: list[tuple[Any, ...]] = connection.execute(
        "DESCRIBE SELECT * FROM read_parquet($file)", {"file": file}
    ).fetchall()
    columns = [(str(column[0]), str(column[1])) for column in described]
    yield 1, [column for column, _ in columns]
    wanted = ", ".join(as_text(column, kind) for column, kind in columns)
    query = f"SELECT {wanted} FROM read_parquet($file)"  # noqa: S608 - names are quoted
    cursor = connection.execute(query, {"file": file})
    line = 1
    while batch := cursor.fetchmany(BATCH_ROWS):
        for row in batch:
            line += 1
            yield line, list(row)


def as_text(column: str, kind: str) -> str:
    """A column as text in SQL; nested values as JSON."""
    quoted = '"' + column.replace('"', '""') + '"'
    nested = kind.startswith(_NESTED) or kind.endswith("]")
    return f"CAST(to_json({quoted}) AS VARCHAR)" if nested else f"CAST({quoted} AS VARCHAR)"
