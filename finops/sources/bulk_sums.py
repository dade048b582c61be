"""Summing FOCUS lines in the database engine: which texts make a kind, and exact amounts.

A *stamp* is what the parser must accept of a line: its periods, names, category and currency. The
parser reads one line of each stamp. A *kind* is a stamp without the charge period, with the other
dimensions of a sum. Amounts are added as DECIMAL(38,18) and only where that is exact: at most 12
digits before the point and 18 after it, in plain notation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from finops.core.allocation import Rule
from finops.sources import bulk_sieve

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
DIGITS: Final = 12
DECIMALS: Final = 18
_PLAIN: Final = f"'-?[0-9]{{1,{DIGITS}}}(\\.[0-9]{{1,{DECIMALS}}})?'"
SUM: Final = f"DECIMAL(38,{DECIMALS})"

Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Amount:
    """One column of money in SQL: where it is exact, its value, its decimals, where it is null; and of
    many lines their sum and the most decimals. A column of exact numbers stands by itself, too, and all
    its lines have the decimals `scale`, with which they are added."""

    plain: str
    value: str
    decimals: str
    is_null: str
    sum: str | None = None
    most_decimals: str | None = None
    column: str = ""
    kind: str = ""
    scale: int | None = None

    @property
    def sum_type(self) -> str:
        """The type of a sum of it."""
        return SUM if self.scale is None else f"DECIMAL(38,{self.scale})"

    def equals(self, other: Amount) -> str:
        """Where two are the same number: as they stand, if both are columns of one type."""
        if self.kind and self.kind == other.kind:
            return f"{self.column} = {other.column}"
        return f"{self.value} = {other.value}"

    def is_zero(self) -> str:
        """Where it is zero."""
        return f"{self.column or self.value} = 0"

    def totals(self, name: str) -> list[str]:
        """The sum of lines and their most decimals, as columns of a SELECT that groups."""
        total = self.sum or f"sum({self.value})"
        most = self.most_decimals or f"max({self.decimals})"
        return [f"{total} AS {name}", f"{most} AS d_{name}"]

    @classmethod
    def of_text(cls, text: str, *, required: bool) -> Amount:
        """Of a column of text, null where a cell is empty."""
        fits = f"coalesce(regexp_full_match({text}, {_PLAIN}), FALSE)"
        return cls(
            fits if required else f"({text} IS NULL OR {fits})",
            f"TRY_CAST({text} AS {SUM})",
            _decimals_of(text),
            f"{text} IS NULL",
        )

    @classmethod
    def of_cell(cls, cell: str, *, required: bool) -> Amount:
        """Of a column of text in which nothing is null, an empty cell being none."""
        fits = f"regexp_full_match({cell}, {_PLAIN})"
        return cls(
            fits if required else f"({cell} = '' OR {fits})",
            f"TRY_CAST(nullif({cell}, '') AS {SUM})",
            _decimals_of(cell),
            f"{cell} = ''",
        )

    def same_or(self, is_same: str, first: Amount) -> Amount:
        """This one, where a line does not have the same as another one that is looked at anyway.

        The engine takes the second way for the lines alone that need it.
        """
        return Amount(
            f"CASE WHEN {is_same} THEN TRUE ELSE {self.plain} END",
            f"CASE WHEN {is_same} THEN {first.value} ELSE {self.value} END",
            f"CASE WHEN {is_same} THEN {first.decimals} ELSE {self.decimals} END",
            self.is_null,
        )

    @classmethod
    def of_decimal(
        cls, column: str, kind: str, digits: int, scale: int, *, required: bool
    ) -> Amount:
        """Of a column of exact numbers with at most so many digits before the point and 18 after it,
        added as they are."""
        fits = f"{column} IS NOT NULL"
        if digits > DIGITS:
            limit = f"{10**DIGITS}::{kind}"
            fits = f"coalesce({column} > -({limit}) AND {column} < {limit}, FALSE)"
        return cls(
            fits if required else f"({column} IS NULL OR {fits})",
            f"TRY_CAST({column} AS {SUM})",
            str(scale),
            f"{column} IS NULL",
            f"sum({column})::DECIMAL(38,{scale})",
            str(scale),
            column,
            kind,
            scale,
        )


def _decimals_of(text: str) -> str:
    return f"CASE WHEN contains({text}, '.') THEN strlen({text}) - strpos({text}, '.') ELSE 0 END"


def amounts_of(
    texts: Texts, of: Callable[..., Amount] = Amount.of_text
) -> tuple[dict[str, Amount], str]:
    """The columns of money of a file of texts, and the columns to be added to its own for them.

    Most lines bill what they cost effectively and by contract, and such texts are read once.
    """
    found = {
        name: of(texts[name], required=name not in OPTIONAL)
        for name in AMOUNTS.values()
        if name in texts
    }
    if not found:
        return found, ""
    name, first = next(iter(found.items()))
    added = f", {first.value} AS first_value, {first.decimals} AS first_decimals"
    known = replace(first, value="first_value", decimals="first_decimals")
    others = {
        other: amount.same_or(f"{texts[other]} = {texts[name]}", known)
        for other, amount in found.items()
        if other != name
    }
    return {name: known} | others, added


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one file as SQL: texts by FOCUS name, money, and what is read by the parser.

    Lines are grouped by `groups`, of which the texts `keys` are made, none of them null. `together`:
    see the sieve.
    `is_harmless` holds for lines alone of whose `gpu_text` it is known that the sieve finds nothing.
    Lines are not told apart by columns of which all have the text that `usual` gives; where one has
    another, the engine refuses them all.
    """

    texts: Texts
    amounts: Mapping[str, Amount]
    rules: Sequence[Rule]
    keys: Texts
    groups: Texts
    together: bool = False
    is_harmless: str | None = None
    usual: Texts = field(default_factory=dict)

    @property
    def kind(self) -> tuple[str, ...]:
        """The texts of a kind that this file has."""
        return tuple(name for name in (*STAMP, *REST.values()) if name in self.texts)

    @property
    def scales(self) -> dict[str, int]:
        """The columns of the engine whose amounts all have so many decimals."""
        found = ((engine_name(name), one.scale) for name, one in self.amounts.items())
        return {name: scale for name, scale in found if scale is not None}

    def uncertain(self) -> str:
        """A condition that holds for every line with an amount that the engine may not add."""
        return " OR ".join(f"NOT {amount.plain}" for amount in self.amounts.values()) or "FALSE"

    def stays_whole(self) -> str:
        """A condition that holds for every line that may not go into a sum."""
        gpu = bulk_sieve.looks_like_gpu(self.texts, together=self.together)
        if self.is_harmless is not None:
            named = bulk_sieve.named_like_gpu(self.texts)
            gpu = f"CASE WHEN {self.is_harmless} THEN {named} ELSE {gpu} END"
        reached = bulk_sieve.is_reached(self.rules, self.texts)
        return f"coalesce({self.uncertain()} OR {gpu} OR {reached}, FALSE)"

    def refusing(self, value: str) -> str:
        """A value, for which there is none where a line has another text than is usual."""
        if not self.usual:
            return value
        same = (f"{self.groups[n]} = {bulk_sieve.quoted(t)}" for n, t in self.usual.items())
        return f"CASE WHEN {' AND '.join(same)} THEN {value} ELSE error('unusual') END"

    def key(self, name: str) -> str:
        """The text of a column in a row that `grouped` selects."""
        usual = self.usual.get(name)
        return self.keys[name] if usual is None else bulk_sieve.quoted(usual)

    def alike(self) -> str:
        """Which optional amounts a line lacks, and whether the other two are equal; see `Summing`."""
        flags = [self.amounts[n].is_null for n in OPTIONAL if n in self.amounts]
        both = [
            self.amounts[n] for n in AMOUNTS.values() if n not in OPTIONAL and n in self.amounts
        ]
        if len(both) > 1:
            flags.append(both[0].equals(both[1]))
        if "ContractedCost" in self.amounts:
            flags.append(self.amounts["ContractedCost"].is_zero())
        flags = [f"{1 << place} * coalesce({flag}, FALSE)::INT" for place, flag in enumerate(flags)]
        return " + ".join(flags) or "0"


