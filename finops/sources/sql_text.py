"""Rows of one table out of a text dump: `COPY` blocks of pg_dump, `INSERT` statements of both.

PostgreSQL writes strings with quotes doubled, MySQL and MariaDB with backslashes too. Streamed:
one statement is held at a time. Everything but the rows of the table asked for is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from finops.sources.files import text_lines
from finops.sources.records import Refused

MAX_STATEMENT_CHARACTERS: Final = 64 * 1024 * 1024
MOST_NAMED: Final = 20

_NAME: Final = r'(?:"(?:[^"]|"")+"|`(?:[^`]|``)+`|[\w$]+)'
_TABLE: Final = rf"{_NAME}(?:\.{_NAME}){{0,2}}"
_COPY: Final = re.compile(rf"COPY ({_TABLE}) \((.*)\) FROM stdin;\s*$", re.IGNORECASE)
_INSERT: Final = re.compile(
    rf"(?:INSERT|REPLACE)(?: IGNORE)? INTO ({_TABLE})\s*(?:\(([^)]*)\))?\s*"
    r"(?:OVERRIDING \w+ VALUE\s*)?VALUES\s*",
    re.IGNORECASE,
)
_CREATE: Final = re.compile(rf"CREATE TABLE (?:IF NOT EXISTS )?({_TABLE}) ?\(", re.IGNORECASE)
_COLUMN: Final = re.compile(rf"\s+({_NAME})\s")
_PIECE: Final = re.compile(rf"(?:{_NAME}|'(?:[^']|'')*'|\([^()]*\)|[^,])+")
"""What stands between the commas of a CREATE TABLE's first line."""
_NO_COLUMNS: Final = ("PRIMARY", "KEY", "UNIQUE", "CONSTRAINT", "INDEX", "FULLTEXT", "CHECK",
                      "FOREIGN", "SPATIAL", "EXCLUDE", "LIKE")  # fmt: skip
