"""FOCUS as JSON: lines, lists and pages, with and without cost; Oracle's old names (§3.3, §3.10)."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest

from finops.sources.records import Refused
from finops.sources.registry import detect
from tests.ledger.focus_files import ROW
from tests.sources.reading import as_csv, read

COSTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
USAGE = {name: cell or None for name, cell in ROW.items() if name not in COSTS} | {
    "ProviderName": "CoreWeave",
    "SkuId": "gpu-h100-sxm",
    "ConsumedQuantity": 8.10,
    "ConsumedUnit": "GPU-Hours",
}


def lines(rows: list[object]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        lines([USAGE, USAGE]),
        json.dumps([USAGE, USAGE], indent=2),
        json.dumps({"data": [USAGE, USAGE], "next": None}),
        json.dumps({"next": "x", "items": [USAGE, USAGE]}, indent=1),
    ],
)
def test_usage_without_cost_in_every_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "usage.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    got = read(path)
    assert (got.account.format, got.account.rows_read) == ("coreweave-focus", 2)
    charge = got.charges[0]
    assert (charge.billed_cost, charge.effective_cost, charge.list_cost) == (None, None, None)
    assert (charge.gpu_model, charge.consumed_quantity) == ("H100", Decimal("8.1"))
    assert charge.charge_class is None


def test_numbers_of_json_keep_their_digits(tmp_path: Path) -> None:
    cost = "0.1000000000000000055511151231257827"
    path = tmp_path / "focus.json"
    path.write_text(json.dumps([ROW | {"BilledCost": "@"}]).replace('"@"', cost))
    got = read(path)
    assert (got.account.format, got.charges[0].billed_cost) == ("focus", Decimal(cost))
    assert (got.charges[0].line, got.charges[0].tags) == (2, {})


def test_nested_tags_and_null(tmp_path: Path) -> None:
    path = tmp_path / "focus.json"
    path.write_text(json.dumps([ROW | {"Tags": {"team": "search"}, "ListCost": None}]))
    (charge,) = read(path).charges
    assert (charge.tags, charge.list_cost) == ({"team": "search"}, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lines([ROW]) + "\n[]\n", "line 2: not a JSON object"),
        (json.dumps([ROW, 3]), "entry 2 of the list is no JSON object"),
        (json.dumps([ROW])[:-20], "not a list of JSON objects"),
    ],
)
def test_what_is_no_list_of_rows_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "focus.json"
    path.write_text(text)
    with pytest.raises(Refused, match=said):
        read(path)


def test_a_number_that_is_none_costs_its_row(tmp_path: Path) -> None:
    path = tmp_path / "focus.json"
    path.write_text(json.dumps([ROW | {"BilledCost": float("nan")}, ROW]))
    got = read(path)
    assert [(one.line, one.column, one.value) for one in got.rejections] == [
        (2, "BilledCost", "NaN")
    ]


# The names of Oracle's FOCUS report, and which it leaves empty (`focus2adw`).
ORACLE = {
    "AvailabilityZone": "",
    "BilledCost": "1.624",
    "BillingAccountId": "ocid1.tenancy.oc1..aaaa",
    "BillingAccountName": "",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-10-01T00:00Z",
    "BillingPeriodEnd": "2026-11-01T00:00Z",
    "ChargeCategory": "Usage",
    "ChargeDescription": "OCI - Compute - GPU - H100",
    "ChargeFrequency": "Usage-Based",
    "ChargePeriodStart": "2026-10-05T10:00Z",
    "ChargePeriodEnd": "2026-10-05T11:00Z",
    "EffectiveCost": "0",
    "InvoiceIssuer": "",
    "PricingCategory": "",
    "Provider": "Oracle",
    "Publisher": "Oracle",
    "Region": "eu-frankfurt-1",
    "ResourceId": "ocid1.instance.oc1..cccc",
    "SkuId": "B98415",
    "SkuPriceId": "",
    "Tags": '{"team": "search"}',
    "UsageQuantity": "8",
    "UsageUnit": "GPU Hour",
    "oci_ReferenceNumber": "V2.1",
    "oci_CompartmentId": "ocid1.compartment.oc1..bbbb",
    "oci_CostOverage": "",
}


def test_oracles_focus_report_by_its_old_names(tmp_path: Path) -> None:
    path = tmp_path / "0001.csv"
    path.write_text(as_csv([ORACLE]))
    assert detect(path, path.name) == "focus"
    got = read(path)
    (charge,) = got.charges
    assert (charge.issuer, charge.provider, charge.region) == ("Oracle", "Oracle", "eu-frankfurt-1")
    assert (charge.consumed_quantity, charge.consumed_unit) == (8, "GPU Hour")
    assert (charge.gpu_model, charge.gpu_count) == ("H100", 1)
    assert (charge.billed_cost, charge.effective_cost) == (Decimal("1.624"), 0)
    assert got.account.adds_to_others is True
