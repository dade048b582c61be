"""Amounts issued and months closed, by FOCUS invoice details and billing periods (§3)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from finops.ledger.models import Document, InvoiceAmount
from finops.ledger.queries.invoices import invoice_tie_out
from tests.ledger.doors import ingested
from tests.ledger.focus_files import focus_file
from tests.ledger.test_formats import INVOICES, published
from tests.sources.reading import as_csv

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

DETAIL = {
    "BilledCost": "1.00",
    "BillingAccountId": "012345678901",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-10-01T00:00:00Z",
    "BillingPeriodEnd": "2026-11-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "InvoiceDetailId": "d1",
    "InvoiceId": "INV-1",
    "InvoiceIssueStatus": "Issued",
    "InvoiceIssuerName": "Cloud Ltd",
}


def table(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text(as_csv(list(rows)))
    return path


def test_issued_amounts_come_from_invoice_details(tmp_path: Path) -> None:
    # Thread 47: charges that are on the invoice and in no file.
    ingested(focus_file(tmp_path / "usage.csv", {"BilledCost": "12.50", "EffectiveCost": "12.50"}))
    lines = [
        DETAIL | {"BilledCost": "12.52"},
        DETAIL | {"InvoiceDetailId": "d2", "BilledCost": "3"},
    ]
    (document,) = ingested(table(tmp_path / "details.csv", *lines))
    assert (document["format"], document["rows_read"]) == ("focus-invoice-detail", 2)
    (row,) = invoice_tie_out("2026-10")
    assert (row.issued, row.difference, row.within) == (Decimal("15.52"), Decimal("3.02"), False)
    again = DETAIL | {"BilledCost": "12.52", "InvoiceDetailId": "d3"}
    ingested(table(tmp_path / "corrected.csv", again))
    (row,) = invoice_tie_out("2026-10")
    assert (row.difference, row.within) == (Decimal("0.02"), True)


def test_open_invoices_are_not_issued_and_voided_ones_ask_for_nothing(tmp_path: Path) -> None:
    rows = [
        DETAIL | {"InvoiceIssueStatus": "Open"},
        DETAIL | {"InvoiceId": "INV-2", "InvoiceIssueStatus": "Voided"},
        DETAIL | {"InvoiceId": "INV-3", "BilledCost": "1e400"},
    ]
    (document,) = ingested(table(tmp_path / "details.csv", *rows))
    assert document["rows_rejected"] == 1
    assert "1 invoices are still open" in document["warnings"][0]
    amounts = dict(InvoiceAmount.objects.values_list("invoice", "amount"))
    assert amounts == {"INV-2": Decimal(0)}


@published
def test_the_published_excerpt_of_invoice_details() -> None:
    folder = INVOICES / "excerpts"
    (document,) = ingested(folder / "focus-1.4_invoicedetail_random-synthetic_beau.csv")
    assert (document["rows_read"], document["rows_rejected"]) == (3, 0)
    amounts = dict(InvoiceAmount.objects.values_list("invoice", "amount"))
    assert amounts == {"invoice-518801": Decimal("7449.889821"), "invoice-145561": Decimal(0)}


def test_a_closed_month_is_final(tmp_path: Path) -> None:
    # Threads 26, 27: a month is final when its status says so.
    ingested(focus_file(tmp_path / "usage.csv", {"InvoiceId": ""}))
    assert invoice_tie_out("2026-10")[0].provisional
    status = {
        "BillingPeriodStart": "2026-10-01T00:00:00Z",
        "BillingPeriodEnd": "2026-11-01T00:00:00Z",
        "BillingPeriodStatus": "Closed",
        "BillingPeriodCreated": "2026-10-01T00:00:00Z",
        "BillingPeriodLastUpdated": "2026-11-04T00:00:00Z",
        "InvoiceIssuerName": "Cloud Ltd",
    }
    (document,) = ingested(table(tmp_path / "period.csv", status))
    assert document["format"] == "focus-billing-period"
    assert not invoice_tie_out("2026-10")[0].provisional
    reopened = {"BillingPeriodStatus": "Open", "BillingPeriodLastUpdated": "2026-11-05T00:00:00Z"}
    ingested(table(tmp_path / "reopened.csv", status | reopened))
    assert invoice_tie_out("2026-10")[0].provisional


def amounts() -> dict[str, Decimal]:
    return dict(InvoiceAmount.objects.order_by("pk").values_list("invoice", "amount"))


def test_an_invoice_in_two_files_of_one_delivery_is_their_sum(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "usage.csv", {"BilledCost": "10", "EffectiveCost": "10"}))
    folder = tmp_path / "details"
    folder.mkdir()
    table(folder / "part1.csv", DETAIL | {"BilledCost": "6"})
    table(folder / "part2.csv", DETAIL | {"BilledCost": "4", "InvoiceDetailId": "d2"})
    ingested(folder)
    (row,) = invoice_tie_out("2026-10")
    assert (row.issued, row.difference, row.within) == (10, 0, True)


def test_of_two_exports_in_one_delivery_the_newer_detail_counts(tmp_path: Path) -> None:
    at = "InvoiceDetailLastUpdated"
    table(tmp_path / "a.csv", DETAIL | {"BilledCost": "20", at: "2026-11-05T00:00:00Z"})
    table(tmp_path / "b.csv", DETAIL | {"BilledCost": "19", at: "2026-11-03T00:00:00Z"})
    ingested(tmp_path)
    assert amounts() == {"INV-1": 20}


def test_a_line_that_is_refused_leaves_its_invoice_without_an_amount(tmp_path: Path) -> None:
    lines = [
        DETAIL | {"BilledCost": "5"},
        DETAIL | {"BilledCost": "NaN", "InvoiceDetailId": "d2"},
        DETAIL | {"BilledCost": "7", "InvoiceId": "INV-2"},
    ]
    (document,) = ingested(table(tmp_path / "details.csv", *lines))
    assert (document["rows_rejected"], amounts()) == (1, {"INV-2": 7})
    (warning,) = document["warnings"]
    assert "1 invoices have a line that could not be taken" in warning
    assert "INV-1" in warning


def test_a_refused_line_of_an_unknown_invoice_may_be_of_any(tmp_path: Path) -> None:
    lines = [DETAIL, DETAIL | {"InvoiceId": "", "InvoiceDetailId": "d2"}]
    (document,) = ingested(table(tmp_path / "details.csv", *lines))
    assert (document["rows_rejected"], amounts()) == (1, {})


def test_an_older_export_that_comes_later_changes_no_amount(tmp_path: Path) -> None:
    at = "InvoiceDetailLastUpdated"
    (new,) = ingested(
        table(tmp_path / "new.csv", DETAIL | {"BilledCost": "20", at: "2026-11-05T00:00:00Z"})
    )
    assert new["exported_at"] == "2026-11-05T00:00:00Z"
    (old,) = ingested(
        table(tmp_path / "old.csv", DETAIL | {"BilledCost": "19", at: "2026-11-03T00:00:00Z"})
    )
    assert "told by details brought up to date later" in old["warnings"][0]
    assert amounts() == {"INV-1": 20}


def test_a_file_of_more_details_than_are_held_is_refused_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finops.ledger.operations.issued.MOST_DETAILS", 2)
    lines = [DETAIL | {"InvoiceDetailId": f"d{number}"} for number in range(3)]
    (document,) = ingested(table(tmp_path / "details.csv", *lines))
    (rejection,) = document["rejections"]
    assert (document["status"], rejection["line"]) == ("rejected", 4)
    assert "more than 2 invoice details" in rejection["reason"]
    assert not Document.objects.exists() and amounts() == {}
