"""What the ledger knows of one week: plain frozen values that pass up to the statement.

Money is exact, tokens are whole numbers, instants are aware UTC; None means unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .baseline import Terms
from .changes import Change, Impact
from .exchange import Exchanged, Unconverted
from .memory import KvFigures
from .memory_closing import Closing
from .memory_hours import MemoryHours
from .money import EXACT
from .nodes import NodeFacts
from .period import Period
from .slo import InTime, Objective
from .tokens import Tokens
from .training_facts import Burn
from .unit_cost import Counted, Weights


@dataclass(frozen=True, slots=True)
class PlaceSum:
    """What ended in one place in the period, in one currency (method §4)."""

    kind: str
    target: str | None
    currency: str
    billed: Decimal
    effective: Decimal
    charges: int


RATE_CARD = "rate card "  # the start of a commitment's name that stands for a card's prices


@dataclass(frozen=True, slots=True)
class CommitmentSum:
    """One commitment: what its purchases and its use add to billed to come to effective.

    What a rate card prices is on no invoice: it is a sum of its own, named after the card.
    """

    commitment: str
    name: str
    currency: str
    purchases: Decimal
    amortised: Decimal


@dataclass(frozen=True, slots=True)
class CurrencySum:
    """All money of the period in one currency."""

    currency: str
    billed: Decimal
    effective: Decimal
    charges: int
    without_effective: int
    without_billed: int


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """How charges came into the report's currency (method §3.9); None where all are in it.

    `originals` are the sums as the documents say them, each in its own currency. `late` names
    currencies with charges of working days after the last rate there is.
    """

    originals: tuple[CurrencySum, ...]
    rates: tuple[Exchanged, ...] = ()
    missing: tuple[Unconverted, ...] = ()
    late: Mapping[str, date] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InvoiceSum:
    """One invoice: Σ billed of its lines against the amount issued (method §4)."""

    issuer: str
    invoice: str | None
    billing_period: str
    currency: str
    lines: int
    billed: Decimal
    issued: Decimal | None
    difference: Decimal | None
    tolerance: Decimal | None
    within: bool | None
    provisional: bool


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """The KV cache of one engine of a workload over the period.

    `told_by` says who read it where another may have read the same engine and no rule decided; of
    those one `counts` where engines are added up (method §2.7).
    """

    engine: str
    figures: KvFigures
    preemptions: int | None
    told_by: str | None = None
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of a service level; None with the reason, or without one where nobody set it."""

    in_time: InTime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """What came in time in a period, against the objective in force at its end (method §5).

    `changed` says that the objective changed inside the period: each hour is counted against the
    one in force. `reasons` says why the objective or a measure it names is not known.
    """

    objective: Objective | None
    period: Period
    changed: bool
    measured: Mapping[str, InTime]
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """A change that an engineer confirmed, by whom, and its impact (method §10)."""

    change: Change
    by: str
    note: str
    impact: Impact


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """One workload in the period. `common` is the span that has both cost and readings.

    `counted` are the tokens in `common` on `basis` (processed, or delivered where only usage
    records tell), `delivered` those on the delivered basis; `cost_own` and `cost_shared` are of
    the whole period, `common_cost` of `common`, all in the report's currency. `other_currencies`
    is what has no rate; where any of it lies in `common`, `common_cost` is unknown.
    """

    slug: str
    model: str
    stack: str
    team: str
    purpose: str
    cluster: str
    namespace: str
    tokens: Tokens | None
    cost_own: Decimal
    cost_shared: Decimal
    charges: int
    common: Period | None = None
    basis: str = "processed"
    common_tokens: Tokens | None = None
    counted: Counted | None = None
    delivered: Counted | None = None
    common_cost: Decimal | None = None
    active_hours: int | None = None
    common_hours: int | None = None
    gpu_hours: Decimal | None = None
    common_gpu_hours: Decimal | None = None
    billed_gpu_hours: Decimal | None = None
    gpu_hours_source: str | None = None
    gpu_model: str | None = None
    memory: tuple[EngineMemory, ...] = ()
    memory_hours: MemoryHours | None = None
    preemptions: int | None = None
    old_engine: bool = False
    baseline: Terms | None = None
    service: ServiceLevel | None = None
    other_currencies: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def cost(self) -> Decimal:
        """Own and shared effective cost of the whole period."""
        return EXACT.add(self.cost_own, self.cost_shared)

    @property
    def active_share(self) -> Fraction | None:
        """The share of the common hours in which tokens moved."""
        if not self.active_hours or not self.common_hours:
            return None
        return Fraction(self.active_hours, self.common_hours)


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """A document that stands behind the period's figures.

    `sums` is what of its charges falls into the period, by currency as the document says it;
    `format_version` that of its format, or of the saved mapping that it was read by.
    """

    sha256: str
    name: str
    format: str
    size_bytes: int
    rows_read: int
    charges: int
    readings: int
    rows_rejected: int
    received_at: datetime
    sums: tuple[CurrencySum, ...] = ()
    format_version: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a reader must know: one line of the exceptions register (method §11)."""

    kind: str
    subject: str
    text: str
    amount: Decimal | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Reaches:
    """Cost reaches to, tokens reach to; the union of the workloads' common spans (method §4)."""

    cost: datetime | None
    tokens: datetime | None
    common: Period | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a statement of one week is made of."""

    week: str
    period: Period
    zone: str
    organisation: str
    sample: bool
    software_version: str
    currency: str
    reaches: Reaches
    money: tuple[CurrencySum, ...] = ()
    places: tuple[PlaceSum, ...] = ()
    commitments: tuple[CommitmentSum, ...] = ()
    invoices: tuple[InvoiceSum, ...] = ()
    provisional_months: tuple[str, ...] = ()
    workloads: tuple[WorkloadFacts, ...] = ()
    tokens: Tokens | None = None
    series: int = 0
    readings: int = 0
    readings_missing: int = 0
    first_reading: datetime | None = None
    last_reading: datetime | None = None
    documents: tuple[DocumentFacts, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    notices: tuple[Notice, ...] = ()
    nodes: NodeFacts | None = None
    memory: tuple[Closing, ...] = ()
    rightsizing: tuple[Mapping[str, Any], ...] = ()
    training: Burn | None = None
    changes: tuple[ChangeFacts, ...] = ()
    weights: Weights = field(default_factory=Weights)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    exchange: ExchangeFacts | None = None

    @property
    def as_written(self) -> tuple[CurrencySum, ...]:
        """All money by the currency its documents are in."""
        return self.exchange.originals if self.exchange else self.money
