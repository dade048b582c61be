"""Lines kept whole, prepared by the engine many at a time: what COPY reads, without an object each.

The parser reads each *shape* once (what it must accept of a line, and the texts that tell its
machine), each charge period once and each cell of tags once; the texts that lines have in common are
made ready once (`bulk_labels`). Everything else of an ordinary line is copied as it stands. A line
that is not ordinary in every cell is *odd*: the parser reads it alone, so that values, rejections and
remarks are its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from finops.core.period import EPOCH
from finops.sources import bulk_sieve
from finops.sources.bulk_engine import Engine
from finops.sources.bulk_labels import BEFORE_CELL, COMMON, ODD, OWN, columns_of, label
from finops.sources.bulk_sums import AMOUNTS, SPAN, STAMP, Layout, engine_name
from finops.sources.bulk_table import (
    TAB,
    UNKNOWN,
    KeptTable,
    Kind,
    Names,
)
from finops.sources.cells import NULLS, text_map, text_or_none
from finops.sources.focus import charge_of, period
from finops.sources.focus_columns import ALLOCATED, ALLOCATED_TAGS, CALLED
from finops.sources.gpu_shapes import UNRECOGNISED
from finops.sources.records import ChargeRecord
from finops.sources.rows import Fault, Row
from finops.sources.summing import LONGEST_NAME_CHARACTERS

SHAPE: Final = tuple(
    name
    for name in dict.fromkeys(
        (*STAMP, "ChargeFrequency", "ServiceCategory", *bulk_sieve.MACHINE, *bulk_sieve.PARTS)
    )
    if name != CALLED
)
"""A resource's name is asked for a GPU only where these tell none: such lines are odd."""
QUANTITIES: Final = {
    "pricing_quantity": "PricingQuantity",
    "consumed_quantity": "ConsumedQuantity",
    "list_unit_price": "ListUnitPrice",
    "contracted_unit_price": "ContractedUnitPrice",
}
TAGS: Final = "Tags"
_OWN: Final = columns_of(OWN)
_COMMON: Final = columns_of(COMMON)
_ALLOCATED: Final = (*ALLOCATED.values(), ALLOCATED_TAGS)
"""A line that has any of them is odd: its tags are made of several cells."""
READ: Final = tuple(
    dict.fromkeys((*SHAPE, *SPAN, *_OWN, *_COMMON, *QUANTITIES.values(), TAGS, *_ALLOCATED))
)
"""Every column that a charge is made of, but its amounts."""
LINE: Final = (
    "line",
    "charge_period_start",
    "charge_period_end",
    *AMOUNTS,
    *QUANTITIES,
    *OWN,
    *COMMON,
    "tags",
)
"""What a line of a KeptTable tells, before its ending."""
MOST_KNOWN: Final = 50_000
MOST_DIGITS: Final = 28
"""Of a quantity that is copied as it stands, before the point and behind it."""
_SOME_SPAN: Final = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")
_MICROSECOND: Final = timedelta(microseconds=1)
_NULLS: Final = ", ".join(bulk_sieve.quoted(word) for word in sorted(NULLS))
_QUANTITY: Final = bulk_sieve.quoted(f"-?[0-9]{{1,{MOST_DIGITS}}}(\\.[0-9]{{1,{MOST_DIGITS}}})?")
_BEFORE_CELL: Final = f"chr({ord(BEFORE_CELL)})"
_ODD: Final = bulk_sieve.quoted(ODD)


