"""What the README of a pack says to type in a terminal is typed, and gives what the report says."""

from __future__ import annotations

import re
import shutil
import subprocess
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from reports.evidence import verify
from reports.queries.standing import report_of, standing
from tests.evidence.conftest import Sealed, seal_week, unpacked
from tests.evidence.test_currencies import three  # noqa: F401 - a fixture
from tests.ledger import small_company
from tests.ledger.doors import command, ingested
from tests.reports.test_closing import WEEK, whole_week

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.skipif(not shutil.which("bc"), reason="this machine has no bc"),
]

EDGES = (  # resource, start, end, cost: charges across an edge of the week, by their hours inside
    ("i-a", "22T23", "24T07", "0.01"),  # 1 of 32: 0.0003125, a tie above an even digit
    ("i-a", "14T19", "16T03", "0.01"),  # 29 of 32 before the week: 0.0090625, another
    ("i-b", "22T21", "24T05", "-0.01"),  # 3 of 32, negative: 0.0009375, a tie above an odd digit
    ("i-b", "15T23", "23T02", "1.007"),  # across both edges
    ("nat-1", "22T18", "23T03", "2.5"),  # shared
)


def with_edges(folder: Path, unit: str = "Hours", euros: str = "") -> Sealed:
    """The small company's sealed week with charges across its edges, and perhaps one in euros of a
    workload that has no tokens."""
    small_company.found(folder)
    whole_week(folder)
    rows = small_company.charges()
    machine = {one["ResourceId"]: one for one in rows if "ResourceId" in one}
    rest = {"ChargePeriodStart": "2026-11-16T07:00:00Z", "ChargePeriodEnd": "2026-11-23T00:00:00Z"}
    rows.append(rows[-1] | rest | {"ResourceId": "i-b", "ChargeCategory": "Usage"})
    for resource, start, end, cost in EDGES:
        rows.append(machine[resource] | {
            "ChargePeriodStart": f"2026-11-{start}:00:00Z",
            "ChargePeriodEnd": f"2026-11-{end}:00:00Z",
            "BilledCost": cost, "EffectiveCost": cost, "ChargeClass": "Correction",
            "ConsumedUnit": unit,
        })  # fmt: skip
    taken_in(folder / "edges.csv", rows)
    if euros:
        own = {"BillingCurrency": "EUR", "InvoiceIssuerName": "Cloud EUR", "ResourceId": "i-o"}
        costs = {"BilledCost": euros, "EffectiveCost": euros}
        taken_in(folder / "euros.csv", [machine["i-b"] | rest | own | costs])
        command("workload", "add", "other", "--model", "o", "--stack", "vllm", "--by", "Ada")
        command("rule", "add", "other", "--charge", "resource=i-o", "--by", "Ada")
    seal_week()
    report = report_of(WEEK)
    assert report is not None
    return Sealed(standing(report), folder)


