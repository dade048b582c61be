"""Service levels from real vLLM histograms: what a server's own text says is what is stated."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from finops.core.period import Period
from finops.core.statement import statement
from finops.ledger.models import Series, ServiceObjective
from finops.ledger.queries.facts import facts
from finops.trail.models import Entry
from tests.ledger import histograms, small_company
from tests.ledger.doors import command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
START = small_company.START


@pytest.fixture
def company(tmp_path: Path) -> Path:
    small_company.found(tmp_path)
    histograms.taken_in(tmp_path)
    return tmp_path


def stated() -> dict[str, Any]:
    return statement(facts(small_company.PERIOD, week="2026-W47"))


def level(slug: str = "llama") -> dict[str, Any]:
    row: dict[str, Any] = next(r for r in stated()["service_levels"] if r["workload"] == slug)
    return row


def test_without_an_objective_the_reason_is_told(company: Path) -> None:
    row = level()
    assert row["objective"] is row["first_token"] is row["goodput"] is row["verdict"] is None
    assert row["reasons"]["objective"] == "no service level objective is recorded"
    assert stated()["service_level"]["with_objective"] == 0


def test_counts_are_those_of_the_server_s_own_text(company: Path) -> None:
    moved = histograms.moved()
    command("workload", "slo", "llama", "--first-token", "0.6", "--inter-token", "0.05",
            "--target", "0.9", "--by", "Ada")  # fmt: skip
    row = level()

    first, between = "vllm:time_to_first_token", "vllm:inter_token_latency"
    assert row["first_token"]["counted"] == moved[first, "+Inf"] > 0
    assert row["first_token"]["in_time_lower"] == moved[first, "0.5"]
    assert row["first_token"]["in_time_upper"] == moved[first, "0.75"]
    assert row["inter_token"]["counted"] == moved[between, "+Inf"] > 0
    assert row["inter_token"]["in_time_lower"] == moved[between, "0.05"]
    assert row["inter_token"]["in_time_upper"] == moved[between, "0.05"]
    assert row["first_token"]["verdict"] == "missed"
    assert row["inter_token"]["verdict"] == "met"
    assert row["verdict"] == "missed"
    assert row["reasons"] == {}


def test_goodput_is_the_cost_of_the_tokens_in_time(company: Path) -> None:
    command("workload", "slo", "llama", "--first-token", "1", "--target", "0.9", "--by", "Ada")
    said, row = stated(), level()
    w = next(w for w in said["workloads"] if w["slug"] == "llama")
    counts = row["first_token"]
    lower = w["figures"]["tokens_lower"] * counts["in_time_lower"] // counts["counted"]
    upper = -(-w["figures"]["tokens_upper"] * counts["in_time_upper"] // counts["counted"])
    assert (row["goodput"]["tokens_lower"], row["goodput"]["tokens_upper"]) == (lower, upper)
    cost = Decimal(w["figures"]["effective_cost"])
    dearest = Decimal(row["goodput"]["cost_per_million_upper"])
    assert abs(dearest - cost * 10**6 / lower) < Decimal("1e-20")
    assert dearest > Decimal(w["figures"]["cost_per_million_tokens"])
    assert said["service_level"]["goodput"] is None
    assert said["service_level"]["reason"].startswith("not every workload")


def test_an_objective_holds_from_its_hour_on(company: Path) -> None:
    command("workload", "slo", "llama", "--first-token", "1", "--by", "Ada",
            "--from", "2026-11-16T01:00:00Z")  # fmt: skip
    row = level()
    assert row["objective"]["valid_from"] == "2026-11-16T01:00:00Z"
    assert row["first_token"] is None
    assert row["reasons"]["first_token"] == "no engine tells its buckets of this time"


def test_buckets_outside_the_kept_range_are_left_out(company: Path) -> None:
    kept = set(
        Series.objects.filter(role="first_token_bucket").values_list("labels__le", flat=True)
    )
    assert kept == {"0.1", "0.25", "0.5", "0.75", "1.0", "2.5", "5.0", "7.5", "10.0", "+Inf"}


def test_without_the_last_bucket_no_share_is_stated(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    histograms.taken_in(tmp_path, without='le="+Inf"')
    command("workload", "slo", "llama", "--first-token", "1", "--by", "Ada")
    row = level()
    assert row["first_token"] is row["verdict"] is row["goodput"] is None
    assert "last bucket" in row["reasons"]["first_token"]


def test_an_objective_is_in_the_list_and_in_the_trail(company: Path) -> None:
    command("workload", "slo", "llama", "--first-token", "1", "--by", "Ada")
    found = command("workload", "slo", "llama", "--first-token", "2", "--inter-token", "0.1",
                    "--target", "0.95", "--note", "SLA 7", "--by", "Bo")  # fmt: skip
    assert [row["first_token_seconds"] for row in found["objectives"]] == ["2", "1"]
    assert command("workload", "slo", "llama")["objectives"] == found["objectives"]
    entry = Entry.objects.filter(action="service level objective set").latest("number")
    assert (entry.actor, entry.subject) == ("Bo", "workload llama")
    assert entry.detail["first_token_seconds"] == "2"
    assert level()["objective"]["note"] == "SLA 7"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--first-token", "60"), "0.1 to 10 seconds"),
        (("--inter-token", "0.001"), "0.01 to 1 seconds"),
        (("--first-token", "soon"), "not a number"),
        (("--first-token", "1", "--target", "99"), "a share above 0"),
        (("--first-token", "1", "--from", "2026-11-16T01:30:00Z"), "whole UTC hour"),
        (("--first-token", ""), "needs a threshold"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    company: Path, arguments: tuple[str, ...], why: str
) -> None:
    with pytest.raises(CommandError, match=why):
        command("workload", "slo", "llama", *arguments, "--by", "Ada")
    assert not ServiceObjective.objects.exists()


def test_training_has_no_objective(company: Path) -> None:
    command("workload", "add", "tune", "--model", "m", "--stack", "torchrun", "--purpose",
            "training", "--by", "Ada")  # fmt: skip
    with pytest.raises(CommandError, match="training"):
        command("workload", "slo", "tune", "--first-token", "1", "--by", "Ada")
    assert "tune" not in [row["workload"] for row in stated()["service_levels"]]


def test_a_part_of_the_period_counts_its_own_hours(company: Path) -> None:
    command("workload", "slo", "llama", "--first-token", "1", "--by", "Ada")
    later = Period(START + timedelta(hours=1), small_company.PERIOD.end)
    row = statement(facts(later, week="2026-W47"))["service_levels"][0]
    assert row["first_token"] is None
