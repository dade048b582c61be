"""Rows of a billing file by the true names of their columns, and what is said of bad cells.

What all exports of charges share: a cell that costs money and cannot be read makes its row a
rejection; any other is left out with a note, and the row's money counts.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

from finops.sources import currencies
from finops.sources.cells import (
    NULLS,
    instant_past_midnight,
    month_first_date,
    number,
    text_map,
    text_or_none,
)
from finops.sources.files import csv_rows, open_plain, without_marks
from finops.sources.json_rows import json_rows, looks_like_json
from finops.sources.parquet import MAGIC, is_parquet, parquet_rows
from finops.sources.records import Account, ChargeRecord, Rejection

SHOWN_WARNINGS: Final = 20
DELIMITERS: Final = ",;\t"
_SEPARATOR_LINE: Final = re.compile(rb"sep=([,;\t|])\r?\n?", re.IGNORECASE)

Cells = Sequence[str | None]
Rows = Iterator[tuple[int, Cells]]


class Fault(Exception):
    """A cell that costs the row its place: column, value, reason."""

    def __init__(self, column: str, value: object, reason: str) -> None:
        super().__init__(reason)
        self.column, self.value, self.reason = column, value, reason


class Row:
    """One row's cells by the true names of their columns."""

    def __init__(self, cells: Cells, places: Mapping[str, int], line: int) -> None:
        self._cells, self._places, self.line = cells, places, line
        self.notes: list[str] = []

    def text(self, column: str) -> str | None:
        """As `text_or_none`, whose body stands here because some fifty cells a row are asked for."""
        place = self._places.get(column)
        cell = None if place is None else self._cells[place]
        if cell is None:
            return None
        stripped = cell.strip()
        return None if stripped in NULLS else stripped

    def at(self, place: int) -> str | None:
        """The text of a cell by its place, for columns whose names are not known beforehand."""
        return text_or_none(self._cells[place])

    def required(self, column: str) -> str:
        text = self.text(column)
        if text is None:
            raise Fault(column, self._raw(column), "missing")
        return text

    def has(self, column: str) -> bool:
        """Whether the file has the column at all."""
        return column in self._places

    def _raw(self, column: str) -> str | None:
        place = self._places.get(column)
        return None if place is None else self._cells[place]

    def money(self, column: str, required: bool) -> Decimal | None:
        """An amount; None where the column is absent, or an optional cell is null."""
        if column not in self._places:
            return None
        text = self.required(column) if required else self.text(column)
        return None if text is None else self._number(column, text)

    def quantity(self, column: str) -> Decimal | None:
        """A figure that is not money: unreadable, it is noted and left out."""
        text = self.text(column)
        try:
            return None if text is None else number(text)
        except ValueError as error:
            self._note(column, text, error)
            return None

    def _number(self, column: str, text: str) -> Decimal:
        try:
            return number(text)
        except ValueError as error:
            raise Fault(column, text, str(error)) from None

    def currency(self, column: str) -> str:
        """A currency's code, required (`sources.currencies`)."""
        text = self.required(column)
        code = currencies.in_capitals(text)
        reason = currencies.refusal(code)
        if reason:
            raise Fault(column, text, reason)
        return code

    def moment(self, column: str) -> datetime:
        text = self.required(column)
        try:
            if "/" not in text:
                moment, past_midnight = instant_past_midnight(text)
                if past_midnight:
                    self.notes.append(f"line {self.line}, {column}: {text} is read as {moment}")
                return moment
            moment = month_first_date(text)
        except ValueError as error:
            raise Fault(column, text, str(error)) from None
        self.notes.append(f"dates such as {text} are read month first, as UTC")
        return moment

    def map(self, column: str) -> dict[str, str]:
        text = self.text(column)
        try:
            return text_map(text) if text else {}
        except ValueError as error:
            self._note(column, text, error)
            return {}

    def _note(self, column: str, value: object, reason: object) -> None:
        shown = str(value)[:80]
        self.notes.append(f"line {self.line}, {column}: {shown!r} is left out ({reason})")


class Warnings:
    """The account's warnings, each once and no more than a page can show."""

    def __init__(self, account: Account) -> None:
        self._account, self._seen, self._more = account, set[str](), 0

    def add(self, notes: Sequence[str]) -> None:
        for note in notes:
            key = "month first" if note.endswith("as UTC") else note
            if key in self._seen:
                continue
            if len(self._seen) >= SHOWN_WARNINGS:
                self._more += 1
                continue
            self._seen.add(key)
            self._account.warnings.append(note)

    def close(self) -> None:
        if self._more:
            self._account.warnings.append(f"and {self._more} more such cells")


def header_of(head: bytes) -> list[str]:
    """The names on the first line of a CSV; none when it is no CSV."""
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    try:
        return next(csv.reader(io.StringIO(line), delimiter=delimiter_of(line)), [])
    except csv.Error:
        return []


def delimiter_of(line: str) -> str:
    """Comma, semicolon or tab: the one that the line has most of."""
    return max(DELIMITERS, key=line.count)


def table_rows(path: Path, name: str) -> Rows:
    """The header, then every row with its line, of a CSV or JSON (packed or not) or Parquet file.

    A line `sep=;` before the header, as Excel understands it, is no row.
    """
    with open_plain(path, name) as stream:
        start = stream.read(len(MAGIC))
        line = start + stream.readline(1 << 20)
    if is_parquet(start):
        return parquet_rows(path, name)
    if looks_like_json(line):
        return json_rows(path, name)
    if told := _SEPARATOR_LINE.fullmatch(without_marks(line)):
        rows: Rows = csv_rows(path, name, told[1].decode())
        next(rows)
        return rows
    return csv_rows(path, name, delimiter_of(line.decode("utf-8", "replace")))


def charges_of(
    rows: Iterable[tuple[int, Cells | Rejection]],
    width: int,
    places: Mapping[str, int],
    account: Account,
    build: Callable[[Row], ChargeRecord | None],
    of_file: Warnings | None = None,
) -> Iterator[ChargeRecord | Rejection]:
    """A charge or a rejection of each row; `build` gives None for a row held by another row.

    Such a row (a split of a parent that stands in the same file) is counted in the account.
    `of_file` gathers the warnings of a file whose rows come in several calls; its owner closes it.
    """
    warnings = of_file or Warnings(account)
    for line, cells in rows:
        account.rows_read += 1
        if isinstance(cells, Rejection):
            yield cells
            continue
        if len(cells) != width:
            reason = f"the row has {len(cells)} fields, the header {width}"
            yield Rejection.of(line, None, len(cells), reason)
            continue
        row = Row(cells, places, line)
        try:
            charge = build(row)
        except Fault as fault:
            yield Rejection.of(line, fault.column, fault.value, fault.reason)
            continue
        warnings.add(row.notes)
        if charge is None:
            account.rows_in_parent += 1
        else:
            yield charge
    if account.rows_in_parent:
        warnings.add(
            [f"{account.rows_in_parent} rows split other rows: their money is the parents'"]
        )
    if of_file is None:
        warnings.close()
