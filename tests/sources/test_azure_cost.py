"""Azure's cost files: generations, views, blocks, localised headers, published totals (§3.5)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from finops.sources.records import Refused
from finops.sources.registry import detect
from tests.sources.reading import as_csv, read, sample

ROW = {
    "BillingAccountId": "8611537",
    "BillingPeriodStartDate": "09/01/2026",
    "BillingPeriodEndDate": "09/30/2026",
    "SubscriptionId": "sub-1",
    "Date": "09/04/2026",
    "Product": "Virtual Machines NCads A100 v4",
    "MeterCategory": "Virtual Machines",
    "MeterSubCategory": "NCads A100 v4 Series",
    "MeterName": "NC24ads A100 v4",
    "MeterId": "m-1",
    "Quantity": "24",
    "UnitOfMeasure": "1 Hour",
    "Cost": "88.15",
    "BillingCurrency": "USD",
    "ResourceId": "/subscriptions/sub-1/vmss",
    "ResourceGroup": "rg1",
    "ReservationId": "",
    "benefitId": "",
    "ChargeType": "Usage",
    "PricingModel": "OnDemand",
    "Frequency": "UsageBased",
    "Tags": '"fleet": "vllm-prod"',
    "AdditionalInfo": '"ServiceType": "Standard_NC24ads_A100_v4", "VMName": "vmss_0"',
}
RESERVED = {"PricingModel": "Reservation", "benefitId": "/reservations/r1"}
PURCHASE = RESERVED | {"ChargeType": "Purchase", "Frequency": "Recurring", "Cost": "3000"}


def export(folder: Path, *rows: dict[str, str], name: str = "export.csv") -> Path:
    path = folder / name
    path.write_text(as_csv([ROW | row for row in rows]))
    return path


def test_the_row_as_a_charge(tmp_path: Path) -> None:
    (charge,) = read(export(tmp_path, {})).charges
    assert charge.billing_period_end == datetime(2026, 10, 1, tzinfo=UTC)  # its last day counts in
    assert charge.charge_period_start == datetime(2026, 9, 4, tzinfo=UTC)
    assert charge.charge_period_end == datetime(2026, 9, 5, tzinfo=UTC)
    assert (charge.gpu_model, charge.gpu_count) == ("A100", 1)
    assert charge.resource_name == "vmss_0"
    assert charge.tags == {"resource_group": "rg1", "fleet": "vllm-prod"}


@pytest.mark.parametrize(
    ("rows", "view", "billed", "effective"),
    [
        ([{}], "actual and amortised", "88.15", "88.15"),
        ([{}, PURCHASE, RESERVED | {"Cost": "0"}], "actual", "3088.15", "88.15"),
        ([{}, RESERVED | {"Cost": "41.5"}], "amortised", "0", "129.65"),
        (
            [{}, RESERVED | {"ChargeType": "UnusedReservation", "Cost": "7"}],
            "amortised",
            "0",
            "95.15",
        ),
        ([RESERVED | {"Cost": "0"}], "actual", "0", "0"),
        ([RESERVED | {"Cost": "0"}, RESERVED | {"Cost": "2"}], "amortised", "0", "2"),
    ],
)
def test_each_view_tells_its_own_side_of_the_money(
    tmp_path: Path, rows: list[dict[str, str]], view: str, billed: str, effective: str
) -> None:
    found = read(export(tmp_path, *rows))
    assert found.account.version == view
    assert found.total("billed_cost") == Decimal(billed)
    assert found.total("effective_cost") == Decimal(effective)


def test_what_a_commitment_covers_is_unknown_in_the_actual_view_not_nothing(tmp_path: Path) -> None:
    found = read(export(tmp_path, PURCHASE, RESERVED | {"Cost": "0"}))
    assert [charge.effective_cost for charge in found.charges] == [None, None]
    assert [charge.commitment_status for charge in found.charges] == [None, "Used"]


def test_a_person_may_say_which_view_a_file_is(tmp_path: Path) -> None:
    found = read(export(tmp_path, {}), "azure-cost-amortized")
    (charge,) = found.charges
    assert (charge.billed_cost, charge.effective_cost) == (None, Decimal("88.15"))
    assert found.account.format == "azure-cost"


@pytest.mark.parametrize(
    ("cells", "category", "charge_class", "status"),
    [
        ({"ChargeType": "Tax"}, "Tax", None, None),
        ({"ChargeType": "RoundingAdjustment", "Cost": "-0.0056789"}, "Adjustment", None, None),
        ({"ChargeType": "Refund"}, "Usage", "Correction", None),
        (RESERVED | {"ChargeType": "Refund"}, "Purchase", "Correction", None),
        (RESERVED | {"ChargeType": "UnusedReservation"}, "Usage", None, "Unused"),
        ({"ChargeType": "UnusedSavingsPlan"}, "Usage", None, "Unused"),
        ({"ChargeType": ""}, "Usage", None, None),
    ],
)
def test_kinds_of_charge(
    tmp_path: Path,
    cells: dict[str, str],
    category: str,
    charge_class: str | None,
    status: str | None,
) -> None:
    (charge,) = read(export(tmp_path, cells)).charges
    found = (charge.category, charge.charge_class, charge.commitment_status)
    assert found == (category, charge_class, status)


def test_rounding_comes_to_the_invoiced_amount(tmp_path: Path) -> None:
    # Thread 5: cost 12.3456789, invoiced 12.34.
    rounding = {"ChargeType": "RoundingAdjustment", "Cost": "-0.0056789"}
    found = read(export(tmp_path, {"Cost": "12.3456789"}, rounding))
    assert found.total("billed_cost") == Decimal("12.34")


@pytest.mark.parametrize(
    ("quantity", "unit", "consumed", "consumed_unit"),
    [
        ("0.0129", "10K", "129", "Units"),
        ("24", "100 Hours", "24", "Hours"),
        ("3", "1 GB/Month", "3", "GB/Month"),
        ("0.428", "1K", "428", "Units"),
        ("2", "1000000 Tokens", "2000000", "Tokens"),
    ],
)
def test_units_in_blocks(
    tmp_path: Path, quantity: str, unit: str, consumed: str, consumed_unit: str
) -> None:
    (charge,) = read(export(tmp_path, {"Quantity": quantity, "UnitOfMeasure": unit})).charges
    assert (charge.consumed_quantity, charge.consumed_unit) == (Decimal(consumed), consumed_unit)
    assert (charge.pricing_quantity, charge.pricing_unit) == (Decimal(quantity), unit)


def test_a_licence_of_a_gpu_machine_is_no_gpu_time(tmp_path: Path) -> None:
    licence = {
        "MeterCategory": "Virtual Machines Licenses",
        "MeterSubCategory": "Windows Server",
        "MeterName": "24 vCPU VM License",
        "Product": "Windows",
    }
    (charge,) = read(export(tmp_path, licence)).charges
    assert charge.gpu_model is None


def test_localised_headers_and_english_ones_give_the_same_columns(tmp_path: Path) -> None:
    # Thread 14.
    german = {
        "Cost": "Kosten (CostInBillingCurrency)",
        "MeterName": "Name der Verbrauchseinheit (MeterName)",
        "ResourceGroup": "Ressourcengruppe (ResourceGroup)",
    }
    path = tmp_path / "mai.csv"
    path.write_text(as_csv([{german.get(name, name): cell for name, cell in ROW.items()}]))
    assert read(path).charges == read(export(tmp_path, {})).charges


def test_a_company_called_like_a_date_is_no_date(tmp_path: Path) -> None:
    # Thread 15: `Statcan` was taken for a date.
    usage = {"UsageDateTime" if name == "Date" else name: cell for name, cell in ROW.items()}
    path = tmp_path / "usage.csv"
    path.write_text(as_csv([usage | {"AccountName": "Statcan", "UsageDateTime": "2026-09-04"}]))
    (charge,) = read(path).charges
    assert charge.charge_period_start == datetime(2026, 9, 4, tzinfo=UTC)


def test_marks_in_front_of_the_header_and_of_the_first_row(tmp_path: Path) -> None:
    path = export(tmp_path, {})
    header, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(b"\xef\xbb\xbf" + header + b"\r\n\xef\xbb\xbf" + rest)
    (charge,) = read(path).charges
    assert charge.billing_account == "8611537"


def test_a_missing_cost_is_named_by_the_files_own_column(tmp_path: Path) -> None:
    found = read(export(tmp_path, {"Cost": ""}, {}))
    (rejection,) = found.rejections
    assert (rejection.line, rejection.column, rejection.reason) == (2, "Cost", "missing")
    assert len(found.charges) == 1


def test_a_day_first_date_is_not_guessed(tmp_path: Path) -> None:
    (rejection,) = read(export(tmp_path, {"Date": "30/09/2026"})).rejections
    assert (rejection.column, rejection.value) == ("Date", "30/09/2026")


def test_a_read_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("Cost," + as_csv([ROW]).replace("\n", "\n1,", 1))
    with pytest.raises(Refused, match="Cost stands more than once"):
        read(path)


@pytest.mark.parametrize(
    ("place", "billed", "effective", "charges", "rejected"),
    [
        ("azure_ea-export_anonymised.csv", "1.26136926505726", "1.26136926505726", 27, 0),
        (
            "azure_ea_actualcost_small_finops-toolkit.csv",
            "8.5450077867419368",
            "5.2950077867419368",
            11,
            0,
        ),
        (
            "azure_ea_amortizedcost_small_finops-toolkit.csv",
            "0",
            "16.2969321366366446274854190000",
            28,
            0,
        ),
        ("azure_ea_header-only_finops-toolkit.csv", "0", "0", 0, 0),
        ("azure_header-variant_BOM_opencost.csv", "0", "0", 0, 1),
        ("azure_header-variant_Enterprise_opencost.csv", "0", "0", 1, 0),
        ("azure_header-variant_German_opencost.csv", "0.075", "0.075", 1, 0),
        ("azure_values_MissingBrackets_opencost.csv", "4", "4", 1, 0),
        ("azure_values_Template_opencost.csv", "16.393506212224391", "16.393506212224391", 87, 0),
        (
            "generated-with-nise/azure_nc24ads-a100.csv",
            "5.8258572841956288",
            "5.8258572841956288",
            3,
            0,
        ),
    ],
)
def test_the_published_files_to_the_last_digit(
    place: str, billed: str, effective: str, charges: int, rejected: int
) -> None:
    path = sample(f"invoices/{place}")
    assert detect(path, path.name) == "azure-cost"
    found = read(path)
    assert found.total("billed_cost") == Decimal(billed)
    assert found.total("effective_cost") == Decimal(effective)
    assert (len(found.charges), len(found.rejections)) == (charges, rejected)


def test_tags_without_braces_of_a_published_file() -> None:
    (charge,) = read(sample("invoices/azure_values_MissingBrackets_opencost.csv")).charges
    assert charge.tags["aksEngineVersion"] == "aks-release-v0.47.0-1-aks"
    assert charge.resource_name == "aks-nodepool1-12345678-vmss_0"
