"""FOCUS Cost and Usage, 1.0 to 1.4 and the draft of 1.5, as CSV, CSV.gz or Parquet (method §3.3).

Every row becomes a charge or a rejection; a cell that carries no money (a tag, a quantity) and
cannot be read is left out with a warning and does not lose its row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

from finops.sources import focus_columns as columns
from finops.sources.cells import (
    instant_past_midnight,
    month_first_date,
    number,
    text_map,
    text_or_none,
)
from finops.sources.files import csv_rows, open_plain
from finops.sources.gpu_shapes import UNRECOGNISED, Gpu, gpu_of, instance_type_of
from finops.sources.parquet import MAGIC, is_parquet, parquet_rows
from finops.sources.records import Account, ChargeRecord, Parsed, Refused, Rejection

FORMATS: Final[tuple[str, ...]] = ("focus",)
UNKNOWN_ISSUER: Final = "unknown issuer"
UNKNOWN_ACCOUNT: Final = "unknown account"
NO_CURRENCY: Final = "XXX"
"""ISO 4217's code for "no currency": a file without the column names none, and no report may
guess one. A file that has the column must fill it on every row."""
SHOWN_WARNINGS: Final = 20

_DELIMITERS: Final = ",;\t"
_CATEGORIES: Final = {
    name.lower(): name for name in ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
}
_FREQUENCIES: Final = {name.lower(): name for name in ("One-Time", "Recurring", "Usage-Based")}
_PARQUET_SIGN: Final = b"ChargePeriodStart"


class _Fault(Exception):
    """A cell that costs the row its place: column, value, reason."""

    def __init__(self, column: str, value: object, reason: str) -> None:
        super().__init__(reason)
        self.column, self.value, self.reason = column, value, reason


class _Row:
    """One row's cells by the true names of their columns."""

    def __init__(self, cells: Sequence[str | None], places: dict[str, int], line: int) -> None:
        self._cells, self._places, self.line = cells, places, line
        self.notes: list[str] = []

    def text(self, column: str) -> str | None:
        place = self._places.get(column)
        return None if place is None else text_or_none(self._cells[place])

    def required(self, column: str) -> str:
        text = self.text(column)
        if text is None:
            raise _Fault(column, self._raw(column), "missing")
        return text

    def has(self, column: str) -> bool:
        """Whether the file has the column at all."""
        return column in self._places

    def _raw(self, column: str) -> str | None:
        place = self._places.get(column)
        return None if place is None else self._cells[place]

    def money(self, column: str, required: bool) -> Decimal | None:
        """An amount; None where the column is absent, or an optional cell is null."""
        if column not in self._places:
            return None
        text = self.required(column) if required else self.text(column)
        return None if text is None else self._number(column, text)

    def quantity(self, column: str) -> Decimal | None:
        """A figure that is not money: unreadable, it is noted and left out."""
        text = self.text(column)
        try:
            return None if text is None else number(text)
        except ValueError as error:
            self._note(column, text, error)
            return None

    def _number(self, column: str, text: str) -> Decimal:
        try:
            return number(text)
        except ValueError as error:
            raise _Fault(column, text, str(error)) from None

    def moment(self, column: str) -> datetime:
        text = self.required(column)
        try:
            if "/" not in text:
                moment, past_midnight = instant_past_midnight(text)
                if past_midnight:
                    self.notes.append(f"line {self.line}, {column}: {text} is read as {moment}")
                return moment
            moment = month_first_date(text)
        except ValueError as error:
            raise _Fault(column, text, str(error)) from None
        self.notes.append(f"dates such as {text} are read month first, as UTC")
        return moment

    def map(self, column: str) -> dict[str, str]:
        text = self.text(column)
        try:
            return text_map(text) if text else {}
        except ValueError as error:
            self._note(column, text, error)
            return {}

    def _note(self, column: str, value: object, reason: object) -> None:
        shown = str(value)[:80]
        self.notes.append(f"line {self.line}, {column}: {shown!r} is left out ({reason})")


