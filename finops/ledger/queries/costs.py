"""The money of a period in its places: own, shared and split, unused, unassigned (method §4).

One pass over the charges' parts. The shared charges of a key are split by their running sum: a
charge's parts are what the split grows by with it, so that the parts of each charge sum to it and
no rounding piles up (the law of method §3.7, over charges instead of time).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from finops.core.allocation import (
    IDLE,
    SHARED,
    UNASSIGNED,
    WORKLOAD,
    Assigner,
    Place,
    SharedKey,
    Weights,
    split_shared,
    weights_of,
)
from finops.core.bridge import decimal_of
from finops.core.exchange import Rates
from finops.core.facts import RATE_CARD, CommitmentSum, CurrencySum, PlaceSum
from finops.core.gpu_hours import charge_gpu_hours
from finops.core.money import EXACT, split
from finops.core.nodes import NodeName, Nodes, hours_of
from finops.core.period import Period

from .exchanged import Conversions
from .money import ChargePart, charge_parts

ZERO = Decimal(0)
UNRECOGNISED = "unrecognised"


@dataclass(slots=True)
class Sum:
    """Billed and effective together, with how many charges stand behind them."""

    billed: Decimal = ZERO
    effective: Decimal = ZERO
    charges: int = 0

    def add(self, billed: Decimal, effective: Decimal, charges: int = 0) -> None:
        """Adds amounts exactly."""
        self.billed = EXACT.add(self.billed, billed)
        self.effective = EXACT.add(self.effective, effective)
        self.charges += charges


@dataclass(slots=True)
class Hours:
    """GPU-hours of one workload, and the GPU models they were on."""

    gpu_hours: Fraction | None = None
    models: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Costs:
    """All money of one period by place; `shared` holds the sums by key until they are split.

    `currencies` is after conversion; `written` and `by_document` are as the documents say it
    (method §3.9).
    """

    period: Period
    currencies: dict[str, Sum] = field(default_factory=dict)
    written: dict[str, Sum] = field(default_factory=dict)
    unknown_effective: dict[str, int] = field(default_factory=dict)
    unknown_billed: dict[str, int] = field(default_factory=dict)
    places: dict[tuple[Place, str], Sum] = field(default_factory=dict)
    shared: dict[tuple[str, str], Sum] = field(default_factory=dict)
    split: dict[tuple[str, str], Sum] = field(default_factory=dict)
    commitments: dict[tuple[str, str], CommitmentSum] = field(default_factory=dict)
    hours: dict[str, Hours] = field(default_factory=dict)
    issuers: dict[str, set[str]] = field(default_factory=dict)
    by_document: dict[str, dict[str, Sum]] = field(default_factory=dict)
    documents_of: dict[str, set[str]] = field(default_factory=dict)
    nodes: Nodes | None = None
    on_nodes: dict[str, Sum] = field(default_factory=dict)
    off_nodes: dict[str, Sum] = field(default_factory=dict)
    charged_node_hours: set[tuple[NodeName, int]] = field(default_factory=set)
    conversions: Conversions = field(default_factory=Conversions)

    @property
    def documents(self) -> set[str]:
        """The documents that any of the money comes from."""
        return set(self.by_document)

    def own(self, slug: str, currency: str) -> Sum:
        """What rules gave to a workload itself."""
        return self.places.get((Place(WORKLOAD, slug), currency), Sum())

    def shared_part(self, slug: str, currency: str) -> Decimal:
        """What the split of shared charges gave to a workload, effective."""
        return self.split.get((slug, currency), Sum()).effective

    def cost(self, slug: str, currency: str) -> Decimal:
        """Own and shared effective cost of a workload."""
        return EXACT.add(self.own(slug, currency).effective, self.shared_part(slug, currency))

    def gpu_hours(self, slug: str) -> Decimal | None:
        """GPU-hours of a workload by its charges; None when no GPU count is known."""
        found = self.hours.get(slug, Hours()).gpu_hours
        return None if found is None else decimal_of(found)

    def gpu_model(self, slug: str) -> str | None:
        """The GPU models of a workload's charges, joined when there are several."""
        models = self.hours.get(slug, Hours()).models
        return " + ".join(sorted(models)) or None

    def place_sums(self) -> tuple[PlaceSum, ...]:
        """Every place with what ended there, shared charges in the workloads they were split to."""
        return tuple(
            PlaceSum(place.kind, place.target, currency, s.billed, s.effective, s.charges)
            for (place, currency), s in sorted(
                _with_split(self).items(), key=lambda item: (item[0][1], str(item[0][0]))
            )
        )

    def currency_sums(self) -> tuple[CurrencySum, ...]:
        """All money by currency, after conversion."""
        return self._sums(self.currencies)

    def original_sums(self) -> tuple[CurrencySum, ...]:
        """All money by the currency of its documents."""
        return self._sums(self.written)

    def document_sums(self, sha256: str) -> tuple[CurrencySum, ...]:
        """What of a document's charges lies in the period, by the currency it is written in."""
        return tuple(
            CurrencySum(currency, s.billed, s.effective, s.charges, 0, 0)
            for currency, s in sorted(self.by_document.get(sha256, {}).items())
        )

    def _sums(self, sums: Mapping[str, Sum]) -> tuple[CurrencySum, ...]:
        return tuple(
            CurrencySum(currency, s.billed, s.effective, s.charges,
                        self.unknown_effective.get(currency, 0), self.unknown_billed.get(currency, 0))
            for currency, s in sorted(sums.items())
        )  # fmt: skip


