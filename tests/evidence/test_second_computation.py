"""What the second computation must know to confirm a week: cases that once it did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.evidence.sealed import gather
from reports.queries.standing import report_of, statement_of
from tests.ledger import small_company
from tests.ledger.doors import command, ingested
from tests.ledger.test_formats import coreweave
from tests.reports.test_closing import WEEK

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def unequal(week: str = WEEK) -> tuple[str, ...]:
    command("close", week, "--by", "Ada")
    report = report_of(week)
    assert report is not None
    evidence = gather(report, statement_of(report))
    assert evidence is not None and evidence.computed > 50
    return evidence.unequal


def not_invoiced(folder: Path) -> None:
    rows = [row | {"InvoiceId": ""} for row in small_company.charges()]
    (folder / "open.csv").write_text(small_company.csv_text(rows))
    assert ingested(folder / "open.csv")[0]["status"] == "posted"


def test_a_month_that_its_issuer_closed_is_final_in_both(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    not_invoiced(tmp_path)
    assert unequal() == ()
    (tmp_path / "period.csv").write_text(
        "BillingPeriodStart,BillingPeriodEnd,BillingPeriodStatus,BillingPeriodCreated,"
        "BillingPeriodLastUpdated,InvoiceIssuerName\n2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,"
        "Closed,2026-11-01T00:00:00Z,2026-12-04T00:00:00Z,Cloud Ltd\n"
    )
    assert ingested(tmp_path / "period.csv")[0]["format"] == "focus-billing-period"
    assert unequal() == ()
    report = report_of(WEEK)
    assert report is not None and report.revision == 2
    assert statement_of(report)["provisional_months"] == []


def test_usage_without_a_price_is_on_no_invoice_in_both(tmp_path: Path) -> None:
    (document,) = ingested(coreweave(tmp_path / "usage.csv", "8", "4"))
    assert (document["format"], document["charges"]) == ("coreweave-focus", 2)
    assert unequal("2026-W41") == ()
