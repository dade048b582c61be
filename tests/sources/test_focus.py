"""FOCUS Cost and Usage: published totals, five generations of headers, and rows that go wrong."""

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from finops.sources.records import Refused
from finops.sources.registry import detect
from tests.sources.reading import as_csv, read, sample

SPEC = "invoices/focus-spec-1.2-examples"

GOOD = {
    "InvoiceIssuerName": "AWS",
    "ProviderName": "AWS",
    "BillingAccountId": "012345678901",
    "BillingPeriodStart": "2026-05-01T00:00:00Z",
    "BillingPeriodEnd": "2026-06-01T00:00:00Z",
    "ChargePeriodStart": "2026-05-02T10:00:00Z",
    "ChargePeriodEnd": "2026-05-02T11:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeDescription": "$55.04 per On Demand Linux p5.48xlarge Instance Hour",
    "ChargeFrequency": "Usage-Based",
    "BillingCurrency": "USD",
    "BilledCost": "55.04",
    "EffectiveCost": "55.04",
    "ListCost": "98.32",
    "ContractedCost": "NULL",
    "PricingQuantity": "1",
    "Tags": '{"team": "search"}',
    "InvoiceId": "0042",
}


def write(tmp_path: Path, *rows: dict[str, str], name: str = "focus.csv") -> Path:
    path = tmp_path / name
    path.write_text(as_csv(rows), encoding="utf-8")
    return path


def changed(**cells: str) -> dict[str, str]:
    return GOOD | cells


def without(*columns: str) -> dict[str, str]:
    return {column: cell for column, cell in GOOD.items() if column not in columns}


# Published totals ---------------------------------------------------------------------------


def test_the_public_sample_adds_up_to_its_known_totals() -> None:
    got = read(sample("invoices/focus-1.0_anonymised_aws-azure-oci_1000rows.csv"))

    assert (got.account.rows_read, len(got.charges), got.rejections) == (1000, 1000, [])
    assert got.account.version == "1.0"
    assert got.account.unknown_columns == ("Id",)
    assert got.account.missing_columns == ("InvoiceId",)
    assert got.total("billed_cost") == Decimal("20.52022672899")
    assert got.total("effective_cost") == Decimal("14.97651418586")
    assert got.total("list_cost") == Decimal("20.39090575119")
    assert got.total("contracted_cost") == Decimal("14.97626039326")
    assert Counter(one.category for one in got.charges) == {
        "Usage": 997,
        "Adjustment": 2,
        "Credit": 1,
    }
    assert Counter(one.frequency for one in got.charges) == {"Usage-Based": 999, "One-Time": 1}


def test_the_public_sample_by_provider() -> None:
    got = read(sample("invoices/focus-1.0_anonymised_aws-azure-oci_1000rows.csv"))

    billed: Counter[str | None] = Counter()
    for one in got.charges:
        billed[one.provider] += one.billed_cost  # type: ignore[assignment]
    assert billed == {
        "AWS": Decimal("18.00663861840"),
        "Microsoft": Decimal("1.97651418586"),
        "Oracle": Decimal("0.53707392473"),
    }


def test_the_gpu_rows_of_the_public_sample() -> None:
    got = read(sample("invoices/focus-1.0_anonymised_aws-azure-oci_1000rows.csv"))

    gpus = [one for one in got.charges if one.gpu_model == "A10G"]
    assert len(gpus) == 8
    assert {(one.instance_type, one.gpu_count) for one in gpus} == {("g5.4xlarge", Decimal(1))}
    assert sum(one.billed_cost for one in gpus) == Decimal("10.20368294400")
    assert sum(one.effective_cost for one in gpus) == Decimal("11.0")
    assert sum(one.pricing_quantity for one in gpus) == Decimal("6.283056")


def test_gpu_machines_outside_the_catalogue_go_to_the_review_list() -> None:
    got = read(sample("invoices/focus-1.0_anonymised_aws-azure-oci_1000rows.csv"))

    unsure = [one for one in got.charges if one.gpu_model == "unrecognised"]
    assert {one.instance_type for one in unsure} == {"g3.4xlarge"}