def costs(
    period: Period,
    assign: Assigner,
    as_of: datetime | None = None,
    nodes: Nodes | None = None,
    rates: Rates | None = None,
) -> Costs:
    """The money of a period in its places, shared charges not yet split.

    With rates, money is in their target's currency wherever a rate was published (method §3.9).

    Of GPU charges that no rule gives to a workload, the share of time in which nobody held the
    node's GPUs is idle (method §4); what a rule gave to a workload is its own, idle or not.
    """
    found = Costs(period, nodes=nodes)
    for part in charge_parts(period, as_of=as_of, rates=rates):
        _add(found, part, assign(part.columns, part.start))
    return found


def split_costs(
    found: Costs, keys: Mapping[str, SharedKey], tokens: Weights, gpu_hours: Weights
) -> None:
    """Splits the shared charges by their keys; what has nothing to split by stays shared."""
    weights = {name: weights_of(key, tokens, gpu_hours) for name, key in keys.items()}
    for (name, currency), pot in found.shared.items():
        chosen = weights.get(name)
        if not chosen:
            place = found.places.setdefault((Place(SHARED, name), currency), Sum())
            place.add(pot.billed, pot.effective, pot.charges)
            continue
        billed, effective = split_shared(pot.billed, chosen), split_shared(pot.effective, chosen)
        for slug in chosen:
            part = found.split.setdefault((slug, currency), Sum())
            part.add(billed[slug], effective[slug])


def _with_split(found: Costs) -> dict[tuple[Place, str], Sum]:
    places = {key: Sum(s.billed, s.effective, s.charges) for key, s in found.places.items()}
    for (slug, currency), s in found.split.items():
        places.setdefault((Place(WORKLOAD, slug), currency), Sum()).add(s.billed, s.effective)
    return places


def _add(found: Costs, part: ChargePart, place: Place) -> None:
    currency = part.currency
    billed, effective = part.billed or ZERO, part.effective or ZERO
    for amount, unknown in (
        (part.effective, found.unknown_effective),
        (part.billed, found.unknown_billed),
    ):
        if amount is None:
            written = part.columns["currency"]
            unknown[written] = unknown.get(written, 0) + 1
    found.currencies.setdefault(currency, Sum()).add(billed, effective, 1)
    _as_written(found, part)
    found.conversions.add(part)
    _commitment(found, part, billed, effective)
    idle = _idle_share(found, part, billed, effective)
    if idle and place.kind in (SHARED, UNASSIGNED):
        nobody = found.places.setdefault((Place(IDLE), currency), Sum())
        (idle_billed, billed), (idle_effective, effective) = (
            _cut(billed, idle),
            _cut(effective, idle),
        )
        nobody.add(idle_billed, idle_effective, 1)
        if idle == 1:
            return
    if place.kind == SHARED and place.target:
        pot = found.shared.setdefault((place.target, currency), Sum())
        pot.add(billed, effective, 1)
        return
    found.places.setdefault((place, currency), Sum()).add(billed, effective, 1)
    if place.kind == WORKLOAD and place.target:
        found.issuers.setdefault(place.target, set()).add(part.columns["issuer"])
        found.documents_of.setdefault(place.target, set()).add(part.document)
        _hours(found, part, place.target)


