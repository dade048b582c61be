"""What every parser gives: records, rejections and the account of one document.

A parser takes a file and yields plain values; it knows no database, clock, socket or setting.
Each record carries the line it came from, so that a figure leads back to its evidence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from finops.core.engine_start import EngineStart
from finops.core.rate_card import Card

SHOWN_VALUE_CHARACTERS = 200
CHARGE_CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")  # of FOCUS


class Refused(ValueError):
    """A document that cannot be read at all; the message names file, line, column and value.

    Where it tells a place, `line` (0 where none), `column` and `value` tell it apart as well.
    """

    def __init__(
        self, text: str, *, line: int = 0, column: str | None = None, value: str = ""
    ) -> None:
        super().__init__(text)
        self.line, self.column, self.value = line, column, value[:SHOWN_VALUE_CHARACTERS]

    def said(self, text: str) -> Refused:
        """The same in other words, at the same place."""
        return Refused(text, line=self.line, column=self.column, value=self.value)


@dataclass(frozen=True, slots=True)
class Rejection:
    """One row that was read and could not be taken; kept beside the document with its reason."""

    line: int
    column: str | None
    value: str
    reason: str

    @classmethod
    def of(cls, line: int, column: str | None, value: object, reason: str) -> Rejection:
        """A rejection whose value is cut to what a page can show."""
        text = "" if value is None else str(value)
        return cls(line, column, text[:SHOWN_VALUE_CHARACTERS], reason)


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """One line of an invoice export (method §3.3), or the kept sum of several of them.

    Amounts are None where the source has none.
    """

    line: int
    issuer: str
    billing_account: str
    billing_account_name: str | None
    billing_period_start: datetime
    billing_period_end: datetime
    charge_period_start: datetime
    charge_period_end: datetime
    category: str
    currency: str
    billed_cost: Decimal | None
    effective_cost: Decimal | None
    list_cost: Decimal | None = None
    contracted_cost: Decimal | None = None
    charge_class: str | None = None
    description: str | None = None
    frequency: str | None = None
    sub_account: str | None = None
    sub_account_name: str | None = None
    provider: str | None = None
    service: str | None = None
    service_category: str | None = None
    sku: str | None = None
    sku_price: str | None = None
    resource: str | None = None
    resource_name: str | None = None
    resource_type: str | None = None
    region: str | None = None
    instance_type: str | None = None
    gpu_model: str | None = None
    gpu_count: Decimal | None = None
    pricing_category: str | None = None
    pricing_quantity: Decimal | None = None
    pricing_unit: str | None = None
    consumed_quantity: Decimal | None = None
    consumed_unit: str | None = None
    list_unit_price: Decimal | None = None
    contracted_unit_price: Decimal | None = None
    commitment: str | None = None
    commitment_name: str | None = None
    commitment_status: str | None = None
    invoice: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    rate_card: str | None = None  # the card that priced it: not invoiced
    view: str | None = None  # `actual` or `amortised`: one of two exports that tell the same money
    line_count: int = 1  # of a kept sum: how many lines it adds up; `line` is the first of them
    last_line: int | None = None  # of a kept sum: its last line; None where one line is kept whole


@dataclass(slots=True)
class SeriesReadings:
    """Raw samples of one series: full label set, times in milliseconds, values as float64.

    Prometheus sends float64; the ledger turns a value into an integer only when it is a whole
    number and refuses it otherwise (method §1), so no sum is ever made in binary floats.
    """

    metric: str
    labels: tuple[tuple[str, str], ...]
    times_ms: array[int]
    values: array[float]


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One request's usage as a gateway or application logged it (method §6)."""

    line: int
    at: datetime
    model: str
    labels: tuple[tuple[str, str], ...]
    request: str | None
    prompt_tokens: int
    cached_tokens: int | None
    generation_tokens: int
    choices: int
    quality: str


@dataclass(frozen=True, slots=True)
class ModelConfigRecord:
    """A model's configuration; `model` is the name it gives itself, where it gives one."""

    line: int
    model: str | None
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EngineStartRecord:
    """One start of one engine, as its log tells it (method §8.2); bytes None where not told."""

    line: int
    engine: EngineStart


@dataclass(frozen=True, slots=True)
class InvoiceDetailRecord:
    """One line of an issued invoice (FOCUS InvoiceDetail).

    `detail` is its InvoiceDetailId. The amount is None of a line that is rejected, but tells which
    invoice it belongs to: that invoice's sum is not known without it.
    """

    line: int
    issuer: str
    invoice: str
    billing_account: str | None
    billing_period_start: datetime
    billing_period_end: datetime
    currency: str
    category: str | None
    amount: Decimal | None
    status: str
    detail: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BillingPeriodRecord:
    """An issuer's word on its billing period: open or closed (FOCUS BillingPeriod)."""

    line: int
    issuer: str
    billing_period_start: datetime
    billing_period_end: datetime
    status: str
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class RateCardRecord:
    """A rate card, and its JSON as given with numbers as text."""

    line: int
    card: Card
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FxRateRecord:
    """What one unit of `base` was worth in `currency` on a day."""

    line: int
    base: str
    currency: str
    day: date
    rate: Decimal


@dataclass(slots=True)
class Account:
    """The account of one document while it is read; complete when its records are exhausted."""

    format: str
    version: str | None = None
    rows_read: int = 0
    rows_in_parent: int = 0  # splits of a row that stands in the same file: no money of their own
    unknown_columns: tuple[str, ...] = ()
    missing_columns: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)
    incomplete: bool = False
    adds_to_others: bool = False  # each file of the export holds lines of its own, to be added
    exported_at: datetime | None = None  # the export's own time, where the file itself says it


Record = (
    ChargeRecord
    | SeriesReadings
    | UsageRecord
    | ModelConfigRecord
    | EngineStartRecord
    | InvoiceDetailRecord
    | BillingPeriodRecord
    | RateCardRecord
    | FxRateRecord
    | Rejection
)


class ChargeTable(ABC):
    """Charges of a file that is read in bulk: they stand in a table, not each in a record."""

    @abstractmethod
    def records(self) -> Iterator[ChargeRecord]:
        """The same charges as records."""


@dataclass(slots=True)
class Parsed:
    """A parser's answer: the account, and the records to be read once, in the file's order.

    A file that is read in bulk gives charges by the table.
    """

    account: Account
    records: Iterator[Record | ChargeTable]
