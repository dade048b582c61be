"""Every public thread about a wrong cost, by its number, and the test that holds the right value.

The cases that stand nowhere else are here. A thread's name tells what people got wrong.
"""

from __future__ import annotations

import importlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from finops.core.money import add, split
from finops.core.period import month_of
from finops.core.statement import statement
from finops.core.unit_cost import Counted, Weights, class_costs
from finops.ledger.models import Charge
from finops.ledger.queries.facts import facts
from finops.ledger.queries.money_exceptions import MoneyException, money_exceptions
from finops.ledger.queries.money_totals import money_total
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import PERIOD, level, take_in
from tests.ledger.focus_files import ROW, focus_file, hours
from tests.ledger.small_company import _line as line
from tests.ledger.small_company import _machine as machine
from tests.ledger.small_company import csv_text
from tests.ledger.test_formats import CARD, coreweave
from tests.sources.reading import as_csv, read, sample
from tests.sources.test_aws_cur import ROW as AWS
from tests.sources.test_azure_cost import export
from tests.sources.test_gcp_billing import ROW as GCP

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

HERE = "tests.ledger.test_public_threads"
WRONG = "tests.ledger.test_wrong_costs"
AWS_CUR = "tests.sources.test_aws_cur"
AZURE = "tests.sources.test_azure_cost"
# Thread: module and test of its right value.
THREADS = {
    "1": (WRONG, "test_1_a_purchase_that_covers_use_has_no_effective_cost"),
    "2": (WRONG, "test_2_an_unused_part_costs_what_was_not_used_and_uses_nothing"),
    "3": (WRONG, "test_3_committed_use_is_priced_as_committed"),
    "5": (AZURE, "test_rounding_comes_to_the_invoiced_amount"),
    "6": ("tests.ledger.test_newer", "test_6_a_one_time_export_beside_a_daily_one_in_one_folder"),
    "7": (WRONG, "test_7_a_month_loaded_twice_is_the_month"),
    "9": (WRONG, "test_9_gpus_are_told_whatever_the_category_of_the_service"),
    "10": (HERE, "test_10_prices_never_multiply_rows"),
    "12": (HERE, "test_12_months_load_together_as_they_do_alone"),
    "12b": (WRONG, "test_12b_columns_come_go_and_change_their_names"),
    "14": (AZURE, "test_localised_headers_and_english_ones_give_the_same_columns"),
    "15": (AZURE, "test_a_company_called_like_a_date_is_no_date"),
    "17": (
        "tests.ledger.test_manifests",
        "test_a_damaged_manifest_is_named_and_never_read_as_data",
    ),
    "18": (AWS_CUR, "test_accounts_keep_their_leading_zeros"),
    "19": (HERE, "test_19_a_column_that_is_absent_is_null_and_told"),
    "20": (AWS_CUR, "test_three_spellings_give_the_same_charges"),
    "21": (AWS_CUR, "test_covered_use_is_counted_once_and_its_negation_costs_nothing"),
    "23": (WRONG, "test_23_a_plan_given_back_leaves_no_negative_cost"),
    "24": ("tests.ledger.test_formats", "test_repeated_downloads_replace_the_month"),
    "26": ("tests.ledger.test_invoice_details", "test_a_closed_month_is_final"),
    "27": ("tests.ledger.test_tie_out", "test_a_month_is_provisional_until_invoiced_or_confirmed"),
    "29": (HERE, "test_29_a_machine_without_gpus_has_no_gpu_cost"),
    "30": (HERE, "test_30_the_parts_of_a_machine_sum_to_its_price"),
    "31": (WRONG, "test_31_730_dollars_over_730_hours_are_one_an_hour"),
    "32": (HERE, "test_32_more_gpus_asked_for_than_there_are_leave_no_negative_idle"),
    "34": (HERE, "test_34_prices_far_from_the_catalogue_are_told"),
    "35": (AWS_CUR, "test_a_fee_for_a_block_of_hours_spreads_to_itself"),
    "36": (WRONG, "test_36_an_upfront_fee_for_capacity_is_billed_once_and_used_by_the_hour"),
    "38": (WRONG, "test_38_what_the_bill_rounds_off_is_shown_and_judged"),
    "39": ("tests.sources.test_gcp_billing", "test_gross_and_credits_stand_apart"),
    "41": (AWS_CUR, "test_what_each_kind_of_line_costs"),
    "42": ("tests.ledger.test_manifests", "test_of_several_runs_the_latest_counts"),
    "43": (HERE, "test_43_a_capacity_blocks_price_is_the_invoices_alone"),
    "45": (HERE, "test_45_cached_tokens_are_priced_apart"),
    "46": (
        "tests.core.test_unit_cost",
        "test_opencost_example_usage_is_a_quarter_of_allocation",
    ),
    "47": (WRONG, "test_47_both_styles_of_correction"),
    "48": (HERE, "test_48_a_report_without_resource_ids_meets_no_node_and_says_why"),
    "50": (WRONG, "test_50_purchase_and_use_in_two_files_keep_their_sums"),
}