def _as_written(found: Costs, part: ChargePart) -> None:
    """Adds a part in the currency of its document, to the whole and to the document's own sum."""
    one = part.original or part
    amounts = one.billed or ZERO, one.effective or ZERO
    found.written.setdefault(one.currency, Sum()).add(*amounts, 1)
    mine = found.by_document.setdefault(part.document, {})
    mine.setdefault(one.currency, Sum()).add(*amounts, 1)


def _cut(amount: Decimal, share: Fraction) -> list[Decimal]:
    """The share of an amount and the rest; they sum to it (method §4)."""
    return split(amount, [share.numerator, share.denominator - share.numerator])


def _idle_share(
    found: Costs, part: ChargePart, billed: Decimal, effective: Decimal
) -> Fraction | None:
    """The idle share of a GPU charge's node; on the way both sides of the join are counted."""
    usage = part.columns["category"] == "Usage" and part.columns["commitment_status"] != "Unused"
    if not found.nodes or not usage or part.gpu_count is None:
        return None
    resource = part.columns["resource"]
    start, end = max(part.start, found.period.start), min(part.end, found.period.end)
    nodes = found.nodes.of_charge(resource, start, end)
    side = found.on_nodes if nodes else found.off_nodes
    side.setdefault(part.currency, Sum()).add(billed, effective, 1)
    for node in nodes:
        hours = hours_of(start, end)
        found.charged_node_hours |= {(node.name, hour) for hour in hours if hour in node.hours}
    return found.nodes.idle_share(resource, start, end) if nodes else None


def _commitment(found: Costs, part: ChargePart, billed: Decimal, effective: Decimal) -> None:
    """What a charge of a commitment adds between billed and effective (method §4)."""
    card = part.columns["rate_card"]
    name = f"{RATE_CARD}{card}" if card else part.columns["commitment"]
    difference = EXACT.subtract(effective, billed)
    if not name or not difference:
        return
    key = (name, part.currency)
    known = found.commitments.get(key) or CommitmentSum(
        name, part.columns["commitment_name"], part.currency, ZERO, ZERO
    )
    purchase = part.columns["category"] == "Purchase"
    purchases = EXACT.add(known.purchases, difference if purchase else ZERO)
    amortised = EXACT.add(known.amortised, ZERO if purchase else difference)
    found.commitments[key] = CommitmentSum(name, known.name, part.currency, purchases, amortised)


def _hours(found: Costs, part: ChargePart, slug: str) -> None:
    if part.columns["category"] != "Usage":
        return
    cost = part.effective if part.effective is not None else part.billed
    hours = charge_gpu_hours(
        gpu_count=part.gpu_count,
        quantities=(
            (part.consumed_quantity, part.consumed_unit),
            (part.pricing_quantity, part.pricing_unit),
        ),
        start=part.start,
        end=part.end,
        since=found.period.start,
        until=found.period.end,
        correction_of=(cost or ZERO) if part.columns["class"] else None,
    )
    if hours is None:
        return
    known = found.hours.setdefault(slug, Hours())
    known.gpu_hours = (known.gpu_hours or Fraction(0)) + hours
    model = part.columns["gpu_model"]
    if model and model != UNRECOGNISED:
        known.models.add(model)


def report_currency(found: Costs) -> str:
    """Where nobody chose one: the currency most charges are in, the first by name among equals;
    USD without charges."""
    ranked: Iterable[tuple[int, str]] = ((-s.charges, c) for c, s in found.currencies.items())
    return min(ranked, default=(0, "USD"))[1]


def other_currencies(found: Costs, slug: str, currency: str) -> Iterator[tuple[str, Decimal]]:
    """What a workload costs in currencies other than the report's: nothing converted it."""
    for other in sorted(found.currencies):
        amount = found.cost(slug, other)
        if other != currency and amount:
            yield other, amount
