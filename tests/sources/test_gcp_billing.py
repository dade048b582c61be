"""Google's billing export: credits once a row, invoice month beside use, machines' parts (§3.5)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from finops.sources.records import ChargeRecord
from finops.sources.registry import detect
from tests.sources.reading import as_csv, read, sample

ROW = {
    "billing_account_id": "01A2B3-C4D5E6-F70819",
    "service.description": "Compute Engine",
    "sku.id": "CF4E-A0C7-E3BF",
    "sku.description": "Nvidia Tesla A100 GPU running in Americas",
    "usage_start_time": "2026-10-30T00:00:00",
    "usage_end_time": "2026-10-30T01:00:00",
    "project.id": "vllm-prod",
    "labels": '[{"key": "fleet", "value": "vllm-prod"}]',
    "system_labels": '[{"key": "compute.googleapis.com/machine_spec", "value": "a2-highgpu-1g"}]',
    "location.region": "us-east4",
    "cost": "2.94",
    "currency": "USD",
    "usage.amount": "3600",
    "usage.unit": "seconds",
    "credits": "",
    "invoice.month": "202610",
    "cost_type": "regular",
    "resource.name": "projects/12/instances/gke-1",
}
CREDITS = [{"name": "CUD", "amount": "-0.50"}, {"name": "FreeTrial", "amount": "-0.08"}]


def export(folder: Path, *rows: dict[str, str], name: str = "export.csv") -> Path:
    path = folder / name
    path.write_text(as_csv([ROW | row for row in rows]))
    return path


def one(folder: Path, **cells: str) -> ChargeRecord:
    (charge,) = read(export(folder, {k.replace("__", "."): v for k, v in cells.items()})).charges
    return charge


@pytest.mark.parametrize(
    ("credits", "net"),
    [
        ("", "2.94"),
        ("None", "2.94"),
        ("[]", "2.94"),
        (json.dumps(CREDITS).replace('"-0', "-0").replace('0"', "0").replace('8"', "8"), "2.36"),
        ("[{'name': 'FreeTrial', 'amount': -0.58, 'id': None}]", "2.36"),
        (
            "[{'amount': Decimal('-0.580000000000000000000000001')}]",
            "2.359999999999999999999999999",
        ),
        ("[{'amount': -5.8e-1}]", "2.36"),
        ("({'amount': -0.1}, {'amount': -0.1}, {'amount': -0.1})", "2.64"),
    ],
)
def test_credits_are_summed_once_a_row_in_every_spelling(
    tmp_path: Path, credits: str, net: str
) -> None:
    charge = one(tmp_path, credits=credits)
    assert (charge.billed_cost, charge.contracted_cost) == (Decimal(net), Decimal("2.94"))


@pytest.mark.parametrize("credits", ["[{'amount'", "{}", "[{'name': 'x'}]", "open('x')", "[1]"])
def test_credits_that_cannot_be_read_are_no_zero(tmp_path: Path, credits: str) -> None:
    (rejection,) = read(export(tmp_path, {"credits": credits})).rejections
    assert (rejection.line, rejection.column) == (2, "credits")


def test_use_is_kept_beside_the_month_of_its_invoice(tmp_path: Path) -> None:
    start, end = "2026-10-31T23:00:00", "2026-11-01T00:00:00"
    charge = one(tmp_path, usage_start_time=start, usage_end_time=end, invoice__month="202611")
    assert charge.charge_period_start == datetime(2026, 10, 31, 23, tzinfo=UTC)
    assert charge.billing_period_start == datetime(2026, 11, 1, tzinfo=UTC)
    assert charge.billing_period_end == datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("description", "model", "count"),
    [
        ("Nvidia Tesla A100 GPU running in Americas", "A100", 1),
        ("Instance Core running in Americas", "A100", 0),
        ("A2 Instance Ram running in Americas", "A100", 0),
        ("Spot Preemptible A3Plus Instance Core running in Iowa", "H100", 0),
        ("Licensing Fee for RHEL", None, None),
        ("Storage PD Capacity", None, None),
    ],
)
def test_the_parts_of_a_machine_count_its_gpus_once(
    tmp_path: Path, description: str, model: str | None, count: int | None
) -> None:
    charge = one(tmp_path, sku__description=description)
    assert (charge.gpu_model, charge.gpu_count) == (model, count)
    assert charge.instance_type == "a2-highgpu-1g"
    assert charge.resource_name == "gke-1"


@pytest.mark.parametrize(
    ("cells", "category", "charge_class"),
    [
        ({"cost_type": "tax"}, "Tax", None),
        ({"cost_type": "rounding_error"}, "Adjustment", None),
        ({"cost_type": "adjustment"}, "Adjustment", None),
        ({"cost_type": "adjustment", "invoice__month": "202611"}, "Adjustment", "Correction"),
        ({"sku__description": "Commitment v1: Nvidia A100 in Iowa for 1 Year"}, "Purchase", None),
    ],
)
def test_kinds_of_cost(
    tmp_path: Path, cells: dict[str, str], category: str, charge_class: str | None
) -> None:
    charge = one(tmp_path, **cells)
    assert (charge.category, charge.charge_class) == (category, charge_class)


def test_gross_and_credits_stand_apart(tmp_path: Path) -> None:
    # Thread 39: credits that expire; what was used is not what was paid.
    covered = {"cost": "6268.88", "credits": "[{'amount': -6268.88}]"}
    found = read(export(tmp_path, covered, {"cost": "6268.88"}))
    assert found.total("contracted_cost") == Decimal("12537.76")
    assert found.total("billed_cost") == Decimal("6268.88")


def nested() -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in ROW.items():
        parent, _, part = name.partition(".")
        if part:
            row.setdefault(parent, {})[part] = value
        else:
            row[name] = json.loads(value) if value.startswith("[") else value
    row["credits"] = [{"name": "x", "amount": Decimal("-0.58")}]
    row["cost"] = Decimal("2.9400000000000000000000001")
    return row


def same(charge: ChargeRecord, net: str) -> None:
    assert charge.billed_cost == Decimal(net)
    assert (charge.gpu_model, charge.gpu_count, charge.sub_account) == ("A100", 1, "vllm-prod")
    assert charge.tags == {"fleet": "vllm-prod"}
    assert charge.instance_type == "a2-highgpu-1g"


def test_json_lines_keep_every_digit(tmp_path: Path) -> None:
    text = json.dumps(nested(), default=lambda number: f"@{number}@")
    path = tmp_path / "export.jsonl"
    path.write_text(text.replace('"@', "").replace('@"', "") + "\n\n")
    assert detect(path, path.name) == "gcp-billing"
    (charge,) = read(path).charges
    same(charge, "2.3600000000000000000000001")


def test_parquet_with_nested_columns(tmp_path: Path) -> None:
    lines = tmp_path / "rows.json"
    lines.write_text(json.dumps(nested(), default=str))
    path = tmp_path / "export.parquet"
    typed = (
        "SELECT * REPLACE (CAST(cost AS DECIMAL(38, 25)) AS cost,"
        " CAST(usage_start_time AS TIMESTAMP) AS usage_start_time,"
        " [{'name': 'x', 'amount': CAST(-0.58 AS DECIMAL(10, 2))}] AS credits)"
        f" FROM read_json_auto('{lines}')"
    )
    duckdb.execute(f"COPY ({typed}) TO '{path}' (FORMAT parquet)")
    assert detect(path, path.name) == "gcp-billing"
    (charge,) = read(path).charges
    same(charge, "2.3600000000000000000000001")


def test_names_with_underscores(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(as_csv([{name.replace(".", "_"): cell for name, cell in ROW.items()}]))
    (charge,) = read(path).charges
    same(charge, "2.94")


def test_published_totals_by_the_month_of_the_invoice() -> None:
    folder = "invoices/generated-with-nise/"
    october = read(
        sample(f"{folder}gcp_detailed_a2-highgpu_file202610_contains-invoice-month-202611.csv")
    )
    months = {"2026-10": [0, Decimal(0), Decimal(0)], "2026-11": [0, Decimal(0), Decimal(0)]}
    for charge in october.charges:
        month = months[f"{charge.billing_period_start:%Y-%m}"]
        assert charge.contracted_cost is not None and charge.billed_cost is not None
        month[0] += 1
        month[1] += charge.contracted_cost
        month[2] += charge.billed_cost - charge.contracted_cost
    assert months["2026-10"] == [24, Decimal("70.56"), Decimal("-13.92")]
    assert months["2026-11"][0] == 24
    november = read(
        sample(f"{folder}gcp_detailed_a2-highgpu_file202611_contains-invoice-month-202610.csv")
    )
    assert {f"{charge.billing_period_start:%Y-%m}" for charge in november.charges} == {"2026-10"}
    assert len(november.charges) == 24
