"""Invoices of several lines, credit notes, and the command that books them (§3.1, §3.8)."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from finops.ledger.models import Charge, Document, InvoiceAmount
from tests.ledger.doors import command
from tests.reports.helpers import html_of
from tests.reports.test_typed_invoices import counted, post, tie_out

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
SECOND = {"service": "Block storage", "start": "2026-10-10", "end": "2026-10-20",
          "amount": "100.005"}  # fmt: skip
DISCOUNT = {"service": "Loyalty", "start": "2026-10-01", "end": "2026-10-31", "amount": "-34.50"}
INVOICE = {
    "issuer": "Lambda", "invoice": "L-77", "billing_account": "0042",
    "billing_period": "2026-10", "currency": "USD", "tax": "20",
    "lines": [
        {"service": "On-demand", "start": "2026-10-01", "end": "2026-10-31", "amount": "1234.50",
         "gpu_model": "H100", "gpu_count": "8", "hours": "51.6"},
        SECOND, DISCOUNT,
    ],
}  # fmt: skip
NOTE = {
    "issuer": "Lambda", "invoice": "CN-5", "billing_account": "0042", "credits": "L-77",
    "billing_period": "2026-11", "currency": "USD", "tax": "-1.5",
    "lines": [{"service": "On-demand", "start": "2026-10-03", "end": "2026-10-04",
               "amount": "-15.00"}],
}  # fmt: skip


def further(*lines: dict[str, str]) -> dict[str, str]:
    """The form's further lines, an empty one last."""
    given = {"line-TOTAL_FORMS": str(len(lines) + 1), "line-INITIAL_FORMS": "0"}
    for number, line in enumerate((*lines, {})):
        given |= {f"line-{number}-{name}": text for name, text in line.items()}
    return given


def enter(folder: Path, invoice: dict[str, Any]) -> dict[str, Any]:
    (folder / "invoice.json").write_text(json.dumps(invoice))
    paper = folder / f"{invoice.get('invoice')}.pdf"
    paper.write_bytes(b"%PDF-1.7 " + json.dumps(invoice).encode())
    return command("invoice-enter", folder / "invoice.json", "--paper", paper, "--by", "Ada")


def test_lines_typed_in_on_the_page_tie_out_together(admin: Client) -> None:
    post(admin, tax="20", **further(SECOND, DISCOUNT))
    (row,) = tie_out()
    # By hand: 1,234.50 + 100.005 − 34.50 + 20 = 1,320.005.
    assert (row["issued"], row["billed"], Decimal(row["difference"])) == ("1320.005",) * 2 + (0,)
    assert (row["usage"], row["credits"], row["taxes"]) == ("1334.505", "-34.50", "20")
    usage, storage, discount, tax = counted()
    assert (usage.service, usage.gpu_model) == ("On-demand instances", "H100")
    assert (storage.service, storage.charge_start.day, storage.charge_end.day) == (
        "Block storage", 10, 21,
    )  # fmt: skip
    assert (discount.category, discount.billed_cost) == ("Credit", Decimal("-34.50"))
    assert (tax.charge_start.day, tax.charge_end.month) == (1, 11)


def test_the_command_books_what_the_page_books(tmp_path: Path, admin: Client) -> None:
    told = enter(tmp_path, INVOICE)
    assert told["ok"] and told["document"]["charges"] == 4
    (row,) = told["invoice_details"]
    assert (row["issued"], row["billed"], row["typed_in_by"]) == ("1320.005", "1320.005", "Ada")
    lines = [(one.service, one.billed_cost, one.category) for one in counted()]
    changed = {"service": "On-demand"}
    post(admin, tax="20", **further(SECOND, DISCOUNT), **changed)  # takes its place
    assert [(one.service, one.billed_cost, one.category) for one in counted()] == lines
    assert tie_out()[0]["billed"] == "1320.005"


