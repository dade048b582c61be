"""Cases from public threads where people got a wrong cost: ours is the right value (§3)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from finops.core.period import month_of
from finops.ledger.models import Charge
from finops.ledger.operations.invoices import set_invoice_amount
from finops.ledger.queries.invoices import invoice_tie_out
from finops.ledger.queries.money_exceptions import money_exceptions
from finops.ledger.queries.money_totals import money_total
from finops.ledger.queries.snapshots import with_verdict
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import ROW, focus_file, hours
from tests.ledger.test_formats import coreweave
from tests.ledger.test_invoice_details import DETAIL, table
from tests.sources.reading import as_csv
from tests.sources.test_aws_cur import ROW as AWS
from tests.sources.test_azure_cost import export

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
OCTOBER = month_of("2026-10")
PLAN = {"CommitmentDiscountId": "plan-1"}


def kinds(month: str = "2026-10") -> set[str]:
    return {one.kind for one in money_exceptions(month_of(month))}


def both(month: str = "2026-10") -> tuple[Decimal | None, Decimal | None]:
    money = money_total(month_of(month))
    return money.billed("USD"), money.effective("USD")


def test_1_a_purchase_that_covers_use_has_no_effective_cost(tmp_path: Path) -> None:
    purchase = PLAN | {"ChargeCategory": "Purchase", "BilledCost": "100", "EffectiveCost": "100"}
    used = PLAN | {"CommitmentDiscountStatus": "Used", "BilledCost": "0", "EffectiveCost": "60"}
    ingested(focus_file(tmp_path / "wrong.csv", purchase, used))
    (found,) = [
        one for one in money_exceptions(OCTOBER) if one.kind == "purchase-with-effective-cost"
    ]
    assert found.amount == 100
    ingested(focus_file(tmp_path / "right.csv", purchase | {"EffectiveCost": "0"}, used))
    assert "purchase-with-effective-cost" not in kinds()
    assert both() == (100, 60)


def test_2_an_unused_part_costs_what_was_not_used_and_uses_nothing(tmp_path: Path) -> None:
    unused = {"ChargeType": "UnusedSavingsPlan", "Cost": "12.5", "Quantity": "0"}
    (document,) = ingested(export(tmp_path, unused))
    charge = Charge.objects.get()
    assert (charge.effective_cost, charge.consumed_quantity) == (Decimal("12.5"), None)
    assert (charge.commitment_status, document["version"]) == ("Unused", "amortised")


def test_3_committed_use_is_priced_as_committed(tmp_path: Path) -> None:
    ingested(export(tmp_path, {"PricingModel": "SavingsPlan", "Cost": "3"}))
    assert Charge.objects.get().pricing_category == "Committed"


def test_6_a_one_time_export_and_a_daily_one_count_each_day_once(tmp_path: Path) -> None:
    first = hours("2026-10-01T00", "2026-10-10T00", BilledCost="9", EffectiveCost="9")
    rest = hours("2026-10-10T00", "2026-10-21T00", BilledCost="11", EffectiveCost="11")
    ingested(focus_file(tmp_path / "once.csv", first))
    ingested(focus_file(tmp_path / "to-date.csv", first, rest))
    assert both() == (20, 20)


def test_7_a_month_loaded_twice_is_the_month(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {"BilledCost": "5"}))
    ingested(focus_file(tmp_path / "b.csv", {"BilledCost": "5", "ChargeDescription": "renamed"}))
    assert both()[0] == 5
    assert list(with_verdict().values_list("verdict", flat=True)) == ["superseded", "current"]


def test_9_gpus_are_told_whatever_the_category_of_the_service(tmp_path: Path) -> None:
    gpu = {"ChargeDescription": "$55.04 per On Demand Linux p5.48xlarge Instance Hour"}
    odd = gpu | {"ServiceCategory": "Management and Governance", "ResourceId": "i-2"}
    (document,) = ingested(focus_file(tmp_path / "a.csv", gpu, odd))
    assert document["gpu_totals"]["USD"]["billed"] == "2.00"


def test_12_a_detail_that_is_no_number_does_not_lose_the_money(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    details = '{"GpuCount": "eight"}'
    path.write_text(as_csv([ROW | {"SkuPriceDetails": details, "PricingQuantity": "n/a"}]))
    (document,) = ingested(path)
    assert (document["charges"], document["totals"]["USD"]["billed"]) == (1, "1.00")
    assert len(document["warnings"]) == 2


def test_12b_columns_come_go_and_change_their_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    cells = {name: cell for name, cell in ROW.items() if name != "InvoiceId"}
    path.write_text(as_csv([cells | {"SkuMeterName": "H100 GPU hours", "x_InvoiceId": "INV-9"}]))
    (document,) = ingested(path)
    charge = Charge.objects.get()
    assert (charge.invoice, charge.gpu_model) == ("INV-9", "H100")
    assert "ListUnitPrice" not in document["missing_columns"]


def test_23_a_plan_given_back_leaves_no_negative_cost(tmp_path: Path) -> None:
    path = tmp_path / "cur.csv"
    refund = {"lineItem/LineItemType": "Refund", "lineItem/ProductCode": "ComputeSavingsPlans"}
    path.write_text(as_csv([AWS | refund | {"lineItem/UnblendedCost": "-87.60"}]))
    ingested(path)
    assert both() == (Decimal("-87.60"), 0)


def test_31_730_dollars_over_730_hours_are_one_an_hour(tmp_path: Path) -> None:
    span = hours("2026-10-01T00", "2026-10-31T10", BilledCost="730", EffectiveCost="730")
    ingested(focus_file(tmp_path / "a.csv", span))
    hour = command("totals", "--from", "2026-10-07T05:00:00Z", "--to", "2026-10-07T06:00:00Z")
    assert Decimal(hour["money"]["USD"]["effective"]) == 1


def test_36_an_upfront_fee_for_capacity_is_billed_once_and_used_by_the_hour(tmp_path: Path) -> None:
    block = {"CapacityReservationId": "cr-1"} | PLAN
    fee = block | {"ChargeCategory": "Purchase", "BilledCost": "240", "EffectiveCost": "0"}
    used = [
        hours(f"2026-10-05T{at:02d}", f"2026-10-05T{at + 1:02d}", BilledCost="0")
        | block
        | {"EffectiveCost": "10.00", "CommitmentDiscountStatus": "Used"}
        for at in range(23)
    ]
    last = hours("2026-10-05T23", "2026-10-06T00", BilledCost="0") | block
    last |= {"EffectiveCost": "10.00", "CommitmentDiscountStatus": "Used"}
    path = tmp_path / "a.csv"
    path.write_text(
        as_csv([ROW | {"CapacityReservationId": ""} | row for row in (fee, *used, last)])
    )
    ingested(path)
    assert both() == (240, 240)


def test_38_what_the_bill_rounds_off_is_shown_and_judged(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {"BilledCost": "319.80246"}))
    at = OCTOBER.end
    set_invoice_amount(
        issuer="Cloud Ltd", invoice="INV-1", billing_period="2026-10", amount="319.38",
        currency="USD", by="Ada", at=at,
    )  # fmt: skip
    (row,) = invoice_tie_out("2026-10")
    assert (row.difference, row.tolerance, row.within) == (Decimal("-0.42246"), 1, True)


def test_47_both_styles_of_correction(tmp_path: Path) -> None:
    wrong = hours("2026-09-05T10", "2026-09-05T11", BilledCost="8", EffectiveCost="8")
    september = {
        "BillingPeriodStart": "2026-09-01T00:00:00Z",
        "BillingPeriodEnd": "2026-10-01T00:00:00Z",
    }
    ingested(focus_file(tmp_path / "september.csv", wrong | september | {"InvoiceId": "INV-9"}))
    delta = wrong | {"ChargeClass": "Correction", "BilledCost": "-3", "EffectiveCost": "-3"}
    ingested(focus_file(tmp_path / "october.csv", {"BilledCost": "4"}, delta))
    assert both("2026-09")[0] == 5  # as incurred: old charge period
    assert money_total(month_of("2026-09"), "invoiced").billed("USD") == 8
    assert money_total(OCTOBER, "invoiced").billed("USD") == 1
    overwritten = (
        wrong | september | {"InvoiceId": "INV-9", "BilledCost": "6", "EffectiveCost": "6"}
    )
    ingested(focus_file(tmp_path / "september again.csv", overwritten))
    assert money_total(month_of("2026-09"), "invoiced").billed("USD") == 6


def test_50_purchase_and_use_in_two_files_keep_their_sums(tmp_path: Path) -> None:
    purchase = PLAN | {"ChargeCategory": "Purchase", "BilledCost": "60", "EffectiveCost": "0"}
    used = PLAN | {"CommitmentDiscountStatus": "Used", "BilledCost": "0", "EffectiveCost": "45"}
    unused = PLAN | {"CommitmentDiscountStatus": "Unused", "BilledCost": "0", "EffectiveCost": "15"}
    other = {"InvoiceIssuerName": "Reseller", "BillingAccountId": "reseller-1"}
    ingested(focus_file(tmp_path / "a.csv", purchase | other))
    ingested(focus_file(tmp_path / "b.csv", used, unused | {"ResourceId": "i-2"}))
    assert both() == (60, 60)


def test_an_account_in_two_formats_is_told(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "focus.csv", {}))
    path = tmp_path / "cur.csv"
    path.write_text(as_csv([AWS]))
    ingested(path)
    assert "two-exports" in kinds()


def test_a_report_of_an_account_replaces_the_one_with_another_entity(tmp_path: Path) -> None:
    for number, entity in enumerate(("", "Amazon Web Services EMEA SARL")):
        path = tmp_path / f"{number}.csv"
        path.write_text(as_csv([AWS | {"bill/InvoicingEntity": entity}]))
        ingested(path)
    assert both() == (Decimal("55.04"), Decimal("55.04"))
    assert list(with_verdict().order_by("pk").values_list("verdict", flat=True)) == [
        "superseded",
        "current",
    ]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ({"ContractedUnitPrice": "2", "PricingQuantity": "3", "ContractedCost": "1"}, "price-times-quantity"),
        ({"EffectiveCost": "2"}, "effective-differs-from-billed"),
    ],
)  # fmt: skip
def test_implausible_lines_are_told(tmp_path: Path, cells: dict[str, str], kind: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(as_csv([ROW | cells]))
    ingested(path)
    assert kind in kinds()


def test_lines_alike_in_everything_are_told_and_all_counted(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {}, {}, {}))
    (found,) = [one for one in money_exceptions(OCTOBER) if one.kind == "duplicated-lines"]
    assert found.amount == 2
    assert both() == (3, 3)


def test_amounts_of_no_currency_are_told(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {"BillingCurrency": "XXX"}, {"ResourceId": "i-2"}))
    (found,) = [one for one in money_exceptions(OCTOBER) if one.kind == "currency-unknown"]
    assert (found.subject, found.amount, found.currency) == ("Cloud Ltd", 1, "XXX")
    ingested(focus_file(tmp_path / "b.csv", {}, {"ResourceId": "i-2"}))
    assert "currency-unknown" not in kinds()


def test_usage_that_nobody_prices_has_no_amounts_to_be_of_a_currency(tmp_path: Path) -> None:
    ingested(coreweave(tmp_path / "usage.csv", "8"))
    assert "usage-without-price" in kinds()
    assert "currency-unknown" not in kinds()


def test_rejected_rows_of_a_file_that_was_replaced_are_no_exception(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {}, {"BilledCost": "NaN"}))
    assert "rejected-rows" in kinds()
    ingested(focus_file(tmp_path / "b.csv", {}, {"BilledCost": "5", "ResourceId": "i-2"}))
    assert "rejected-rows" not in kinds()


def test_a_typed_amount_beside_another_of_the_issuers_details_is_told(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {"BilledCost": "20", "EffectiveCost": "20"}))
    ingested(table(tmp_path / "details.csv", DETAIL | {"BilledCost": "20"}))

    def typed(amount: str) -> list[str]:
        set_invoice_amount(
            issuer="Cloud Ltd", invoice="INV-1", billing_period="2026-10", amount=amount,
            currency="USD", by="Ada", at=OCTOBER.end,
        )  # fmt: skip
        return [one.text for one in money_exceptions(OCTOBER) if one.kind == kind]

    kind = "issued-amounts-differ"
    assert typed("20.00") == []
    (text,) = typed("25")
    assert "Ada typed in 25 USD, the issuer's invoice details say 20" in text
    assert "What came last counts: 25." in text