# Billed and effective as the specification works them out (FOCUS 1.2, specification/data).
WORKED = {
    "commitment_discount_purchase_scenario_1": ("8760.00", "0"),
    "commitment_discount_purchase_scenario_2": ("3.00", "0"),
    "commitment_discount_purchase_scenario_3": ("4381.50", "0"),
    "commitment_discount_usage_scenario_1": ("0", "1.00"),
    "commitment_discount_usage_scenario_2": ("0", "1.00"),
    "commitment_discount_usage_scenario_3": ("0", "1.00"),
    "commitment_discount_usage_scenario_4": ("0.50", "1.50"),
    "one_hundred_percent_utilization_with_commitment_discount_flexibility_with_1_resource": (
        "2.75",
        "2.75",
    ),
    "one_hundred_percent_utilization_with_commitment_discount_flexibility_with_2_resources": (
        "2.00",
        "2.00",
    ),
    "one_hundred_percent_utilization_without_commitment_discount_flexibility": ("1.50", "1.50"),
    "zero_percent_utilization_without_commitment_discount_flexibility": ("3.50", "3.50"),
    "saas_spend_agreements_a1": ("1200", "1200"),
    "saas_spend_agreements_a2": ("1200", "1200"),
    "saas_spend_agreements_b1": ("1200", "1200"),
    "saas_spend_agreements_b2": ("1200", "1200"),
    "virtual_currency_pricing_model_a1": ("200000", "0"),
    "virtual_currency_pricing_model_a2": ("0", "1230"),
    "virtual_currency_pricing_model_b1": ("100000", "0"),
    "virtual_currency_pricing_model_b2": ("0", "615"),
    "virtual_currency_pricing_model_b3": ("0", "495"),
    "virtual_currency_pricing_model_c": ("53000", "0"),
}


@pytest.mark.parametrize("example", WORKED)
def test_worked_examples_of_the_specification(example: str) -> None:
    """As published: eleven name neither account nor currency, two write hour 30 of a day."""
    got = read(sample(f"{SPEC}/{example}.csv"), "focus")

    billed, effective = WORKED[example]
    assert got.rejections == []
    assert got.total("billed_cost") == Decimal(billed)
    assert got.total("effective_cost") == Decimal(effective)


def test_hour_30_is_six_in_the_morning_of_the_next_day_and_said() -> None:
    got = read(sample(f"{SPEC}/commitment_discount_purchase_scenario_2.csv"))

    assert got.charges[2].charge_period_end == datetime(2023, 2, 2, 6, tzinfo=UTC)
    assert any("2023-02-01T30:00:00Z" in text for text in got.account.warnings)


def test_a_file_that_names_no_currency_has_none() -> None:
    """ISO 4217 `XXX`: never a guess, never added to an amount of a currency."""
    got = read(sample(f"{SPEC}/commitment_discount_purchase_scenario_2.csv"))

    assert {charge.currency for charge in got.charges} == {"XXX"}
    assert {"BillingAccountId", "BillingCurrency"} <= set(got.account.missing_columns)
    assert any("names no currency" in text for text in got.account.warnings)


@pytest.mark.parametrize(
    ("file", "version", "billed", "effective"),
    [
        (
            "focus-1.2_gcp_synthetic_cud-purchase-and-covered-usage_guymano",
            "1.2",
            "782.951280",
            "0.089378",
        ),
        ("focus-1.3_aws_synthetic_split-contract-tax_guymano", "1.3", "0.6503388", "0.6503388"),
        ("focus-1.5-draft_per_token_ai_model_api", "1.5", "94.50", "94.50"),
    ],
)
def test_newer_generations(file: str, version: str, billed: str, effective: str) -> None:
    got = read(sample(f"invoices/excerpts/{file}.csv"))

    assert (got.account.version, got.rejections) == (version, [])
    assert got.total("billed_cost") == Decimal(billed)
    assert got.total("effective_cost") == Decimal(effective)


def test_invoice_details_are_not_taken_for_charges() -> None:
    path = sample("invoices/excerpts/focus-1.4_invoicedetail_random-synthetic_beau.csv")
    assert detect(path, path.name) == "focus-invoice-detail"
    with pytest.raises(Refused, match="not the columns of FOCUS Cost and Usage"):
        read(path, "focus")


# Headers ------------------------------------------------------------------------------------


