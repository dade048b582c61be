"""Ledgers as Parquet beside their CSV: the same rows, the same bytes for the same CSV and build.

Whole numbers are BIGINT. Everything else is VARCHAR, amounts too, so that they are exact: an amount
of an invoice may have more digits than any decimal type holds. An empty cell is NULL.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .dictionary import kind_of, kinds

# One thread, so that rows and row groups stand in one order; nothing is fetched.
SETTINGS = {
    "threads": "1",
    "preserve_insertion_order": "true",
    "memory_limit": "1GB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
COPY = "COPY ({rows}) TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880)"


def parquet_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """`ledgers/NAME.parquet` for each `ledgers/NAME.csv`."""
    import duckdb  # kept out of start-up: only packs need it

    found: dict[str, bytes] = {}
    with (
        tempfile.TemporaryDirectory(prefix="headroom-pack-") as folder,
        duckdb.connect(":memory:", config=dict(SETTINGS)) as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")
        for name in sorted(files):
            if name.startswith("ledgers/") and name.endswith(".csv"):
                of = name.removeprefix("ledgers/").removesuffix(".csv")
                found[f"ledgers/{of}.parquet"] = _made(connection, Path(folder), of, files[name])
    return found


def _made(connection: Any, folder: Path, name: str, content: bytes) -> bytes:
    source, target = folder / "rows.csv", folder / "rows.parquet"
    source.write_bytes(content)
    header = next(csv.reader(io.StringIO(content.decode(), newline="")))
    known = kinds(name)
    types = ", ".join(f"{_quoted(one)}: 'VARCHAR'" for one in header)
    rows = (
        f"SELECT {', '.join(_cell(one, kind_of(known, one)) for one in header)} "  # noqa: S608
        f"FROM read_csv('{source}', header=true, auto_detect=false, parallel=false, delim=',', new_line='\\n', "
        f"quote='\"', escape='\"', nullstr='', max_line_size=16777216, columns={{{types}}})"
    )  # the names are the table's own; the folder is ours
    connection.execute(COPY.format(rows=rows, path=target))
    return target.read_bytes()


def _cell(name: str, kind: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    return f"CAST({quoted} AS BIGINT) AS {quoted}" if kind == "whole" else quoted


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def telling_other_rows(files: Mapping[str, bytes], tables: Mapping[str, str]) -> Iterator[str]:
    """The names of the Parquet files, whatever build wrote them, that do not tell the rows of their
    CSV; `tables` has the CSV's name for each."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="headroom-pack-") as folder, ExitStack() as opened:
        path, connection = Path(folder) / "rows.parquet", None
        for name, of in tables.items():
            if connection is None:
                connection = opened.enter_context(duckdb.connect(":memory:", config=dict(SETTINGS)))
            path.write_bytes(files[name])
            try:
                told = _rows_told(connection, path)
            except duckdb.Error:
                told, connection = [], None  # a bad file may leave the engine in any state
            if told != list(csv.reader(io.StringIO(files[of].decode(), newline=""))):
                yield name


def _rows_told(connection: Any, path: Path) -> list[list[str]]:
    """The names and rows of a Parquet file as a CSV tells them."""
    told = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
    names = [one[0] for one in told.description]
    return [names, *(["" if v is None else str(v) for v in row] for row in told.fetchall())]
