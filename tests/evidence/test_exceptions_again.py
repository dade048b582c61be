"""Exceptions of money are computed again from the charges of the pack: which there are, their
amounts, and the numbers of their sentences (method §11)."""

from __future__ import annotations

import copy
import csv
import io
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.conftest import closed_week
from tests.evidence.flips import columns_not_found, figures_not_found, is_found
from tests.ledger import small_company
from tests.ledger.doors import ingested
from tests.ledger.test_invoice_details import DETAIL, table
from tests.reports.test_closing import command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

# What the invoice below says, by hand: kind, amount, and what its sentence must hold.
EXPECTED = {
    "contracted-zero": ("7.40", "of 1 lines is 0, though 7.40 USD"),
    "duplicated-lines": ("3.30", "1 groups of lines"),
    "effective-differs-from-billed": ("-1.25", "on 1 lines", "2.75 against 4.00 USD"),
    "far-from-list-price": ("90", "1 lines cost 90 USD", "it would be 20.0000"),
    "invoice-differs": ("825.95", "issued 1000 USD", "its 36 lines sum to 174.05"),
    "price-times-quantity": ("1.10", "of 1 lines, by 1.10 USD"),
    "purchase-with-effective-cost": ("6", "not 6 USD"),
    "unassigned-charges": ("131.25", "10 charges"),
    "unrecognised-gpu": ("8.80", "1 lines look like GPU time"),
}


def odd_invoice() -> list[dict[str, str]]:
    """The small company's invoice with one line, or two, of each kind that is odd."""
    rows = small_company.charges()
    support = next(row for row in rows if row["ServiceName"] == "Support")

    def line(name: str, billed: str, effective: str, **cells: str) -> dict[str, str]:
        prices = {"ContractedCost": billed, "ListCost": billed}
        return support | prices | {"ResourceId": name, "BilledCost": billed,
                                   "EffectiveCost": effective, **cells}  # fmt: skip

    quantity = {"PricingQuantity": "10", "PricingUnit": "GB"}
    used = next(row for row in rows if row.get("CommitmentDiscountStatus") == "Used")
    plan = {name: cell for name, cell in used.items() if name.startswith("CommitmentDiscount")}
    bought = plan | {"CommitmentDiscountStatus": "", "ChargeCategory": "Purchase"}
    return [
        *rows,
        line("zero", "7.40", "7.40", ContractedCost="0"),
        line("twice", "3.30", "3.30", Tags='{"team": "x"}'),
        line("twice", "3.30", "3.30", Tags='{"team": "x"}'),
        line("whole", "4.00", "2.75"),
        line("far", "90", "90", ListUnitPrice="2", **quantity),
        line("off", "9", "9", ContractedCost="8.90", ContractedUnitPrice="1.00", **quantity),
        line("gpu", "8.80", "8.80", ChargeDescription="GPU Quux-9000 hours", SkuMeter="GPU"),
        line("plan", "6", "6", **bought),
    ]