_PLAIN: Final = r"[^,()'\s][^,()']*"
_VALUES: Final = {
    False: re.compile(rf"\s*(?:([EeNn]?)'((?:[^']|'')*)'(?:::[\w ]+)?|({_PLAIN}))\s*"),
    True: re.compile(rf"\s*(?:(_\w+ ?)?'((?:[^'\\]|\\.|'')*)'|({_PLAIN}))\s*", re.DOTALL),
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_ESCAPED: Final = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_HEADS: Final = (b"PostgreSQL database dump", b"MySQL dump", b"MariaDB dump")

Row = tuple[int, Sequence[str | None], Sequence[str]]
"""The line a row begins on, its values (None for NULL) and the names of its columns."""


def is_dump(head: bytes) -> bool:
    """Whether a document begins as a text dump of a database."""
    start = head[:4096]
    return any(words in start for words in _HEADS) or start.lstrip().startswith(
        (b"COPY ", b"INSERT INTO ", b"CREATE TABLE ")
    )


@dataclass(slots=True)
class Dump:
    """A dump while its rows are read. `tables` are the names met, for a message."""

    path: Path
    name: str
    tables: list[str] = field(default_factory=list)
    mysql: bool = False
    _columns: dict[str, list[str]] = field(default_factory=dict)

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of the table; its name is compared as `table` or `schema.table`.

        Refused where a statement cannot be read, or a block is cut off.
        """
        lines = enumerate(text_lines(self.path, self.name), 1)
        for number, line in lines:
            self.mysql = self.mysql or any(
                words in line for words in ("MySQL dump", "MariaDB dump", "INSERT INTO `")
            )
            if found := _COPY.match(line):
                yield from self._block(found, table, lines)
            elif found := _INSERT.match(line):
                yield from self._statement(found, table, number, line, lines)
            elif found := _CREATE.match(line):
                self._columns[_bare(found.group(1))] = list(_columns_of(line[found.end() :], lines))

    def _note(self, table: str) -> None:
        if table not in self.tables and len(self.tables) < MOST_NAMED:
            self.tables.append(table)

    def _block(
        self, found: re.Match[str], wanted: str, lines: Iterator[tuple[int, str]]
    ) -> Iterator[Row]:
        table, columns = _bare(found.group(1)), _names(found.group(2))
        self._note(table)
        mine = _is(table, wanted)
        for number, line in lines:
            text = line.rstrip("\r\n")
            if text == "\\.":
                return
            if mine:
                yield number, [_copied(cell) for cell in text.split("\t")], columns
        raise Refused(f"{self.name}: the rows of {table} are cut off (no line with \\. ends them)")

    def _statement(
        self,
        found: re.Match[str],
        wanted: str,
        number: int,
        line: str,
        lines: Iterator[tuple[int, str]],
    ) -> Iterator[Row]:
        table = _bare(found.group(1))
        self._note(table)
        text = self._whole(line, number, lines)
        if not _is(table, wanted):
            return
        columns = _names(found.group(2)) if found.group(2) else self._columns.get(table)
        if not columns:
            raise Refused(
                f"{self.name}: line {number}: nothing names the columns of {table}; dump it with "
                "its CREATE TABLE, or with --column-inserts (--complete-insert)",
                line=number,
            )
        yield from ((number, values, columns) for values in self._tuples(text, found.end(), number))

    def _whole(self, line: str, number: int, lines: Iterator[tuple[int, str]]) -> str:
        """The statement to its end: a semicolon that ends a line outside of quotes."""
        parts, size, open_quote = [line], len(line), self._odd(line)
        while open_quote or not parts[-1].rstrip().endswith(";"):
            try:
                _, more = next(lines)
            except StopIteration:
                raise Refused(
                    f"{self.name}: line {number}: the statement is cut off", line=number
                ) from None
            parts.append(more)
            size += len(more)
            open_quote ^= self._odd(more)
            if size > MAX_STATEMENT_CHARACTERS:
                raise Refused(
                    f"{self.name}: line {number}: a statement of over 64 MiB", line=number
                )
        return "".join(parts)

    def _odd(self, text: str) -> bool:
        """Whether a text opens or closes a string without the other."""
        plain = _ESCAPED.sub("", text) if self.mysql else text
        return plain.count("'") % 2 == 1

    def _tuples(self, text: str, at: int, number: int) -> Iterator[list[str | None]]:
        value = _VALUES[self.mysql]
        while True:
            if not text.startswith("(", at):
                raise Refused(
                    f"{self.name}: line {number}: not readable as rows of values", line=number
                )
            values, at = list[str | None](), at + 1
            while True:
                found = value.match(text, at)
                if found is None:
                    raise Refused(
                        f"{self.name}: line {number}: a value cannot be read", line=number
                    )
                values.append(self._value(found))
                at = found.end() + 1
                if text[at - 1 : at] == ")":
                    break
            yield values
            rest = text[at : at + 64].lstrip()
            if not rest.startswith(","):
                return
            at = text.index(",", at) + 1
            at += len(text[at : at + 64]) - len(text[at : at + 64].lstrip())

    def _value(self, found: re.Match[str]) -> str | None:
        prefix, quoted, plain = found.groups()
        if plain is not None:
            text = plain.strip()
            return None if text.upper() == "NULL" else text
        quoted = quoted.replace("''", "'")
        escaped = self.mysql or (prefix or "").lower() == "e"
        return _ESCAPED.sub(_unescaped, quoted) if escaped else quoted


def _columns_of(first: str, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """The columns that a CREATE TABLE names, to its end: a line each, but for those that stand in the
    rest of its first line, all of them where the statement ends there."""
    yield from _told(f" {piece.strip()} " for piece in _PIECE.findall(first))
    if first.rstrip().endswith(";"):
        return
    for _, line in lines:
        if line.startswith(")"):
            return
        yield from _told([line])
        if line.rstrip().endswith(";"):
            return


def _told(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        found = _COLUMN.match(text)
        if found and found.group(1).upper() not in _NO_COLUMNS:
            yield _plain(found.group(1))


def _names(text: str) -> list[str]:
    return [_plain(name) for name in re.findall(_NAME, text)]


def _plain(name: str) -> str:
    """An identifier without its quotes."""
    if name[:1] in '"`':
        return name[1:-1].replace(name[0] * 2, name[0])
    return name


def _bare(table: str) -> str:
    return ".".join(_names(table))


def _is(table: str, wanted: str) -> bool:
    return wanted in (table, table.rsplit(".", 1)[-1])


def _copied(cell: str) -> str | None:
    r"""A cell of a COPY block: `\N` is NULL, the rest is escaped as PostgreSQL writes it."""
    if cell == "\\N":
        return None
    return _ESCAPED.sub(_unescaped, cell) if "\\" in cell else cell


def _unescaped(found: re.Match[str]) -> str:
    sign = found.group(1)
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    if sign[0] == "x" and len(sign) > 1:
        return chr(int(sign[1:], 16))
    return chr(int(sign, 8)) if sign.isdigit() and sign[0] < "8" else sign
