"""The tie-out of a period closes over plans, paired views and rate cards (method §4)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from finops.core.period import week_of
from finops.core.tieout import period_table
from finops.ledger.queries.facts import facts
from finops.trail.queries import entries
from tests.ledger.doors import ingested
from tests.ledger.test_formats import CARD, COVERED, PURCHASE, azure, card_file, coreweave
from tests.sources.reading import as_csv, sample
from tests.sources.test_aws_cur import PLAN, line

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def table(week: str) -> dict[str, Any]:
    period = week_of(week, ZoneInfo("UTC"))
    return period_table(facts(period, week=week))


def rows(found: dict[str, Any]) -> dict[str, Decimal]:
    return {row["label"]: Decimal(row["amount"]) for row in found["rows"]}


def test_a_savings_plan_of_a_report(tmp_path: Path) -> None:
    covered = line("SavingsPlanCoveredUsage", "55.04", **PLAN)
    covered["savingsPlan/SavingsPlanEffectiveCost"] = "38.16"
    fee = line("SavingsPlanRecurringFee", "40", **PLAN)
    fee |= {"savingsPlan/TotalCommitmentToDate": "40", "savingsPlan/UsedCommitment": "38.16"}
    path = tmp_path / "cur.csv"
    negated = line("SavingsPlanNegation", "-55.04", **PLAN)
    path.write_text(as_csv([covered, negated, fee, line("Usage", "10")]))
    ingested(path)
    found = table("2026-W41")
    assert found["difference"] == "0.00"
    labels = rows(found)
    assert (labels["Billed in the period"], labels["Effective cost of the period"]) == (50, 50)
    assert labels["less purchases of arn:plan"] == Decimal("-38.16")
    assert labels["amortised use of arn:plan"] == Decimal("38.16")
    assert labels["Unused commitment"] == Decimal("1.84")


def test_the_published_month_of_a_savings_plan_closes() -> None:
    folder = "invoices/generated-with-nise/"
    name = "aws_cur-legacy_p5-savingsplan-covered-and-negation_g5_marketplace.csv"
    ingested(sample(folder + name))
    found = table("2026-W40")
    assert Decimal(found["difference"]) == 0
    labels = rows(found)
    assert labels["Billed in the period"] == Decimal("296.256")
    assert labels["Effective cost of the period"] == Decimal("2127.936")
    assert labels["amortised use of savings plan without a name"] == Decimal("1831.68")


def test_two_views_that_are_paired(tmp_path: Path) -> None:
    ingested(azure(tmp_path, "a.csv", {"Cost": "10"}, PURCHASE, COVERED | {"Cost": "0"}))
    ingested(azure(tmp_path, "m.csv", {"Cost": "10"}, COVERED | {"Cost": "41.5"}))
    found = table("2026-W36")
    assert Decimal(found["difference"]) == 0
    labels = rows(found)
    assert labels["Billed in the period"] == 3010
    assert labels["less purchases of /reservations/r1"] == -3000
    assert labels["amortised use of /reservations/r1"] == Decimal("41.5")
    assert labels["Effective cost of the period"] == Decimal("51.5")
    actions = [entry.action for entry in entries()]
    assert actions.count("document.reread") == 1


def test_what_a_rate_card_prices_has_its_own_row(tmp_path: Path) -> None:
    ingested(coreweave(tmp_path / "usage.csv", "8"), card_file(tmp_path / "card.json", CARD))
    found = table("2026-W41")
    assert Decimal(found["difference"]) == 0
    labels = rows(found)
    assert labels["Billed in the period"] == 0
    assert labels["priced by rate card coreweave 2026 v1, not invoiced"] == Decimal("19.12")
