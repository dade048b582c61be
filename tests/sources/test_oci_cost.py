"""Oracle's own cost report: columns by file, corrections, digits (§3.3)."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from finops.sources.records import Refused
from finops.sources.registry import detect
from tests.sources.reading import Read, as_csv, read

ROW = {
    "lineItem/referenceNo": "V2.1",
    "lineItem/tenantId": "ocid1.tenancy.oc1..aaaa",
    "lineItem/intervalUsageStart": "2026-10-13T10:00Z",
    "lineItem/intervalUsageEnd": "2026-10-13T11:00:00Z",
    "product/service": "COMPUTE",
    "product/compartmentId": "ocid1.compartment.oc1..bbbb",
    "product/compartmentName": "inference",
    "product/region": "eu-frankfurt-1",
    "product/availabilityDomain": "AD-1",
    "product/resourceId": "ocid1.instance.oc1..cccc",
    "usage/billedQuantity": "8",
    "usage/billedQuantityOverage": "",
    "cost/subscriptionId": "123",
    "cost/productSku": "B98415",
    "product/Description": "OCI - Compute - GPU - H100",
    "cost/unitPrice": "10",
    "cost/unitPriceOverage": "",
    "cost/myCost": "80.000000000000000001",
    "cost/myCostOverage": "",
    "cost/currencyCode": "EUR",
    "cost/billingUnitReadable": "GPU HOUR",
    "cost/skuUnitDescription": "GPU Hour",
    "cost/overageFlag": "N",
    "lineItem/isCorrection": "false",
    "lineItem/backreferenceNo": "",
    "tags/team.owner": "search",
    "tags/Oracle-Tags.CreatedBy": "",
}


def oci(path: Path, *changes: dict[str, str]) -> Read:
    path.write_text(as_csv([ROW | change for change in changes or ({},)]))
    return read(path)


def test_a_line_is_read_whole(tmp_path: Path) -> None:
    got = oci(tmp_path / "0001.csv")
    assert detect(tmp_path / "0001.csv", "0001.csv") == "oci-cost"
    (charge,) = got.charges
    assert (charge.issuer, charge.billing_account) == ("Oracle", "ocid1.tenancy.oc1..aaaa")
    assert (charge.sub_account, charge.sub_account_name) == (
        "ocid1.compartment.oc1..bbbb",
        "inference",
    )
    assert charge.charge_period_start == datetime(2026, 10, 13, 10, tzinfo=UTC)
    assert charge.charge_period_end == datetime(2026, 10, 13, 11, tzinfo=UTC)
    assert charge.billing_period_start == datetime(2026, 10, 1, tzinfo=UTC)
    assert charge.billing_period_end == datetime(2026, 11, 1, tzinfo=UTC)
    assert charge.billed_cost == charge.effective_cost == Decimal("80.000000000000000001")
    assert (charge.list_cost, charge.contracted_cost) == (None, None)
    assert (charge.gpu_model, charge.gpu_count) == ("H100", 1)  # billed by the GPU-hour
    assert (charge.consumed_quantity, charge.consumed_unit) == (8, "GPU HOUR")
    assert charge.tags == {"team.owner": "search"}
    assert got.account.unknown_columns == (
        "product/availabilityDomain",
        "usage/billedQuantityOverage",
        "cost/subscriptionId",
        "cost/unitPriceOverage",
        "cost/overageFlag",
    )


@pytest.mark.parametrize("cost", ["2.323760000E-9", "-0.000000000000000001", "0"])
def test_every_digit_is_kept(tmp_path: Path, cost: str) -> None:
    (charge,) = oci(tmp_path / "a.csv", {"cost/myCost": cost}).charges
    assert charge.billed_cost == Decimal(cost)


def test_a_correction_keeps_its_old_period(tmp_path: Path) -> None:
    change = {
        "lineItem/isCorrection": "true",
        "lineItem/backreferenceNo": "V2.0",
        "lineItem/intervalUsageStart": "2026-09-30T22:00Z",
        "lineItem/intervalUsageEnd": "2026-09-30T23:00Z",
        "cost/myCost": "-3",
    }
    (charge,) = oci(tmp_path / "a.csv", change).charges
    assert (charge.charge_class, charge.billed_cost) == ("Correction", -3)
    assert charge.billing_period_start == datetime(2026, 9, 1, tzinfo=UTC)


def test_headers_with_a_backslash_and_columns_of_other_tags(tmp_path: Path) -> None:
    path = tmp_path / "0002.csv.gz"
    text = as_csv([ROW]).replace("product/Description", "product\\/Description")
    path.write_bytes(gzip.compress(text.replace("tags/team.owner", "tags/x.y").encode()))
    (charge,) = read(path).charges
    assert charge.description == "OCI - Compute - GPU - H100"
    assert charge.tags == {"x.y": "search"}


def test_overage_is_told_and_not_added(tmp_path: Path) -> None:
    got = oci(tmp_path / "a.csv", {"cost/myCostOverage": "1.5"}, {"cost/myCostOverage": "2"})
    assert got.total("billed_cost") == 2 * Decimal("80.000000000000000001")
    assert any("3.5 in all" in text for text in got.account.warnings)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"cost/myCost": ""}, "cost/myCost"),
        ({"cost/myCost": "NaN"}, "cost/myCost"),
        ({"cost/currencyCode": "euro"}, "cost/currencyCode"),
        ({"lineItem/intervalUsageEnd": "13.10.2026"}, "lineItem/intervalUsageEnd"),
        ({"lineItem/intervalUsageEnd": "2026-10-13T09:00Z"}, "lineItem/intervalUsageEnd"),
        ({"lineItem/tenantId": ""}, "lineItem/tenantId"),
    ],
)
def test_a_bad_cell_costs_its_row_and_is_named(
    tmp_path: Path, change: dict[str, str], column: str
) -> None:
    got = oci(tmp_path / "a.csv", change, {})
    assert ([one.column for one in got.rejections], len(got.charges)) == ([column], 1)
    assert got.rejections[0].line == 2


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(as_csv([ROW]).replace("cost/subscriptionId", "cost/myCost"))
    with pytest.raises(Refused, match="cost/myCost stands more than once"):
        read(path)