@pytest.mark.parametrize("thread", THREADS)
def test_every_thread_has_its_test(thread: str) -> None:
    module, name = THREADS[thread]
    assert callable(getattr(importlib.import_module(module), name))


def told(kind: str, month: str = "2026-10") -> list[MoneyException]:
    return [one for one in money_exceptions(month_of(month)) if one.kind == kind]


def test_10_prices_never_multiply_rows(tmp_path: Path) -> None:
    quantities = [str(number % 9 + 1) for number in range(300)]
    ingested(coreweave(tmp_path / "usage.csv", *quantities))
    rate = CARD["rates"][0]
    for number, match in enumerate(({"gpu_model": "H100"}, rate["match"], {"sku": "gpu-h100-sxm"})):
        card = CARD | {"rate_card": f"card {number}", "rates": [rate | {"match": match}, rate]}
        (tmp_path / f"{number}.json").write_text(json.dumps(card))
        ingested(tmp_path / f"{number}.json")
    current = Charge.objects.filter(snapshot__decisions__verdict="current").exclude(
        snapshot__decisions__verdict="superseded"
    )
    assert current.count() == 300
    priced = money_total(month_of("2026-10")).effective("USD")
    assert priced == sum(map(int, quantities)) * Decimal("2.39")


def test_12_months_load_together_as_they_do_alone(tmp_path: Path) -> None:
    # A vCPU detail that is no number stands in some purchase rows of one month only.
    def month(number: int, details: str) -> Path:
        start, end = f"2026-{number:02d}-01T00:00:00Z", f"2026-{number + 1:02d}-01T00:00:00Z"
        cells = {"BillingPeriodStart": start, "BillingPeriodEnd": end}
        cells |= {"ChargePeriodStart": start, "ChargePeriodEnd": end, "SkuPriceDetails": details}
        path = tmp_path / f"{number}.csv"
        path.write_text(as_csv([ROW | cells | {"ChargeCategory": "Purchase"}]))
        return path

    bad = '{"CoreCount": "not a number", "GpuCount": "two"}'
    paths = [month(2, "{}"), month(3, bad), month(4, '{"CoreCount": 4}')]
    documents = ingested(*paths)
    assert [(one["status"], one["charges"]) for one in documents] == [("posted", 1)] * 3
    assert [money_total(month_of(f"2026-0{n}")).billed("USD") for n in (2, 3, 4)] == [1, 1, 1]
    assert len(documents[1]["warnings"]) == 1


def test_19_a_column_that_is_absent_is_null_and_told(tmp_path: Path) -> None:
    absent = ("bill/InvoicingEntity", "product/instanceType", "lineItem/ResourceId")
    path = tmp_path / "cur.csv"
    path.write_text(as_csv([{k: v for k, v in AWS.items() if k not in absent}]))
    (document,) = ingested(path)
    assert (document["status"], document["charges"]) == ("posted", 1)
    assert "lineItem/ResourceId" in document["missing_columns"]
    charge = Charge.objects.get()
    assert (charge.resource, charge.snapshot.issuer) == (None, "Amazon Web Services")


def test_29_a_machine_without_gpus_has_no_gpu_cost(tmp_path: Path) -> None:
    plain = {"ChargeDescription": "$3.456 per On Demand Linux c5d.18xlarge Instance Hour"}
    gpu = {"ChargeDescription": "$0.526 per On Demand Linux g4dn.xlarge Instance Hour"}
    (document,) = ingested(focus_file(tmp_path / "a.csv", plain, gpu | {"BilledCost": "0.526"}))
    assert document["gpu_totals"]["USD"]["billed"] == "0.526"
    found = Charge.objects.get(description=plain["ChargeDescription"])
    assert (found.gpu_model, found.gpu_count) == (None, None)


def test_30_the_parts_of_a_machine_sum_to_its_price() -> None:
    # g4dn.xlarge: 4 vCPU, 15.32 GiB and a T4, as the thread prices them.
    parts = [4 * Decimal("0.010603"), Decimal("15.32") * Decimal("0.001421"), Decimal("0.461814")]
    assert add(parts) == Decimal("0.52599572")
    shares = split(Decimal("0.526"), parts)
    assert add(shares) == Decimal("0.526")
    assert all(
        abs(one - part) < Decimal("0.00001") for one, part in zip(shares, parts, strict=True)
    )


