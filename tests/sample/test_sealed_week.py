"""The sealed week of the sample: its report says what is true, its seal and ledger hold."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client

from finops import service
from finops.ledger.which import use_ledger
from finops.sample import books, demo, fleet
from finops.sample.generator import Made
from finops.sample.truth import part
from reports.models import Report
from reports.queries.standing import statement_of
from reports.queries.verifying import verify_seals
from reports.roles import ensure_groups
from tests.ledger.doors import command
from tests.sample.conftest import AT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(databases=["default", "sample"]),
]

GPUS = {"chat-70b": 8, "code-32b": 4, "assist-8b": 1, "extract-7b": 1, fleet.TRAINING: 8}
WITHOUT_BUCKETS = (fleet.LEGACY,)
VLLM = ("chat-70b", "code-32b", "assist-8b", "extract-7b")
SPLITTING = Fraction(1, 10**6)  # what largest remainders on the last digits may differ by


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


@pytest.fixture
def printed(sample: demo.Sample) -> dict[str, Any]:
    """What `report latest --sample --json` prints."""
    return command("report", "latest", "--sample")


@pytest.fixture
def span(made: Made) -> tuple[int, int]:
    week = made.calendar.weeks[-1]
    return _ms(week.start), _ms(week.end)


def _shares(made: Made, start: int, end: int) -> dict[str, dict[str, Fraction]]:
    """Each key's share of each workload, from the truth."""
    tokens, hours = {}, defaultdict(int)
    for slug in VLLM:
        counted = made.truth.tokens(slug, start, end)
        tokens[slug] = counted["prompt"] + counted["generation"]
    for line in made.truth.lines:
        if line.place in GPUS and start <= line.start_ms < end:
            hours[line.place] += GPUS[line.place] * (line.end_ms - line.start_ms) // 3_600_000
    weights = {
        "shared:tokens": tokens,
        "shared:gpu-hours": hours,
        "shared:platform": books.PLATFORM_SHARES,
    }
    return {
        key: {slug: Fraction(n, sum(given.values())) for slug, n in given.items()}
        for key, given in weights.items()
    }


def _true_costs(made: Made, start: int, end: int) -> dict[str, Fraction]:
    """Own and shared effective cost of each workload."""
    shares = _shares(made, start, end)
    costs: dict[str, Fraction] = defaultdict(Fraction)
    for line in made.truth.lines:
        cost = Fraction(part(line.effective, line.start_ms, line.end_ms, start, end))
        for slug, share in shares.get(line.place, {line.place: Fraction(1)}).items():
            costs[slug] += cost * share
    return costs


def test_the_newest_week_is_sealed_by_two_people(
    sample: demo.Sample, printed: dict[str, Any]
) -> None:
    assert printed["week"] == sample.sealed_week == "2026-W47"
    assert (printed["state"], printed["sample"]) == ("final", True)
    assert printed["digest"] == sample.digest
    with use_ledger("sample"):
        assert verify_seals() == []


def test_costs_of_the_workloads(made: Made, printed: dict[str, Any], span: tuple[int, int]) -> None:
    truth = _true_costs(made, *span)
    for workload in printed["workloads"]:
        expected = truth.get(workload["slug"], Fraction(0))
        cost = Fraction(workload["figures"]["period_effective_cost"])
        assert abs(cost - expected) < SPLITTING, workload["slug"]


def test_cost_per_million_tokens(
    made: Made, printed: dict[str, Any], span: tuple[int, int]
) -> None:
    truth = _true_costs(made, *span)
    cost, tokens = Fraction(0), 0
    for workload in printed["workloads"]:
        slug, figures = workload["slug"], workload["figures"]
        if slug not in VLLM:
            assert figures["cost_per_million_tokens"] is None
            continue
        counted = made.truth.tokens(slug, *span)
        mine = counted["prompt"] + counted["generation"]
        expected = truth[slug] * 10**6 / mine
        assert abs(Fraction(figures["cost_per_million_tokens"]) - expected) < SPLITTING
        cost, tokens = cost + truth[slug], tokens + mine
    figures = printed["figures"]
    assert abs(Fraction(figures["cost_per_million_tokens"]) - cost * 10**6 / tokens) < SPLITTING
    assert figures["prompt_tokens"] + figures["generation_tokens"] == tokens
    assert f"{float(cost * 10**6 / tokens):.2f} USD" in printed["headline"]


