"""An invoice without an export: typed in on a page, booked, tied out, and typed in again."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from finops.core.gpu_hours import charge_gpu_hours
from finops.ledger.models import Charge, Document, InvoiceAmount, Snapshot
from finops.ledger.operations.documents import stored
from finops.ledger.queries.snapshots import current_ids, with_verdict
from finops.sources.typed_invoice import gpu_models
from reports.roles import PERMISSIONS, ROLES
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file
from tests.reports.helpers import html_of

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
PAPER = b"%PDF-1.7 invoice L-77"
TYPED = {
    "issuer": "Lambda",
    "invoice": "L-77",
    "billing_account": "0042",
    "billing_period": "2026-10",
    "currency": "USD",
    "start": "2026-10-01",
    "end": "2026-10-31",
    "service": "On-demand instances",
    "amount": "1234.50",
    "tax": "234.555",
    "gpu_model": "H100",
    "gpu_count": "8",
    "hours": "51.6",
}


def post(client: Client, follow: bool = True, paper: bytes = PAPER, **changes: Any) -> Any:
    """The answer to the form, filled in as TYPED with other values where a test gives them."""
    attached = {"attached": SimpleUploadedFile("L-77.pdf", paper)}
    return client.post(reverse("invoice-enter"), TYPED | attached | changes, follow=follow)


def tie_out(month: str = "2026-10") -> list[dict[str, Any]]:
    """The month's invoices as the command tells them."""
    rows: list[dict[str, Any]] = command("tieout", "--period", month)["invoice_details"]
    return rows


def counted() -> list[Charge]:
    """The charges that count, by line."""
    return list(Charge.objects.filter(snapshot__in=current_ids()).order_by("document", "line"))


def test_an_invoice_typed_in_is_booked_and_ties_out(admin: Client) -> None:
    answer = post(admin)
    assert answer.redirect_chain == [(reverse("tieout", args=["2026-10"]), 302)]
    page = html_of(answer)
    assert "every invoice agrees with its lines" in page and ">typed in</span>" in page
    (row,) = tie_out()
    # By hand: 1,234.50 + 234.555 = 1,469.055.
    assert (row["billed"], row["issued"], Decimal(row["difference"])) == ("1469.055",) * 2 + (0,)
    assert (row["usage"], row["taxes"], row["lines"]) == ("1234.50", "234.555", 2)
    assert (row["typed_in_by"], row["provisional"]) == ("Mira Lindqvist", False)
    usage, tax = counted()
    assert (usage.category, usage.billed_cost, usage.effective_cost) == (
        "Usage", Decimal("1234.50"), Decimal("1234.50"),
    )  # fmt: skip
    assert (usage.list_cost, usage.contracted_cost) == (None, None)  # not on the invoice
    assert (tax.category, tax.billed_cost, tax.gpu_model) == ("Tax", Decimal("234.555"), None)
    assert (usage.gpu_model, usage.gpu_count) == ("H100", 8)
    assert usage.charge_start.isoformat() == "2026-10-01T00:00:00+00:00"
    assert usage.charge_end.isoformat() == "2026-11-01T00:00:00+00:00"
    hours = charge_gpu_hours(
        gpu_count=usage.gpu_count,
        quantities=((usage.pricing_quantity, usage.pricing_unit),),
        start=usage.charge_start,
        end=usage.charge_end,
        since=usage.charge_start,
        until=usage.charge_end,
    )
    assert hours == Decimal("412.8")  # 8 × 51.6


def test_its_document_says_who_typed_it_in_and_from_what(admin: Client) -> None:
    page = html_of(post(admin))
    document = Document.objects.get(origin="typed in")
    with io.StringIO(stored(document.pk).read_bytes().decode()) as text:
        usage, tax = csv.DictReader(text)
    for line in (usage, tax):
        assert line["x_TypedInBy"] == "Mira Lindqvist"
        assert line["x_TypedInFromSha256"] == sha256(PAPER).hexdigest()
    (amount,) = InvoiceAmount.objects.all()
    assert amount.document_id == sha256(PAPER).hexdigest()
    assert stored(str(amount.document_id)).read_bytes() == PAPER
    assert document.pk in page and str(amount.document_id) in page
    assert ", typed in</span>" in html_of(admin.get(reverse("imports")))
    shown = html_of(admin.get(reverse("document", args=[document.pk])))
    assert ">typed in</span>" in shown and "Lambda, account 0042, 2026-10" in shown
    command("check-ledger")


def test_typed_in_again_it_replaces_itself_and_the_older_stays_readable(admin: Client) -> None:
    post(admin)
    (first,) = Snapshot.objects.all()
    # Other days than before, of the same month: no person is asked whether it is more parts.
    post(admin, amount="100", tax="0", start="2026-10-05", end="2026-10-06")
    post(admin, amount="90.10", tax="", start="2026-10-20", end="2026-10-20")  # tax is required
    (row,) = tie_out()
    assert (row["billed"], row["issued"], row["lines"]) == ("100", "100", 1)
    older = with_verdict().get(pk=first.pk)
    assert older.verdict == "superseded"
    assert sum(one.billed_cost for one in older.lines.all()) == Decimal("1469.055")
    assert Document.objects.filter(origin="typed in").count() == 2
    # Back to the first values: they count again, although they were typed before.
    post(admin)
    assert [row["billed"] for row in tie_out()] == ["1469.055"]


