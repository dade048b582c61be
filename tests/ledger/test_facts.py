"""From files to a statement: every figure of the small company recomputed by hand (§4–§8, §11)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from finops.core.allocation import CHARGE_COLUMNS
from finops.core.canonical import canonical_bytes
from finops.core.statement import statement
from finops.ledger.models import Rule
from finops.ledger.queries.facts import facts
from finops.ledger.queries.money import COLUMNS
from finops.trail.models import Entry
from tests.ledger import small_company
from tests.ledger.doors import command
from tests.ledger.small_company import PERIOD

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.fixture
def company(tmp_path: Path) -> None:
    small_company.found(tmp_path)


def stated() -> dict[str, Any]:
    return statement(facts(PERIOD, week="2026-W47"))


def workload(value: dict[str, Any], slug: str) -> dict[str, Any]:
    (row,) = [one for one in value["workloads"] if one["slug"] == slug]
    return row


def near(text: str, expected: Fraction) -> bool:
    return abs(Fraction(text) - expected) < Fraction(1, 10**40)


def test_unit_costs_are_the_plain_quotients(company: None) -> None:
    value = stated()
    assert value["reaches"]["complete"]
    assert value["reaches"]["common_start"] == "2026-11-16T00:00:00Z"
    llama, mistral = workload(value, "llama"), workload(value, "mistral")
    # llama: six hours at 1.50, and two thirds of six for the network; 36 steps of 600 + 60.
    # The reading at 00:00 shows nothing new; that at 06:00 belongs to the hour after.
    tokens = 35 * 660
    assert Decimal(llama["figures"]["effective_cost"]) == 13
    assert (llama["figures"]["prompt_tokens"], llama["figures"]["generation_tokens"]) == (
        21000,
        2100,
    )
    assert near(llama["figures"]["cost_per_million_tokens"], Fraction(13, tokens) * 10**6)
    # mistral: tokens move only to 03:00, whose reading belongs to the fourth hour.
    assert Decimal(mistral["figures"]["effective_cost"]) == 14
    assert mistral["figures"]["prompt_tokens"] == 18 * 300
    usage = Fraction(14, 18 * 300) * 10**6 * Fraction(4, 6)
    assert near(mistral["figures"]["usage_cost_per_million_tokens"], usage)
    both = Fraction(27, tokens + 18 * 300) * 10**6
    assert near(value["figures"]["cost_per_million_tokens"], both)
    assert llama["figures"]["gpu_hours"] == "6"
    assert "billed hours" in llama["figures"]["gpu_hours_source"]


def test_both_tables_close_and_the_plan_has_its_rows(company: None) -> None:
    value = stated()
    table = value["tieout"]["period"]
    rows = {row["key"]: Decimal(row["amount"]) for row in table["rows"]}
    # Billed: 6×2 machine, 6×1 network, 12 plan, 0.70 support, 5.55 tax.
    assert rows["billed"] == Decimal("36.25")
    assert rows["purchases sp-1"] == -12
    assert rows["use sp-1"] == 12  # 9 used and 3 not used
    assert rows["effective"] == Decimal("36.25")
    assert rows["place workload"] == 27
    assert rows["place unused commitment"] == 3
    assert rows["place out of scope"] == Decimal("5.55")
    assert rows["place unassigned"] == Decimal("0.70")
    assert Decimal(table["difference"]) == 0
    (invoice,) = value["tieout"]["invoice"]
    assert (invoice["invoice"], invoice["issued"], invoice["provisional"]) == ("INV-9", None, False)


def test_the_register_names_the_stray_engine_and_charge(company: None) -> None:
    rows = {row["kind"]: row for row in stated()["exceptions"]}
    assert rows["unassigned-charges"]["amount"] == "0.70"
    assert "stray" in rows["series-without-workload"]["subject"]
    assert "245 prompt and 35 generation" in rows["series-without-workload"]["text"]


def test_the_same_ledger_gives_the_same_bytes(company: None) -> None:
    assert canonical_bytes(stated()) == canonical_bytes(stated())


def test_a_preview_shows_what_would_move_and_keeps_nothing(company: None) -> None:
    before = Rule.objects.count()
    moved = command("rule", "preview", "llama", "--charge", "resource=support")
    assert moved["charges"] == 1
    (row,) = moved["rows"]
    assert (row["from"], row["to"]) == ("unassigned", "workload llama")
    assert Decimal(row["money"]["USD"]["effective"]) == Decimal("0.70")
    series = command("rule", "preview", "mistral", "--series", "model_name=stray", "--order", "1")
    (row,) = series["rows"]
    # The whole ledger: 36 steps of 7 + 1 in two series.
    assert (row["series"], row["tokens"], series["charges"]) == (2, 36 * 8, 0)
    late = command(
        "rule", "preview", "llama", "--charge", "resource=support", "--from", "2026-12-01"
    )
    assert late["rows"] == []
    assert Rule.objects.count() == before


def test_a_rule_replaced_and_retired_leaves_its_versions(company: None) -> None:
    number = command("rule", "add", "llama", "--charge", "resource=support")["rule"]["number"]
    assert Decimal(workload(stated(), "llama")["figures"]["cost_own"]) == Decimal("9.70")
    command("rule", "add", "mistral", "--charge", "resource=support", "--replaces", number)
    assert Decimal(workload(stated(), "llama")["figures"]["cost_own"]) == 9
    command("rule", "retire", number, "--by", "Bob")
    assert [row["number"] for row in command("rule", "list")["rules"]].count(number) == 0
    assert Rule.objects.filter(number=number).count() == 3
    assert Entry.objects.filter(subject=f"rule {number}").count() == 3


def test_unused_commitment_moves_only_for_a_rule_that_names_it(company: None) -> None:
    command("rule", "add", "llama", "--charge", "account=0012", "--order", "900")
    rows = {row["place"]: row for row in stated()["allocation"]}
    assert rows["unused commitment"]["effective"] == "3"
    command("rule", "add", "llama", "--charge", "commitment=sp-1", "--order", "901")
    assert "unused commitment" not in {row["place"] for row in stated()["allocation"]}


def test_charges_are_shared_by_tokens_and_by_gpu_hours(company: None) -> None:
    command("rule", "add", "shared:tokens", "--charge", "resource=support")
    llama = workload(stated(), "llama")["figures"]
    # 0.70 by processed tokens: llama 23,100 of 28,500.
    share = Fraction(7, 10) * Fraction(23100, 28500)
    assert abs(Fraction(llama["cost_shared"]) - 4 - share) < Fraction(1, 10**5)
    command("rule", "add", "shared:gpu-hours", "--charge", "resource=support", "--order", "1")
    assert Decimal(workload(stated(), "llama")["figures"]["cost_shared"]) == Decimal("4.35")


def test_a_declared_baseline_gives_a_saving(company: None, tmp_path: Path) -> None:
    offer = tmp_path / "offer.pdf"
    offer.write_bytes(b"%PDF- an offer")
    command("baseline", "add", "llama", "--per-million", "1000", "--currency", "USD",
            "--document", offer, "--by", "Ada")  # fmt: skip
    value = stated()
    # 23,100 tokens at 1000 a million are 23.10; 13 were spent.
    assert Decimal(value["figures"]["saving_vs_baseline"]) == Decimal("10.10")
    (row,) = value["baselines"]
    assert len(row["document_digests"][0]) == 64
    assert Decimal(row["saving_lower"]) <= Decimal(row["saving"]) <= Decimal(row["saving_upper"])
    assert "; llama cost 44 % less than on the legacy stack" in value["headline"]


def test_a_measured_baseline_is_frozen_tokens_and_cost(company: None) -> None:
    made = command("baseline", "add", "llama", "--from", "2026-11-16T00:00:00Z", "--to",
                   "2026-11-16T06:00:00Z", "--workload", "mistral")["baseline"]  # fmt: skip
    assert (made["basis"], made["prompt_tokens"], made["generation_tokens"]) == (
        "processed",
        5400,
        0,
    )
    assert Decimal(made["cost"]) == 14
    (row,) = stated()["baselines"]
    saving = Fraction(14, 5400) * 23100 - 13
    assert abs(Fraction(row["saving"]) - saving) < Fraction(1, 10**40)
    assert row["notes"][0].startswith("Different models")


@pytest.mark.parametrize(
    "arguments",
    [
        ("workload", "add", "Llama!", "--model", "m", "--stack", "vllm"),
        ("workload", "add", "llama", "--model", "m", "--stack", "vllm"),
        ("rule", "add", "nobody", "--series", "a=b"),
        ("rule", "add", "llama", "--charge", "resourec=i-1"),
        ("rule", "add", "llama", "--series", "a=~(a+)+b"),
        ("rule", "add", "shared:net", "--series", "a=b"),
        ("rule", "add", "shared:none", "--charge", "sku=b"),
        ("rule", "add", "llama", "--series", "a=b", "--from", "2026-11-02", "--to", "2026-11-01"),
        ("rule", "retire", "999"),
        ("shared-key", "add", "bad", "--shares", "nobody=1"),
        ("baseline", "add", "llama", "--per-million", "-1", "--document", "x"),
        ("baseline", "add", "llama", "--per-million", "1", "--document", "/nowhere"),
        ("baseline", "add", "llama", "--from", "2026-11-16", "--to", "2026-11-20", "--workload", "mistral"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_a_sentence(
    company: None, arguments: tuple[str, ...]
) -> None:
    entries = Entry.objects.count()
    with pytest.raises(CommandError) as refused:
        command(*arguments)
    assert refused.value.returncode == 2
    assert "Unexpected" not in str(refused.value)
    assert Entry.objects.count() == entries


def test_an_empty_ledger_still_states() -> None:
    value = stated()
    assert value["figures"]["cost_per_million_tokens"] is None
    assert value["tieout"]["period"]["difference"] == "0"
    assert value["exceptions"] == []
    assert not value["reaches"]["complete"]


def test_rules_know_every_column_of_charges() -> None:
    assert set(CHARGE_COLUMNS) == set(COLUMNS)


def test_while_cost_lags_the_report_is_preliminary_and_counts_only_common_hours(
    tmp_path: Path,
) -> None:
    rows = [row for row in small_company.charges() if row["ChargePeriodStart"] < "2026-11-16T04"]
    whole = [row for row in rows if row["ChargePeriodEnd"] <= "2026-11-16T04:00:00Z"]
    (tmp_path / "early.csv").write_text(small_company.csv_text(whole))
    (tmp_path / "readings.om").write_text(small_company.openmetrics())
    command("ingest", tmp_path / "early.csv", tmp_path / "readings.om")
    command("workload", "add", "llama", "--model", "llama", "--stack", "vllm")
    command("rule", "add", "llama", "--series", "model_name=llama")
    command("rule", "add", "llama", "--charge", "resource=i-a")
    value = stated()
    assert not value["reaches"]["complete"]
    assert value["reaches"]["cost"] == value["reaches"]["common_end"] == "2026-11-16T04:00:00Z"
    assert value["reaches"]["tokens"] == "2026-11-16T06:00:00Z"
    figures = workload(value, "llama")["figures"]
    # Four hours: 4 × 1.50 for 23 steps of 600 prompt tokens; all tokens stand beside them.
    assert (figures["effective_cost"], figures["prompt_tokens"]) == ("6.00", 23 * 600)
    assert workload(value, "llama")["tokens"]["prompt"] == 35 * 600
    assert "preliminary" in value["headline"]


def test_another_currency_is_kept_apart(company: None, tmp_path: Path) -> None:
    euros = [row | {"BillingCurrency": "EUR", "InvoiceIssuerName": "Wolke", "InvoiceId": "W-1"}
             for row in small_company.charges() if row.get("ResourceId") == "i-a"]  # fmt: skip
    (tmp_path / "euros.csv").write_text(small_company.csv_text(euros))
    command("ingest", tmp_path / "euros.csv")
    value = stated()
    assert value["currency"] == "USD"
    llama = workload(value, "llama")
    assert Decimal(llama["figures"]["period_effective_cost"]) == 13
    # Six hours of 1.50 EUR more are unknown in USD: a unit cost of 13 USD would be too low.
    assert llama["figures"]["effective_cost"] is llama["figures"]["tokens_per_dollar"] is None
    assert "EUR and was not converted" in llama["reasons"]["cost_per_million_tokens"]
    assert "EUR and was not converted" in llama["reasons"]["effective_cost"]
    # What is in one currency alone keeps its unit cost.
    assert Decimal(workload(value, "mistral")["figures"]["effective_cost"]) == 14
    found = {(row["subject"], row["amount"]) for row in value["exceptions"]
             if row["kind"] == "currencies-mixed"}  # fmt: skip
    assert found == {("llama EUR", "9.00"), ("report", None)}
    (other,) = value["tieout"]["period"]["other_currencies"]
    assert (other["currency"], Decimal(other["effective"]), Decimal(other["difference"])) == (
        "EUR",
        9,
        0,
    )