def test_30_a_machine_in_three_lines_is_one_machine(tmp_path: Path) -> None:
    lines = [
        {"sku.description": "Nvidia Tesla T4 GPU running in Americas", "cost": "0.461814"},
        {"sku.description": "N1 Predefined Instance Core running in Americas", "cost": "0.042412"},
        {"sku.description": "N1 Predefined Instance Ram running in Americas", "cost": "0.02176972"},
    ]
    path = tmp_path / "gcp.csv"
    path.write_text(as_csv([GCP | one | {"credits": "[]"} for one in lines]))
    (document,) = ingested(path)
    assert document["totals"]["USD"]["effective"] == "0.52599572"
    resources = set(Charge.objects.values_list("resource", flat=True))
    assert len(resources) == 1


def test_32_more_gpus_asked_for_than_there_are_leave_no_negative_idle(tmp_path: Path) -> None:
    ksm = {"job": "kube-state-metrics", "instance": "ksm:8080"}
    node = {"node": "n1", "resource": "nvidia_com_gpu"}
    take_in(tmp_path, [
        level("kube_node_info", 1, **ksm, node="n1", provider_id="aws:///eu-west-1a/i-A"),
        level("kube_node_status_capacity", 4, **ksm, **node),
        *(level("kube_pod_container_resource_requests", 3, **ksm, **node, namespace="llm",
                pod=f"p-{n}", container="main") for n in range(3)),
    ])  # fmt: skip
    rows = [line(hour, "4.00", "4.00", **machine("i-a")) for hour in range(6)]
    (tmp_path / "invoice.csv").write_text(csv_text(rows))
    ingested(tmp_path / "invoice.csv")
    value: dict[str, Any] = statement(facts(PERIOD, week="2026-W47"))
    places = {row["label"]: Decimal(row["effective"]) for row in value["allocation"]}
    assert places.get("Idle", Decimal(0)) == 0
    assert sum(places.values()) == 24
    assert Decimal(value["nodes"]["idle_gpu_hours"]) >= 0


def test_34_prices_far_from_the_catalogue_are_told(tmp_path: Path) -> None:
    cheap = {
        "ChargeDescription": "c5d.18xlarge hours",
        "ListUnitPrice": "3.46",
        "PricingQuantity": "1",
    }
    cheap |= {"BilledCost": "0.0067", "EffectiveCost": "0.0067"}
    right = cheap | {"BilledCost": "3.46", "EffectiveCost": "3.46", "ResourceId": "i-2"}
    path = tmp_path / "a.csv"
    path.write_text(as_csv([ROW | cheap, ROW | right]))
    ingested(path)
    (found,) = told("far-from-list-price")
    assert "1 lines cost 0.0067 USD; by their own list prices it would be 3.4600" in found.text


@pytest.mark.parametrize(("cost", "is_told"), [("900", True), ("21.60", False), ("0.9", True)])
def test_34_an_nc6_costs_no_900_dollars_a_day(tmp_path: Path, cost: str, is_told: bool) -> None:
    cells = {
        "MeterName": "NC6",
        "MeterSubCategory": "NC Series",
        "Product": "Virtual Machines NC Series",
        "AdditionalInfo": '"ServiceType": "Standard_NC6"',
    }
    ingested(export(tmp_path, cells | {"Cost": cost}))
    found = told("unit-price-implausible", "2026-09")
    assert bool(found) is is_told
    if is_told:
        assert "K80" in found[0].text


def test_34_a_gpus_price_is_by_the_gpu_and_the_hour(tmp_path: Path) -> None:
    shape = {
        "ChargeDescription": "p5.48xlarge hours",
        "EffectiveCost": "55.04",
        "BilledCost": "55.04",
    }
    units = {"ConsumedQuantity": "1", "ConsumedUnit": "Hours"}
    by_gpu = {"ConsumedQuantity": "8", "ConsumedUnit": "GPU-Hours", "ResourceId": "i-2"}
    path = tmp_path / "a.csv"
    path.write_text(as_csv([ROW | shape | units, ROW | shape | by_gpu]))
    ingested(path)
    assert not told("unit-price-implausible")
    path.write_text(as_csv([ROW | shape | units | {"ConsumedQuantity": "0.01"}]))
    ingested(path)
    (found,) = told("unit-price-implausible")
    assert "688.0000 USD a GPU-hour" in found.text


