"""Writes the sample's invoice exports: one FOCUS 1.2 file a month and issuer.

The cloud's export of a month that is still open bears no invoice number, so that the report on it
reads *provisional*; three days after a month's end its number is set. A correction of the first
week comes with the following month's file, as issuers send it: new rows, the old charge period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from random import Random

from finops.core.period import HOUR, Period, milliseconds, month_of
from finops.sample import charges, focus
from finops.sample.calendar import Calendar
from finops.sample.fleet import LEGACY, LEGACY_WEEKS, NODES
from finops.sample.focus import Row
from finops.sample.truth import Line, Truth

CLOUD = "Amazon Web Services, Inc."
HOST = "Meridian Colocation Ltd"
CLOUD_ACCOUNT = "012345678901"
ISSUED_AFTER = timedelta(days=3)
TAX_PERCENT = 19
CREDIT = Decimal("-60.00")
RENT = Decimal("459.00")
CENT = Decimal("0.01")


@dataclass(frozen=True)
class Invoice:
    """One issuer's month: the file, and the number and amount of the invoice once issued."""

    path: Path
    issuer: str
    month: str
    number: str | None
    amount: Decimal | None


def write(folder: Path, calendar: Calendar, rng: Random, truth: Truth) -> list[Invoice]:
    """Writes all files, each issuer's in order of time; notes every line in the truth."""
    return [*_cloud(folder, calendar, rng, truth), *_host(folder, calendar, rng, truth)]


def _months(start: datetime, end: datetime) -> Iterator[tuple[str, Period]]:
    """The UTC months that a span touches."""
    at = start.astimezone(UTC)
    while at < end:
        name = f"{at:%Y-%m}"
        period = month_of(name)
        yield name, period
        at = period.end


def _cloud(folder: Path, calendar: Calendar, rng: Random, truth: Truth) -> Iterator[Invoice]:
    used = charges.usage(calendar, rng)
    correction = _correction(calendar)
    months = list(_months(calendar.start, calendar.horizon))
    corrected = next(name for name, month in months if correction.start in month)
    for position, (name, month) in enumerate(months):
        since, until = max(month.start, calendar.start), min(month.end, calendar.horizon)
        rows = [row for row in used if row.start in month]
        rows.append(charges.purchase(since, until))
        rows.append(_credit(since, until))
        if position and months[position - 1][0] == corrected:
            rows.append(correction)
        issued = month.end + ISSUED_AFTER <= calendar.at
        rows += _closing(rows, since, until)
        number = f"EUINDE26-{7_104_233 + 1_187 * position}" if issued else None
        path = folder / f"focus-1.2-aws-{name}.csv"
        common = _common(CLOUD, CLOUD_ACCOUNT, "Fernhill Analytics payer", month, number, "AWS")
        yield _file(path, rows, common, CLOUD, name, number, truth)


def _closing(rows: list[Row], since: datetime, until: datetime) -> list[Row]:
    """The month's tax, and the rounding that makes the invoice whole cents."""
    net = sum((row.billed for row in rows), Decimal(0))
    tax = (net * TAX_PERCENT / 100).quantize(CENT, ROUND_HALF_EVEN)
    rounding = net.quantize(CENT, ROUND_HALF_EVEN) - net
    columns = {"ServiceCategory": "Other", "ServiceName": "Tax and adjustments"}
    taxed = Row(since, until, tax, tax, "out of scope", "Tax", f"VAT {TAX_PERCENT} %", columns)
    if not rounding:
        return [taxed]
    text = "Rounding of the invoice to whole cents"
    rounded = Row(since, until, rounding, rounding, "shared:tokens", "Adjustment", text, columns)
    return [taxed, rounded]


def _credit(since: datetime, until: datetime) -> Row:
    columns = {"ServiceCategory": "Other", "ServiceName": "Promotional credit"}
    text = "AWS Activate credit"
    return Row(
        since, until, CREDIT, CREDIT, "shared:gpu-hours", "Credit", text, columns, frequency="One-Time"
    )  # fmt: skip