def test_a_credit_note_is_below_zero_and_says_what_it_credits(tmp_path: Path) -> None:
    enter(tmp_path, INVOICE)
    told = enter(tmp_path, NOTE)
    (row,) = told["invoice_details"]
    assert (row["issued"], row["billed"], Decimal(row["difference"])) == ("-16.50", "-16.50", 0)
    assert (row["corrections"], row["within"], row["credits_invoice"]) == ("-16.50", True, "L-77")
    credit = next(one for one in counted() if one.invoice == "CN-5" and one.category == "Credit")
    assert credit.description == "Credit for L-77: On-demand"
    assert (credit.charge_class, credit.gpu_model) == ("Correction", None)
    # As incurred it lowers October, whose hours it credits; its invoice stands in November.
    october, november = (command("tieout", "--period", month) for month in ("2026-10", "2026-11"))
    assert [one["issued"] for one in october["invoice_details"]] == ["1320.005"]
    assert [one["credits_invoice"] for one in october["invoice_details"]] == [None]
    assert november["ok"] and october["ok"]
    whole = command("totals", "--from", "2026-10-01T00:00:00Z", "--to", "2026-11-01T00:00:00Z")
    assert Decimal(whole["money"]["USD"]["billed"]) == Decimal("1320.005") - Decimal("16.5")


def changed(line: int | None = None, **values: Any) -> dict[str, Any]:
    new = json.loads(json.dumps(INVOICE))
    (new if line is None else new["lines"][line]).update(values)
    return dict(new)


@pytest.mark.parametrize(
    ("invoice", "place", "said"),
    [
        (changed(1, amount="1,5"), "lines[1].amount", "not a number"),
        (changed(1, amount=1.5, end="31.10.2026"), "lines[1].end", "2026-10-31"),
        (changed(2, gpu_model="H100", gpu_count="1"), "lines[2].gpu_model", "no GPUs"),
        (changed(1, amount="0"), "lines[1].amount", "more than zero"),
        (changed(0, amount="-500", gpu_model=None, hours=None, gpu_count=None), "lines[0].amount",
         "names the invoice it credits"),
        (changed(1, colour="red"), "lines[1]", "'colour' is not one of"),
        (changed(1, service=None), "lines[1]", "service is missing"),
        (changed(credits="L-70"), "lines[0].amount", "below zero"),
        (NOTE | {"credits": "CN-5"}, "credits", "number of its own"),
        (NOTE | {"tax": "1"}, "tax", "zero or below"),
        (changed(lines=[]), "lines", "from 1 to 200"),
        (changed(lines={}), "lines", "no list"),
        (changed(currency="XYZ"), "currency", "ISO 4217"),
        (changed(currency="u\u017fd"), "currency", "is no currency"),
        (changed(1, start="2026-W42-6"), "lines[1].start", "2026-10-31"),
        (changed(1, end="\u0662\u0660\u0662\u0666-10-20"), "lines[1].end", "2026-10-31"),
        (changed(issuer="Lam\u202ebda"), "issuer", "cannot be printed"),
        (changed(invoice="L-77\u3164"), "invoice", "cannot be printed"),  # a letter without a shape
        (changed(1, amount="1e400"), "lines[1].amount", "1e400"),
        (changed(issuer=["Lambda"]), "issuer", "no text"),
        (["no", "object"], "the invoice", "no object"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_at_its_place_and_nothing_is_kept(
    tmp_path: Path, invoice: Any, place: str, said: str
) -> None:
    (tmp_path / "i.json").write_text(json.dumps(invoice))
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7")
    with pytest.raises(CommandError) as refused:
        command("invoice-enter", tmp_path / "i.json", "--paper", tmp_path / "paper.pdf",
                "--by", "Ada")  # fmt: skip
    text = str(refused.value)
    assert place in text and said in text, text
    assert not Charge.objects.exists() and not InvoiceAmount.objects.exists()
    assert not Document.objects.exclude(origin="test").exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"issuer": "Lambda", "tax": "1", "tax": "2"}',
        '{"issuer": "Lambda", "lines": [{"amount": "1", "service": "a", "amount": "100"}]}',
    ],
)
def test_a_value_given_twice_is_refused(tmp_path: Path, text: str) -> None:
    """Readers of JSON take the last of two; who wrote them meant one."""
    (tmp_path / "i.json").write_text(text)
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7")
    with pytest.raises(CommandError, match="given more than once"):
        command("invoice-enter", tmp_path / "i.json", "--paper", tmp_path / "paper.pdf")