def test_43_a_capacity_blocks_price_is_the_invoices_alone(tmp_path: Path) -> None:
    # Two p5.48xlarge for 24 hours: no price list knows the fee, and no price of ours replaces it.
    fee = {
        "lineItem/LineItemType": "Fee",
        "lineItem/UsageType": "USE1-CapacityBlock:p5.48xlarge",
        "lineItem/UnblendedCost": "1498.24",
        "lineItem/UsageAmount": "48",
        "lineItem/UsageStartDate": "2026-10-05T00:00:00Z",
        "lineItem/UsageEndDate": "2026-10-06T00:00:00Z",
        "pricing/publicOnDemandCost": "",
    }
    path = tmp_path / "cur.csv"
    path.write_text(as_csv([AWS | fee]))
    ingested(path)
    charge = Charge.objects.get()
    assert (charge.list_cost, charge.rate_card) == (None, None)
    answer = command("totals", "--from", "2026-10-05T07:00:00Z", "--to", "2026-10-05T08:00:00Z")
    an_hour = Decimal(answer["money"]["USD"]["effective"])
    assert abs(an_hour - Decimal("1498.24") / 24) < Decimal("0.000001")  # fee ÷ hours, of both
    assert not [one for one in money_exceptions(month_of("2026-10")) if "price" in one.kind]


def test_45_cached_tokens_are_priced_apart() -> None:
    # 18 tokens of input, 7,502 read from the cache and 386 of output: 7,906 in all.
    counted = Counted(18 + 7502, 386, cached_prompt=7502)
    found = class_costs(Decimal("23.122"), counted, Weights())
    # 18 + a tenth of 7,502 + 4 × 386 = 2,312.2 units of a cent each.
    assert found == {
        "prompt": Decimal("0.18"),
        "cached_prompt": Decimal("7.502"),
        "generation": Decimal("15.44"),
    }


def test_45_a_vendors_token_classes_stay_apart() -> None:
    got = read(sample("invoices/excerpts/focus-1.5-draft_per_token_ai_model_api.csv"))
    assert [one.billed_cost for one in got.charges] == [Decimal("42.00"), Decimal("52.50")]
    assert len({one.sku for one in got.charges}) == 2


def test_48_a_report_without_resource_ids_meets_no_node_and_says_why(tmp_path: Path) -> None:
    ksm = {"job": "kube-state-metrics", "instance": "ksm:8080"}
    take_in(tmp_path, [
        level("kube_node_info", 1, **ksm, node="n1", provider_id="aws:///us-east-1a/i-A"),
        level("kube_node_status_capacity", 8, **ksm, node="n1", resource="nvidia_com_gpu"),
    ])  # fmt: skip
    rows = [line(hour, "4.00", "4.00", **machine("") | {"ResourceId": ""}) for hour in range(6)]
    (tmp_path / "invoice.csv").write_text(csv_text(rows))
    (document,) = ingested(tmp_path / "invoice.csv")
    assert document["status"] == "posted"
    value: dict[str, Any] = statement(facts(PERIOD, week="2026-W47"))
    assert Decimal(value["nodes"]["matched_node_hours"]) == 0
    assert Decimal(value["nodes"]["unmatched_node_hours"]) == 6
    lines = {row["kind"]: row["text"] for row in value["exceptions"]}
    assert "provider ids stand in no invoice line" in lines["nodes-without-charges"]


# What else cannot be ---------------------------------------------------------------------------


def test_a_day_has_24_hours_for_one_machine(tmp_path: Path) -> None:
    units = {"ConsumedUnit": "Hrs"}
    rows = [
        hours(f"2026-10-05T{at:02d}", f"2026-10-05T{at + 1:02d}")
        | units
        | {"ConsumedQuantity": "1"}
        for at in range(23)
    ]
    path = tmp_path / "a.csv"
    path.write_text(as_csv([ROW | row for row in rows]))
    ingested(path)
    assert not told("hours-over-24")
    more = rows[0] | {"ConsumedQuantity": "2.5"}
    path.write_text(as_csv([ROW | row for row in [*rows, more]]))
    ingested(path)
    (found,) = told("hours-over-24")
    assert "at most 25.5 hours (i-1 on 2026-10-05)" in found.text


def test_a_contracted_cost_of_0_beside_money_is_no_cost(tmp_path: Path) -> None:
    free = {"BilledCost": "0", "EffectiveCost": "0", "ContractedCost": "0", "ResourceId": "i-2"}
    ingested(focus_file(tmp_path / "a.csv", {"ContractedCost": "0"}, free))
    (found,) = told("contracted-zero")
    assert found.amount == 1