@pytest.mark.parametrize(
    ("change", "month"),
    [
        ({"billing_account": "0043"}, "2026-10"),
        ({"billing_period": "2026-09"}, "2026-09"),
        ({"currency": "eur"}, "2026-10"),
    ],
)
def test_a_wrong_place_is_put_right_by_typing_it_in_again(
    change: dict[str, str], month: str, admin: Client
) -> None:
    post(admin)
    post(admin, **change)
    assert {one.document_id for one in counted()} == {
        Document.objects.filter(origin="typed in").latest("received_at").pk
    }
    rows = [row for name in {"2026-10", month} for row in tie_out(name)]
    assert all(Decimal(row["difference"]) == 0 for row in rows)
    assert sorted(row["billed"] for row in rows if row["lines"]) == ["1469.055"]


def test_invoices_of_one_account_and_month_count_beside_each_other(admin: Client) -> None:
    post(admin)
    post(admin, invoice="l-77", amount="1", tax="0")  # names are kept as they are written
    post(admin, invoice="L-78", amount="0.000000000000000000000000001", tax="0")
    post(admin, invoice="L-78", amount="2", tax="0")
    assert {row["invoice"]: row["billed"] for row in tie_out()} == {
        "L-77": "1469.055",
        "l-77": "1",
        "L-78": "2",
    }


def test_beside_an_export_it_is_refused_and_an_export_takes_its_place(
    tmp_path: Path, admin: Client
) -> None:
    post(admin)
    lines = {"InvoiceIssuerName": "Lambda", "BillingAccountId": "0042", "InvoiceId": "L-77"}
    ingested(focus_file(tmp_path / "lambda.csv", lines | {"BilledCost": "1469.06"}))
    (row,) = tie_out()
    assert (row["billed"], row["issued"], row["typed_in_by"]) == ("1469.06", "1469.055", None)
    refused = html_of(post(admin))
    assert "came with lambda.csv" in refused and "count twice" in refused
    # The same invoice for another account would count twice as well.
    assert "came with lambda.csv" in html_of(post(admin, billing_account="0043"))
    assert [one.billed_cost for one in counted()] == [Decimal("1469.06")]


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"amount": "1,234.50"}, "amount", "Write it like 1234.50"),
        ({"amount": "NaN"}, "amount", "Not a number"),
        ({"amount": "0"}, "amount", "more than zero"),
        ({"amount": "1e400"}, "amount", "range"),
        ({"tax": "-1"}, "tax", "zero or more"),
        ({"issuer": " "}, "issuer", "required"),
        ({"service": "a\u2028b"}, "service", "U+2028"),
        ({"billing_period": "2026-13"}, "billing_period", "month like 2026-10"),
        ({"billing_period": "1026-10"}, "billing_period", "2000 to 2198"),
        ({"currency": "US$"}, "currency", "code like USD"),
        ({"start": "31.10.2026"}, "start", "day like 2026-10-31"),
        ({"start": "01/10/2026"}, "start", "day like 2026-10-31"),  # 10 January to some
        ({"start": "2199-12-31", "end": "2199-12-31"}, "start", "2000 to 2198"),
        ({"end": "2026-09-30"}, "end", "before the first"),
        ({"end": "2029-12-31"}, "end", "Over three years"),
        ({"gpu_model": "H9000"}, "gpu_model", "valid choice"),
        ({"gpu_model": ""}, "gpu_model", "Say which GPUs"),
        ({"gpu_count": ""}, "gpu_count", "how many GPUs"),
        ({"hours": "0"}, "hours", "more than zero"),
        ({"hours": "1e60"}, "hours", "at most 1000000000"),
        ({"gpu_count": "1e60"}, "gpu_count", "at most 1000"),
        ({"attached": ""}, "attached", "required"),
        ({"attached": SimpleUploadedFile("x.pdf", b"")}, "attached", "empty"),
        ({"invoice": "NULL"}, "invoice", "not what was typed"),
    ],
)
def test_a_wrong_value_is_told_at_its_field_and_nothing_is_kept(
    change: dict[str, Any], field: str, said: str, admin: Client
) -> None:
    answer = post(admin, follow=False, **change)
    assert answer.status_code == 200
    errors = answer.context["form"].errors
    assert list(errors) == [field] and said in " ".join(errors[field])
    assert not Charge.objects.exists() and not InvoiceAmount.objects.exists()
    assert not Document.objects.exclude(origin="test").exists()


def test_data_is_not_taken_for_the_paper(tmp_path: Path, admin: Client) -> None:
    export = focus_file(tmp_path / "bill.csv", {}).read_bytes()
    answer = post(admin, follow=False, paper=export)
    assert "Hand it over on the page Imports" in str(answer.context["form"].errors["attached"])
    assert not Charge.objects.exists()


@pytest.mark.parametrize("role", [*ROLES, ""])
def test_who_may_set_amounts_may_type_invoices_in(
    role: str, client_of: Callable[..., Client]
) -> None:
    client = client_of(role) if role else client_of()
    may = role in PERMISSIONS["invoice"][1]
    assert (client.get(reverse("invoice-enter")).status_code == 200) == may
    assert (post(client, follow=False).status_code == 302) == may
    assert Charge.objects.exists() == may
    shown = html_of(client.get(reverse("tieout", args=["2026-10"])))
    assert (reverse("invoice-enter") in shown) == may


def test_each_model_on_offer_is_read_back_as_itself(admin: Client) -> None:
    assert {"H100", "A100", "B200", "L4", "T4", "MI300X"} <= set(gpu_models())
    for number, model in enumerate(gpu_models()):
        post(admin, invoice=f"M-{number}", gpu_model=model, gpu_count="0.5", tax="0")
    found = {one.invoice: (one.gpu_model, one.gpu_count) for one in counted()}
    assert found == {f"M-{n}": (model, Decimal("0.5")) for n, model in enumerate(gpu_models())}