@pytest.fixture
def odd_week(tmp_path: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    small_company.found(tmp_path)
    path = tmp_path / "odd.csv"
    path.write_text(small_company.csv_text(odd_invoice()))
    assert ingested(path)[0]["status"] == "posted"
    command("invoice-amount", "Cloud Ltd", "INV-9", "2026-11", "1000", "USD", "--by", "Ada")
    return closed_week()


def test_odd_charges_are_computed_again(odd_week: tuple[dict[str, bytes], dict[str, Any]]) -> None:
    files, statement = odd_week
    said = {one["kind"]: (number, one) for number, one in enumerate(statement["exceptions"])}
    assert set(EXPECTED) <= set(said)
    for kind, (amount, *words) in EXPECTED.items():
        number, one = said[kind]
        assert Decimal(one["amount"]) == Decimal(amount)
        assert all(word in one["text"] for word in words), one["text"]
        assert figures_not_found(files, statement, [("exceptions", number, "amount")]) == []
        changed = copy.deepcopy(statement)
        changed["exceptions"][number]["text"] = re.sub("[0-9]+", "77", one["text"])
        assert is_found(files, changed), kind
        changed = copy.deepcopy(statement)
        del changed["exceptions"][number]
        assert is_found(files, changed), kind


@pytest.mark.parametrize("typed_last", [True, False])
def test_two_amounts_of_one_invoice_are_computed_again(tmp_path: Path, typed_last: bool) -> None:
    small_company.found(tmp_path)
    november = {
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    }
    details = table(
        tmp_path / "details.csv", DETAIL | november | {"InvoiceId": "INV-9", "BilledCost": "20"}
    )

    def typed(amount: str) -> None:
        command("invoice-amount", "Cloud Ltd", "INV-9", "2026-11", amount, "USD", "--by", "Ada")

    typed("999")
    if not typed_last:
        typed("25")
    assert ingested(details)[0]["status"] == "posted"
    if typed_last:
        typed("25")
    files, statement = closed_week()
    (number,) = (
        at
        for at, one in enumerate(statement["exceptions"])
        if one["kind"] == "issued-amounts-differ"
    )
    text = statement["exceptions"][number]["text"]
    assert "typed in 25 USD, the issuer's invoice details say 20. " in text
    assert f"What came last counts: {25 if typed_last else 20}." in text
    assert not is_found(files, statement)
    alone = {"invoice_amounts": {"document_id", "at", "by"}}
    assert columns_not_found(
        files, statement, tables=alone, untold=alone, drawn=random.Random(7), rows=3
    ) == []  # fmt: skip
    for words in (text.replace("25", "24"), text.replace("counts: 2", "counts: 3")):
        changed = copy.deepcopy(statement)
        changed["exceptions"][number]["text"] = words
        assert is_found(files, changed), words
    changed = copy.deepcopy(statement)
    del changed["exceptions"][number]
    assert is_found(files, changed)


def test_amounts_of_no_currency_are_computed_again(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    rows = small_company.charges()
    support = next(row for row in rows if row["ServiceName"] == "Support")
    bare = {"BillingCurrency": "XXX", "BilledCost": "7", "EffectiveCost": "5"}
    path = tmp_path / "odd.csv"
    path.write_text(small_company.csv_text([*rows, support | bare | {"ResourceId": "bare"}]))
    ingested(path)
    files, statement = closed_week()
    kinds = [one["kind"] for one in statement["exceptions"]]
    number = kinds.index("currency-unknown")
    assert (kinds.count("currency-unknown"), statement["exceptions"][number]["amount"]) == (1, "5")
    assert not is_found(files, statement)
    changed = copy.deepcopy(statement)
    del changed["exceptions"][number]
    assert is_found(files, changed)


def test_the_prices_that_tell_odd_charges_are_looked_at(
    odd_week: tuple[dict[str, bytes], dict[str, Any]],
) -> None:
    files, statement = odd_week
    columns = {"contracted", "contracted_unit_price", "list_unit_price", "tags_digest"}
    head = next(csv.reader(io.StringIO(files["ledgers/charges.csv"].decode(), newline="")))
    assert columns <= set(head)
    assert columns_not_found(
        files, statement, tables=["charges"], untold={"charges": set(head) - columns},
        drawn=random.Random(20261129), rows=99,
    ) == []  # fmt: skip


def test_a_value_that_nothing_computes_is_found(
    odd_week: tuple[dict[str, bytes], dict[str, Any]],
) -> None:
    """A statement holds nothing beside what is computed and what `verify.GIVEN` names."""
    files, statement = odd_week
    assert not is_found(files, statement)
    for place, value in (
        (("figures",), 5),
        (("workloads", 0), "7.5"),
        (("tieout", "period"), None),
    ):
        changed = copy.deepcopy(statement)
        holder = changed
        for key in place:
            holder = holder[key]
        holder["profit"] = value
        assert is_found(files, changed), place
