"""An invoice that a person typed in, and the FOCUS document that is made of it (method §3.1, §3.3).

A vendor without an export is booked like any other: its lines become a CSV in the columns of FOCUS,
which is kept and read as every document is. Columns of its own say that it was typed in, by whom,
when, and from which paper.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Final

from finops.core import signs
from finops.core.money import EXACT, add, plain
from finops.core.period import month_of, rfc3339
from finops.sources import currencies, gpu_shapes
from finops.sources.focus import TYPED

PAPER: Final = "x_TypedInFromSha256"
MOMENT: Final = "x_TypedInAt"
CREDITED: Final = "x_CreditedInvoiceId"
COLUMNS: Final = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
    "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceId",
    "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName",
    "PublisherName", "ResourceType", "ServiceCategory", "ServiceName", "SkuPriceDetails",
    TYPED, MOMENT, PAPER, CREDITED,
)  # fmt: skip
MOST_LETTERS: Final = 300
LAST_YEAR: Final = 2198  # a charge's period ends in 2199 at the latest
MOST_GPUS: Final = 1000  # in one machine; a rack that counts as one has 72
MOST_HOURS: Final = 10**9  # a hundred thousand machines for a year
MOST_DAYS: Final = 1100  # three years: the longest term that GPU time is sold for
_WORDS: Final = {
    "issuer": "vendor",
    "invoice": "invoice number",
    "billing_account": "billing account",
}
MOST_LINES: Final = 200


class NotUsable(ValueError):
    """A value that no invoice can have; `field` is its name in TypedInvoice, or in the line of that
    number, from 0."""

    def __init__(self, field: str, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.field, self.line = field, line

    def told(self) -> str:
        """The reason as a sentence."""
        text = str(self)
        return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


@dataclass(frozen=True, slots=True)
class TypedLine:
    """One service on the paper, before tax. `start` and `end` are the first and the last day of what
    was bought; `hours` are of machines with `gpu_count` GPUs each. A discount is below zero."""

    service: str
    start: date
    end: date
    amount: Decimal
    gpu_model: str = ""
    gpu_count: Decimal | None = None
    hours: Decimal | None = None

    def check(self) -> None:
        """NotUsable, naming the field, for what cannot be booked."""
        _check_words("service", "service", self.service)
        _check_days(self.start, self.end)
        if not self.amount:
            raise NotUsable(
                "amount", "an amount is more than zero, or below it for a credit, not 0"
            )
        if self.gpu_model and self.gpu_model not in gpu_models():
            raise NotUsable("gpu_model", f"{self.gpu_model[:40]} is no GPU model known here")
        if self.amount < 0 and (self.gpu_model or self.hours is not None):
            field = "gpu_model" if self.gpu_model else "hours"
            raise NotUsable(field, "what is credited has no GPUs and no hours of its own")
        if self.gpu_model and self.gpu_count is None:
            raise NotUsable("gpu_count", "say how many GPUs each machine has")
        if self.gpu_count is not None and not self.gpu_model:
            raise NotUsable("gpu_model", "say which GPUs they are")
        for field, value, most in (
            ("gpu_count", self.gpu_count, MOST_GPUS),
            ("hours", self.hours, MOST_HOURS),
        ):
            if value is not None and value <= 0:
                raise NotUsable(field, f"give more than zero, not {plain(value)}")
            if value is not None and value > most:
                raise NotUsable(field, f"give at most {most}, not {plain(value)[:40]}")

    def cells(self) -> dict[str, str]:
        """Its cells in the columns of FOCUS."""
        cells = {"ChargeCategory": "Usage" if self.amount > 0 else "Credit"}
        cells |= {"ServiceName": self.service, "ChargeDescription": self.service}
        cells |= {"ChargeFrequency": "Usage-Based"} | _days(self.start, self.end)
        if self.hours is not None:
            cells |= {"PricingQuantity": plain(self.hours), "PricingUnit": "Hours"}
        if self.gpu_model and self.gpu_count is not None:
            details = json.dumps({"GpuCount": plain(self.gpu_count)})
            cells |= {"ResourceType": f"{self.gpu_model} GPU", "SkuPriceDetails": details}
        return cells | _costs(self.amount)


@dataclass(frozen=True, slots=True)
class TypedInvoice:
    """What stands on the paper. `billing_period` is a month `YYYY-MM`; amounts are exact, in
    `currency`. A credit note names the invoice it `credits`, and is below zero."""

    issuer: str
    invoice: str
    billing_account: str
    billing_period: str
    currency: str
    lines: tuple[TypedLine, ...]
    tax: Decimal = Decimal(0)
    credits: str = ""

    def total(self) -> Decimal:
        """The amount issued: the lines before tax, and the tax, added exactly."""
        return EXACT.add(self.before_tax(), self.tax)

    def before_tax(self) -> Decimal:
        """The lines together."""
        return add([line.amount for line in self.lines])

    def name(self) -> str:
        """The document's name: the same for the same invoice of the same vendor, and no other's."""
        mark = hashlib.sha256(f"{self.issuer}\x1f{self.invoice}".encode()).hexdigest()[:12]
        return f"typed-in-{re.sub(r'[^A-Za-z0-9]+', '-', self.invoice)[:60].strip('-')}-{mark}.csv"

    def check(self) -> None:
        """NotUsable, naming the field and the line, for what cannot be booked."""
        for field, what in _WORDS.items():
            _check_words(field, what, getattr(self, field))
        try:
            _check_year("billing_period", month_of(self.billing_period).start)
        except ValueError as error:
            raise NotUsable("billing_period", str(error)) from None
        if reason := currencies.refusal(self.currency):
            raise NotUsable("currency", f"{self.currency[:20]} {reason}")
        if not 1 <= len(self.lines) <= MOST_LINES:
            raise NotUsable("lines", f"an invoice has from 1 to {MOST_LINES} lines")
        for number, line in enumerate(self.lines):
            try:
                line.check()
            except NotUsable as error:
                raise NotUsable(error.field, str(error), number) from None
        self._check_sign()

    def _check_sign(self) -> None:
        """An invoice asks for money, a credit note gives some back."""
        if self.credits:
            _check_words("credits", "credited invoice", self.credits)
            if self.credits == self.invoice:
                raise NotUsable("credits", "a credit note has a number of its own")
            for number, line in enumerate(self.lines):
                if line.amount > 0:
                    told = f"a credit note's amounts are below zero, not {plain(line.amount)}"
                    raise NotUsable("amount", told, number)
            if self.tax > 0:
                raise NotUsable("tax", "a credit note's tax is zero or below it")
            return
        if self.before_tax() <= 0:
            told = f"the lines of an invoice are more than zero, not {plain(self.before_tax())}"
            raise NotUsable("amount", f"{told}; a credit note names the invoice it credits", 0)
        if self.tax < 0:
            raise NotUsable("tax", f"a tax is zero or more, not {plain(self.tax)}")

    def document(self, *, by: str, at: datetime, paper: str) -> bytes:
        """The CSV: its lines, and a line of tax where there is one. `paper` is the SHA-256 of
        what was attached. An entry has its moment, so that no two entries are the same bytes."""
        common = self._common() | {TYPED: by, MOMENT: rfc3339(at), PAPER: paper}
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for line in self.lines:
            writer.writerow(common | self._cells(line))
        if self.tax:
            writer.writerow(common | self._tax())
        return text.getvalue().encode()

    def _common(self) -> dict[str, str]:
        month = month_of(self.billing_period)
        common = {
            "BillingAccountId": self.billing_account,
            "BillingCurrency": self.currency,
            "BillingPeriodStart": rfc3339(month.start),
            "BillingPeriodEnd": rfc3339(month.end),
            "InvoiceId": self.invoice,
            "InvoiceIssuerName": self.issuer,
            "ProviderName": self.issuer,
            "PublisherName": self.issuer,
        }
        if self.credits:
            common |= {"ChargeClass": "Correction", CREDITED: self.credits}
        return common

    def _cells(self, line: TypedLine) -> dict[str, str]:
        """A line's cells; one of a credit note says what it credits."""
        cells = line.cells()
        if self.credits:
            cells["ChargeDescription"] = f"Credit for {self.credits}: {line.service}"
        return cells

    def _tax(self) -> dict[str, str]:
        """Its tax, over all the days of its lines."""
        services = list(dict.fromkeys(line.service for line in self.lines))
        of = services[0] if len(services) == 1 else f"{self.invoice}, {len(services)} services"
        days = _days(min(line.start for line in self.lines), max(line.end for line in self.lines))
        cells = {"ChargeCategory": "Tax", "ServiceName": services[0]}
        return cells | {"ChargeDescription": f"Tax on {of}"} | days | _costs(self.tax)


