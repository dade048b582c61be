"""Summing FOCUS lines in the database engine: which texts make a kind, exact amounts, and the way back.

A *stamp* is what the parser must accept of a line: its periods, names, category and currency. The
parser reads one line of each stamp. A *kind* is a stamp without the charge period, with the other
dimensions of a sum. Amounts are added as DECIMAL(38,18) and only where that is exact: at most 12
digits before the point and 18 after it, in plain notation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from finops.core.allocation import Rule
from finops.sources import bulk_sieve
from finops.sources.cells import text_or_none
from finops.sources.focus import charge_of
from finops.sources.records import ChargeRecord
from finops.sources.rows import Fault, Row
from finops.sources.summing import is_summable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPAN: Final = ("ChargePeriodStart", "ChargePeriodEnd")
STAMP: Final = (
    "InvoiceIssuerName",
    "ProviderName",
    "ServiceProviderName",
    "BillingAccountId",
    "BillingAccountName",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargeCategory",
    "BillingCurrency",
)
REST: Final = {
    "charge_class": "ChargeClass",
    "sub_account": "SubAccountId",
    "sub_account_name": "SubAccountName",
    "service": "ServiceName",
    "service_category": "ServiceCategory",
    "invoice": "InvoiceId",
    "pricing_category": "PricingCategory",
    "commitment": "CommitmentDiscountId",
    "commitment_name": "CommitmentDiscountName",
    "commitment_status": "CommitmentDiscountStatus",
}
AMOUNTS: Final = {
    "billed_cost": "BilledCost",
    "effective_cost": "EffectiveCost",
    "list_cost": "ListCost",
    "contracted_cost": "ContractedCost",
}
OPTIONAL: Final = ("ListCost", "ContractedCost")
DECIMALS: Final = 18
MOST_ROWS: Final = 400_000
FETCHED_ROWS: Final = 2_000
_PLAIN: Final = "'-?[0-9]{1,12}(\\.[0-9]{1,18})?'"
_SUM: Final = f"DECIMAL(38,{DECIMALS})"

Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Amount:
    """One column of money in SQL: where it is exact, its value, its decimals, where it is null."""

    plain: str
    value: str
    decimals: str
    is_null: str

    @classmethod
    def of_text(cls, text: str, *, required: bool) -> Amount:
        """Of a column of text, as every column of a CSV file is."""
        fits = f"coalesce(regexp_full_match({text}, {_PLAIN}), FALSE)"
        return cls(
            fits if required else f"({text} IS NULL OR {fits})",
            f"TRY_CAST({text} AS {_SUM})",
            f"CASE WHEN contains({text}, '.') THEN length({text}) - strpos({text}, '.') ELSE 0 END",
            f"{text} IS NULL",
        )

    @classmethod
    def of_decimal(cls, column: str, scale: int, *, required: bool) -> Amount:
        """Of a column of exact numbers with at most 18 decimals."""
        fits = f"coalesce(abs({column}) < 1000000000000, FALSE)"
        return cls(
            fits if required else f"({column} IS NULL OR {fits})",
            f"CAST({column} AS {_SUM})",
            str(scale),
            f"{column} IS NULL",
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one file as SQL: texts by FOCUS name, money, and what is read by the parser.

    `cells` are the texts where an empty one need not be null, which spares the engine work.
    """

    texts: Texts
    amounts: Mapping[str, Amount]
    rules: Sequence[Rule]
    cells: Texts | None = None

    @property
    def kind(self) -> tuple[str, ...]:
        """The texts of a kind that this file has."""
        return tuple(name for name in (*STAMP, *REST.values()) if name in self.texts)

    def stays_whole(self) -> str:
        """A condition that holds for every line that the parser must read."""
        uncertain = " OR ".join(f"NOT {amount.plain}" for amount in self.amounts.values())
        gpu = bulk_sieve.looks_like_gpu(self.texts)
        reached = bulk_sieve.is_reached(self.rules, self.texts)
        return f"coalesce({uncertain or 'FALSE'} OR {gpu} OR {reached}, FALSE)"

    def alike(self) -> str:
        """Which optional amounts a line lacks, and whether the other two are equal; see `Summing`."""
        flags = [self.amounts[n].is_null for n in OPTIONAL if n in self.amounts]
        both = [
            self.amounts[n].value
            for n in AMOUNTS.values()
            if n not in OPTIONAL and n in self.amounts
        ]
        if len(both) > 1:
            flags.append(f"{both[0]} = {both[1]}")
        if "ContractedCost" in self.amounts:
            flags.append(f"{self.amounts['ContractedCost'].value} = 0")
        flags = [f"{1 << place} * coalesce({flag}, FALSE)::INT" for place, flag in enumerate(flags)]
        return " + ".join(flags) or "0"