class _Warnings:
    """The account's warnings, each once and no more than a page can show."""

    def __init__(self, account: Account) -> None:
        self._account, self._seen, self._more = account, set[str](), 0

    def add(self, notes: Sequence[str]) -> None:
        for note in notes:
            key = "month first" if note.endswith("as UTC") else note
            if key in self._seen:
                continue
            if len(self._seen) >= SHOWN_WARNINGS:
                self._more += 1
                continue
            self._seen.add(key)
            self._account.warnings.append(note)

    def close(self) -> None:
        if self._more:
            self._account.warnings.append(f"and {self._more} more such cells")


def recognises(head: bytes, name: str) -> str | None:
    """`focus` when the header of a CSV, or the schema of a Parquet file, is Cost and Usage."""
    if is_parquet(head):
        return FORMATS[0] if _PARQUET_SIGN in head else None
    header = _header(head)
    return FORMATS[0] if header and columns.looks_like_focus(header) else None


def _header(head: bytes) -> list[str]:
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    try:
        return next(csv.reader(io.StringIO(line), delimiter=_delimiter(line)), [])
    except csv.Error:
        return []


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges and rejections of one file; `rows_read` counts every data row.

    Refused when it cannot be read at all: a damaged file, or a column that stands twice.
    """
    rows = _rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    twice = columns.duplicates(header)
    if twice:
        raise Refused(f"{name}: line 1: the column {twice[0]} stands more than once")
    places = columns.placed(header)
    if not columns.looks_like_focus(header):
        raise Refused(f"{name}: line 1: these are not the columns of FOCUS Cost and Usage")
    version = columns.version_of(header)
    account = Account(
        format,
        version=version,
        unknown_columns=columns.unknown(header, places),
        missing_columns=columns.missing(places, version),
    )
    return Parsed(account, _records(rows, len(header), places, account))


def _rows(path: Path, name: str) -> Iterator[tuple[int, Sequence[str | None]]]:
    with open_plain(path, name) as stream:
        start = stream.read(len(MAGIC))
        line = start + stream.readline(1 << 20)
    if is_parquet(start):
        return parquet_rows(path, name)
    return csv_rows(path, name, _delimiter(line.decode("utf-8", "replace")))


def _records(
    rows: Iterator[tuple[int, Sequence[str | None]]],
    width: int,
    places: dict[str, int],
    account: Account,
) -> Iterator[ChargeRecord | Rejection]:
    warnings = _Warnings(account)
    for line, cells in rows:
        account.rows_read += 1
        if len(cells) != width:
            reason = f"the row has {len(cells)} fields, the header {width}"
            yield Rejection.of(line, None, len(cells), reason)
            continue
        row = _Row(cells, places, line)
        try:
            charge = _charge(row)
        except _Fault as fault:
            yield Rejection.of(line, fault.column, fault.value, fault.reason)
            continue
        warnings.add(row.notes)
        yield charge
    warnings.close()


def _period(row: _Row, kind: str) -> tuple[datetime, datetime]:
    start, end = row.moment(f"{kind}PeriodStart"), row.moment(f"{kind}PeriodEnd")
    if end < start:
        value = row.text(f"{kind}PeriodEnd")
        raise _Fault(f"{kind}PeriodEnd", value, f"the period ends before it starts ({start})")
    return start, end


def _category(row: _Row) -> str:
    text = row.required("ChargeCategory")
    known = _CATEGORIES.get(text.lower())
    if known is None:
        raise _Fault("ChargeCategory", text, f"must be one of {', '.join(_CATEGORIES.values())}")
    return known


def _currency(row: _Row) -> str:
    if not row.has("BillingCurrency"):
        row.notes.append(f"the file names no currency: its amounts stand in {NO_CURRENCY}")
        return NO_CURRENCY
    text = row.required("BillingCurrency")
    if not (len(text) == 3 and text.isascii() and text.isalpha()):
        raise _Fault("BillingCurrency", text, "must be a currency code of three letters")
    return text.upper()


def _charge(row: _Row) -> ChargeRecord:
    billing_start, billing_end = _period(row, "Billing")
    start, end = _period(row, "Charge")
    details = row.map("SkuPriceDetails")
    instance_type, gpu = _machine(row, details)
    frequency = row.text("ChargeFrequency")
    provider = row.text("ProviderName") or row.text("ServiceProviderName")
    return ChargeRecord(
        line=row.line,
        issuer=row.text("InvoiceIssuerName") or provider or UNKNOWN_ISSUER,
        billing_account=(
            row.required("BillingAccountId") if row.has("BillingAccountId") else UNKNOWN_ACCOUNT
        ),
        billing_account_name=row.text("BillingAccountName"),
        billing_period_start=billing_start,
        billing_period_end=billing_end,
        charge_period_start=start,
        charge_period_end=end,
        category=_category(row),
        currency=_currency(row),
        billed_cost=row.money("BilledCost", required=True),
        effective_cost=row.money("EffectiveCost", required=True),
        list_cost=row.money("ListCost", required=False),
        contracted_cost=row.money("ContractedCost", required=False),
        charge_class=row.text("ChargeClass"),
        description=row.text("ChargeDescription"),
        frequency=_FREQUENCIES.get(frequency.lower(), frequency) if frequency else None,
        sub_account=row.text("SubAccountId"),
        sub_account_name=row.text("SubAccountName"),
        provider=provider,
        service=row.text("ServiceName"),
        service_category=row.text("ServiceCategory"),
        sku=row.text("SkuId"),
        sku_price=row.text("SkuPriceId"),
        resource=row.text("ResourceId"),
        resource_name=row.text("ResourceName"),
        resource_type=row.text("ResourceType"),
        region=row.text("RegionId") or row.text("RegionName"),
        instance_type=instance_type,
        gpu_model=gpu.model if gpu else None,
        gpu_count=gpu.count if gpu else None,
        pricing_category=row.text("PricingCategory"),
        pricing_quantity=row.quantity("PricingQuantity"),
        pricing_unit=row.text("PricingUnit"),
        consumed_quantity=row.quantity("ConsumedQuantity"),
        consumed_unit=row.text("ConsumedUnit"),
        list_unit_price=row.quantity("ListUnitPrice"),
        contracted_unit_price=row.quantity("ContractedUnitPrice"),
        commitment=row.text("CommitmentDiscountId"),
        commitment_name=row.text("CommitmentDiscountName"),
        commitment_status=row.text("CommitmentDiscountStatus"),
        invoice=row.text("InvoiceId"),
        tags=row.map("Tags"),
    )


def _machine(row: _Row, details: dict[str, str]) -> tuple[str | None, Gpu | None]:
    """Instance type and GPUs by every column that may tell them, the most exact first."""
    sku_details = row.map("x_SkuDetails")
    stated = (
        details.get("InstanceType")
        or row.text("x_InstanceType")
        or sku_details.get("ServiceType")
        or sku_details.get("InstanceType")
    )
    usage_type = row.text("x_UsageType")
    words = ("ResourceType", "ChargeDescription", "SkuMeter", "x_SkuDescription", "x_SkuMeterName")
    texts = [row.text(column) for column in words]
    gpu = gpu_of(stated, usage_type, texts, (row.text("SkuId"), row.text("SkuPriceId")))
    written = next(
        (
            found
            for text in (stated, usage_type, *texts)
            if text and (found := instance_type_of(text))
        ),
        None,
    )
    gpu = _counted(gpu, details.get("GpuCount"), row)
    return (gpu.instance_type if gpu else None) or written or stated, gpu


def _counted(gpu: Gpu | None, count: str | None, row: _Row) -> Gpu | None:
    """The GPUs with the count that the file itself states, which goes before the catalogue's."""
    if count is None:
        return gpu
    try:
        stated = number(count)
    except ValueError:
        row.notes.append(f"line {row.line}, SkuPriceDetails: GpuCount is not a number")
        return gpu
    if stated <= 0:
        return gpu
    return Gpu(gpu.instance_type, gpu.model, stated) if gpu else Gpu(None, UNRECOGNISED, stated)
