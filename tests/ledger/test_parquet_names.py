"""Parquet files through the door: columns in a warehouse's spelling, and decimals too wide (§1, §3.3)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pytest

from finops.ledger.models import Charge
from tests.ledger.doors import ingested
from tests.ledger.focus_files import ROW

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

# Two columns that Apache Arrow 26 wrote: ChargePeriodStart as text, and BilledCost as DECIMAL(76, 38)
# of 12345678901234567890.12345678901234567890123456, as BigQuery exports its BIGNUMERIC.
WIDE = base64.b64decode(
    "UEFSMRUAFSgVKCwVAhUAFQYVBhwAAAACAAAAAgEKAAAAMjAyNi0xMC0wMRUAFUwVTCwVAhUAFQYVBhwAAAACAAAAAgEAAAAA"
    "AAAAADJZfX0q11gFWjw8hazsE7nisCgZKWwAABUEGTw1ABgGc2NoZW1hFQQAFQwlAhgRQ2hhcmdlUGVyaW9kU3RhcnQlAEwc"
    "AAAAFQ4VQBUCGApCaWxsZWRDb3N0JQoVTBWYASxcFUwVmAEAAAAWAhkcGSwmABwVDBklBgAZGBFDaGFyZ2VQZXJpb2RTdGFy"
    "dBUAFgIWThZOJghJHBUAFQAVAgA8FhQZBhkmAAIAAAAmABwVDhklBgAZGApCaWxsZWRDb3N0FQAWAhZyFnImVkkcFQAVABUC"
    "ADwpBhkmAAIAAAAWwAEWAiYIFsABACggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNi4wLjEZLBwAABwAAAD9AAAAUEFS"
    "MQ=="
)
AWS = {
    "bill/PayerAccountId": "012345678901",
    "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
    "bill/BillingPeriodEndDate": "2026-11-01T00:00:00Z",
    "lineItem/LineItemType": "Usage",
    "lineItem/UsageStartDate": "2026-10-05T10:00:00Z",
    "lineItem/UsageEndDate": "2026-10-05T11:00:00Z",
    "lineItem/CurrencyCode": "USD",
    "lineItem/UnblendedCost": "55.04",
    "lineItem/UsageType": "BoxUsage:p5.48xlarge",
}


def parquet(path: Path, row: Mapping[str, str]) -> Path:
    """A file of one row of text."""
    selected = ", ".join(f"'{value}' AS \"{name}\"" for name, value in row.items())
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {selected}) TO '{path}' (FORMAT parquet)")
    return path


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("spelled", [str, str.lower, str.upper, snake])
def test_a_warehouse_may_spell_the_columns_in_its_way(
    tmp_path: Path, spelled: Callable[[str], str]
) -> None:
    path = parquet(tmp_path / "a.parquet", {spelled(name): cell for name, cell in ROW.items()})
    (document,) = ingested(path)
    assert (document["status"], document["format"]) == ("posted", "focus")
    assert document["totals"]["USD"]["billed"] == "1.00"


def test_a_report_of_amazon_with_the_names_of_its_csv(tmp_path: Path) -> None:
    (document,) = ingested(parquet(tmp_path / "a.parquet", AWS))
    assert (document["status"], document["format"]) == ("posted", "aws-cur")
    assert document["gpu_totals"]["USD"]["billed"] == "55.04"


def test_usage_without_cost_is_told_from_focus(tmp_path: Path) -> None:
    usage = {name: cell for name, cell in ROW.items() if not name.endswith("Cost")}
    usage |= {"ConsumedQuantity": "8", "ConsumedUnit": "GPU-Hours"}
    (document,) = ingested(parquet(tmp_path / "a.parquet", usage))
    assert (document["status"], document["format"]) == ("posted", "coreweave-focus")
    assert Charge.objects.get().effective_cost is None


def test_decimals_too_wide_to_come_exactly_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    path.write_bytes(WIDE)
    (document,) = ingested(path)
    assert document["status"] == "rejected"
    (rejection,) = document["rejections"]
    assert rejection["column"] == "BilledCost"
    assert (
        "BilledCost is DECIMAL(76, 38); over 38 digits are not read exactly" in rejection["reason"]
    )
    assert not Charge.objects.exists()