def _correction(calendar: Calendar) -> Row:
    """Twelve hours of a small machine are paid back; the machine had been unreachable."""
    node = next(node for node in NODES if node.workload == "assist-8b")
    start = calendar.instant(0, days=3)
    refund = -12 * node.on_demand
    columns = {
        **charges.machine(node, node.on_demand, "Standard"),
        "ChargeClass": "Correction",
        "PricingQuantity": "-12",
        "ConsumedQuantity": "-12",
    }
    tags = {"cluster": "us-prod-1", "workload": node.workload}
    text = "Refund of 12 Instance Hours of g5.2xlarge, instance unreachable"
    return Row(
        start, start + 12 * HOUR, refund, refund, node.workload, "Usage", text, columns, tags
    )  # fmt: skip


def _host(folder: Path, calendar: Calendar, rng: Random, truth: Truth) -> Iterator[Invoice]:
    """The legacy server: rent by the calendar month and metered power, until it was given back.

    The first month is the part of it since the sample begins.
    """
    until = calendar.weeks[LEGACY_WEEKS].start
    for position, (name, month) in enumerate(_months(calendar.start, until)):
        number = f"MC-2026-{310 + position:05d}"
        path = folder / f"focus-1.2-meridian-{name}.csv"
        rows = _host_rows(max(month.start, calendar.start), month, rng)
        common = _common(
            HOST, "MC-0047", "Fernhill Analytics", month, number, "Meridian Colocation"
        )
        yield _file(path, rows, common, HOST, name, number, truth)


def _host_rows(since: datetime, month: Period, rng: Random) -> list[Row]:
    """Rent, power and rounding from an instant to the month's end."""
    columns = {
        "ServiceCategory": "Compute",
        "ServiceName": "Dedicated server",
        "ResourceId": "MC-RACK-14-U07",
        "ResourceName": "legacy-gpu-1",
        "SubAccountId": "0047",
        "SubAccountName": "Fernhill legacy",
    }
    hours, whole = (month.end - since) // HOUR, (month.end - month.start) // HOUR
    rent = (RENT * hours / whole).quantize(CENT, ROUND_HALF_EVEN)
    power = Decimal(rng.randint(57_000, 81_000)).scaleb(-6) * hours
    net = rent + power
    rounding = net.quantize(CENT, ROUND_HALF_EVEN) - net
    text = "Dedicated server with one RTX A6000, monthly rent"

    def row(cost: Decimal, text: str, category: str = "Usage", often: str = "Usage-Based") -> Row:
        return Row(
            since, month.end, cost, cost, LEGACY, category, text, columns, frequency=often
        )  # fmt: skip

    return [
        row(rent, text, often="Recurring"),
        row(power, "Metered power"),
        row(rounding, "Rounding of the invoice to whole cents", "Adjustment"),
    ]


def _common(
    issuer: str, account: str, account_name: str, month: Period, number: str | None, provider: str
) -> dict[str, str]:
    """The columns that all rows of one export share."""
    return {
        "BillingAccountId": account,
        "BillingAccountName": account_name,
        "BillingAccountType": "Payer",
        "BillingCurrency": "USD",
        "PricingCurrency": "USD",
        "BillingPeriodStart": focus.instant(month.start),
        "BillingPeriodEnd": focus.instant(month.end),
        "InvoiceId": number or "",
        "InvoiceIssuerName": issuer,
        "ProviderName": provider,
        "PublisherName": provider,
    }


def _file(
    path: Path,
    rows: list[Row],
    common: dict[str, str],
    issuer: str,
    month: str,
    number: str | None,
    truth: Truth,
) -> Invoice:
    focus.write(path, sorted(rows, key=lambda row: (row.start, row.description)), common)
    truth.lines += [_line(row, issuer, month, number) for row in rows]
    billed = sum((row.billed for row in rows), Decimal(0))
    return Invoice(path, issuer, month, number, billed if number else None)


def _line(row: Row, issuer: str, month: str, number: str | None) -> Line:
    span = milliseconds(row.start), milliseconds(row.end)
    return Line(issuer, month, number, *span, row.billed, row.effective, row.place)