def test_a_currency_in_small_letters_is_booked_as_on_the_page(tmp_path: Path) -> None:
    assert enter(tmp_path, INVOICE | {"currency": "usd"})["ok"]
    assert {one.currency for one in counted()} == {"USD"}


def test_a_pipe_and_a_device_are_no_files(tmp_path: Path) -> None:
    """They would be read without an end."""
    (tmp_path / "i.json").write_text(json.dumps(INVOICE))
    os.mkfifo(tmp_path / "pipe")
    for file, paper in (
        ("i.json", tmp_path / "pipe"),
        ("i.json", "/dev/zero"),
        ("pipe", "/dev/zero"),
    ):
        with pytest.raises(CommandError, match="no such file"):
            command("invoice-enter", tmp_path / file, "--paper", paper, "--by", "Ada")
    assert not Charge.objects.exists()


def test_more_lines_than_an_invoice_has_are_said_and_nothing_is_booked(admin: Client) -> None:
    for count in ("201", "many"):
        answer = post(admin, follow=False, **{"line-TOTAL_FORMS": count, "line-INITIAL_FORMS": "0"})
        assert answer.status_code == 200
        assert answer.context["further"].non_form_errors()
        assert str(answer.context["further"].non_form_errors()) in html_of(answer)
    assert not Charge.objects.exists()


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text(json.dumps(INVOICE))
    for file, paper in (("none.json", "i.json"), ("i.json", "none.pdf")):
        with pytest.raises(CommandError, match="none"):
            command("invoice-enter", tmp_path / file, "--paper", tmp_path / paper, "--by", "Ada")


def test_a_wrong_further_line_is_told_at_its_field(admin: Client) -> None:
    answer = post(admin, follow=False, **further(SECOND | {"amount": "0"}, DISCOUNT))
    assert answer.context["form"].errors == {}
    assert "amount" in answer.context["further"][0].errors
    answer = post(admin, follow=False, **further(SECOND | {"end": ""}))
    assert list(answer.context["further"][0].errors) == ["end"]
    assert not Charge.objects.exists()


def test_a_credit_note_can_be_typed_in_on_the_page(admin: Client) -> None:
    blank = {"gpu_model": "", "gpu_count": "", "hours": ""}
    post(admin, invoice="CN-6", credits="L-77", amount="-10", tax="-1", **blank)
    (row,) = tie_out()
    assert (row["issued"], row["billed"], row["credits_invoice"]) == ("-11", "-11", "L-77")
    page = html_of(admin.get(f"/invoices/{row['billing_period']}/"))
    assert "credits invoice L-77" in page
    refused = post(admin, follow=False, invoice="CN-7", credits="L-77", **blank)
    assert "below zero" in str(refused.context["form"].errors["amount"])


def test_room_for_more_lines_keeps_what_was_typed(admin: Client) -> None:
    answer = post(admin, follow=False, more="1", **further(SECOND, DISCOUNT))
    page = html_of(answer)
    assert answer.status_code == 200 and not Charge.objects.exists()
    for text in ("On-demand instances", "Block storage", "100.005", "Loyalty", "1234.50"):
        assert text in page
    assert page.count("<summary>Line ") == 4  # the two, and room for two more
    assert reverse("invoice-enter") == "/invoices/enter/"
