"""The columns of a FOCUS 1.2 Cost and Usage file, and how the sample writes a row of it."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName",
    "BillingAccountType", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "CapacityReservationId", "CapacityReservationStatus", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "PricingQuantity",
    "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId",
    "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory",
    "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
    "SubAccountType", "Tags",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One charge: its period, money as it is written, its place in the truth, other columns."""

    start: datetime
    end: datetime
    billed: Decimal
    effective: Decimal
    place: str
    category: str
    description: str
    columns: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    list_cost: Decimal | None = None
    frequency: str = "Usage-Based"


def write(path: Path, rows: list[Row], common: dict[str, str]) -> None:
    """Writes a file; `common` holds the columns that all its rows share."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({**common, **_cells(row)})


def _cells(row: Row) -> dict[str, str]:
    list_cost = row.billed if row.list_cost is None else row.list_cost
    cells = {
        "ChargePeriodStart": instant(row.start),
        "ChargePeriodEnd": instant(row.end),
        "BilledCost": format(row.billed, "f"),
        "EffectiveCost": format(row.effective, "f"),
        "ListCost": format(list_cost, "f"),
        "ContractedCost": format(list_cost, "f"),
        "ChargeCategory": row.category,
        "ChargeDescription": row.description,
        "ChargeFrequency": row.frequency,
        **row.columns,
    }
    if row.tags:
        cells["Tags"] = json.dumps(row.tags, sort_keys=True)
    return cells


def instant(moment: datetime) -> str:
    """An instant as FOCUS spells it."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
