"""Training beside inference: quarters, burn, a plain linear forecast, and what came late (§5)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError

from finops.core.statement import statement
from finops.core.training import quarter_at, quarter_of
from finops.ledger.models import TrainingBudget
from finops.ledger.queries.facts import facts
from finops.trail.models import Entry
from tests.ledger import histograms, small_company
from tests.ledger.doors import command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "zone", "start", "end"),
    [
        ("2026-Q1", "UTC", "2026-01-01", "2026-04-01"),
        ("2026-Q3", "UTC", "2026-07-01", "2026-10-01"),
        ("2026-Q4", "UTC", "2026-10-01", "2027-01-01"),
        ("2026-Q4", "Europe/Berlin", "2026-09-30T22:00", "2026-12-31T23:00"),
    ],
)
def test_quarters_begin_at_the_zone_s_midnight(name: str, zone: str, start: str, end: str) -> None:
    found = quarter_of(name, ZoneInfo(zone))
    assert (found.start, found.end) == (instant(start), instant(end))
    assert quarter_at(found.start, ZoneInfo(zone)) == name
    assert quarter_at(found.end, ZoneInfo(zone)) != name


@pytest.mark.parametrize("text", ["2026-Q5", "2026Q4", "Q4", "1999-Q1", "2026-Q4 "])
def test_what_is_no_quarter_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quarter"):
        quarter_of(text, ZoneInfo("UTC"))


@pytest.fixture
def company(tmp_path: Path) -> Path:
    """The small company, whose machine `i-b` trains: 2 USD an hour, from 23:00 the day before."""
    small_company.found(tmp_path)
    command("workload", "add", "tune", "--model", "m", "--stack", "torchrun", "--purpose",
            "training", "--team", "Lab", "--by", "Ada")  # fmt: skip
    command("rule", "add", "tune", "--charge", "resource=i-b", "--order", "1", "--by", "Ada")
    return tmp_path


def stated() -> dict[str, Any]:
    return statement(facts(small_company.PERIOD, week="2026-W47"))


def test_without_a_budget_the_cost_stands_and_the_reason_is_told(company: Path) -> None:
    said = stated()["training"]
    assert [row["workload"] for row in said["workloads"]] == ["tune"]
    assert Decimal(said["cost"]) == 12
    assert said["budget"] is None
    assert said["reason"] == "no budget is recorded for the quarter"
    assert said["message"].startswith("Training cost 12.00 USD this week, inference ")


def test_burn_and_forecast_by_hand(company: Path) -> None:
    """Seven hours at 2 USD to 06:00 on 16 November: 46 days and 6 hours of the quarter's 92."""
    command("training-budget", "set", "2026-Q4", "20", "--note", "plan", "--by", "Ada")
    budget = stated()["training"]["budget"]
    assert (budget["until"], budget["charges"]) == ("2026-11-16T06:00:00Z", 7)
    assert Decimal(budget["spent"]) == 14
    assert Decimal(budget["share_spent"]) == Decimal("0.7")
    elapsed, whole = 46 * 24 + 6, 92 * 24
    ahead = Fraction(14 * whole, elapsed)
    assert abs(Fraction(budget["forecast"]) - ahead) < Fraction(1, 10**50)
    assert abs(Fraction(budget["forecast_over_budget"]) - (ahead - 20)) < Fraction(1, 10**50)
    assert ahead > 20
    assert stated()["training"]["message"].endswith("over the budget.")


def test_the_newest_budget_of_the_quarter_holds(company: Path) -> None:
    paper = company / "plan.txt"
    paper.write_text("The board grants forty dollars.")
    command("training-budget", "set", "2026-Q4", "20", "--by", "Ada")
    found = command("training-budget", "set", "2026-Q4", "40", "--document", paper, "--by", "Bo")
    command("training-budget", "set", "2027-Q1", "90", "--by", "Bo")
    assert [row["amount"] for row in found["budgets"]] == ["40", "20"]
    budget = stated()["training"]["budget"]
    assert (budget["amount"], budget["by"]) == ("40", "Bo")
    assert budget["document"] == found["budgets"][0]["document"] is not None
    assert Decimal(budget["forecast_over_budget"]) < 0
    entry = Entry.objects.filter(action="training budget set").earliest("number")
    assert (entry.actor, entry.subject, entry.detail["amount"]) == ("Ada", "training 2026-Q4", "20")


def test_a_budget_in_another_currency_is_not_compared(company: Path) -> None:
    command("training-budget", "set", "2026-Q4", "20", "--currency", "EUR", "--by", "Ada")
    said = stated()["training"]
    assert said["budget"]["forecast"] is said["budget"]["share_spent"] is None
    assert said["reason"] == "the budget is in another currency than the report"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("2026-Q7", "20"), "not a quarter"),
        (("2026-Q4", "much"), "not a number"),
        (("2026-Q4", "0"), "more than zero"),
        (("2026-Q4", "20", "--currency", "dollars"), "a code like USD"),
        (("2026-Q4", "20", "--document", "/nowhere/plan.pdf"), "no such file"),
    ],
)
def test_what_is_no_budget_is_refused(company: Path, arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        command("training-budget", "set", *arguments, "--by", "Ada")
    assert not TrainingBudget.objects.exists()


def test_what_came_late_is_cost_times_the_share_not_in_time(company: Path) -> None:
    histograms.taken_in(company)
    histograms.objective("llama", "--target", "0.9")
    said = stated()
    level = next(r for r in said["service_levels"] if r["workload"] == "llama")
    figures = next(w for w in said["workloads"] if w["slug"] == "llama")["figures"]
    cost, late = Fraction(figures["effective_cost"]), said["training"]
    counts = level["first_token"]
    for mine, theirs in (("lower", "upper"), ("upper", "lower")):
        share = 1 - Fraction(counts[f"in_time_{theirs}"], counts["counted"])
        assert abs(Fraction(late[f"late_cost_{mine}"]) - cost * share) < Fraction(1, 10**20)
    assert "tokens that came late" in late["message"]


def test_without_training_there_is_no_section(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    assert stated()["training"] is None
