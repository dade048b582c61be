"""The next bill of a vendor: the mapping that was kept for its columns is proposed (method §3.3)."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from finops.ledger.models import CsvMapping
from tests.reports.test_pages_data import BILL, MADE

from .helpers import html_of

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
NEXT = "Betrag;Datum;Leistung;Konto;Notiz;Neu\n2.000,00;01.11.2026;H100;0042;;x\n"


def begun(client: Client, text: str, **fields: str) -> str:
    file = SimpleUploadedFile("bill.csv", text.encode())
    return html_of(client.post(reverse("mapping-edit"), {"file": file, **fields}, follow=True))


def kept(client: Client, name: str, **changes: str) -> None:
    client.post(
        reverse("mapping-edit"), MADE | {"text": BILL, "action": "save", "name": name} | changes
    )


def test_a_saved_mapping_of_these_columns_is_filled_in(admin: Client) -> None:
    assert "The saved mapping" not in begun(admin, NEXT)
    kept(admin, "colo")
    kept(admin, "few", c2="", c3="")  # reads fewer of the columns
    page = begun(admin, NEXT)  # in another order, with a column more
    assert "The saved mapping colo has these columns and is filled in." in page
    assert 'value="Rechenzentrum GmbH"' in page and ">2000.00</td>" in page
    assert CsvMapping.objects.count() == 2


def test_another_bill_or_a_mapping_that_was_chosen_is_left_alone(admin: Client) -> None:
    kept(admin, "colo")
    kept(admin, "few", c2="", c3="")
    other = NEXT.replace("Betrag", "Summe")
    assert "The saved mapping" not in begun(admin, other)
    chosen = begun(admin, NEXT, mapping="few")
    assert "What each column is: few" in chosen and "The saved mapping" not in chosen