def test_a_good_row_is_read_whole(tmp_path: Path) -> None:
    (charge,) = read(write(tmp_path, GOOD)).charges

    assert charge.line == 2
    assert charge.billing_account == "012345678901"
    assert charge.charge_period_start == datetime(2026, 5, 2, 10, tzinfo=UTC)
    assert charge.contracted_cost is None
    assert (charge.instance_type, charge.gpu_model, charge.gpu_count) == ("p5.48xlarge", "H100", 8)
    assert charge.tags == {"team": "search"}
    assert charge.invoice == "0042"


def test_version_1_4_has_no_provider_name(tmp_path: Path) -> None:
    row = without("ProviderName") | {"ServiceProviderName": "CoreWeave", "HostProviderName": "CW"}
    del row["InvoiceIssuerName"]
    got = read(write(tmp_path, row))

    assert got.account.version == "1.4"
    assert (got.charges[0].issuer, got.charges[0].provider) == ("CoreWeave", "CoreWeave")
    assert "ProviderName" not in got.account.missing_columns
    assert "InvoiceIssuerName" in got.account.missing_columns


def test_old_names_and_spellings_of_columns(tmp_path: Path) -> None:
    row = without("ProviderName", "InvoiceIssuerName", "BilledCost") | {
        "Provider": "Oracle",
        "InvoiceIssuer": "Oracle Ireland",
        "Region": "eu-frankfurt-1",
        "UsageQuantity": "8",
        " billedcost ": "1.5",
    }
    (charge,) = read(write(tmp_path, row)).charges

    assert (charge.provider, charge.issuer, charge.region) == (
        "Oracle",
        "Oracle Ireland",
        "eu-frankfurt-1",
    )
    assert (charge.consumed_quantity, charge.billed_cost) == (8, Decimal("1.5"))


def test_no_issuer_at_all_is_said(tmp_path: Path) -> None:
    got = read(write(tmp_path, without("ProviderName", "InvoiceIssuerName")))
    assert got.charges[0].issuer == "unknown issuer"


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text(as_csv([GOOD]).replace("ListCost", "BilledCost"))
    with pytest.raises(Refused, match="BilledCost stands more than once"):
        read(path)


def test_absent_cost_columns_are_unknown_not_zero(tmp_path: Path) -> None:
    got = read(write(tmp_path, without("EffectiveCost", "ListCost")))

    assert got.charges[0].effective_cost is None
    assert got.charges[0].list_cost is None
    assert {"EffectiveCost", "ListCost"} <= set(got.account.missing_columns)


# Rows that go wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("BilledCost", "1e400"),
        ("BilledCost", "NaN"),
        ("BilledCost", "Infinity"),
        ("BilledCost", "1,234.5"),
        ("BilledCost", "$5"),
        ("BilledCost", "１２"),
        ("BilledCost", "1_000"),
        ("BilledCost", "1E-61"),
        ("BilledCost", "9" * 61),
        ("BilledCost", ""),
        ("EffectiveCost", "NULL"),
        ("ListCost", "-"),
        ("ContractedCost", "n/a"),
        ("BillingCurrency", ""),
        ("BillingCurrency", "Dollars"),
        ("BillingAccountId", ""),
        ("ChargeCategory", "Use"),
        ("ChargeCategory", ""),
        ("ChargePeriodEnd", "2026-05-02T09:59:59Z"),
        ("ChargePeriodStart", "2026-02-30T00:00:00Z"),
        ("ChargePeriodStart", "20260502"),
        ("ChargePeriodStart", "0001-01-01T00:00:00Z"),
        ("ChargePeriodStart", "13/25/2026"),
        ("BillingPeriodStart", "NULL"),
    ],
)
def test_a_bad_cell_costs_its_row_and_is_named(tmp_path: Path, column: str, value: str) -> None:
    got = read(write(tmp_path, GOOD, changed(**{column: value}), GOOD))

    assert (got.account.rows_read, len(got.charges)) == (3, 2)
    (rejection,) = got.rejections
    assert (rejection.line, rejection.column, rejection.value) == (3, column, value)
    assert rejection.reason


