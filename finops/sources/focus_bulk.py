"""FOCUS Cost and Usage in bulk: the database engine sums what is plain, the parser reads the rest.

Lines that are GPU time, that a rule may reach, or that hold anything the engine could take otherwise
than the parser does, go through the parser, line by line. The others are summed by the texts of
their dimensions, and the parser reads one line of each stamp: what it would refuse or remark on is
not summed. So charges, rejections and totals are those of `focus.parse`; only their order differs,
and cells that no sum keeps (tags, quantities) are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from finops.core.allocation import Rule
from finops.sources import focus
from finops.sources import focus_columns as columns
from finops.sources.bulk_chunks import Chunks
from finops.sources.bulk_csv import CsvLines, plain_header
from finops.sources.bulk_engine import Engine, engine
from finops.sources.bulk_parquet import ParquetLines, described
from finops.sources.bulk_sums import SPAN
from finops.sources.bulk_table import Table
from finops.sources.files import open_plain, without_marks
from finops.sources.parquet import MAGIC, check_description, is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Rejection

MOST_THREADS: Final = 3
"""Each has a piece of the document in memory, which is to stay within 512 MiB."""
_COUNTED_BYTES: Final = 1 << 20

Records = Iterator[ChargeRecord | Rejection | Table]


def has_more_lines(path: Path, name: str, limit: int) -> bool:
    """Whether a document has more than so many lines; a CSV is unpacked no further than that.

    Refused when it cannot be read that far.
    """
    with open_plain(path, name) as stream:
        if is_parquet(stream.read(len(MAGIC))):
            return _parquet_rows(path, name) > limit
    with open_plain(path, name) as stream:
        lines = -1  # the header
        while part := stream.read(_COUNTED_BYTES):
            lines += part.count(b"\n")
            if lines > limit:
                return True
    return False


def parse(path: Path, name: str, format: str, rules: Sequence[Rule], threads: int) -> Parsed:
    """As `focus.parse`; of lines that no rule of `rules` reaches and that are no GPU time, sums.

    Sums come as a SumsTable, to be read before the next record; any other record is one line, which
    may still be summed. A file whose header is not plain is read as `focus.parse` reads it.
    """
    with open_plain(path, name) as stream:
        is_table = is_parquet(stream.read(len(MAGIC)))
    if is_table:
        header = [column for column, _ in _parquet_columns(path, name)]
    else:
        with open_plain(path, name) as stream:
            line = without_marks(stream.readline(_COUNTED_BYTES))
        header = plain_header(line, name) or []
    places = columns.placed(header)
    is_plain = not columns.duplicates(header) and columns.looks_like_focus(header)
    if not is_plain or not set(SPAN) <= places.keys():
        return focus.parse(path, name, format)
    version = columns.version_of(header)
    account = Account(
        format,
        version=version,
        unknown_columns=columns.unknown(header, places),
        missing_columns=columns.missing(places, version),
        adds_to_others=any(column in header for column in focus.ADDING),
    )
    read = _of_parquet if is_table else _of_csv
    at_once = min(threads, MOST_THREADS)
    return Parsed(account, read(path, name, header, places, rules, at_once, account))


def _of_csv(
    path: Path,
    name: str,
    header: Sequence[str],
    places: dict[str, int],
    rules: Sequence[Rule],
    threads: int,
    account: Account,
) -> Records:
    with engine(name) as one:
        one.only_in_folder()
        chunks = Chunks(path, name, alone=threads == 1)
        try:
            lines = CsvLines(chunks, name, header, places, rules, one)
            yield from lines.records(account, focus.charge_of, threads)
        finally:
            chunks.close()


def _of_parquet(
    path: Path,
    name: str,
    header: Sequence[str],
    places: dict[str, int],
    rules: Sequence[Rule],
    threads: int,
    account: Account,
) -> Records:
    with _parquet(path, name) as (one, file):
        lines = ParquetLines(file, described(one, file), places, rules, one)
        yield from lines.records(account, focus.charge_of, threads)


def _parquet_columns(path: Path, name: str) -> list[tuple[str, str]]:
    with _parquet(path, name) as (one, file):
        return described(one, file)


def _parquet_rows(path: Path, name: str) -> int:
    with _parquet(path, name) as (one, file):
        query = "SELECT count(*) FROM read_parquet($file)"
        return int(one.rows(query, {"file": file})[0][0])


@contextmanager
def _parquet(path: Path, name: str) -> Iterator[tuple[Engine, str]]:
    """The engine, and the document under a name without the signs of a glob."""
    with engine(name) as one:
        plain = Path(one.folder) / "document.parquet"
        plain.symlink_to(path.resolve())
        one.execute("SET TimeZone = 'UTC'")
        one.only_in_folder(str(path.resolve()))
        check_description(one.rows, str(plain), name)
        yield one, str(plain)