def _days(first: date, last: date) -> dict[str, str]:
    return {
        "ChargePeriodStart": _midnight(first),
        "ChargePeriodEnd": _midnight(last + timedelta(days=1)),
    }


@cache
def gpu_models() -> tuple[str, ...]:
    """The GPU models that a line can name in words, by name."""
    names = {shape.gpu_model for shape in gpu_shapes.catalogue()}
    names |= {*gpu_shapes.SURE, *gpu_shapes.SHORT}
    found = {name: gpu_shapes.gpu_of(None, None, [f"{name} GPU"]) for name in names}
    return tuple(sorted(name for name, gpu in found.items() if gpu and gpu.model == name))


def _costs(amount: Decimal) -> dict[str, str]:
    """An invoice tells what is paid; list and contracted costs stay unknown."""
    return {"BilledCost": plain(amount), "EffectiveCost": plain(amount)}


def _midnight(day: date) -> str:
    return rfc3339(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _check_words(field: str, what: str, text: str) -> None:
    if not text or text != text.strip():
        raise NotUsable(field, f"the {what} must not be empty, nor begin or end with a blank")
    if len(text) > MOST_LETTERS or not text.isprintable() or signs.refusal(text):
        raise NotUsable(
            field, f"the {what} is over {MOST_LETTERS} letters, or holds what cannot be printed"
        )


def _check_days(start: date, end: date) -> None:
    _check_year("start", start)
    _check_year("end", end)
    if end < start:
        raise NotUsable("end", f"the last day lies before the first, {start}")
    if (end - start).days >= MOST_DAYS:
        raise NotUsable("end", f"over three years from the first day, {start}")


def _check_year(field: str, day: date) -> None:
    if not 2000 <= day.year <= LAST_YEAR:
        raise NotUsable(field, f"give a year from 2000 to {LAST_YEAR}")


def credited_by(content: bytes) -> str | None:
    """The number of the invoice that a credit note credits, by the CSV made of it; None of other
    entries, and of files that were not made by typing one in."""
    lines = csv.DictReader(io.StringIO(content.decode("utf-8", "replace"), newline=""))
    return next((line.get(CREDITED) or None for line in lines), None)
