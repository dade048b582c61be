"""Issued amounts against lines, provisional months, and what money's readers must know."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from finops.core.period import Period, month_of
from finops.core.tolerance import is_within, subunit, tolerance
from finops.ledger.models import Document
from finops.ledger.queries.invoices import InvoiceRow, invoice_tie_out, provisional_months
from finops.ledger.queries.money_exceptions import money_exceptions
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours
from tests.paths import SAMPLES

ledger = pytest.mark.django_db(databases=["default", "sample"])
OCTOBER = month_of("2026-10")
THOUSAND = SAMPLES / "invoices" / "focus-1.0_anonymised_aws-azure-oci_1000rows.csv"


# The worked cases of FOCUS's appendix on rounding variance.
@pytest.mark.parametrize(
    ("rows", "lines", "issued", "within"),
    [
        (5, "12.50", "12.52", True),
        (5, "10.00", "15.00", False),
        (1_000_000, "5000000.00", "5000004.50", True),
        (1_000_000, "5000000.00", "5000015.00", False),
    ],
)
def test_the_worked_cases_of_the_specification(
    rows: int, lines: str, issued: str, within: bool
) -> None:
    assert is_within(Decimal(issued) - Decimal(lines), rows, "USD") is within


def test_the_edge_of_the_tolerance_is_exact() -> None:
    assert tolerance(5, "USD") == Decimal("1.00")
    assert tolerance(1_000_000, "USD") == Decimal("5.00")
    assert is_within(Decimal("-5.00"), 1_000_000, "USD")
    assert not is_within(Decimal("5.00000000000000000001"), 1_000_000, "USD")
    assert (subunit("JPY"), subunit("KWD"), subunit("EUR")) == (
        1,
        Decimal("0.001"),
        Decimal("0.01"),
    )


def test_tax_lines_do_not_widen_the_tolerance() -> None:
    # 1,000,000 rows, of which 640,000 are tax: sqrt(360,000) x 0.5 x 0.01 = 3.00.
    assert tolerance(1_000_000, "USD", 640_000) == Decimal("3.00")
    assert is_within(Decimal("3.00"), 1_000_000, "USD", 640_000)
    assert not is_within(Decimal("3.01"), 1_000_000, "USD", 640_000)
    assert tolerance(2, "USD", 2) == 0
    assert is_within(Decimal(0), 2, "USD", 2) and not is_within(Decimal("0.01"), 2, "USD", 2)
    assert tolerance(0, "USD") == 1  # an invoice without a line in any file


@ledger
@pytest.mark.parametrize(("second", "within"), [("Usage", True), ("Tax", False)])
def test_an_invoice_of_tax_alone_must_agree_exactly(
    tmp_path: Path, second: str, within: bool
) -> None:
    rows = [{"ChargeCategory": "Tax"}, {"ChargeCategory": second, "ResourceId": "i-2"}]
    ingested(focus_file(tmp_path / "a.csv", *rows))
    command("invoice-amount", "Cloud Ltd", "INV-1", "2026-10", "2.40", "USD", "--by", "Ada")
    row = only(invoice_tie_out("2026-10"))
    assert (row.billed, row.difference, row.within) == (2, Decimal("0.40"), within)
    assert row.tolerance == (1 if within else 0)


@ledger
@pytest.mark.parametrize(
    ("description", "is_rounding"),
    [
        ("Rounding", True),
        ("rounding error of the invoice", True),
        ("Rounding adjustment: Virtual Machines", True),
        ("RoundingAdjustment", True),
        ("invoice_rounding_errors", True),
        ("Grounding with Google Search", False),
        ("Surrounding works", False),
    ],
)
def test_rounding_is_a_word_of_its_own(tmp_path: Path, description: str, is_rounding: bool) -> None:
    row = {"ChargeCategory": "Adjustment", "ChargeDescription": description}
    ingested(focus_file(tmp_path / "a.csv", row))
    (told,) = command("tieout", "--period", "2026-10")["invoice_details"]
    of_both = (told["rounding"], told["adjustments"])
    assert of_both == (("1.00", "0") if is_rounding else ("0", "1.00"))


@ledger
def test_the_command_tells_the_kinds_of_an_invoices_lines(tmp_path: Path) -> None:
    rows = [
        {"BilledCost": "10.00"},
        {"BilledCost": "1.90", "ChargeCategory": "Tax"},
        {"BilledCost": "-3.00", "ChargeCategory": "Credit"},
        {"BilledCost": "-0.50", "ChargeClass": "Correction"},
        {
            "BilledCost": "-0.0056",
            "ChargeCategory": "Adjustment",
            "ChargeDescription": "Rounding Adjustment",
        },
        {
            "BilledCost": "0.25",
            "ChargeCategory": "Adjustment",
            "ChargeDescription": "Grounding with Google Search",
        },
    ]
    ingested(focus_file(tmp_path / "a.csv", *rows))
    answer = command("invoice-amount", "Cloud Ltd", "INV-1", "2026-10", "8.64", "USD")
    (told,) = command("tieout", "--period", "2026-10")["invoice_details"]
    assert (
        told
        | {
            "usage": "10.00",
            "purchases": "0",
            "taxes": "1.90",
            "credits": "-3.00",
            "corrections": "-0.50",
            "rounding": "-0.0056",
            "adjustments": "0.25",
            "billed": "8.6444",
            "issued": "8.64",
            "difference": "-0.0044",
            "tolerance": "1.00",
            "lines": 6,
            "within": True,
        }
        == told
    )
    assert answer["ok"] is True


@ledger
def test_a_file_of_which_nothing_was_taken_stands_in_the_week_it_came(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {"BilledCost": "soon"}))
    came = Document.objects.get().received_at
    week = Period(came - timedelta(days=3), came + timedelta(days=4))
    weeks = (week, Period(week.start - timedelta(days=7), week.start))
    told = [[one.kind for one in money_exceptions(period)] for period in weeks]
    assert ["rejected-rows" in kinds for kinds in told] == [True, False]
    assert "rejected-rows" not in [one.kind for one in money_exceptions(OCTOBER)]


def only(rows: list[InvoiceRow]) -> InvoiceRow:
    (row,) = rows
    return row


@ledger
def test_the_difference_is_printed_and_judged(tmp_path: Path) -> None:
    line = {"BilledCost": "6.25", "EffectiveCost": "6.25"}
    ingested(focus_file(tmp_path / "a.csv", line, line | {"ResourceId": "i-2"}))
    row = only(invoice_tie_out("2026-10"))
    assert (row.billed, row.lines, row.issued, row.within) == (Decimal("12.50"), 2, None, None)
    assert not row.provisional
    fine = command("invoice-amount", "Cloud Ltd", "INV-1", "2026-10", "12.52", "USD", "--by", "Ada")
    assert fine["ok"] is True
    assert fine["invoice"][0]["difference"] == "0.02"
    wrong = command("invoice-amount", "Cloud Ltd", "INV-1", "2026-10", "15.00", "USD")
    assert wrong["ok"] is False
    assert command("tieout", "--period", "2026-10")["invoice"][0]["within"] is False
    (exception,) = money_exceptions(OCTOBER)
    assert (exception.kind, exception.amount) == ("invoice-differs", Decimal("2.50"))


@ledger
def test_invoices_currencies_and_issuers_stand_apart(tmp_path: Path) -> None:
    rows = [{}, {"BillingCurrency": "EUR"}, {"InvoiceId": "INV-2"}, {"InvoiceIssuerName": "Other"}]
    ingested(focus_file(tmp_path / "a.csv", *rows))
    found = {(row.issuer, row.invoice, row.currency) for row in invoice_tie_out(OCTOBER)}
    assert found == {
        ("Cloud Ltd", "INV-1", "USD"),
        ("Cloud Ltd", "INV-1", "EUR"),
        ("Cloud Ltd", "INV-2", "USD"),
        ("Other", "INV-1", "USD"),
    }


@ledger
def test_an_invoice_without_lines_in_any_file_is_shown(tmp_path: Path) -> None:
    command("invoice-amount", "Cloud Ltd", "INV-9", "2026-10", "3.50", "USD", "--by", "Ada")
    row = only(invoice_tie_out("2026-10"))
    assert (row.lines, row.billed, row.difference) == (0, 0, Decimal("3.50"))


@ledger
def test_a_month_is_provisional_until_invoiced_or_confirmed(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {"InvoiceId": ""}))
    assert provisional_months(OCTOBER) == ["2026-10"]
    assert [one.kind for one in money_exceptions(OCTOBER)] == ["provisional-month"]
    account = ROW_ACCOUNT
    command("confirm-period", "Cloud Ltd", account, "2026-10", "--reason", "seen", "--by", "Ada")
    assert provisional_months(OCTOBER) == []
    assert money_exceptions(OCTOBER) == []


ROW_ACCOUNT = "012345678901"


@ledger
def test_an_amount_for_lines_without_an_invoice_number_makes_them_final(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", {"InvoiceId": ""}))
    command("invoice-amount", "Cloud Ltd", "-", "2026-10", "1.00", "USD", "--by", "Ada")
    row = only(invoice_tie_out("2026-10"))
    assert (row.difference, row.provisional) == (0, False)


@ledger
def test_each_kind_of_exception_is_raised(tmp_path: Path) -> None:
    rows = [
        {"EffectiveCost": "2.00"},
        {"EffectiveCost": "0", "CommitmentDiscountId": "sp-1", "CommitmentDiscountStatus": "Used"},
        {"BilledCost": "many"},
        {"ChargeDescription": "GPU hours of a new kind", "ResourceId": "i-9"},
        {"InvoiceIssuerName": "Slow Ltd", **hours("2026-10-01T00", "2026-10-01T01")},
    ]
    ingested(focus_file(tmp_path / "a.csv", *rows))
    ingested(focus_file(tmp_path / "b.csv", hours("2026-10-20T00", "2026-10-21T00")))
    found = {one.kind: one for one in money_exceptions(OCTOBER)}
    assert set(found) == {
        "effective-differs-from-billed",
        "rejected-rows",
        "unrecognised-gpu",
        "waiting-snapshot",
        "cost-lags",
    }
    assert found["effective-differs-from-billed"].amount == Decimal("1.00")
    assert found["waiting-snapshot"].amount == Decimal("1.00")
    assert "1 of 5 rows" in found["rejected-rows"].text


@ledger
@pytest.mark.skipif(not THOUSAND.exists(), reason="third-party samples are not here")
def test_the_whole_dollar_export_is_found(tmp_path: Path) -> None:
    ingested(THOUSAND)
    kinds = [one.kind for one in money_exceptions(month_of("2024-09"))]
    assert "effective-differs-from-billed" in kinds
    assert "unrecognised-gpu" in kinds
