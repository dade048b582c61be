"""From charges and series to places: ordered, dated rules, first match wins; exact splits (§4).

Every charge and every series ends in exactly one place. A charge belongs to the place that holds
at its start, a token hour to the place that holds at its hour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from .matching import Columns, Matcher, checked
from .money import add, split
from .period import EPOCH, instant_of

WORKLOAD = "workload"
SHARED = "shared"
OUT_OF_SCOPE = "out of scope"
UNUSED_COMMITMENT = "unused commitment"
IDLE = "idle"
UNASSIGNED = "unassigned"
PLACES = (WORKLOAD, SHARED, IDLE, UNUSED_COMMITMENT, OUT_OF_SCOPE, UNASSIGNED)

BUILT_IN_KEYS = ("tokens", "gpu-hours")
KEPT_SUM = "kept sum"  # no label and no column has a blank in its name
COMMITMENT_COLUMNS = frozenset({"commitment", "commitment_name", "commitment_status"})
CHARGE_COLUMNS = (
    "account", "account_name", "sub_account", "sub_account_name", "provider", "issuer", "service",
    "service_category", "sku", "sku_price", "resource", "resource_name", "resource_type", "region",
    "instance_type", "gpu_model", "category", "class", "pricing_category", "commitment",
    "commitment_name", "commitment_status", "invoice", "description", "frequency", "currency",
    "billing_period", "rate_card",
)  # fmt: skip
OTHER_NAMES = {
    "billing_account": "account",
    "billing_account_name": "account_name",
    "charge_class": "class",
    "billingaccountid": "account",
    "billingaccountname": "account_name",
    "subaccountid": "sub_account",
    "subaccountname": "sub_account_name",
    "providername": "provider",
    "serviceprovidername": "provider",
    "invoiceissuername": "issuer",
    "servicename": "service",
    "servicecategory": "service_category",
    "skuid": "sku",
    "skupriceid": "sku_price",
    "resourceid": "resource",
    "resourcename": "resource_name",
    "resourcetype": "resource_type",
    "regionid": "region",
    "chargecategory": "category",
    "chargeclass": "class",
    "chargedescription": "description",
    "chargefrequency": "frequency",
    "pricingcategory": "pricing_category",
    "commitmentdiscountid": "commitment",
    "commitmentdiscountname": "commitment_name",
    "commitmentdiscountstatus": "commitment_status",
    "invoiceid": "invoice",
    "billingcurrency": "currency",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a charge or a series ends: its kind, and the workload's slug or the shared key."""

    kind: str
    target: str | None = None

    def __str__(self) -> str:
        return self.kind if self.target is None else f"{self.kind} {self.target}"


NOWHERE = Place(UNASSIGNED)
UNUSED = Place(UNUSED_COMMITMENT)


@dataclass(frozen=True, slots=True)
class Rule:
    """One version of one rule, valid in [valid_from, valid_to); open where None."""

    number: int
    version: int
    order: int
    subject: str
    place: Place
    matchers: tuple[Matcher, ...]
    valid_from: datetime | None = None
    valid_to: datetime | None = None

    def valid_at(self, instant: datetime) -> bool:
        """Whether the rule holds at an instant."""
        since, until = self.valid_from, self.valid_to
        return (since is None or since <= instant) and (until is None or instant < until)

    def reaches(self, columns: Columns) -> bool:
        """Whether every condition of the rule holds."""
        return all(matcher.holds(columns) for matcher in self.matchers)

    @property
    def names_a_commitment(self) -> bool:
        """Whether the rule speaks of commitments, so that it may claim their unused part."""
        return any(matcher.name in COMMITMENT_COLUMNS for matcher in self.matchers)


def charge_matchers(matchers: Iterable[Matcher]) -> tuple[Matcher, ...]:
    """Matchers with the ledger's column names; FOCUS names are understood.

    Raises ValueError for a column that charges do not have, listing those they have.
    """
    return checked(
        Matcher(_column_name(matcher.name), matcher.op, matcher.value) for matcher in matchers
    )


def _column_name(name: str) -> str:
    if name.startswith("tag:") and len(name) > 4:
        return name
    lower = name.lower()
    known = lower if lower in CHARGE_COLUMNS else OTHER_NAMES.get(lower)
    if known is None:
        raise ValueError(
            f"charges have no column {name!r}; they have {', '.join(CHARGE_COLUMNS)} and tag:NAME"
        )
    return known


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """The rules as they are tried: by order, then number."""
    return sorted(rules, key=lambda rule: (rule.order, rule.number))