def taken_in(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text(small_company.csv_text(rows))
    assert ingested(path)[0]["status"] == "posted"


def typed(files: dict[str, bytes], folder: Path) -> tuple[dict[tuple[str, str], Decimal], Decimal]:
    """What the terminal answers: amounts by kind and name, and the price."""
    for name, content in files.items():
        path = folder / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    text = "\n".join(re.findall(r"```sh\n(.*?)```", files["README.md"].decode(), re.DOTALL))
    done = subprocess.run(["sh", "-euc", text], cwd=folder / "pack", capture_output=True,
                          text=True, check=True)  # fmt: skip
    assert done.stderr == ""
    there = {path for path in (folder / "pack").rglob("*") if path.is_file()}
    assert there == {folder / "pack" / name for name in files}, "the pack is as it was"
    *lines, price = done.stdout.splitlines()
    told = {}
    for line in lines:
        kind, name, amount = line.split(" ")
        assert (kind, name) not in told
        told[kind, name] = Decimal(amount)
    return told, Decimal(price)


def largest_remainder(pot: Decimal, weights: dict[str, int]) -> dict[str, Decimal]:
    """Shares of a pot, as the README says (method §4)."""
    decimals, total = -int(pot.as_tuple().exponent) + 4, sum(weights.values())
    ideal = {one: Fraction(pot) * 10**decimals * w / total for one, w in sorted(weights.items())}
    cut = {one: int(value) for one, value in ideal.items()}
    missing = int(Fraction(pot) * 10**decimals) - sum(cut.values())
    for one in sorted(ideal, key=lambda each: cut[each] - ideal[each])[:missing]:
        cut[one] += 1
    return {one: Decimal(value).scaleb(-decimals) for one, value in cut.items()}


def headline_of(sealed: Sealed, folder: Path) -> dict[tuple[str, str], Decimal]:
    """Types the commands; cost, tokens and price made of the answers are those of the report."""
    files, statement = unpacked(sealed.pack()), sealed.stand.statement
    told, price = typed(files, folder)
    week = verify.Week(verify.Pack(files), statement)
    assert len(week.counting) == 2 and len({w["common"] for w in week.counting}) == 1
    costs = week.costs(week.counting[0]["common"])
    own = {
        place: total[1]
        for (place, currency), total in costs.places.items()
        if currency == week.currency and place[0] == "workload"
    }
    pots = {
        ("shared", name): total[1]
        for (name, currency), total in costs.shared.items()
        if currency == week.currency
    }
    assert {key: one for key, one in told.items() if key[0] != "tokens"} == own | pots
    cost = Decimal(0)
    for w in week.counting:
        place = ("workload", w["slug"])
        tokens = w["counted"]["prompt"] + w["counted"]["generation"]
        assert told["tokens", w["slug"]] == tokens
        parts = largest_remainder(told["shared", "net"], {"llama": 2, "mistral": 1})
        mine = told.get(place, Decimal(0)) + parts[w["slug"]]
        assert mine == w["cost"], w["slug"]
        cost += mine
    figures = statement["figures"]
    assert cost == Decimal(figures["effective_cost"])
    tokens = sum(amount for key, amount in told.items() if key[0] == "tokens")
    assert tokens == figures["prompt_tokens"] + figures["generation_tokens"]
    said = Decimal(figures["cost_per_million_tokens"])
    assert abs(Fraction(cost) * 10**6 / int(tokens) - Fraction(said)) < Fraction(1, 10**50)
    assert abs(price - said) < Decimal(1).scaleb(-50)
    return told


def test_the_commands_of_a_readme_give_the_headline(sealed: Sealed, tmp_path: Path) -> None:
    headline_of(sealed, tmp_path)


def test_parts_across_an_edge_round_a_tie_to_the_even_digit(tmp_path: Path) -> None:
    told = headline_of(with_edges(tmp_path), tmp_path)
    # By hand: six hours and one of 1.50; 0.000312 at the end, 0.01 - 0.009062 at the beginning.
    assert told["workload", "llama"] == Decimal("10.50") + Decimal("0.000312") + Decimal("0.000938")
    # Six hours of 2 and one more, 5.55 for the rest; -0.000938; of 1.007 168 hours of 171.
    whole = Fraction("1.007") / 171
    over = round(whole * 169 * 10**7) - round(whole * 1 * 10**7)
    assert told["workload", "mistral"] == Decimal("19.55") - Decimal("0.000938") + Decimal(
        over
    ).scaleb(-7)


def test_charges_in_other_currencies_count_as_the_report_converts_them(
    three: Sealed,  # noqa: F811
    tmp_path: Path,
) -> None:
    told = headline_of(three, tmp_path)
    # Seven hours of 2.00 CAD and 99.99 more at 1.12 ÷ 1.54; seven of 1 EUR at 1.12.
    seven = Decimal("1.454545454545") * 7
    rest = Fraction("99.99") * Fraction("1.12") / Fraction("1.54")
    assert abs(Fraction(told["workload", "mistral"] - seven) - rest) < Fraction(1, 10**11)
    assert told["shared", "net"] == Decimal("7.84")


def test_the_commands_are_left_out_where_a_comma_stands_in_a_unit(tmp_path: Path) -> None:
    readme = unpacked(with_edges(tmp_path, unit="1,000 Hours").pack())["README.md"].decode()
    assert "the commands for a terminal are left out" in readme
    assert "```sh" not in readme and "awk -F," not in readme


def test_another_currency_that_is_not_converted_is_left_out(tmp_path: Path) -> None:
    """The report is in dollars, for it has most charges in them."""
    sealed = with_edges(tmp_path, euros="4.20")
    assert b",EUR," in unpacked(sealed.pack())["ledgers/charges.csv"]
    told = headline_of(sealed, tmp_path)
    assert set(told) == {(kind, slug) for kind in ("tokens", "workload")
                         for slug in ("llama", "mistral")} | {("shared", "net")}  # fmt: skip
