"""FOCUS Cost and Usage, 1.0 to 1.4 and the draft of 1.5: CSV, JSON (or gz), Parquet (method §3.3).

Every row becomes a charge or a rejection; a cell that carries no money (a tag, a quantity) and
cannot be read is left out with a warning and does not lose its row.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from finops.sources import focus_columns as columns
from finops.sources.cells import number
from finops.sources.gpu_shapes import UNRECOGNISED, Gpu, gpu_of, instance_type_of
from finops.sources.json_rows import looks_like_json
from finops.sources.parquet import has_columns, is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Refused
from finops.sources.rows import Fault, Row, charges_of, header_of, table_rows

FORMATS: Final[tuple[str, ...]] = ("focus",)
UNKNOWN_ISSUER: Final = "unknown issuer"
UNKNOWN_ACCOUNT: Final = "unknown account"
NO_CURRENCY: Final = "XXX"
"""ISO 4217's code for "no currency": a file without the column names none, and no report may
guess one. A file that has the column must fill it on every row."""

_CATEGORIES: Final = {
    name.lower(): name for name in ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
}
_FREQUENCIES: Final = {name.lower(): name for name in ("One-Time", "Recurring", "Usage-Based")}
_JSON_SIGNS: Final = (
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
)
_COSTS: Final = ("BilledCost", "EffectiveCost")
NO_MACHINES: Final = frozenset(("storage", "networking", "databases", "security", "identity"))
TYPED: Final = "x_TypedInBy"
ADDING: Final = ("oci_ReferenceNumber", TYPED)
"""Columns of files that hold lines of their own: Oracle's, and each invoice that was typed in."""
_PARQUET_SIGN: Final = "ChargePeriodStart"


def recognises(head: bytes, name: str) -> str | None:
    """`focus` when the header of a CSV, or the schema of a Parquet file, is Cost and Usage."""
    if is_parquet(head):
        costs = any(has_columns(head, cost) for cost in _COSTS)
        return FORMATS[0] if costs and has_columns(head, _PARQUET_SIGN) else None
    if looks_like_json(head):
        return FORMATS[0] if json_signs(head) and json_signs(head, *_COSTS) else None
    header = header_of(head)
    return FORMATS[0] if header and columns.looks_like_focus(header) else None


def json_signs(head: bytes, *columns: str) -> bool:
    """Whether one of the columns, or else all that a charge needs, stand in JSON as names."""
    if columns:
        return any(f'"{column}"'.encode() in head for column in columns)
    return all(f'"{column}"'.encode() in head for column in _JSON_SIGNS)


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges and rejections of one file; `rows_read` counts every data row.

    Refused when it cannot be read at all: a damaged file, or a column that stands twice.
    """
    rows = table_rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    twice = columns.duplicates(header)
    if twice:
        raise Refused(
            f"{name}: line 1: the column {twice[0]} stands more than once", line=1, column=twice[0]
        )
    places = columns.placed(header)
    if not columns.looks_like_focus(header):
        raise Refused(f"{name}: line 1: these are not the columns of FOCUS Cost and Usage", line=1)
    version = columns.version_of(header)
    account = Account(
        format,
        version=version,
        unknown_columns=columns.unknown(header, places),
        missing_columns=columns.missing(places, version),
        adds_to_others=any(column in header for column in ADDING),
    )
    return Parsed(account, charges_of(rows, len(header), places, account, charge_of))


def period(row: Row, kind: str) -> tuple[datetime, datetime]:
    """The `Charge` or `Billing` period of a row; Fault when it ends before it starts."""
    start, end = row.moment(f"{kind}PeriodStart"), row.moment(f"{kind}PeriodEnd")
    if end < start:
        value = row.text(f"{kind}PeriodEnd")
        raise Fault(f"{kind}PeriodEnd", value, f"the period ends before it starts ({start})")
    return start, end


def _category(row: Row) -> str:
    text = row.required("ChargeCategory")
    known = _CATEGORIES.get(text.lower())
    if known is None:
        raise Fault("ChargeCategory", text, f"must be one of {', '.join(_CATEGORIES.values())}")
    return known


def currency_of(row: Row, column: str) -> str:
    """The currency that a column names; NO_CURRENCY, with a note, where the file has no such column.
    Fault for a cell that is empty or no code (method §3.7)."""
    if row.has(column):
        return row.currency(column)
    row.notes.append(f"the file names no currency: its amounts stand in {NO_CURRENCY}")
    return NO_CURRENCY


def charge_of(row: Row) -> ChargeRecord:
    """The charge of a row whose columns are known by their FOCUS names."""
    billing_start, billing_end = period(row, "Billing")
    start, end = period(row, "Charge")
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
        currency=currency_of(row, "BillingCurrency"),
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
        tags=_tags(row),
    )


def _tags(row: Row) -> dict[str, str]:
    """The tags of a line; of a part of a split line also what it is for, whose tags go first."""
    told = {tag: row.text(column) for tag, column in columns.ALLOCATED.items()}
    allocated = {tag: text for tag, text in told.items() if text is not None}
    return row.map("Tags") | allocated | row.map(columns.ALLOCATED_TAGS)


def _machine(row: Row, details: dict[str, str]) -> tuple[str | None, Gpu | None]:
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
    names = _names(row)
    gpu = gpu_of(
        stated,
        usage_type,
        texts,
        (row.text("SkuId"), row.text("SkuPriceId")),
        names=names,
        called=None if stated is not None or not names else row.text(columns.CALLED),
        units=[row.text(column) for column in columns.UNITS],
        services=(row.text("ServiceName"),),
    )
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


def _names(row: Row) -> list[str | None]:
    """What price lists call things, where that may tell a GPU: a disk called after one is none."""
    if (row.text("ServiceCategory") or "").lower() in NO_MACHINES:
        return []
    return [row.text(column) for column in columns.NAMES]


def _counted(gpu: Gpu | None, count: str | None, row: Row) -> Gpu | None:
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
