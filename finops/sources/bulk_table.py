"""Charges that stand in a table of the engine: what each kind of them shares, and their lines.

A line is what COPY reads, so that very many charges reach the ledger without an object of any.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Self

from finops.core.period import EPOCH
from finops.sources.bulk_engine import Engine
from finops.sources.bulk_sums import AMOUNTS, DECIMALS
from finops.sources.records import ChargeRecord, ChargeTable

LINES_AT_ONCE: Final = 16_384
LINE: Final = (
    "line",
    "last_line",
    "line_count",
    "charge_period_start",
    "charge_period_end",
    *AMOUNTS,
)
"""What a line of a SumsTable tells, before its ending."""
TAB: Final = "chr(9)"
UNKNOWN: Final = r"'\N'"


@dataclass(frozen=True, slots=True)
class Names:
    """The amounts that a file has: fields of a record, columns of the engine, and those of these that
    are added with all their decimals, which are the same on each line."""

    fields: Sequence[str]
    columns: Sequence[str]
    scales: Collection[str] = ()

    def text(self, column: str) -> str:
        """A sum as text with the decimals of the most exact of its lines (method §3.7)."""
        if not column:
            return "NULL"
        text = f"{column}::VARCHAR"
        if column in self.scales:
            return text
        return f"rtrim(left({text}, length({text}) - {DECIMALS} + d_{column}::BIGINT), '.')"

    @property
    def first_text(self) -> int:
        """Where the texts of a kind begin in a row of `totals_query`."""
        return 7 + len(self.columns)

    def of(self, texts: Sequence[str | None]) -> dict[str, Any]:
        """The amounts of a record as Decimal, None for those that the file does not have."""
        told = (None if text is None else Decimal(text) for text in texts)
        absent: dict[str, Any] = dict.fromkeys(AMOUNTS)
        return absent | dict(zip(self.fields, told, strict=True))


@dataclass(frozen=True, slots=True)
class Kind:
    """Sums that differ in their charge period alone.

    `total` is what they come to, as one record: its period spans theirs, its `line_count` is of
    all their lines.
    """

    key: int
    sums: int
    total: ChargeRecord

    @classmethod
    def of(
        cls, row: Sequence[Any], names: Names, shared: Mapping[str, Any], rest: Mapping[str, Any]
    ) -> Self:
        """A kind of a row of `totals_query`, with the fields that its texts give."""
        key, sums, count, first, last, starts, ends, *told = row
        total = ChargeRecord(
            line=first,
            last_line=last,
            line_count=count,
            charge_period_start=EPOCH + timedelta(microseconds=starts),
            charge_period_end=EPOCH + timedelta(microseconds=ends),
            **shared,
            **rest,
            **names.of(told[: len(names.columns)]),
        )
        return cls(key, sums, total)

    def one(
        self,
        first: int,
        last: int,
        count: int,
        span: tuple[datetime, datetime],
        amounts: Mapping[str, Any],
    ) -> ChargeRecord:
        """One of its sums."""
        return replace(
            self.total,
            line=first,
            last_line=last,
            line_count=count,
            charge_period_start=span[0],
            charge_period_end=span[1],
            billed_cost=amounts["billed_cost"],
            effective_cost=amounts["effective_cost"],
            list_cost=amounts["list_cost"],
            contracted_cost=amounts["contracted_cost"],
        )


def totals_query(table: str, names: Names, texts: str, mine: str) -> str:
    """Each kind of a table of sums for which `mine` holds, with what its sums come to, and then its texts."""
    totals = "".join(
        f", sum({name}) AS {name}, max(d_{name}) AS d_{name}" for name in names.columns
    )
    amounts = "".join(f", {names.text(name)}" for name in names.columns)
    return (
        f"SELECT kind, rows, n, first, last, starts, ends{amounts}, {texts} FROM ("  # noqa: S608
        "SELECT kind, count(*) AS rows, sum(n)::BIGINT AS n, min(first) AS first, "
        f"max(last) AS last, min(starts) AS starts, max(ends) AS ends{totals} "
        f"FROM {table} JOIN spans USING (span) WHERE {mine} GROUP BY kind) "
        "JOIN kinds USING (kind) ORDER BY kind"
    )


class Table(ChargeTable):
    """Charges that stand in a table of the engine, as text with an ending for each kind.

    To be read before the document is read on: then they are gone. `fields` says which fields of a
    record a line tells before its ending.
    """

    fields: Sequence[str]

    def __init__(self, engine: Engine, kinds: Sequence[Kind]) -> None:
        self.kinds = kinds
        self._engine = engine

    def lines(self, endings: Mapping[int, str]) -> Iterator[str]:
        """The charges of the kinds that have an ending, some thousand lines of text at a time.

        A line tells the texts of `fields` with a tab between, `\\N` for what is unknown, and then the
        ending of its kind, which has its own tab in front and line feed at the end.
        """
        run = self._engine.rows
        run("CREATE OR REPLACE TABLE endings AS SELECT unnest($1) AS kind, unnest($2) AS ending",
            [list(endings), list(endings.values())])  # fmt: skip
        table, told, joined, mine = self._source()
        first, last = run(
            f"SELECT coalesce(min(rowid), 0), coalesce(max(rowid), -1) FROM {table} WHERE {mine}"  # noqa: S608
        )[0]
        for start in range(first, last + 1, LINES_AT_ONCE):
            end = min(start + LINES_AT_ONCE - 1, last)
            query = (
                f"SELECT string_agg(concat({told}, ending), '') FROM (SELECT * FROM {table} "  # noqa: S608
                f"WHERE rowid BETWEEN {start} AND {end}) {joined} "
                f"JOIN endings USING (kind) WHERE {mine}"
            )
            (text,) = run(query)[0]
            if text is not None:
                yield text

    @abstractmethod
    def _source(self) -> tuple[str, str, str, str]:
        """The table, what a line tells in SQL, what is joined for it, and which rows are meant."""


class SumsTable(Table):
    """The sums of some kinds, as a table of the engine holds them."""

    fields = LINE

    def __init__(
        self,
        engine: Engine,
        table: str,
        names: Names,
        kinds: Sequence[Kind],
        spans: Callable[[], Sequence[tuple[datetime, datetime]]],
    ) -> None:
        super().__init__(engine, kinds)
        self._table, self._names, self._spans = table, names, spans
        self._mine = f"kind BETWEEN {kinds[0].key} AND {kinds[-1].key}"

    def _source(self) -> tuple[str, str, str, str]:
        amounts = [f"coalesce({self._names.text(name)}, {UNKNOWN})" for name in self._columns()]
        told = f"concat_ws({TAB}, {', '.join(('first', 'last', 'n', 'told', *amounts))})"
        return self._table, told, "JOIN spans USING (span)", self._mine

    def _columns(self) -> Iterator[str]:
        """The columns of all four amounts; one that the file does not have is null."""
        by_field = dict(zip(self._names.fields, self._names.columns, strict=True))
        return (by_field.get(field, "") for field in AMOUNTS)

    def records(self) -> Iterator[ChargeRecord]:
        """The same sums as records."""
        spans, by_key = self._spans(), {kind.key: kind for kind in self.kinds}
        amounts = "".join(f", {self._names.text(name)}" for name in self._names.columns)
        found = self._engine.streamed(
            f"SELECT kind, span, n, first, last{amounts} FROM {self._table} WHERE {self._mine}"  # noqa: S608
        )
        for kind, span, count, first, last, *told in found:
            yield by_key[kind].one(first, last, count, spans[span], self._names.of(told))


class KeptTable(Table):
    """Lines kept whole, ready for COPY; their kinds are what the parser read of them."""

    def __init__(
        self,
        engine: Engine,
        kinds: Sequence[Kind],
        fields: Sequence[str],
        records: Callable[[], Iterator[ChargeRecord]],
    ) -> None:
        super().__init__(engine, kinds)
        self.fields, self._records = fields, records

    def _source(self) -> tuple[str, str, str, str]:
        return "ready", "told", "", "TRUE"

    def records(self) -> Iterator[ChargeRecord]:
        """The same lines as the parser reads them one by one."""
        return self._records()