def place_of(columns: Columns, instant: datetime, rules: Sequence[Rule]) -> Place:
    """The one place of a charge or series at an instant; `rules` as `in_order` gives them.

    The unused part of a commitment is its own place unless a rule claims it by naming a
    commitment column: a rule on an account alone does not reach it (method §4). A kept sum holds
    only lines that no rule reached, and not the columns that rules look at: none is tried on it.
    """
    unused = (columns.get("commitment_status") or "").casefold() == "unused"
    for rule in () if columns.get(KEPT_SUM) else rules:
        if unused and not rule.names_a_commitment:
            continue
        if rule.valid_at(instant) and rule.reaches(columns):
            return rule.place
    return UNUSED if unused else NOWHERE


class Assigner:
    """`place_of` for many rows: answers are kept by the columns that the rules look at."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = in_order(rules)
        names = {matcher.name for rule in self.rules for matcher in rule.matchers}
        self._names = tuple(sorted(names | {"commitment_status", KEPT_SUM}))
        dates = {d for rule in self.rules for d in (rule.valid_from, rule.valid_to) if d}
        self._dates = sorted(dates)
        self._known: dict[tuple[object, ...], Place] = {}

    def __call__(self, columns: Columns, instant: datetime) -> Place:
        """The place of a charge or series at an instant."""
        return self._place(columns, self._values(columns), instant)

    def by_hour(self, columns: Columns) -> Callable[[int], Place]:
        """The places of one charge or series: asked by milliseconds since 1970, for many hours.

        The columns are looked at once; where no rule has a date, one answer is that of all hours.
        """
        values = self._values(columns)
        if not self._dates:
            always = self._place(columns, values, EPOCH)
            return lambda _: always
        return lambda time_ms: self._place(columns, values, instant_of(time_ms))

    def _values(self, columns: Columns) -> tuple[str | None, ...]:
        return tuple([columns.get(name) for name in self._names])

    def _place(self, columns: Columns, values: tuple[str | None, ...], instant: datetime) -> Place:
        key = (bisect_right(self._dates, instant), values)
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = place_of(columns, instant, self.rules)
        return place


@dataclass(frozen=True, slots=True)
class SharedKey:
    """How a shared pot is split: by `tokens`, by `gpu-hours`, or by `fixed` whole shares."""

    name: str
    method: str
    shares: Mapping[str, int]


Weights = Mapping[str, int | Decimal]


def weights_of(key: SharedKey, tokens: Weights, gpu_hours: Weights) -> Weights:
    """The weight of each workload under a key; empty when nothing is known to split by."""
    chosen: Weights = {"tokens": tokens, "gpu-hours": gpu_hours, "fixed": key.shares}[key.method]
    return {slug: weight for slug, weight in sorted(chosen.items()) if weight > 0}


def split_shared(amount: Decimal, weights: Weights) -> dict[str, Decimal]:
    """A shared amount's parts by workload; they sum to it exactly (method §4).

    Raises ValueError when no weight is positive: the amount is then "shared, not yet split".
    """
    slugs = sorted(weights)
    parts = dict(zip(slugs, split(amount, [weights[slug] for slug in slugs]), strict=True))
    if add(list(parts.values())) != amount:
        raise ArithmeticError(f"parts of {amount} do not sum to it")
    return parts


def parse_shares(text: str) -> dict[str, int]:
    """The whole-number shares of `a=60,b=40`. Raises ValueError naming the part that is wrong."""
    shares: dict[str, int] = {}
    for item in text.split(","):
        slug, separator, share = (piece.strip() for piece in item.partition("="))
        if not separator or not slug or not share.isascii() or not share.isdigit():
            raise ValueError(f"not a share like workload=60: {item.strip()[:60]!r}")
        if len(share) > 15:
            raise ValueError(f"a share has at most 15 digits: {item.strip()[:60]!r}")
        if slug in shares:
            raise ValueError(f"workload {slug!r} has two shares")
        shares[slug] = int(share)
    if not any(shares.values()):
        raise ValueError("the shares must not all be zero")
    return shares