def test_saving_against_the_legacy_stack(
    made: Made, printed: dict[str, Any], span: tuple[int, int]
) -> None:
    """This week's delivered tokens at what a token cost on the legacy stack, less the cost."""
    weeks = made.calendar.weeks[: fleet.LEGACY_WEEKS]
    before = (_ms(weeks[0].start), _ms(weeks[-1].end))
    old = made.truth.tokens(fleet.LEGACY, *before)
    rent = Fraction(made.truth.money(*before)[fleet.LEGACY][1])
    price = rent / (old["delivered_prompt"] + old["delivered_generation"])
    now = made.truth.tokens("assist-8b", *span)
    expected = (now["delivered_prompt"] + now["delivered_generation"]) * price
    expected -= _true_costs(made, *span)["assist-8b"]
    figures = next(w for w in printed["workloads"] if w["slug"] == "assist-8b")["figures"]
    assert abs(Fraction(figures["saving_vs_baseline"]) - expected) < SPLITTING
    assert expected > 0


def test_both_tie_outs_close(made: Made, printed: dict[str, Any], span: tuple[int, int]) -> None:
    period, invoice = printed["tieout"]["period"], printed["tieout"]["invoice"]
    truth = made.truth.money(*span)
    assert Decimal(period["difference"]) == Decimal(invoice["difference"]) == 0
    assert Decimal(period["billed_side"]) == sum(billed for place, (billed, _) in truth.items())
    assert Decimal(period["effective"]) == sum(effective for _, effective in truth.values())
    rows = {row["key"].split(" arn:")[0]: Decimal(row["amount"]) for row in period["rows"]}
    assert rows["purchases"] == -truth["covering purchase"][0]
    assert rows["use"] == truth["covering purchase"][0] + truth["covering purchase"][1]
    assert rows["place unused commitment"] == truth["unused commitment"][1]
    assert rows["place out of scope"] == truth["out of scope"][1]


def test_every_exception_is_there_and_dispositioned(
    made: Made, printed: dict[str, Any], span: tuple[int, int]
) -> None:
    exceptions = printed["exceptions"]
    kinds = {one["kind"] for one in exceptions}
    assert {"gaps", "restarts", "hidden-resets", "provisional-month", "unassigned-charges"} <= kinds
    unassigned = next(one for one in exceptions if one["kind"] == "unassigned-charges")
    assert Decimal(unassigned["amount"]) == made.truth.money(*span)["unassigned"][1]


def test_the_ledger_and_the_trail_check_out(sample: demo.Sample) -> None:
    answer = command("check-ledger", "--sample")
    assert answer["ok"] is True and answer["problems"] == []


def test_a_second_demo_changes_nothing(sample: demo.Sample) -> None:
    again = demo.make(AT)
    assert (again.is_new, again.digest, again.weeks) == (False, sample.digest, sample.weeks)
    answer = command("demo")
    assert (answer["ok"], answer["new"], answer["digest"]) == (True, False, sample.digest)
    assert (settings.DATA / service.SAMPLE_MADE).exists()  # `./run` after it does not make it again


def test_the_documents_add_up_to_the_control_totals(
    made: Made, sample: demo.Sample, span: tuple[int, int]
) -> None:
    with use_ledger("sample"):
        report = Report.objects.get(week=sample.sealed_week)
    stated = statement_of(report)
    totals = stated["control_totals"]
    assert stated["organisation"] == "Fernhill Analytics"
    sums = [one["sums"]["USD"] for one in totals["documents"] if one["sums"]]
    for basis in ("billed", "effective"):
        assert sum(Decimal(one[basis]) for one in sums) == Decimal(
            totals["by_currency"]["USD"][basis]
        )
    assert sum(one["charges"] for one in sums) == totals["by_currency"]["USD"]["charges"]
    (cloud,) = sums  # the legacy host's invoices end with the stack
    assert Decimal(cloud["billed"]) == sum(billed for billed, _ in made.truth.money(*span).values())


def test_every_figure_of_the_sample_leads_to_kept_rows(
    sample: demo.Sample, printed: dict[str, Any]
) -> None:
    """Memory and right-sizing of each engine, service levels, training and the bridge."""
    ensure_groups()
    user = User.objects.create_user("Vera", password="a long enough one")
    user.groups.set(Group.objects.filter(name="auditor"))
    client = Client()
    client.force_login(user)
    address = f"/reports/{printed['week']}/{printed['revision']}/"
    text = client.get(address).content.decode()
    links = sorted(set(re.findall(rf'href="({address}rows/[^"]*)"', text)))
    kinds = {link.removeprefix(f"{address}rows/").partition("/")[0] for link in links}
    assert kinds == {"memory", "rightsizing", "service-level", "training", "bridge"}
    empty = []
    for link in links:
        answer = client.get(html.unescape(link))
        assert answer.status_code == 200, link
        if "<tbody><tr>" not in answer.content.decode():
            empty.append(link)
    assert empty == [f"{address}rows/service-level/?workload={slug}" for slug in WITHOUT_BUCKETS]
