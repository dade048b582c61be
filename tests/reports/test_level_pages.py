"""Service levels, goodput and training on the pages: beside every cost per token (method §5)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from finops.ledger.models import Document, ServiceObjective, TrainingBudget, Workload
from finops.ledger.operations.workloads import add_workload
from reports import figures, level_words

from .example import statement
from .helpers import NOW, html_of, make_report

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
THIN = figures.THIN
COUNTS = {"counted": 472, "in_time_lower": 324, "in_time_upper": 341,
          "share_lower": "0.6864", "share_upper": "0.7225"}  # fmt: skip
GOOD = {"share_lower": "0.5864", "share_upper": "0.7225", "tokens_lower": 5_640_000_000,
        "tokens_upper": 6_948_000_000, "cost_per_million_lower": "2.5369",
        "cost_per_million_upper": "3.1253"}  # fmt: skip
OBJECTIVE = {"first_token_seconds": "0.6", "inter_token_seconds": "0.05", "target": "0.95",
             "valid_from": "2026-11-01T00:00:00Z", "by": "Ines", "note": ""}  # fmt: skip


def row(slug: str, **changes: Any) -> dict[str, Any]:
    return {
        "workload": slug, "objective": OBJECTIVE, "objective_changed": False,
        "start": "2026-11-16T00:00:00Z", "end": "2026-11-23T00:00:00Z",
        "first_token": COUNTS | {"verdict": "missed"},
        "inter_token": COUNTS | {"share_lower": "0.9", "share_upper": "0.9", "verdict": "missed"},
        "verdict": "missed", "goodput": GOOD, "reasons": {},
    } | changes  # fmt: skip


def changes() -> dict[str, Any]:
    """What the example statement has besides: only the first workload has an objective."""
    slugs = [w["slug"] for w in statement()["workloads"]]
    reasons = {"objective": "no service level objective is recorded"}
    nothing = dict.fromkeys(("objective", "first_token", "inter_token", "verdict", "goodput"))
    rest = [row(slug, **nothing, reasons=reasons) for slug in slugs[1:]]
    level = {"workloads": len(slugs), "with_objective": 1, "met": 0, "missed": 1, "undecided": 0}
    level |= {"first_token": COUNTS, "inter_token": None, "goodput": None, "reason": "not all"}
    return {
        "service_levels": [row(slugs[0]), *rest],
        "service_level": level,
        "training": TRAINING,
    }


TRAINING = {
    "workloads": [{"workload": "tune", "model": "m", "team": "Lab", "cost": "473.24",
                   "gpu_hours": "440"}],
    "cost": "473.24", "inference_cost": "7385.29", "share_of_inference": "0.0641",
    "late": [{"workload": "chat-70b", "lower": "104.94", "upper": "144.30"}],
    "late_cost_lower": "104.94", "late_cost_upper": "144.30", "reason": None,
    "message": "Training cost 473.24 USD this week.",
    "budget": {"quarter": "2026-Q4", "start": "2026-10-01T00:00:00Z", "end": "2027-01-01T00:00:00Z",
               "until": "2026-11-23T00:00:00Z", "amount": "6000", "currency": "USD",
               "document": None, "note": "plan", "by": "Ada", "at": "2026-10-01T08:00:00Z",
               "charges": 407, "spent": "3527.34", "share_spent": "0.5879",
               "share_elapsed": "0.5761", "forecast": "6122.92", "forecast_over_budget": "122.92",
               "other_currencies": []},
}  # fmt: skip


def test_shares_are_one_figure_or_from_to() -> None:
    assert level_words.share(COUNTS) == f"68.64{THIN}% to 72.25{THIN}%"
    assert level_words.share(COUNTS | {"share_upper": "0.6864"}) == f"68.64{THIN}%"
    assert level_words.share(COUNTS | {"share_upper": "0.99999"}).endswith(f">{THIN}99.99{THIN}%")
    assert level_words.share(None) == "n/a"


def test_a_price_without_an_upper_end_says_at_least() -> None:
    assert level_words.price(GOOD) == "2.54 to 3.13"
    assert level_words.price(GOOD | {"cost_per_million_upper": None}) == "at least 2.54"


def test_an_objective_in_words() -> None:
    assert level_words.objective(OBJECTIVE) == (
        f"first token within 0.6 s and 0.05 s between tokens, for 95{THIN}%"
    )
    one = OBJECTIVE | {"inter_token_seconds": None, "target": "0.999"}
    assert level_words.objective(one) == f"first token within 0.6 s, for 99.9{THIN}%"


@pytest.mark.parametrize("name", ["overview", "report", "workloads", "workload"])
def test_the_service_level_stands_beside_the_cost_per_token(
    name: str, client_of: Callable[..., Client]
) -> None:
    make_report(**changes())
    slug = statement()["workloads"][0]["slug"]
    add_workload(slug, model="m", stack="vllm", purpose="inference", by="Ada", at=NOW)
    kwargs = {"report": {"week": "2026-W47"}, "workload": {"slug": slug}}.get(name, {})
    text = html_of(client_of("finance").get(reverse(name, kwargs=kwargs)))
    assert f"58.64{THIN}%" in text
    if name in ("overview", "report"):
        assert f"In time: first token 68.64{THIN}% to 72.25{THIN}% (of 1 of" in text


def test_a_report_from_before_service_levels_says_so(client_of: Callable[..., Client]) -> None:
    make_report()
    client = client_of("finance")
    report = html_of(client.get(reverse("report", kwargs={"week": "2026-W47"})))
    assert "In time: n/a, made before service levels were counted" in report
    assert "h-levels" not in report and "h-training" not in report
    assert client.get(reverse("training")).status_code == 200


def test_the_report_has_the_section_on_training(client_of: Callable[..., Client]) -> None:
    make_report(**changes())
    client = client_of("auditor")
    for name, kwargs in (("report", {"week": "2026-W47"}), ("training", {})):
        text = html_of(client.get(reverse(name, kwargs=kwargs)))
        assert "Training cost 473.24 USD this week." in text
        assert "122.92 over the budget" in text
        assert "tokens that came late" in text


def test_an_objective_is_set_on_the_workload_s_page(client_of: Callable[..., Client]) -> None:
    add_workload("chat", model="m", stack="vllm", purpose="inference", by="Ada", at=NOW)
    client = client_of("engineer")
    given = {"first_token_seconds": "1", "inter_token_seconds": "", "target": "0.95",
             "valid_from": "2026-11-02", "note": "SLA 7"}  # fmt: skip
    url = reverse("workload-objective", kwargs={"slug": "chat"})
    wrong = client.post(url, given | {"first_token_seconds": "60"})
    assert "0.1 to 10 seconds" in html_of(wrong) and not ServiceObjective.objects.exists()
    answer = client.post(url, given, follow=True)
    row = ServiceObjective.objects.get()
    assert row.valid_from == datetime(2026, 11, 2, tzinfo=UTC)
    text = html_of(answer)
    assert f"first token within 1 s, for 95{THIN}%" in text and "SLA 7" in text
    assert (
        client.post(reverse("workload-objective", kwargs={"slug": "gone"}), given).status_code
        == 404
    )


def test_training_s_page_shows_no_objective_form(client_of: Callable[..., Client]) -> None:
    add_workload("tune", model="m", stack="torchrun", purpose="training", by="Ada", at=NOW)
    assert Workload.objects.get().purpose == "training"
    text = html_of(client_of("engineer").get(reverse("workload", kwargs={"slug": "tune"})))
    assert "h-slo" not in text


def test_a_budget_is_set_with_its_document(client_of: Callable[..., Client]) -> None:
    client = client_of("finance")
    given = {"quarter": "2026-Q4", "amount": "6000", "currency": "USD", "note": "line 14"}
    wrong = client.post(reverse("training"), given | {"quarter": "2026-Q9"})
    assert "not a quarter like 2026-Q4" in html_of(wrong)
    paper = SimpleUploadedFile("plan.txt", b"The board grants six thousand dollars.")
    answer = client.post(reverse("training"), given | {"document": paper}, follow=True)
    row = TrainingBudget.objects.get()
    assert (row.quarter, str(row.amount), row.document) == (
        "2026-Q4",
        "6000",
        Document.objects.get(name="plan.txt"),
    )
    assert f"6{THIN}000.00 USD" in html_of(answer)


CHANGE = {
    "key": "a1b2c3d4e5f6", "workload": "chat-70b", "kind": "configuration",
    "at": "2026-11-03T06:00:00Z", "before": "gpu_memory_utilization 0.92",
    "after": "gpu_memory_utilization 0.75", "confirmed_by": "Ines", "note": "OPS-470",
    "pairs": 120, "seed": "a1b2c3d4e5f6", "reason": None,
    "cost_per_million": {"before": "2.12", "after": "2.03", "difference": "-0.09",
                         "lower": "-0.12", "upper": "-0.06"},
    "p99_kv_use": {"before": "0.33", "after": "0.48", "difference": "0.15", "lower": "0.12",
                   "upper": "0.18"},
}  # fmt: skip


def test_changes_stand_in_the_report_and_on_their_page(client_of: Callable[..., Client]) -> None:
    few = CHANGE | {"cost_per_million": None, "p99_kv_use": None, "pairs": 3,
                    "reason": "not enough data: fewer than 24 matched hours"}  # fmt: skip
    make_report(changes=[CHANGE, few])
    client = client_of("auditor")
    for name, kwargs in (("report", {"week": "2026-W47"}), ("changes", {})):
        text = html_of(client.get(reverse(name, kwargs=kwargs)))
        assert "gpu_memory_utilization 0.92 → 0.75" in text
        assert f"{figures.MINUS}0.12 to {figures.MINUS}0.06" in text and "cheaper" in text
        assert "+15.0 points (+12.0 to +18.0)" in text
        assert "not enough data" in text and "seed a1b2c3d4e5f6" in text


def test_a_change_that_is_not_there_cannot_be_confirmed(client_of: Callable[..., Client]) -> None:
    given = {"key": "nothing", "verdict": "confirmed"}
    answer = client_of("engineer").post(reverse("changes"), given)
    assert "there is no change" in html_of(answer)
    assert client_of("auditor").post(reverse("changes"), given).status_code == 403
