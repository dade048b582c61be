"""Sums of one document while it is read, in tables of the engine that can leave memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from finops.core.period import EPOCH
from finops.sources.bulk_engine import Engine, Side
from finops.sources.bulk_past import Order
from finops.sources.bulk_sums import AMOUNTS, REST, SPAN, STAMP, Layout, engine_name
from finops.sources.bulk_table import Kind, Names, SumsTable, totals_query
from finops.sources.cells import text_or_none
from finops.sources.focus import charge_of
from finops.sources.rows import Fault, Row
from finops.sources.summing import is_summable

MOST_ROWS: Final = 400_000
MOST_WAITING: Final = 16_384
MOST_TABLES: Final = 8
"""So many tables, or rows of them, get their numbers at once: each question has a cost of its own."""
LEAST_PAST: Final = 16_384
FETCHED_KINDS: Final = 2_000
_MICROSECOND: Final = timedelta(microseconds=1)

Stamp = tuple[str, ...]
Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Found:
    """What `grouped` selects of some lines, in a table of the engine: how many rows and lines, the
    stamps of those that are summed with the last line of each, and the numbers of lines that are not
    (see `Sums`)."""

    table: str
    rows: int
    lines: int
    stamps: Mapping[Stamp, int]
    alone: Sequence[int]


class Sums:
    """The sums of one document so far, and what the parser makes of their texts.

    `single` says of which lines that stay whole the numbers are wanted.
    """

    def __init__(self, engine: Engine, layout: Layout, single: str = "alone IS NOT NULL") -> None:
        self._engine, self._layout, self._single = engine, layout, single
        self._kind = ", ".join([engine_name(name) for name in layout.kind] + ["alike"])
        self._span = ", ".join(engine_name(name) for name in SPAN)
        self._stamp_names = (*(name for name in STAMP if name in layout.texts), *SPAN)
        self._stamp = ", ".join(engine_name(name) for name in self._stamp_names)
        self._amounts = [engine_name(name) for name in layout.amounts]
        self._is_taken: dict[Stamp, bool] = {}
        self._shared: dict[Stamp, dict[str, Any]] = {}  # by the stamp without its span
        self._spans: dict[Stamp, Span] = {}
        self._numbers: dict[Stamp, int] = {}  # of spans
        self._order = Order()
        self._new_spans: list[Stamp] = []
        self._waiting: list[str] = []
        self._rows_waiting = 0
        self._rows, self._is_compact, self._is_growing = 0, True, True
        self._make()

    def _run(self, query: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self._engine.rows(query, values)

    def _make(self) -> None:
        spans = ", ".join(f"{engine_name(name)} VARCHAR" for name in SPAN)
        stamps = ", ".join(f"{name} VARCHAR" for name in self._stamp.split(", "))
        amounts = "".join(
            f", {engine_name(name)} {one.sum_type}, d_{engine_name(name)} INTEGER"
            for name, one in self._layout.amounts.items()
        )
        self._run("CREATE SEQUENCE kind_ids")
        self._make_kinds()
        self._run(
            f"CREATE TABLE spans (span INTEGER, {spans}, told VARCHAR, starts BIGINT, ends BIGINT)"
        )
        self._run(f"CREATE TABLE refused ({stamps})")
        self._run(
            "CREATE TABLE sums (kind INTEGER, span INTEGER, n BIGINT, first BIGINT, last BIGINT"
            f"{amounts})"
        )

    def _make_kinds(self) -> None:
        texts = ", ".join(f"{engine_name(name)} VARCHAR" for name in self._layout.kind)
        self._run(f"CREATE OR REPLACE TABLE kinds (kind INTEGER, {texts}, alike INTEGER)")

    def find(self, query: str, side: Side) -> Found:
        """Sums what `grouped` selects, in a table that stands until the side is asked again.

        Any thread may ask it of a side.
        """
        table, run = f"found_{side.number}", side.connection.execute
        run(f"CREATE OR REPLACE TABLE {table} AS {query}")
        told = (
            f"SELECT {self._stamp}, count(*), sum(n)::BIGINT, max(last) FILTER (alone IS NULL), "  # noqa: S608
            f"list(abs(alone)) FILTER ({self._single}) FROM {table} GROUP BY {self._stamp}"
        )
        rows, lines = 0, 0
        stamps: dict[Stamp, int] = {}
        alone: list[int] = []
        for *stamp, more_rows, more_lines, last_line, numbers in run(told).fetchall():
            rows, lines = rows + more_rows, lines + more_lines
            if last_line is not None:
                stamps[tuple(stamp)] = last_line
            alone += numbers or ()
        return Found(table, rows, lines, stamps, alone)

    def accepts(self, found: Found) -> bool:
        """Whether the parser takes all lines but those that stay whole.

        Otherwise `refused_lines` selects the others.
        """
        judged = [self._is_accepted(stamp) for stamp in found.stamps]  # each, not up to the first
        return all(judged)

    def refused_lines(self, found: Found, source: str, line: str, whole: str) -> list[int]:
        """The numbers of lines whose stamp the parser refuses or remarks on; they are not summed."""
        texts = ", ".join(f"coalesce({self._layout.texts[name]}, '')" for name in self._stamp_names)
        refused = f"(SELECT {self._stamp} FROM refused)"  # noqa: S608
        self._run(
            f"DELETE FROM {found.table} WHERE alone IS NULL AND ({self._stamp}) IN {refused}"  # noqa: S608
        )
        query = f"SELECT {line} FROM {source} WHERE NOT {whole} AND ({texts}) IN {refused}"  # noqa: S608
        return [row[0] for row in self._run(query)]

    def keep(self, found: Found) -> None:
        """Adds what was found to the sums; it waits in a table of its own till there is enough."""
        table = f"waiting_{len(self._waiting)}"
        self._run(f"ALTER TABLE {found.table} RENAME TO {table}")
        self._waiting.append(table)
        self._order.seen(self._last_lines(found), found.lines)
        self._rows_waiting += found.rows
        if len(self._waiting) >= MOST_TABLES or self._rows_waiting > MOST_WAITING:
            self._number()
            if self._rows > MOST_ROWS:
                self._compact()

    def _last_lines(self, found: Found) -> dict[int, int]:
        """The last line of each span, by its number."""
        last: dict[int, int] = {}
        for (*_, start, end), line in found.stamps.items():
            number = self._numbers.get((start, end))
            if number is not None:  # not refused
                last[number] = max(line, last.get(number, 0))
        return last

    def _number(self) -> None:
        """Gives what waits the numbers of its kinds and spans."""
        self._keep_spans()
        found = " UNION ALL ".join(f"SELECT * FROM {table}" for table in self._waiting)  # noqa: S608
        rows = self._run(f"SELECT count(*) FROM ({found}) WHERE alone IS NULL")[0][0]  # noqa: S608
        newest = -1
        if self._is_growing or self._place(found, newest) < rows:
            if not self._is_growing:  # those of known kinds are there
                newest = self._run("SELECT coalesce(max(kind), 0) FROM kinds")[0][0]
            self._is_growing = self._add_kinds(found) > 0
            self._place(found, newest)
        for table in self._waiting:
            self._run(f"DROP TABLE {table}")
        self._waiting.clear()
        self._rows += rows
        self._rows_waiting, self._is_compact = 0, False

    def _place(self, found: str, newest: int) -> int:
        """Adds what a query gives of kinds newer than one to the sums; how many rows that are."""
        amounts = "".join(f", {name}, d_{name}" for name in self._amounts)
        return int(
            self._run(
                f"INSERT INTO sums SELECT kind, span, n, first, last{amounts} FROM ({found}) "  # noqa: S608
                f"JOIN kinds USING ({self._kind}) JOIN spans USING ({self._span}) "
                f"WHERE alone IS NULL AND kind > {newest}"
            )[0][0]
        )

    def _add_kinds(self, found: str) -> int:
        """Gives new kinds a number; how many there were."""
        return int(
            self._run(
                f"INSERT INTO kinds SELECT nextval('kind_ids'), * FROM (SELECT DISTINCT {self._kind} "  # noqa: S608
                f"FROM ({found}) WHERE alone IS NULL EXCEPT SELECT {self._kind} FROM kinds)"
            )[0][0]
        )

    def _keep_spans(self) -> None:
        """Writes the spans that the last lines brought, as the lines of a table tell them."""
        if not self._new_spans:
            return
        first = len(self._spans) - len(self._new_spans)
        columns: list[list[Any]] = [[], [], [], [], [], []]
        for place, texts in enumerate(self._new_spans, first):
            start, end = self._spans[texts]
            told = (place, *texts, f"{start}\t{end}", _counted(start), _counted(end))
            for column, value in zip(columns, told, strict=True):
                column.append(value)
        marks = ", ".join(f"unnest(${place + 1})" for place in range(len(columns)))
        self._run(f"INSERT INTO spans SELECT {marks}", columns)
        self._new_spans.clear()

    @property
    def full(self) -> bool:
        """Whether the sums should be taken now, so that memory stays what it is."""
        return self._rows > MOST_ROWS // 2 + MOST_ROWS // 8 and self._is_compact

    def _compact(self) -> None:
        self._run(f"CREATE OR REPLACE TABLE sums AS {self._compacted('TRUE')}")
        self._rows = self._run("SELECT count(*) FROM sums")[0][0]
        self._is_compact = True

    def _compacted(self, which: str) -> str:
        """One row for each kind and span: those of some kinds together, in the order of their lines,
        for so the ledger's indexes grow at one end."""
        amounts = "".join(
            f", sum({name}) AS {name}, max(d_{name}) AS d_{name}" for name in self._amounts
        )
        return (
            "SELECT kind, span, sum(n)::BIGINT AS n, min(first) AS first, max(last) AS last"  # noqa: S608
            f"{amounts} FROM sums WHERE {which} GROUP BY kind, span "
            f"ORDER BY kind // {FETCHED_KINDS}, first"
        )

    def past(self) -> Iterator[SumsTable]:
        """The sums of spans that the document has left behind, once there are many of them; as `taken`.

        So whoever takes them need not wait for the document's end.
        """
        over = [] if self._waiting else self._order.over()
        if not over:
            return
        self._run("CREATE OR REPLACE TABLE over AS SELECT unnest($1) AS span", [over])
        which = "span IN (SELECT span FROM over)"
        ((count,),) = self._run(f"SELECT count(*) FROM sums WHERE {which}")  # noqa: S608
        if count < LEAST_PAST:
            return
        self._order.leave(over)
        self._run(f"CREATE OR REPLACE TABLE past AS {self._compacted(which)}")
        self._run(f"CREATE OR REPLACE TABLE sums AS SELECT * FROM sums WHERE NOT {which}")  # noqa: S608
        self._rows -= count
        yield from self._tables("past")
        self._run("DROP TABLE past")

    def taken(self) -> Iterator[SumsTable]:
        """The sums so far; there are none afterwards. Each table is read before the next one."""
        if self._waiting:
            self._number()
        self._compact()
        yield from self._tables("sums")
        self._run("DELETE FROM sums")
        self._make_kinds()
        self._rows, self._is_compact = 0, False

    def _tables(self, table: str) -> Iterator[SumsTable]:
        """What stands in a table of the engine, some kinds at a time."""
        names = Names(
            [field for field, name in AMOUNTS.items() if name in self._layout.amounts],
            [engine_name(n) for n in AMOUNTS.values() if n in self._layout.amounts],
            self._layout.scales,
        )
        blocks = self._run(f"SELECT DISTINCT kind // {FETCHED_KINDS} FROM {table} ORDER BY 1")  # noqa: S608
        for (block,) in blocks:
            mine = f"kind // {FETCHED_KINDS} = {block}"
            rows = self._run(totals_query(table, names, self._kind, mine))
            kinds = [Kind.of(row, names, *self._fields(row[names.first_text :])) for row in rows]
            yield SumsTable(self._engine, table, names, kinds, self._told_spans)

    def _told_spans(self) -> list[Span]:
        return list(self._spans.values())

    def _fields(self, texts: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that follow from the texts of a kind: by its stamp, and by the others."""
        told = dict(zip((*self._layout.kind, "alike"), texts, strict=True))
        stamp = tuple(told[name] for name in self._stamp_names if name not in SPAN)
        rest = {field: text_or_none(told.get(column)) for field, column in REST.items()}
        return self._shared[stamp], rest

    def _is_accepted(self, stamp: Stamp) -> bool:
        """Whether the parser takes a line of this stamp without a remark, and it may be summed."""
        known = self._is_taken.get(stamp)
        if known is not None:
            return known
        accepted = _read(self._stamp_names, stamp, self._layout.amounts)
        self._is_taken[stamp] = accepted is not None
        if accepted is None:
            marks = ", ".join("?" * len(stamp))
            self._run(f"INSERT INTO refused VALUES ({marks})", list(stamp))  # noqa: S608
            return False
        *shared, start, end = stamp
        span = accepted.pop("charge_period_start"), accepted.pop("charge_period_end")
        self._shared[tuple(shared)] = accepted
        if (start, end) not in self._spans:
            self._numbers[start, end] = len(self._spans)
            self._spans[start, end] = span
            self._new_spans.append((start, end))
        return True


FROM_STAMP: Final = (
    "issuer",
    "provider",
    "billing_account",
    "billing_account_name",
    "billing_period_start",
    "billing_period_end",
    "charge_period_start",
    "charge_period_end",
    "category",
    "currency",
)


def _read(
    names: Sequence[str], texts: Sequence[str], amounts: Iterable[str]
) -> dict[str, Any] | None:
    """What the parser makes of one line with these texts; None when it must see each such line."""
    cells = [*texts, *("0" for _ in amounts)]
    row = Row(cells, {name: place for place, name in enumerate((*names, *amounts))}, 0)
    try:
        record = charge_of(row)
    except Fault:
        return None
    if row.notes or not is_summable(record):
        return None
    return {name: getattr(record, name) for name in FROM_STAMP}


def _counted(moment: datetime) -> int:
    """Microseconds since 1970, so that the engine can compare instants."""
    return (moment - EPOCH) // _MICROSECOND
