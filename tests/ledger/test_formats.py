"""Every published file through the door, and formats that need the ledger: exact totals (§3)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from finops.core.period import month_of
from finops.ledger.models import Charge, Document, FxRate, Reread
from finops.ledger.operations import reach, summing_again
from finops.ledger.queries.exchange_rates import rates_on
from finops.ledger.queries.invoices import invoice_tie_out
from finops.ledger.queries.money_exceptions import money_exceptions
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours
from tests.paths import SAMPLES

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
INVOICES = SAMPLES / "invoices"
published = pytest.mark.skipif(not INVOICES.exists(), reason="third-party samples are not here")
NISE = "generated-with-nise/"

# file, format, charges, rejected, currency, billed, effective; totals of facts section 4, or
# summed by hand with Python decimals from the column that is billed.
FILES = [
    ("aws_cur-legacy_anonymised_first699rows.csv", "aws-cur", 699, 0, "USD", "0.64122057430", "0.64122057430"),
    (NISE + "aws_cur-legacy_p5-savingsplan-covered-and-negation_g5_marketplace.csv", "aws-cur", 168, 0, "USD", "296.256", "2127.936"),
    ("azure_ea-export_anonymised.csv", "azure-cost", 27, 0, "CAD", "1.26136926505726", "1.26136926505726"),
    ("azure_ea_actualcost_small_finops-toolkit.csv", "azure-cost", 11, 0, "USD", "8.5450077867419368", "5.2950077867419368"),
    ("azure_ea_amortizedcost_small_finops-toolkit.csv", "azure-cost", 28, 0, "USD", None, "16.2969321366366446274854190000"),
    ("azure_header-variant_Enterprise_opencost.csv", "azure-cost", 1, 0, "CAD", "0", None),
    ("azure_header-variant_German_opencost.csv", "azure-cost", 1, 0, "USD", "0.075", "0.075"),
    ("azure_values_MissingBrackets_opencost.csv", "azure-cost", 1, 0, "XXX", "4", "4"),
    ("azure_values_Template_opencost.csv", "azure-cost", 87, 0, "XXX", "16.393506212224391", "16.393506212224391"),
    (NISE + "azure_nc24ads-a100.csv", "azure-cost", 3, 0, "USD", "5.8258572841956288", "5.8258572841956288"),
    (NISE + "gcp_detailed_a2-highgpu_file202610_contains-invoice-month-202611.csv", "gcp-billing", 48, 0, "USD", "113.28", "113.28"),
    (NISE + "gcp_detailed_a2-highgpu_file202611_contains-invoice-month-202610.csv", "gcp-billing", 24, 0, "USD", "56.64", "56.64"),
    ("focus-1.0_anonymised_aws-azure-oci_1000rows.csv", "focus", 1000, 0, "USD", "20.52022672899", "14.97651418586"),
]  # fmt: skip


def money(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


@published
@pytest.mark.parametrize(
    ("name", "format", "charges", "rejected", "currency", "billed", "effective"), FILES
)
def test_every_published_file_to_the_last_digit(
    name: str,
    format: str,
    charges: int,
    rejected: int,
    currency: str,
    billed: str | None,
    effective: str | None,
) -> None:
    (document,) = ingested(INVOICES / name)
    assert (document["format"], document["status"]) == (format, "posted")
    assert (document["charges"], document["rows_rejected"]) == (charges, rejected)
    totals = document["totals"][currency]
    assert (money(totals["billed"]), money(totals["effective"])) == (
        money(billed),
        money(effective),
    )
    assert command("check-ledger")["ok"] is True


@published
def test_files_without_a_charge_say_what_they_are() -> None:
    (empty,) = ingested(INVOICES / "azure_ea_header-only_finops-toolkit.csv")
    assert (empty["status"], empty["rows_read"], empty["charges"]) == ("posted", 0, 0)
    (blank,) = ingested(INVOICES / "azure_header-variant_BOM_opencost.csv")
    assert (blank["charges"], blank["rows_rejected"]) == (0, 1)
    assert blank["rejections"][0]["column"] == "PreTaxCost"
    for name in ("azure_focus-1.2-preview_metadata.json", "azure_focus-1.2_schema-mapping.json"):
        (other,) = ingested(INVOICES / name)
        assert other["status"] == "rejected"


@published
def test_the_months_of_googles_files_stand_apart_and_count_together() -> None:
    files = sorted((INVOICES / NISE).glob("gcp_detailed*.csv"))
    documents = ingested(*files)
    assert [one["status"] for one in documents] == ["posted", "posted"]
    by_month = {row.billing_period: row.billed for row in invoice_tie_out(month_of("2026-10"))}
    assert by_month == {"2026-10": Decimal("113.28")}  # 24 rows of each file, 2.36 each
    (november,) = invoice_tie_out("2026-11")
    assert november.billed == Decimal("56.64")


def azure(folder: Path, name: str, *rows: dict[str, str]) -> Path:
    from tests.sources.test_azure_cost import export

    return export(folder, *rows, name=name)


PURCHASE = {
    "PricingModel": "Reservation",
    "benefitId": "/reservations/r1",
    "ChargeType": "Purchase",
    "Cost": "3000",
}
COVERED = {"PricingModel": "Reservation", "benefitId": "/reservations/r1"}


def totals(month: str = "2026-09") -> dict[str, Any]:
    period = month_of(month)
    answer = command("totals", "--from", period.start.isoformat(), "--to", period.end.isoformat())
    return answer["money"] or {}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("together", [True, False])
def test_two_views_of_the_same_money_are_paired_and_never_added(
    tmp_path: Path, order: tuple[int, int], together: bool
) -> None:
    actual = azure(tmp_path, "actual.csv", {"Cost": "10"}, PURCHASE, COVERED | {"Cost": "0"})
    amortised = azure(tmp_path, "amortised.csv", {"Cost": "10"}, COVERED | {"Cost": "41.5"})
    paths = [(actual, amortised)[at] for at in order]
    if together:
        ingested(*paths)
    else:
        for path in paths:
            (document,) = ingested(path)
            assert document["status"] == "posted"
    found = totals()["USD"]
    assert (money(found["billed"]), money(found["effective"])) == (Decimal(3010), Decimal("51.5"))
    assert command("check-ledger")["ok"] is True
    kinds = {one.kind for one in money_exceptions(month_of("2026-09"))}
    assert "one-view-only" not in kinds


@pytest.mark.parametrize("lines_above", [0, 100_000])
def test_two_views_read_again_are_paired_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, lines_above: int
) -> None:
    settings.SUM_LINES_ABOVE = lines_above
    actual = azure(tmp_path, "actual.csv", {"Cost": "10"}, PURCHASE, COVERED | {"Cost": "0"})
    amortised = azure(tmp_path, "amortised.csv", {"Cost": "10"}, COVERED | {"Cost": "41.5"})
    ingested(actual, amortised)
    before = totals()
    for module in (reach, summing_again):
        monkeypatch.setattr(module, "catalogue_digest", lambda: "0" * 64)
    ingested(actual)
    assert Reread.objects.count() == 2
    assert totals() == before
    assert money(before["USD"]["effective"]) == Decimal("51.5")


def test_a_newer_actual_export_keeps_its_amortised_side(tmp_path: Path) -> None:
    ingested(azure(tmp_path, "a1.csv", {"Cost": "10"}, PURCHASE))
    ingested(azure(tmp_path, "m1.csv", {"Cost": "10"}, COVERED | {"Cost": "41.5"}))
    ingested(azure(tmp_path, "a2.csv", {"Cost": "12"}, PURCHASE))
    found = totals()["USD"]
    assert (money(found["billed"]), money(found["effective"])) == (Decimal(3012), Decimal("51.5"))
    assert command("check-ledger")["ok"] is True


def test_one_view_alone_says_what_is_unknown(tmp_path: Path) -> None:
    ingested(azure(tmp_path, "actual.csv", {"Cost": "10"}, PURCHASE, COVERED | {"Cost": "0"}))
    found = {one.kind: one for one in money_exceptions(month_of("2026-09"))}
    assert "effective cost of 2 charges" in found["one-view-only"].text


def test_the_same_money_twice_in_one_delivery_is_refused_the_second_time(tmp_path: Path) -> None:
    # No commitment tells an actual export from an amortised one whose rows are sorted otherwise.
    azure(tmp_path, "a.csv", {"Cost": "10"}, {"Cost": "11"})
    azure(tmp_path, "b.csv", {"Cost": "11"}, {"Cost": "10"})
    statuses = {one["path"][-5:]: one["status"] for one in ingested(tmp_path)}
    assert statuses == {"a.csv": "posted", "b.csv": "rejected"}
    assert money(totals()["USD"]["billed"]) == 21


def test_an_unreadable_file_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    good = azure(tmp_path, "good.csv", {"Cost": "10"}, PURCHASE)
    bad = azure(tmp_path, "bad.csv", {"Cost": "10"}, PURCHASE, {"Cost": "11"})
    bad.write_bytes(bad.read_bytes() + b"\x00\n")
    statuses = {Path(one["path"]).name: one["status"] for one in ingested(good, bad)}
    assert statuses == {"good.csv": "posted", "bad.csv": "rejected"}
    assert money(totals()["USD"]["billed"]) == 3010


def test_repeated_downloads_replace_the_month(tmp_path: Path) -> None:
    # Thread 24: ten downloads made ten times the cost.
    for number in range(4):
        path = azure(tmp_path, f"{number}.csv", {"Cost": "155.882472574", "Product": str(number)})
        ingested(path)
    assert money(totals()["USD"]["billed"]) == Decimal("155.882472574")


CARD: dict[str, Any] = {
    "rate_card": "coreweave 2026",
    "currency": "USD",
    "valid_from": "2026-01-01",
    "valid_to": None,
    "rates": [
        {
            "match": {"gpu_model": "H100", "provider": "CoreWeave", "sku": None},
            "unit": "GPU-Hour",
            "price": "2.39",
        }
    ],
}
OWNED = {
    "name": "rack-7",
    "gpu_model": "H100",
    "gpus": 8,
    "capex": "250000",
    "life_months": 48,
    "power_kw": "10.2",
    "pue": "1.3",
    "tariff_per_kwh": "0.14",
    "in_service": "2026-02-01",
}


def card_file(path: Path, card: dict[str, Any]) -> Path:
    path.write_text(json.dumps(card))
    return path


def coreweave(path: Path, *quantities: str) -> Path:
    rows = [
        hours(
            "2026-10-05T10",
            "2026-10-05T11",
            InvoiceIssuerName="CoreWeave",
            ProviderName="CoreWeave",
            ResourceId=f"n{at}",
        )
        for at, _ in enumerate(quantities)
    ]
    from tests.ledger.focus_files import ROW
    from tests.sources.reading import as_csv

    costs = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
    more = [
        {name: cell for name, cell in (ROW | row).items() if name not in costs}
        | {"SkuId": "gpu-h100-sxm", "ConsumedQuantity": q, "ConsumedUnit": "GPU-Hours"}
        | {"ChargeDescription": "", "InvoiceId": "", "BillingAccountName": ""}
        for row, q in zip(rows, quantities, strict=True)
    ]
    path.write_text(as_csv(more))
    return path


def test_usage_without_price_is_unknown_until_a_card_prices_it(tmp_path: Path) -> None:
    (usage,) = ingested(coreweave(tmp_path / "usage.csv", "8", "4"))
    assert usage["format"] == "coreweave-focus"
    assert usage["totals"]["USD"] == dict.fromkeys(["billed", "effective", "list", "contracted"])
    october = month_of("2026-10")
    assert "usage-without-price" in {one.kind for one in money_exceptions(october)}
    (card,) = ingested(card_file(tmp_path / "card.json", CARD))
    assert (card["format"], card["status"]) == ("rate-card", "posted")
    found = totals("2026-10")["USD"]
    assert found["billed"] is None
    assert money(found["effective"]) == Decimal("28.68")  # 12 GPU-hours × 2.39
    notices = {one.kind: one for one in money_exceptions(october)}
    assert "not invoiced" in notices["priced-by-rate-card"].text
    assert "usage-without-price" not in notices
    assert command("check-ledger")["ok"] is True
    newer = CARD | {"rates": [CARD["rates"][0] | {"price": "2.00"}]}
    ingested(card_file(tmp_path / "card2.json", newer))
    assert money(totals("2026-10")["USD"]["effective"]) == 24
    cards = set(Charge.objects.values_list("rate_card", flat=True))
    assert cards == {None, "coreweave 2026 v1", "coreweave 2026 v2"}


@pytest.mark.parametrize("column", ["BilledCost", "EffectiveCost"])
def test_costs_that_a_file_tells_are_not_left_out(tmp_path: Path, column: str) -> None:
    costs = {"BilledCost": "", "EffectiveCost": "", "ListCost": "20", "ContractedCost": ""}
    path = focus_file(tmp_path / "bill.csv", costs, costs | {column: "0.00"})
    refused = command("ingest", path, "--by", "Ada", "--as", "coreweave-focus")
    (document,) = refused["documents"]
    assert (document["status"], refused["ok"]) == ("rejected", False)
    (rejection,) = document["rejections"]
    assert (rejection["line"], rejection["column"], rejection["value"]) == (3, column, "0.00")
    assert "bill.csv: line 3" in rejection["reason"] and "--as focus" in rejection["reason"]
    assert not Document.objects.exists() and not Charge.objects.exists()
    (plain,) = ingested(path)
    assert (plain["status"], plain["format"], plain["rows_read"]) == ("posted", "focus", 2)


def test_columns_of_cost_that_are_empty_tell_none(tmp_path: Path) -> None:
    costs = {"BilledCost": "", "EffectiveCost": "null", "ListCost": "20", "ContractedCost": ""}
    path = focus_file(tmp_path / "usage.csv", costs)
    (usage,) = command("ingest", path, "--by", "Ada", "--as", "coreweave-focus")["documents"]
    assert usage["status"] == "posted"
    unknown = dict.fromkeys(["billed", "effective", "contracted"])
    assert usage["totals"]["USD"] == unknown | {"list": "20"}


def test_a_card_in_the_same_delivery_prices_at_once(tmp_path: Path) -> None:
    coreweave(tmp_path / "usage.csv", "8")
    card_file(tmp_path / "card.json", CARD)
    documents = {one["format"]: one for one in ingested(tmp_path)}
    assert documents["coreweave-focus"]["priced_totals"]["USD"]["effective"] == "19.12"
    assert Document.objects.count() == 2
    assert command("check-ledger")["ok"] is True


def test_own_hardware_costs_its_write_off_and_its_power(tmp_path: Path) -> None:
    card = CARD | {"rates": [], "owned": [OWNED], "rate_card": "own"}
    ingested(card_file(tmp_path / "own.json", card))
    march = totals("2026-03")["USD"]
    # 250000 over the 1461 days from 2026-02-01 to 2030-02-01, 31 of them in March, and
    # 10.2 kW × 1.3 × 0.14 × 744 h.
    power = Decimal("10.2") * Decimal("1.3") * Decimal("0.14") * 744
    assert march["billed"] is None
    assert abs(Decimal(march["effective"]) - (Decimal(250000) * 31 / 1461 + power)) < Decimal(
        "0.001"
    )
    before = Charge.objects.count()
    ingested(card_file(tmp_path / "same.json", card | {"note": "again"}))  # a version more
    assert totals("2026-03")["USD"] == march
    assert Charge.objects.count() == 2 * before
    assert command("check-ledger")["ok"] is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"currency": "dollars"}, "currency"),
        ({"rates": [], "owned": []}, "neither rates nor owned"),
        ({"rates": [CARD["rates"][0] | {"price": "-1"}]}, "rates[0]: price '-1' is negative"),
        ({"rates": [CARD["rates"][0] | {"price": "NaN"}]}, "rates[0]: price 'NaN'"),
        ({"owned": [OWNED | {"life_months": "0"}]}, "owned[0]: life_months 0"),
        ({"valid_to": "2025-01-01"}, "valid_to"),
    ],
)
def test_a_card_that_cannot_be_used_is_named(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    (document,) = ingested(card_file(tmp_path / "card.json", CARD | change))
    assert document["status"] == "rejected"
    assert said in document["rejections"][0]["reason"]


ECB_XML = """<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
<Cube><Cube time="2026-11-27"><Cube currency="USD" rate="1.0834"/><Cube currency="JPY" rate="162.51"/></Cube>
<Cube time="2026-11-26"><Cube currency="USD" rate="1.0800"/></Cube></Cube></gesmes:Envelope>
"""


def test_exchange_rates_of_the_central_bank(tmp_path: Path) -> None:
    path = tmp_path / "eurofxref-hist.csv"
    path.write_text(
        "Date,USD,JPY,CYP,\n2026-11-27,1.0834,162.51,N/A,\n2026-11-26,1.0800,161,N/A,\n"
    )
    (document,) = ingested(path)
    assert (document["format"], document["rows_read"], document["rows_rejected"]) == (
        "fx-ecb",
        4,
        0,
    )
    xml = tmp_path / "eurofxref-hist-90d.xml"
    xml.write_text(ECB_XML)
    assert ingested(xml)[0]["status"] == "posted"
    assert FxRate.objects.count() == 7
    sunday = {one.currency: one.rate for one in rates_on(month_of("2026-11").end.date())}
    assert sunday == {"JPY": Decimal("162.51"), "USD": Decimal("1.0834")}
    answer = command("exchange-rates", "--on", "2026-11-26")["rates"]
    assert {one["currency"]: one["rate"] for one in answer} == {"JPY": "161", "USD": "1.0800"}


def test_the_catalogue_names_its_sources() -> None:
    shapes = command("catalogue")["shapes"]
    known = {one["instance_type"]: one for one in shapes}
    assert (known["p5.48xlarge"]["gpu_model"], known["p5.48xlarge"]["gpu_count"]) == ("H100", "8")
    assert all(one["source"] and one["as_of"] for one in shapes)
