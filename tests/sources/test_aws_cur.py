"""AWS reports: three spellings, the cost of each kind of line, splits, published totals (§3.5)."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from finops.core.money import add, part
from finops.sources.records import ChargeRecord, Refused
from finops.sources.registry import detect
from tests.sources.reading import Read, as_csv, read, sample

ROW = {
    "bill/InvoiceId": "",
    "bill/InvoicingEntity": "Amazon Web Services, Inc.",
    "bill/PayerAccountId": "012345678901",
    "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
    "bill/BillingPeriodEndDate": "2026-11-01T00:00:00Z",
    "lineItem/UsageAccountId": "000000000042",
    "lineItem/LineItemType": "Usage",
    "lineItem/UsageStartDate": "2026-10-05T10:00:00Z",
    "lineItem/UsageEndDate": "2026-10-05T11:00:00Z",
    "lineItem/ProductCode": "AmazonEC2",
    "lineItem/UsageType": "EUW1-BoxUsage:p5.48xlarge",
    "lineItem/Operation": "RunInstances",
    "lineItem/ResourceId": "i-0a",
    "lineItem/UsageAmount": "1",
    "lineItem/CurrencyCode": "USD",
    "lineItem/UnblendedRate": "55.04",
    "lineItem/UnblendedCost": "55.04",
    "lineItem/LineItemDescription": "$55.04 per On Demand Linux p5.48xlarge Instance Hour",
    "product/instanceType": "p5.48xlarge",
    "pricing/unit": "Hrs",
    "reservation/ReservationARN": "",
    "reservation/EffectiveCost": "",
    "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "",
    "reservation/UnusedRecurringFee": "",
    "savingsPlan/SavingsPlanARN": "",
    "savingsPlan/SavingsPlanEffectiveCost": "",
    "savingsPlan/TotalCommitmentToDate": "",
    "savingsPlan/UsedCommitment": "",
    "resourceTags/user:fleet": "vllm-prod",
}
PLAN = {"savingsPlan/SavingsPlanARN": "arn:plan"}
RESERVED = {"reservation/ReservationARN": "arn:reserved"}


def line(kind: str, cost: str, **cells: str) -> dict[str, str]:
    return ROW | {"lineItem/LineItemType": kind, "lineItem/UnblendedCost": cost} | cells


def report(folder: Path, *rows: dict[str, str], name: str = "report.csv") -> Path:
    path = folder / name
    path.write_text(as_csv([ROW | row for row in rows]))
    return path


def amounts(charge: ChargeRecord) -> tuple[Decimal | None, Decimal | None]:
    return charge.billed_cost, charge.effective_cost


# Facts on the native exports, 2.1: line item type, amounts in the row, billed and effective.
@pytest.mark.parametrize(
    ("row", "billed", "effective", "category", "commitment"),
    [
        (line("Usage", "55.04"), "55.04", "55.04", "Usage", None),
        (
            line("SavingsPlanCoveredUsage", "55.04", **PLAN)
            | {"savingsPlan/SavingsPlanEffectiveCost": "38.16"},
            "55.04",
            "38.16",
            "Usage",
            "arn:plan",
        ),
        (line("SavingsPlanNegation", "-55.04", **PLAN), "-55.04", "0", "Adjustment", "arn:plan"),
        (
            line("SavingsPlanRecurringFee", "10", **PLAN)
            | {"savingsPlan/TotalCommitmentToDate": "10", "savingsPlan/UsedCommitment": "7.25"},
            "10",
            "2.75",
            "Purchase",
            "arn:plan",
        ),
        (line("SavingsPlanUpfrontFee", "8760", **PLAN), "8760", "0", "Purchase", "arn:plan"),
        (
            line("DiscountedUsage", "0", **RESERVED) | {"reservation/EffectiveCost": "20.5"},
            "0",
            "20.5",
            "Usage",
            "arn:reserved",
        ),
        (  # thread 41: the unused part of the upfront fee is 10, not 1
            line("RIFee", "30", **RESERVED)
            | {
                "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "10",
                "reservation/UnusedRecurringFee": "2.5",
            },
            "30",
            "12.5",
            "Purchase",
            "arn:reserved",
        ),
        (line("Fee", "900", **RESERVED), "900", "0", "Purchase", "arn:reserved"),
        (line("Fee", "15"), "15", "15", "Purchase", None),
        (  # thread 23: a plan that is given back within seven days
            line("Refund", "-100", **{"lineItem/ProductCode": "ComputeSavingsPlans"}),
            "-100",
            "0",
            "Credit",
            "savings plan without a name",
        ),
        (line("Refund", "-3"), "-3", "-3", "Credit", None),
        (line("Tax", "19.00"), "19.00", "19.00", "Tax", None),
        (line("Credit", "-5"), "-5", "-5", "Credit", None),
        (line("EdpDiscount", "-2.2"), "-2.2", "-2.2", "Credit", None),
        (line("PrivateRateDiscount", "-2"), "-2", "-2", "Credit", None),
        (line("RiVolumeDiscount", "-2"), "-2", "-2", "Credit", None),
        (line("BundledDiscount", "-2"), "-2", "-2", "Credit", None),
        (
            line("SavingsPlanRecurringFee", "10", **PLAN)
            | {"savingsPlan/TotalCommitmentToDate": "10", "savingsPlan/UsedCommitment": "7.5"},
            "10",
            "2.5",
            "Purchase",
            "arn:plan",
        ),
    ],
)
def test_what_each_kind_of_line_costs(
    tmp_path: Path,
    row: dict[str, str],
    billed: str,
    effective: str,
    category: str,
    commitment: str | None,
) -> None:
    (charge,) = read(report(tmp_path, row)).charges
    assert amounts(charge) == (Decimal(billed), Decimal(effective))
    assert (charge.category, charge.commitment) == (category, commitment)


def test_covered_use_is_counted_once_and_its_negation_costs_nothing(tmp_path: Path) -> None:
    # Threads 21: negations counted as usage double the quantity.
    covered = line("SavingsPlanCoveredUsage", "55.04", **PLAN)
    covered["savingsPlan/SavingsPlanEffectiveCost"] = "38.16"
    negated = line("SavingsPlanNegation", "-55.04", **PLAN) | {"lineItem/UnblendedRate": "-55.04"}
    found = read(report(tmp_path, covered, negated))
    quantities = [charge.consumed_quantity for charge in found.charges]
    assert quantities == [Decimal(1), None]
    assert found.total("billed_cost") == 0
    assert found.total("effective_cost") == Decimal("38.16")


def test_covered_use_without_its_effective_cost_is_no_zero(tmp_path: Path) -> None:
    found = read(report(tmp_path, line("SavingsPlanCoveredUsage", "55.04", **PLAN)))
    (rejection,) = found.rejections
    assert rejection.column == "savingsPlan/SavingsPlanEffectiveCost"
    assert rejection.line == 2


def test_splits_never_stand_beside_their_parent(tmp_path: Path) -> None:
    rows = [
        line("Usage", "10.00"),
        line("Usage", "4.03", **{"lineItem/Operation": "EKSPod-EC2"}),
        line("Usage", "2.00", **{"lineItem/Operation": "ECSTask-EC2"}),
    ]
    found = read(report(tmp_path, *rows))
    assert found.total("billed_cost") == Decimal("10.00")
    assert (found.account.rows_read, len(found.charges)) == (3, 1)
    assert (found.account.rows_in_parent, found.rejections) == (2, [])
    assert found.account.warnings == ["2 rows split other rows: their money is the parents'"]


def test_accounts_keep_their_leading_zeros(tmp_path: Path) -> None:
    (charge,) = read(report(tmp_path, ROW)).charges  # thread 18
    assert (charge.billing_account, charge.sub_account) == ("012345678901", "000000000042")


def test_numbers_in_scientific_notation_are_exact(tmp_path: Path) -> None:
    (charge,) = read(report(tmp_path, line("Usage", "1.81E-8"))).charges
    assert charge.billed_cost == Decimal("0.0000000181")


def snake(name: str) -> str:
    family, _, rest = name.partition("/")
    text = "_".join([family, rest.replace(":", "_")])
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in text).replace("__", "_")


def spelled_as_map(row: dict[str, str]) -> dict[str, str]:
    cells = {snake(name): value for name, value in row.items() if "/user:" not in name}
    cells.pop("product_instance_type")
    product = {"instance_type": "p5.48xlarge", "region": "eu-west-1"}
    return cells | {
        "product": json.dumps(product),
        "resource_tags": json.dumps({"user_fleet": "vllm-prod"}),
        "discount": "{}",
    }


def test_three_spellings_give_the_same_charges(tmp_path: Path) -> None:
    slash = read(report(tmp_path, ROW))
    small = tmp_path / "snake.csv"
    small.write_text(as_csv([{snake(name): value for name, value in ROW.items()}]))
    maps = tmp_path / "maps.csv"
    maps.write_text(as_csv([spelled_as_map(ROW)]))
    assert [detect(p, p.name) for p in (small, maps)] == ["aws-cur", "aws-cur-2"]
    for other in (read(small), read(maps)):
        (one,), (two,) = slash.charges, other.charges
        for name in ("billed_cost", "gpu_model", "gpu_count", "resource", "tags", "sub_account"):
            assert getattr(one, name) == getattr(two, name), name
        assert amounts(one) == amounts(two)
    assert read(maps).charges[0].region == "eu-west-1"
    assert read(maps).account.version == "2.0"


def test_parquet_with_maps_and_timestamps(tmp_path: Path) -> None:
    path = tmp_path / "part-0.parquet"
    cells = spelled_as_map(line("Usage", "0.1234567890123456789"))
    selected = ", ".join(
        f"MAP {{'instance_type': 'p5.48xlarge'}} AS {name}"
        if name == "product"
        else f"MAP {{'user_fleet': 'vllm-prod'}} AS {name}"
        if name == "resource_tags"
        else f"TIMESTAMP '{value}' AS {name}"
        if value and name.endswith("_date")
        else f"CAST('{value}' AS DECIMAL(38, 19)) AS {name}"
        if name == "line_item_unblended_cost"
        else f"'{value}' AS {name}"
        for name, value in cells.items()
    )
    duckdb.execute(f"COPY (SELECT {selected}) TO '{path}' (FORMAT parquet)")
    assert detect(path, path.name) == "aws-cur-2"
    (charge,) = read(path).charges
    assert charge.billed_cost == Decimal("0.1234567890123456789")
    assert charge.charge_period_start == datetime(2026, 10, 5, 10, tzinfo=UTC)
    assert (charge.gpu_model, charge.gpu_count, charge.tags["fleet"]) == ("H100", 8, "vllm-prod")


def test_a_glued_header_is_taken_apart(tmp_path: Path) -> None:
    cells = ROW | {"pricing/OfferingClass": "standard", "pricing/PurchaseOption": "No Upfront"}
    text = as_csv([cells]).replace(
        "pricing/OfferingClass,pricing/PurchaseOption",
        "pricing/OfferingClasspricing/PurchaseOption",
    )
    path = tmp_path / "glued.csv"
    path.write_text(text)
    found = read(path)
    assert (len(found.charges), found.rejections) == (1, [])
    assert found.account.unknown_columns == ("pricing/OfferingClass", "pricing/PurchaseOption")


def test_packed_and_reordered_columns_with_windows_line_ends(tmp_path: Path) -> None:
    cells = dict(reversed(ROW.items()))
    path = tmp_path / "report-00001.csv.gz"
    path.write_bytes(gzip.compress(as_csv([cells]).replace("\n", "\r\n").encode()))
    (charge,) = read(path).charges
    assert amounts(charge) == (Decimal("55.04"), Decimal("55.04"))


def test_a_report_without_resource_ids_says_so(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"  # thread 48
    path.write_text(as_csv([{k: v for k, v in ROW.items() if k != "lineItem/ResourceId"}]))
    found = read(path)
    assert len(found.charges) == 1
    assert found.account.missing_columns == ("lineItem/ResourceId",)


def test_a_fee_for_a_block_of_hours_spreads_to_itself(tmp_path: Path) -> None:
    # Threads 35: fee ÷ hours each hour, and the total is the fee.
    start, end = "2026-10-05T00:00:00Z", "2026-10-06T00:00:00Z"
    fee = line("Fee", "1000.01") | {"lineItem/UsageStartDate": start, "lineItem/UsageEndDate": end}
    (charge,) = read(report(tmp_path, fee)).charges
    assert charge.effective_cost is not None
    edges = [datetime(2026, 10, 5, hour, tzinfo=UTC) for hour in range(24)]
    edges.append(datetime(2026, 10, 6, tzinfo=UTC))
    span = (charge.charge_period_start, charge.charge_period_end)
    hours = [part(charge.effective_cost, *span, edges[at], edges[at + 1]) for at in range(24)]
    assert add(hours) == Decimal("1000.01")
    assert all(abs(hour - Decimal("1000.01") / 24) < Decimal("0.000001") for hour in hours)


def test_discounts_of_the_net_columns_alone_are_told(tmp_path: Path) -> None:
    row = line("Usage", "10.00") | {"lineItem/NetUnblendedCost": "9.10"}
    (warning,) = read(report(tmp_path, row)).account.warnings
    assert "-0.90" in warning
    (charge,) = read(report(tmp_path, row), "aws-cur-net").charges
    assert amounts(charge) == (Decimal("9.10"), Decimal("9.10"))


@pytest.mark.parametrize(
    ("kind", "cells", "billed", "effective"),
    [
        ("Usage", {}, "9", "9"),
        ("Usage", {"lineItem/NetUnblendedCost": ""}, "10", "10"),
        (
            "SavingsPlanCoveredUsage",
            PLAN
            | {
                "savingsPlan/SavingsPlanEffectiveCost": "6",
                "savingsPlan/NetSavingsPlanEffectiveCost": "5.5",
            },
            "9",
            "5.5",
        ),
        ("SavingsPlanNegation", PLAN, "9", "0"),
        (
            "DiscountedUsage",
            RESERVED | {"reservation/EffectiveCost": "4", "reservation/NetEffectiveCost": "3.6"},
            "9",
            "3.6",
        ),
        (
            "RIFee",
            RESERVED
            | {
                "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "3",
                "reservation/NetUnusedAmortizedUpfrontFeeForBillingPeriod": "2.7",
                "reservation/UnusedRecurringFee": "1",
                "reservation/NetUnusedRecurringFee": "",
            },
            "9",
            "3.7",
        ),
        ("Tax", {}, "9", "9"),
    ],
)
def test_costs_after_discounts_by_kind_of_line(
    tmp_path: Path, kind: str, cells: dict[str, str], billed: str, effective: str
) -> None:
    row = line(kind, "10", **{"lineItem/NetUnblendedCost": "9"} | cells)
    (charge,) = read(report(tmp_path, row), "aws-cur-net").charges
    assert amounts(charge) == (Decimal(billed), Decimal(effective))


def test_a_read_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("lineItem/UnblendedCost," + as_csv([ROW]).replace("\n", "\n1,", 1))
    with pytest.raises(Refused, match="UnblendedCost stands more than once"):
        read(path)


def test_an_unknown_kind_keeps_its_money_and_is_told(tmp_path: Path) -> None:
    found = read(report(tmp_path, line("NewThing", "7")))
    assert amounts(found.charges[0]) == (Decimal(7), Decimal(7))
    assert "NewThing" in found.account.warnings[0]


def gpu_hours(found: Read) -> Decimal:
    return add(
        [
            charge.consumed_quantity * charge.gpu_count
            for charge in found.charges
            if charge.gpu_count and charge.consumed_quantity and charge.category == "Usage"
        ]
    )


def test_the_published_totals_to_the_last_digit() -> None:
    real = read(sample("invoices/aws_cur-legacy_anonymised_first699rows.csv"))
    assert real.total("billed_cost") == Decimal("0.64122057430")
    assert (len(real.charges), real.rejections) == (699, [])
    assert sum(charge.category == "Tax" for charge in real.charges) == 12
    made = read(
        sample(
            "invoices/generated-with-nise/"
            "aws_cur-legacy_p5-savingsplan-covered-and-negation_g5_marketplace.csv"
        )
    )
    assert made.total("billed_cost") == Decimal("296.256")
    assert made.total("effective_cost") == Decimal("2127.936")
    assert made.total("billed_cost", gpu=True) == Decimal("272.256")
    assert gpu_hours(made) == 48 * 8 + 48 * 4
