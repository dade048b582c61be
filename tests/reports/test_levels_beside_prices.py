"""Wherever a cost per token stands, what came in time stands beside it (method §5)."""

from __future__ import annotations

import csv
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from reports import figures, level_columns
from reports.models import Report
from reports.queries.verifying import verify_seals
from tests.trail.test_chain import triggers_off

from .example import statement
from .helpers import html_of, make_report
from .test_cost_metrics import read, scraped
from .test_level_pages import COUNTS, THIN, changes

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
FROM_TO = f"68.64{THIN}% to 72.25{THIN}%"


def in_a_trend() -> dict[str, Any]:
    """The example's trend, its last week with what came in time."""
    rows = statement()["trend"]
    return {"trend": [*rows[:-1], rows[-1] | {"first_token": COUNTS, "inter_token": None}]}


def lines_of(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(html_of(answer).splitlines()))


def test_in_the_trend_of_a_report(client_of: Callable[..., Client]) -> None:
    make_report(**changes(), **in_a_trend())
    page = html_of(client_of("finance").get(reverse("report", kwargs={"week": "2026-W47"})))
    trend = page.partition('id="h-trend"')[2].partition("</section>")[0]
    assert FROM_TO in trend
    # Weeks of which it is not known have no figure, and no 0.
    assert trend.count(">n/a<") >= 2 * (trend.count("<tr>") - 2)


def test_on_the_page_of_two_weeks(client_of: Callable[..., Client]) -> None:
    make_report("2026-W46")
    make_report(**changes())
    page = html_of(
        client_of("finance").get(reverse("compare"), {"left": "2026-W46", "right": "2026-W47"})
    )
    row = page.partition("In time: first token")[2].partition("</tr>")[0]
    assert FROM_TO in row and "n/a" in row
    slug = statement()["workloads"][0]["slug"]
    row = page.partition(f">{slug}</a>")[2].partition("</tr>")[0]
    assert f"in time 58.64{THIN}% to 72.25{THIN}%" in row and "in time n/a" in row


def test_in_the_files(client_of: Callable[..., Client]) -> None:
    make_report("2026-W46")
    make_report(**changes())
    client = client_of("finance")
    rows = lines_of(client.get(reverse("report-csv", kwargs={"week": "2026-W47", "revision": 1})))
    assert rows[0]["first_token_in_time_lower"] == "0.6864"
    assert rows[0]["first_token_in_time_upper"] == "0.7225"
    assert (rows[0]["objective_target"], rows[0]["objective_verdict"]) == ("0.95", "missed")
    assert rows[0]["cost_per_million_tokens_in_time_upper"] == "3.1253"
    assert rows[1]["first_token_in_time_lower"] == "" == rows[1]["objective_target"]
    both = lines_of(client.get(reverse("compare-csv"), {"left": "2026-W46", "right": "2026-W47"}))
    whole = {
        row["figure"]: (row["2026-W46"], row["2026-W47"])
        for row in both
        if row["workload"] == "organisation"
    }
    assert whole["first_token_in_time_lower"] == ("", "0.6864")
    assert whole["inter_token_in_time_upper"] == ("", "")
    listed = lines_of(client.get(reverse("reports-csv")))
    assert listed[0]["first_token_in_time_lower"] == "0.6864"
    assert listed[1]["first_token_in_time_lower"] == ""


def test_for_a_prometheus(client: Client) -> None:
    make_report(**changes())
    found = read(scraped(client).content)
    slug = statement()["workloads"][0]["slug"]
    shares = {
        (labels.get("workload", ""), labels["measure"], labels["bound"]): value
        for labels, value in found["headroom_in_time_ratio"]
    }
    assert shares[slug, "first_token", "lower"] == Decimal("0.6864")
    assert shares[slug, "first_token", "upper"] == Decimal("0.7225")
    assert shares["", "first_token", "lower"] == Decimal("0.6864")
    # Three workloads, of which one is measured, and the organisation without the second measure.
    assert len(shares) == 4 + 2
    ((labels, target),) = found["headroom_in_time_target_ratio"]
    assert (labels["workload"], target) == (slug, Decimal("0.95"))
    prices = {labels["bound"]: v for labels, v in found["headroom_cost_per_million_tokens_in_time"]}
    assert prices == {"lower": Decimal("2.5369"), "upper": Decimal("3.1253")}
    weeks = {
        (labels["week"], labels["measure"], labels["bound"]): value
        for labels, value in found["headroom_week_in_time_ratio"]
    }
    assert weeks == {
        ("2026-W47", "first_token", "lower"): Decimal("0.6864"),
        ("2026-W47", "first_token", "upper"): Decimal("0.7225"),
    }


def test_a_share_is_a_figure_of_its_own_in_lists() -> None:
    told = level_columns.shares({"first_token": COUNTS, "inter_token": None})
    assert told == {
        "first_token_in_time_lower": "0.6864", "first_token_in_time_upper": "0.7225",
        "inter_token_in_time_lower": None, "inter_token_in_time_upper": None,
    }  # fmt: skip
    assert figures.coverage(told["first_token_in_time_lower"]) == f"68.64{THIN}%"


def test_a_copy_in_the_lists_that_was_changed_is_found() -> None:
    report = make_report(**changes(), **in_a_trend())
    assert [p for p in verify_seals() if "copy" in p] == []
    told = report.figures | {"first_token_in_time_lower": "0.99"}
    with triggers_off():
        Report.objects.filter(pk=report.pk).update(figures=told)
    assert any("copy of its figures" in problem for problem in verify_seals())


def test_a_report_closed_before_lists_told_service_levels_is_whole() -> None:
    older = [{k: v for k, v in row.items() if k not in ("first_token", "inter_token")}
             for row in statement()["trend"]]  # fmt: skip
    report = make_report(trend=older)
    with triggers_off():
        told = statement()["figures"] | {"currency": "USD"}
        Report.objects.filter(pk=report.pk).update(figures=told)
    assert [p for p in verify_seals() if "copy" in p] == []
