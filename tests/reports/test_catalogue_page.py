"""The GPU catalogue: what is to be reviewed, and the shapes with their sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file
from tests.ledger.test_invoice_details import DETAIL, table

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

ODD = {"ChargeDescription": "GPU Quux-9000 hours", "ConsumedUnit": "Hours"}


def test_lines_of_an_unknown_machine_are_listed_until_they_are_gone(
    tmp_path: Path, admin: Client
) -> None:
    assert "Nothing: every line" in admin.get("/catalogue/").content.decode()
    cheap = ODD | {"ChargeDescription": "GPU Quux-1 hours", "BilledCost": "1", "EffectiveCost": "1"}
    dear = ODD | {"BilledCost": "3", "EffectiveCost": "2.5", "ResourceName": "legacy-gpu-1"}
    (document,) = ingested(
        focus_file(tmp_path / "a.csv", {}, cheap, dear, dear | {"ResourceId": "i-2"})
    )
    first, second = command("unrecognised")["unrecognised"]
    assert (first["description"], first["lines"]) == (ODD["ChargeDescription"], 2)
    assert (first["billed"], first["effective"], first["currency"]) == ("6", "5.0", "USD")
    assert (first["document"], first["line"]) == (document["sha256"], 4)
    assert (first["resource"], second["resource"]) == ("legacy-gpu-1", None)
    assert (second["lines"], second["effective"]) == (1, "1")
    page = admin.get("/catalogue/").content.decode()
    assert page.index("GPU Quux-9000 hours") < page.index("GPU Quux-1 hours")
    assert "resource legacy-gpu-1" in page
    assert f"/imports/documents/{document['sha256']}/" in page
    ingested(focus_file(tmp_path / "b.csv", {}, {"ResourceId": "i-2"}))
    assert command("unrecognised")["unrecognised"] == []


def test_shapes_stand_with_source_and_date(admin: Client) -> None:
    page = admin.get("/catalogue/").content.decode()
    for word in ("p5.48xlarge", "a3-highgpu-8g", "ND96isr_H100_v5", "BM.GPU.H100.8"):
        assert word in page, word
    assert "karpenter-provider-aws" in page


def test_a_month_of_which_only_an_issued_amount_is_known_is_on_the_page(
    tmp_path: Path, admin: Client
) -> None:
    ingested(table(tmp_path / "details.csv", DETAIL | {"BilledCost": "12.52"}))
    for address in ("/invoices/", "/invoices/2026-10/"):
        page = admin.get(address).content.decode()
        assert "/invoices/2026-10/" in page
        assert "12.52" in page


def test_older_months_than_the_page_shows_are_linked(tmp_path: Path, admin: Client) -> None:
    for number in range(14):
        year, month = divmod(2025 * 12 + number, 12)
        start = f"{year}-{month + 1:02d}-01T00:00:00Z"
        end = f"{year}-{month + 1:02d}-28T00:00:00Z"
        period = {"BillingPeriodStart": start, "BillingPeriodEnd": end, "InvoiceId": f"I-{number}"}
        ingested(table(tmp_path / f"{number}.csv", DETAIL | period))
    page = admin.get("/invoices/").content.decode()
    assert "Months before these" in page
    assert "/invoices/2025-01/" in page and "I-0" not in page and "I-2" in page