def test_ragged_rows_are_rejected_by_line(tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    lines = as_csv([GOOD, GOOD, GOOD]).splitlines()
    path.write_text("\n".join([lines[0], lines[1], lines[2] + ",extra", "a,b"]))
    got = read(path)

    assert len(got.charges) == 1
    assert [one.line for one in got.rejections] == [3, 4]
    assert f"the header {len(GOOD)}" in got.rejections[0].reason


def test_a_line_is_where_the_row_starts(tmp_path: Path) -> None:
    rows = [changed(ChargeDescription="two\nlines"), changed(BilledCost="x"), GOOD]
    got = read(write(tmp_path, *rows))

    assert [one.line for one in got.charges] == [2, 5]
    assert [one.line for one in got.rejections] == [4]


def test_a_cell_without_money_does_not_lose_the_row(tmp_path: Path) -> None:
    got = read(write(tmp_path, changed(Tags="{broken", PricingQuantity="ten")))

    assert got.charges[0].billed_cost == Decimal("55.04")
    assert (got.charges[0].tags, got.charges[0].pricing_quantity) == ({}, None)
    assert any("Tags" in text and "line 2" in text for text in got.account.warnings)
    assert any("PricingQuantity" in text for text in got.account.warnings)


def test_warnings_are_capped_and_counted(tmp_path: Path) -> None:
    got = read(write(tmp_path, *[changed(Tags=f"{{{i}") for i in range(100)]))

    assert len(got.charges) == 100
    assert len(got.account.warnings) == 21
    assert got.account.warnings[-1] == "and 80 more such cells"


@pytest.mark.parametrize(
    ("cell", "tags"),
    [
        ('{"a": "1", "b": true, "c": null, "d": 4}', {"a": "1", "b": "true", "c": "", "d": "4"}),
        ('"env": "prod","org": "trey"', {"env": "prod", "org": "trey"}),
        ("{'a': 'it''s'}", {"a": "its"}),
        ('[{"key": "a", "value": "b"}]', {"a": "b"}),
        ('[{"Key": "a", "Value": "b"}, {"Key": "c", "Value": "d"}]', {"a": "b", "c": "d"}),
        ("{user:team=search, user:env=prod}", {"user:team": "search", "user:env": "prod"}),
        ("{}", {}),
        ("None", {}),
    ],
)
def test_tags_in_every_spelling(tmp_path: Path, cell: str, tags: dict[str, str]) -> None:
    got = read(write(tmp_path, changed(Tags=cell)))
    assert (got.charges[0].tags, got.account.warnings) == (tags, [])


@pytest.mark.parametrize(
    ("written", "hour"),
    [
        ("2026-05-02T10:00:00Z", 10),
        ("2026-05-02 10:00:00", 10),
        ("2026-05-02T10:00Z", 10),
        ("2026-05-02T12:00:00+02:00", 10),
        ("2026-05-02T10:00:00.000Z", 10),
        ("2026-05-02 10:00:00 UTC", 10),
        ("2026-05-02", 0),
    ],
)
def test_instants_in_every_spelling(tmp_path: Path, written: str, hour: int) -> None:
    (charge,) = read(write(tmp_path, changed(ChargePeriodStart=written))).charges
    assert charge.charge_period_start == datetime(2026, 5, 2, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    "amount", ["1.81E-8", "0.1234567890123456789012345678", "-2.61370", "5.64902E-05"]
)
def test_amounts_are_exact(tmp_path: Path, amount: str) -> None:
    (charge,) = read(write(tmp_path, changed(BilledCost=amount))).charges
    assert charge.billed_cost == Decimal(amount)


def test_a_gpu_count_of_the_file_goes_before_the_catalogue(tmp_path: Path) -> None:
    row = changed(SkuPriceDetails='{"InstanceType": "p5.48xlarge", "GpuCount": 2}')
    (charge,) = read(write(tmp_path, row)).charges
    assert (charge.gpu_model, charge.gpu_count) == ("H100", 2)


def test_gpus_of_a_machine_nobody_knows_are_not_lost(tmp_path: Path) -> None:
    row = changed(
        ChargeDescription="Node hour", SkuPriceDetails='{"InstanceType": "gd-x", "GpuCount": 8}'
    )
    (charge,) = read(write(tmp_path, row)).charges
    assert (charge.instance_type, charge.gpu_model, charge.gpu_count) == ("gd-x", "unrecognised", 8)