class KeptLines:
    """The lines kept whole of one document, some thousand at a time.

    `columns` are the FOCUS names of the columns that the file has, `scales` as in `Names`, and `numbers`
    the quantities whose cells are plain numbers by their type, or empty.
    """

    def __init__(
        self,
        engine: Engine,
        columns: Collection[str],
        scales: Collection[str] = (),
        numbers: Collection[str] = (),
    ) -> None:
        self._engine = engine
        self.columns = tuple(name for name in READ if name in columns)
        self.amounts = tuple(name for name in AMOUNTS.values() if name in columns)
        fields = [field for field, name in AMOUNTS.items() if name in columns]
        self._names = Names(fields, [engine_name(name) for name in self.amounts], scales)
        self._shape = [name for name in SHAPE if name in columns]
        self._common = [name for name in _COMMON if name in columns]
        self._has_tags = TAGS in columns
        self._numbers = numbers
        self._templates: list[ChargeRecord] = []
        self._known = 0
        self._make()

    def _run(self, query: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self._engine.rows(query, values)

    def _make(self) -> None:
        """Empty tables of what the parser has read; also when they have become too long."""
        shape = "".join(f", {engine_name(name)} VARCHAR" for name in self._shape)
        span = "".join(f", {engine_name(name)} VARCHAR" for name in SPAN)
        self._run(f"CREATE OR REPLACE TABLE shapes (shape INTEGER{shape})")
        self._run(
            f"CREATE OR REPLACE TABLE moments (told VARCHAR, starts BIGINT, ends BIGINT{span})"
        )
        common = "".join(f", {engine_name(name)} VARCHAR" for name in self._common)
        self._run(f"CREATE OR REPLACE TABLE labels (label VARCHAR{common})")
        self._run(f"CREATE OR REPLACE TABLE maps (map VARCHAR, {engine_name(TAGS)} VARCHAR)")
        self._templates.clear()
        self._known = 0

    def select(self, layout: Layout, line: str, odd: str) -> str:
        """What `take` wants to know of a source, for its SELECT; `odd` holds for odd lines."""
        texts, amounts = layout.texts, layout.amounts
        cells = [f"coalesce({texts[name]}, '') AS {engine_name(name)}" for name in self.columns]
        for name in self.amounts:
            money = amounts[name]
            cells.append(f"{money.value} AS {engine_name(name)}")
            cells.append(f"{money.decimals} AS d_{engine_name(name)}")
        return ", ".join(
            (
                f"{line} AS line",
                *cells,
                f"NOT coalesce({odd} OR {layout.uncertain()}, TRUE) AS plain",
            )
        )

    def take(self, query: str) -> tuple[KeptTable | None, list[int]]:
        """The lines that a query selects (see `select`): a table of the ordinary ones, and the
        numbers of the odd ones. Lines that are no GPU time are odd: a rule may not reach them.
        """
        if self._known > MOST_KNOWN:
            self._make()
        self._run(f"CREATE OR REPLACE TABLE kept AS {query}")
        self._learn_shapes()
        self._learn_spans()
        self._learn_labels()
        self._learn_tags()
        self._run(f"CREATE OR REPLACE TABLE ready AS {self._ready()}")
        odd = self._run("SELECT line FROM kept ANTI JOIN ready USING (line) ORDER BY line")
        numbers = [row[0] for row in odd]
        kinds = self._kinds()
        return KeptTable(self._engine, kinds, LINE, self._records) if kinds else None, numbers

    def _new(self, names: Sequence[str], table: str) -> list[tuple[str, ...]]:
        """Different texts of some columns that the parser has not read yet."""
        columns = ", ".join(engine_name(name) for name in names)
        found = self._run(
            f"SELECT DISTINCT {columns} FROM kept ANTI JOIN {table} USING ({columns})"  # noqa: S608
        )
        self._known += len(found)
        return found

    def _add(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            marks = ", ".join(f"unnest(${place + 1})" for place in range(len(rows[0])))
            columns = [list(column) for column in zip(*rows, strict=True)]
            self._run(f"INSERT INTO {table} SELECT {marks}", columns)

    def _learn_shapes(self) -> None:
        """Shape None is odd."""
        rows: list[tuple[Any, ...]] = []
        for texts in self._new(self._shape, "shapes"):
            template = _template(self._shape, texts, self.amounts)
            if template is None:
                rows.append((None, *texts))
                continue
            rows.append((len(self._templates), *texts))
            self._templates.append(template)
        self._add("shapes", rows)

    def _learn_spans(self) -> None:
        rows = [(*_span(texts), *texts) for texts in self._new(SPAN, "moments")]
        self._add("moments", rows)

    def _learn_labels(self) -> None:
        """Label None is odd."""
        if self._common:
            found = self._new(self._common, "labels")
            self._add("labels", [(label(self._common, texts), *texts) for texts in found])

    def _learn_tags(self) -> None:
        if self._has_tags:
            self._add("maps", [(_tags(text), text) for (text,) in self._new([TAGS], "maps")])

    def _ready(self) -> str:
        """Ordinary lines: their shape, period and amounts, and their text but for the ending."""
        money = "".join(f", {name}, d_{name}" for name in self._names.columns)
        shape, span = (
            ", ".join(engine_name(name) for name in names) for names in (self._shape, SPAN)
        )
        more = [("map", "maps", [TAGS])] if self._has_tags else []
        more += [("label", "labels", self._common)] if self._common else []
        joined = " ".join(
            f"JOIN {table} USING ({', '.join(map(engine_name, names))})" for _, table, names in more
        )
        known = "".join(f" AND {text} IS NOT NULL" for text, _, _ in more)
        told = f"concat_ws({TAB}, {', '.join(self._told())})"
        return (
            f"SELECT line, shape AS kind, starts, ends{money}, {told} AS told FROM kept "  # noqa: S608
            f"JOIN shapes USING ({shape}) JOIN moments USING ({span}) {joined} WHERE plain "
            f"AND shape IS NOT NULL AND starts IS NOT NULL{known} AND {self._is_ordinary()} ORDER BY line"
        )

    def _told(self) -> Iterator[str]:
        """The texts of `LINE` in SQL."""
        yield from ("kept.line::VARCHAR", "moments.told")
        by_field = dict(zip(self._names.fields, self._names.columns, strict=True))
        for field in AMOUNTS:
            yield f"coalesce({self._names.text(by_field.get(field, ''))}, {UNKNOWN})"
        for name in QUANTITIES.values():
            is_typed = name in self._numbers
            cell = f"nullif({engine_name(name)}, '')" if is_typed else self._known_text((name,))
            yield f"coalesce({cell}, {UNKNOWN})"
        for names in OWN.values():
            yield f"coalesce({self._known_text(names)}, {UNKNOWN})"
        yield "label" if self._common else bulk_sieve.quoted(label([], []) or "")
        yield "map" if self._has_tags else "'{}'"

    def _known_text(self, names: Sequence[str]) -> str:
        """The first cell that does not stand for null."""
        cells = [engine_name(name) for name in names if name in self.columns]
        known = [f"CASE WHEN {cell} NOT IN ({_NULLS}) THEN {cell} END" for cell in cells]
        return f"coalesce({', '.join(known)})" if known else "NULL"

    def _is_ordinary(self) -> str:
        cells = (f", {_BEFORE_CELL}, {engine_name(n)}" for n in _OWN if n in self.columns)
        found = [f"NOT regexp_matches(concat(''{''.join(cells)}), {_ODD})"]
        found += [f"{engine_name(name)} = ''" for name in _ALLOCATED if name in self.columns]
        for name in QUANTITIES.values():
            cell = engine_name(name)
            if name in self.columns and name not in self._numbers:
                found.append(f"({cell} IN ({_NULLS}) OR regexp_full_match({cell}, {_QUANTITY}))")
        return " AND ".join(found)

    def _kinds(self) -> list[Kind]:
        """The shapes of the lines that are ready, with what these come to."""
        columns = self._names.columns
        money = "".join(f", sum({name}) AS {name}, max(d_{name}) AS d_{name}" for name in columns)
        amounts = "".join(f", {self._names.text(name)}" for name in columns)
        rows = self._run(
            f"SELECT kind, n, first, starts, ends{amounts} FROM (SELECT kind, count(*) AS n, "  # noqa: S608
            f"min(line) AS first, min(starts) AS starts, max(ends) AS ends{money} FROM ready "
            "GROUP BY kind) ORDER BY kind"
        )
        return [self._kind(row) for row in rows]

    def _kind(self, row: Sequence[Any]) -> Kind:
        kind, count, first, starts, ends, *amounts = row
        total = replace(
            self._templates[kind],
            line=first,
            line_count=count,
            charge_period_start=EPOCH + timedelta(microseconds=starts),
            charge_period_end=EPOCH + timedelta(microseconds=ends),
            **self._names.of(amounts),
        )
        return Kind(kind, count, total)

    def rows(self, numbers: str) -> Iterator[tuple[int, list[str | None]]]:
        """The cells of some lines taken last, placed as `places` says; `numbers` selects the lines.

        Their amounts are to be plain.
        """
        told = [engine_name(name) for name in self.columns]
        told += [self._names.text(engine_name(name)) for name in self.amounts]
        query = f"SELECT line, {', '.join(told)} FROM kept WHERE line IN ({numbers}) ORDER BY line"  # noqa: S608
        for line, *cells in self._engine.streamed(query):
            yield line, cells

    @property
    def places(self) -> dict[str, int]:
        """Where a column stands in `rows`."""
        return {name: place for place, name in enumerate((*self.columns, *self.amounts))}

    def _records(self) -> Iterator[ChargeRecord]:
        for line, cells in self.rows("SELECT line FROM ready"):
            yield charge_of(Row(cells, self.places, line))


def _template(
    names: Sequence[str], texts: Sequence[str], amounts: Sequence[str]
) -> ChargeRecord | None:
    """What the parser makes of a line of a shape; None where it must see each such line."""
    cells = [*texts, *_SOME_SPAN, *("0" for _ in amounts)]
    row = Row(cells, {name: place for place, name in enumerate((*names, *SPAN, *amounts))}, 0)
    try:
        record = charge_of(row)
    except Fault:
        return None
    is_gpu = record.gpu_model not in (None, UNRECOGNISED)
    is_priced = record.billed_cost is not None or record.effective_cost is not None
    is_named = max(len(record.issuer), len(record.billing_account)) <= LONGEST_NAME_CHARACTERS
    return record if is_gpu and is_priced and is_named and not row.notes else None


def _span(texts: Sequence[str]) -> tuple[str | None, int | None, int | None]:
    """A charge period as a line tells it, and its instants in microseconds; None where it is odd."""
    row = Row(texts, {name: place for place, name in enumerate(SPAN)}, 0)
    try:
        start, end = period(row, "Charge")
    except Fault:
        return None, None, None
    if row.notes:
        return None, None, None
    return f"{start}\t{end}", (start - EPOCH) // _MICROSECOND, (end - EPOCH) // _MICROSECOND


def _tags(cell: str) -> str | None:
    """A cell of tags as COPY reads it; None where it is no map, or holds what cannot be stored."""
    text = text_or_none(cell)
    try:
        told = json.dumps(text_map(text) if text else {}, ensure_ascii=False)
        told.encode()
    except ValueError:
        return None
    return None if "\\u0000" in told else told.replace("\\", "\\\\")
