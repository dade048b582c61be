"""A sealed week whose charges were partly typed in: its pack computes itself like any other."""

from __future__ import annotations

import dataclasses
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from finops.sources.typed_invoice import TypedInvoice, TypedLine
from reports.evidence import verify
from reports.evidence.pack import pack
from reports.operations.attaching import enter_invoice
from reports.queries.standing import report_of, standing
from tests.evidence.conftest import seal_week, unpacked
from tests.ledger import small_company
from tests.reports.helpers import NOW
from tests.reports.test_closing import WEEK, command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
INVOICE = TypedInvoice(
    issuer="Lambda",
    invoice="L-77",
    billing_account="0042",
    billing_period="2026-11",
    currency="USD",
    lines=(TypedLine("Rack space", date(2026, 11, 16), date(2026, 11, 22), Decimal("70.007")),),
    tax=Decimal("14"),
)


def effective(statement: dict[str, Any]) -> Decimal:
    """The effective cost of the period, by its table."""
    return Decimal(statement["tieout"]["period"]["effective"])


def typed_in(invoice: TypedInvoice) -> None:
    paper = SimpleUploadedFile("L-77.pdf", b"%PDF-1.7 L-77")
    enter_invoice(invoice, paper, "L-77.pdf", by="Ada", at=NOW)


def test_a_sealed_week_with_a_typed_invoice_verifies_and_one_typed_later_restates_it(
    tmp_path: Path,
) -> None:
    small_company.found(tmp_path)
    whole_week(tmp_path)
    command("close", WEEK, "--by", "Ada")
    without = effective(command("report", WEEK))
    typed_in(INVOICE)
    seal_week()
    report = report_of(WEEK)
    assert report is not None
    stand = standing(report)
    statement = stand.statement
    # The days of use are the week's, so all of it is: 70.007 + 14.
    assert effective(statement) - without == Decimal("84.007")
    assert Decimal(statement["tieout"]["period"]["difference"]) == 0
    (row,) = [one for one in statement["tieout"]["invoice"] if one["invoice"] == "L-77"]
    assert (row["billed"], row["issued"], Decimal(row["difference"])) == ("84.007", "84.007", 0)
    files = unpacked(pack(stand, printed=None, with_documents=True).content)
    checks = verify.recompute(verify.Pack(files), statement)
    assert checks.wrong == []
    assert b"x_TypedInBy" in b"".join(files.values())
    assert command("check-ledger")["ok"]
    # Typed in again with another amount, the sealed week stands and a restatement is proposed.
    (line,) = INVOICE.lines
    typed_in(dataclasses.replace(INVOICE, lines=(dataclasses.replace(line, amount=Decimal("71")),)))
    (newer,) = [
        one
        for one in command("tieout", "--period", "2026-11")["invoice"]
        if one["invoice"] == "L-77"
    ]
    assert newer["billed"] == "85"
    assert standing(report).statement == statement