def grouped(
    layout: Layout,
    source: str,
    line: str,
    whole: str,
    *,
    signs: bool = False,
    mark: str = "alone",
) -> str:
    """The SELECT that sums a source's lines; a line to stay whole is a row of its own.

    `line` gives a line's number and `whole` says of each whether it stays whole: its number stands in
    `alone`. With `signs` it is below zero where an amount is uncertain. `mark` is a name that no column
    of the source has.
    """
    names = (*layout.kind, *SPAN)
    number = f"CASE WHEN {layout.uncertain()} THEN -{line} ELSE {line} END" if signs else line
    # Said once, for the engine takes long to read such a condition, and longer to read it often.
    told = layout.refusing(f"CASE WHEN {whole} THEN {number} END")
    marked = f"(SELECT *, {told} AS {mark} FROM {source})"  # noqa: S608
    chosen = [f"{layout.key(name)} AS {engine_name(name)}" for name in names]
    chosen += [f"{layout.alike()} AS alike", f"{mark} AS alone"]
    chosen += ["count(*) AS n", f"min({line}) AS first", f"max({line}) AS last"]
    for name, amount in layout.amounts.items():
        chosen += amount.totals(engine_name(name))
    places = (str(len(names) + place) for place in (1, 2))
    differing = (layout.groups[name] for name in names if name not in layout.usual)
    groups = ", ".join((*differing, *places))
    return f"SELECT {', '.join(chosen)} FROM {marked} GROUP BY {groups}"  # noqa: S608


def filled(texts: Texts) -> dict[str, str]:
    """Texts that may be null as texts that are empty then."""
    return {name: f"coalesce({text}, '')" for name, text in texts.items()}


def engine_name(column: str) -> str:
    return f"c_{column}"
