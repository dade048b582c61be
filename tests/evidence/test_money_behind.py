"""What leads from a sum of money to its charges: what of each stands in it adds up to it (§3.7, §4)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from finops.core.allocation import PLACES
from reports.queries.standing import report_of, statement_of
from tests.evidence.test_lineage import auditor as auditor_of_the_house
from tests.ledger import currencies
from tests.ledger.doors import ingested
from tests.ledger.fleet import take_in
from tests.ledger.small_company import PLAN, csv_text
from tests.ledger.small_company import _line as line
from tests.ledger.small_company import _machine as machine
from tests.ledger.test_nodes import FLEET
from tests.reports.test_closing import WEEK, command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
auditor = auditor_of_the_house


@pytest.fixture
def every_place(tmp_path: Path) -> dict[str, Any]:
    """A week with money in every place: one GPU of four of `i-a` is idle, all of `i-unbilled`; keys
    by tokens and GPU-hours have nothing to split by, one of fixed shares has."""
    take_in(tmp_path, FLEET)
    four = machine("i-a") | {"ResourceType": "g5.12xlarge"}
    rows = [line(hour, "4.00", "4.01", **four) for hour in range(3)]
    rows += [line(hour, "4.00", "4.03", **four, ServiceName="Other") for hour in range(3, 6)]
    rows += [
        line(0, "1.00", "1.00", **machine("i-unbilled")),
        line(-3, "7.00", "7.00", 7, ResourceId="nat-1"),
        line(-1, "0.90", "1.10", 5, ResourceId="lb-1"),
        line(-1, "5.00", "5.00", 4, ResourceId="own"),
        line(0, "5.55", "5.55", 6, ChargeCategory="Tax", ResourceId="tax"),
        line(-2, "0", "3", 6, **PLAN, CommitmentDiscountStatus="Unused"),
    ]
    (tmp_path / "bill.csv").write_text(csv_text(rows))
    (document,) = ingested(tmp_path / "bill.csv")
    assert document["status"] == "posted", document
    command("workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada")
    command("shared-key", "add", "net", "--shares", "llama=1", "--by", "Ada")
    for where, condition in (
        ("llama", "resource=own"),
        ("shared:net", "resource=lb-1"),
        ("shared:tokens", "resource=nat-1"),
        ("out-of-scope", "category=Tax"),
    ):
        command("rule", "add", where, "--charge", condition, "--by", "Ada")
    command("rule", "add", "shared:gpu-hours", "--charge", "resource=i-a", "--charge",
            "service=Compute", "--by", "Ada")  # fmt: skip
    return closed()


def closed() -> dict[str, Any]:
    command("close", WEEK, "--by", "Ada")
    report = report_of(WEEK)
    assert report is not None
    return statement_of(report)


def found(client: Client, **query: str) -> tuple[Any, str]:
    where = {"week": WEEK, "revision": 1, "figure": "charges"}
    answer = client.get(reverse("report-behind", kwargs=where), query)
    assert answer.status_code == 200
    return answer.context["found"], answer.content.decode()


def parts_of(one: Any) -> dict[str, Decimal]:
    """The parts that the page tells, added up by currency."""
    sums: dict[str, Decimal] = {}
    for row in one.charges:
        amount, currency = row["part"].split()
        sums[currency] = sums.get(currency, Decimal(0)) + Decimal(amount)
    return sums


def amounts(words: str) -> dict[str, Decimal]:
    """`10 EUR + 20 USD`: each currency once."""
    pairs = [one.split() for one in words.split(" + ")]
    found = {currency: Decimal(amount) for amount, currency in pairs}
    assert len(found) == len(pairs)
    return found


def said(statement: dict[str, Any], *places: str) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for row in statement["allocation"]:
        if row["place"] in places:
            before = sums.get(row["currency"], Decimal(0))
            sums[row["currency"]] = before + Decimal(row["effective"])
    return sums


def resources(one: Any) -> set[str]:
    return {row["resource"] for row in one.charges}


def test_the_parts_of_a_place_are_its_charges_and_add_up_to_it(
    every_place: dict[str, Any], auditor: Client
) -> None:
    pages = {place: found(auditor, place=place) for place in PLACES}
    for place, (one, text) in pages.items():
        assert parts_of(one) == said(every_place, place) != {}, place
        assert amounts(one.value) == amounts(one.parts_sum) == parts_of(one)
        assert f"stands in this sum comes to {one.parts_sum} effective" in text
        assert f'<span class="figure">{one.value}</span>' in text
        assert one.charges_count == len(one.charges)
        for row in one.charges:
            assert f'<td class="num">{row["part"]}</td>' in text
    # By hand: a quarter of 3 × 4.01 and of 3 × 4.03 stood idle, and all of the other node.
    assert parts_of(pages["idle"][0]) == {"USD": Decimal("7.03")}
    assert resources(pages["idle"][0]) == {"i-a", "i-unbilled"}
    assert parts_of(pages["unassigned"][0]) == {"USD": Decimal("12.09") * 3 / 4}
    assert resources(pages["unassigned"][0]) == {"i-a"}
    # Four of seven hours of 7.00, and three quarters of 12.03: two keys with nothing to split by.
    assert parts_of(pages["shared"][0]) == {"USD": 4 + Decimal("12.03") * 3 / 4}
    assert resources(pages["shared"][0]) == {"i-a", "nat-1"}
    # Three of four hours of its own 5.00, and four of five of what is split.
    assert parts_of(pages["workload"][0]) == {"USD": Decimal("3.75") + Decimal("0.88")}
    assert resources(pages["workload"][0]) == {"own", "lb-1"}
    assert "nobody held" in pages["idle"][1] and "no key has split" in pages["shared"][1]


def test_the_places_hold_every_part_of_every_charge_once(
    every_place: dict[str, Any], auditor: Client
) -> None:
    whole, _ = found(auditor)
    totals = every_place["control_totals"]
    assert amounts(whole.value) == {"USD": Decimal(totals["effective"])}
    assert whole.charges_count == totals["charges"]
    assert dict(lines(whole)) == added(*(found(auditor, place=place)[0] for place in PLACES))


def lines(one: Any) -> Iterator[tuple[tuple[str, str], Decimal]]:
    for row in one.charges:
        yield (row["document"], row["line"]), Decimal(row["part"].split()[0])


def added(*every: Any) -> dict[tuple[str, str], Decimal]:
    sums: dict[tuple[str, str], Decimal] = {}
    for one in every:
        for key, amount in lines(one):
            sums[key] = sums.get(key, Decimal(0)) + amount
    return sums


@pytest.mark.parametrize("with_rates", [True, False])
def test_parts_in_several_currencies_add_up_in_each(
    with_rates: bool, tmp_path: Path, settings: Any, auditor: Client
) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.whole_week(tmp_path)
    if with_rates:
        currencies.rates(tmp_path)
    statement = closed()
    places = {row["place"] for row in statement["allocation"]}
    for place in places:
        one, _ = found(auditor, place=place)
        assert parts_of(one) == said(statement, place)
        assert amounts(one.value) == amounts(one.parts_sum) == parts_of(one)
    whole, _ = found(auditor)
    assert parts_of(whole) == said(statement, *places)
    assert set(parts_of(whole)) == ({"USD"} if with_rates else {"USD", "CAD", "EUR"})
    documents = [one for one in statement["control_totals"]["documents"] if one["sums"]]
    assert {currency for one in documents for currency in one["sums"]} == {"USD", "CAD", "EUR"}
    for told in documents:
        one, _ = found(auditor, document=told["sha256"])
        own = {name: Decimal(sums["effective"]) for name, sums in told["sums"].items()}
        assert parts_of(one) == amounts(one.value) == own