def grouped(layout: Layout, source: str, line: str, whole: str) -> str:
    """The SELECT that sums a source's lines; a line to stay whole is a row of its own.

    `line` gives a line's number and `whole` says of each whether it stays whole.
    """
    cells = layout.cells or layout.texts
    keys = [f"coalesce({cells[name]}, '') AS {_name(name)}" for name in (*layout.kind, *SPAN)]
    keys += [f"{layout.alike()} AS alike", f"CASE WHEN {whole} THEN {line} END AS alone"]
    found = ["count(*) AS n", f"min({line}) AS first", f"max({line}) AS last"]
    for name, amount in layout.amounts.items():
        found.append(f"sum({amount.value}) AS {_name(name)}")
        found.append(f"max({amount.decimals}) AS d_{_name(name)}")
    places = ", ".join(str(place) for place in range(1, len(keys) + 1))
    return f"SELECT {', '.join((*keys, *found))} FROM {source} GROUP BY {places}"  # noqa: S608


def _name(column: str) -> str:
    return f"c_{column}"


class Sums:
    """Sums of one document while it is read, in tables of the engine that can leave memory."""

    def __init__(self, connection: DuckDBPyConnection, layout: Layout) -> None:
        self._connection, self._layout = connection, layout
        self._kind = ", ".join([_name(name) for name in layout.kind] + ["alike"])
        self._stamp_names = (*(name for name in STAMP if name in layout.texts), *SPAN)
        self._stamp = ", ".join(_name(name) for name in self._stamp_names)
        self._stamps: dict[tuple[str, ...], dict[str, Any] | None] = {}
        self._rows, self._is_compact = 0, True
        self._make()

    def _run(self, query: str) -> DuckDBPyConnection:
        return self._connection.execute(query)

    def _make(self) -> None:
        texts = ", ".join(f"{_name(name)} VARCHAR" for name in self._layout.kind)
        spans = ", ".join(f"{_name(name)} VARCHAR" for name in SPAN)
        stamps = ", ".join(f"{name} VARCHAR" for name in self._stamp.split(", "))
        amounts = "".join(
            f", {_name(name)} {_SUM}, d_{_name(name)} INTEGER" for name in self._layout.amounts
        )
        self._run("CREATE SEQUENCE kind_ids")
        self._run(f"CREATE TABLE kinds (id INTEGER, {texts}, alike INTEGER)")
        self._run(f"CREATE TABLE refused ({stamps})")
        self._run(
            f"CREATE TABLE sums (kind INTEGER, {spans}, n BIGINT, first BIGINT, last BIGINT{amounts})"
        )

    def take_in(self, query: str) -> tuple[int, list[int], bool]:
        """Sums what `grouped` selects, beside the sums so far.

        How many lines there were; the numbers of those that stay whole; and whether the parser
        refuses others too: `refused_lines` selects them.
        """
        self._run(f"CREATE OR REPLACE TABLE found AS {query}")
        lines = self._run("SELECT coalesce(sum(n), 0)::BIGINT FROM found").fetchall()[0][0]
        alone = self._run("SELECT alone FROM found WHERE alone IS NOT NULL").fetchall()
        stamps = self._run(f"SELECT DISTINCT {self._stamp} FROM found WHERE alone IS NULL")  # noqa: S608
        judged = [self._is_accepted(stamp) for stamp in stamps.fetchall()]
        return lines, [row[0] for row in alone], not all(judged)

    def refused_lines(self, source: str, line: str, whole: str) -> list[int]:
        """The numbers of lines whose stamp the parser refuses or remarks on; they are not summed."""
        texts = ", ".join(f"coalesce({self._layout.texts[name]}, '')" for name in self._stamp_names)
        refused = f"(SELECT {self._stamp} FROM refused)"  # noqa: S608
        self._run(f"DELETE FROM found WHERE alone IS NULL AND ({self._stamp}) IN {refused}")  # noqa: S608
        query = f"SELECT {line} FROM {source} WHERE NOT {whole} AND ({texts}) IN {refused}"  # noqa: S608
        return [row[0] for row in self._run(query).fetchall()]

    def keep(self) -> None:
        """Adds what was taken in last to the sums."""
        kind = self._kind
        self._run(
            f"INSERT INTO kinds SELECT nextval('kind_ids'), * FROM (SELECT DISTINCT {kind} FROM "  # noqa: S608
            f"found WHERE alone IS NULL EXCEPT SELECT {kind} FROM kinds)"
        )
        spans = ", ".join(_name(name) for name in SPAN)
        amounts = "".join(f", {_name(n)}, d_{_name(n)}" for n in self._layout.amounts)
        self._run(
            f"INSERT INTO sums SELECT id, {spans}, n, first, last{amounts} FROM found "  # noqa: S608
            f"JOIN kinds USING ({kind}) WHERE alone IS NULL"
        )
        self._rows += self._run("SELECT count(*) FROM found").fetchall()[0][0]
        self._is_compact = False
        if self._rows > MOST_ROWS:
            self._compact()

    @property
    def full(self) -> bool:
        """Whether the sums should be taken now, so that memory stays what it is."""
        return self._rows > MOST_ROWS // 2 + MOST_ROWS // 8 and self._is_compact

    def _compact(self) -> None:
        spans = ", ".join(_name(name) for name in SPAN)
        amounts = "".join(
            f", sum({_name(n)}) AS {_name(n)}, max(d_{_name(n)}) AS d_{_name(n)}"
            for n in self._layout.amounts
        )
        self._run(
            f"CREATE OR REPLACE TABLE sums AS SELECT kind, {spans}, sum(n)::BIGINT AS n, "  # noqa: S608
            f"min(first) AS first, max(last) AS last{amounts} FROM sums GROUP BY kind, {spans}"
        )
        self._rows = self._run("SELECT count(*) FROM sums").fetchall()[0][0]
        self._is_compact = True

    def taken(self) -> Iterator[ChargeRecord]:
        """The sums so far as records; there are none afterwards."""
        self._compact()
        kinds = {
            row[0]: self._kind_of(row[1:]) for row in self._run("SELECT * FROM kinds").fetchall()
        }
        names = list(self._layout.amounts)
        amounts = "".join(f", {_with_decimals(_name(n))}" for n in names)
        spans = ", ".join(_name(name) for name in SPAN)
        fields = [field for field, name in AMOUNTS.items() if name in names]
        absent: dict[str, Any] = dict.fromkeys(field for field in AMOUNTS if field not in fields)
        cursor = self._run(f"SELECT kind, {spans}, n, first, last{amounts} FROM sums")  # noqa: S608
        while batch := cursor.fetchmany(FETCHED_ROWS):
            for kind, start, end, count, first, last, *told in batch:
                stamp, rest = kinds[kind]
                accepted = self._stamps[*stamp, start, end]
                assert accepted is not None
                known: dict[str, Any] = dict(zip(fields, map(_decimal, told), strict=True))
                yield ChargeRecord(
                    line=first,
                    last_line=last,
                    line_count=count,
                    **accepted,
                    **rest,
                    **known,
                    **absent,
                )
        self._run("DELETE FROM sums")
        self._rows, self._is_compact = 0, False

    def _kind_of(self, texts: Sequence[Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The stamp of a kind without its span, and the fields that follow from its other texts."""
        told = dict(zip((*self._layout.kind, "alike"), texts, strict=True))
        stamp = tuple(told[name] for name in self._stamp_names if name not in SPAN)
        return stamp, {field: text_or_none(told.get(column)) for field, column in REST.items()}

    def _is_accepted(self, stamp: tuple[str, ...]) -> bool:
        """Whether the parser takes a line of this stamp without a remark, and it may be summed."""
        if stamp not in self._stamps:
            self._stamps[stamp] = accepted = _read(self._stamp_names, stamp, self._layout.amounts)
            if accepted is None:
                marks = ", ".join("?" * len(stamp))
                query = f"INSERT INTO refused VALUES ({marks})"  # noqa: S608
                self._connection.execute(query, list(stamp))
        return self._stamps[stamp] is not None


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


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _with_decimals(name: str) -> str:
    """A sum as text with the decimals of the most exact of its lines (method §3.7)."""
    text = f"{name}::VARCHAR"
    return f"rtrim(left({text}, length({text}) - {DECIMALS} + d_{name}::BIGINT), '.')"
