"""Closing, sealing and restating a real small ledger, by the commands people type."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from reports.models import Report, Seal
from reports.operations.closing import close_week
from reports.tasks import close_week as close_week_task
from tests.ledger import small_company
from tests.ledger.doors import ingested
from tests.reports.helpers import NOW

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
WEEK = "2026-W47"


def command(name: str, *arguments: object) -> dict[str, Any]:
    out = StringIO()
    call_command(name, *map(str, arguments), "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


@pytest.fixture
def company(tmp_path: Path) -> Path:
    small_company.found(tmp_path)
    return tmp_path


def later_invoice(folder: Path, billed: str) -> None:
    """The month's export again, with another amount for support and lines to the week's end."""
    rows = small_company.charges()
    support = next(row for row in rows if row["ServiceName"] == "Support")
    support |= {"BilledCost": billed, "EffectiveCost": billed}
    path = folder / f"invoice-{billed}.csv"
    path.write_text(small_company.csv_text(rows))
    assert ingested(path)[0]["status"] == "posted"


def whole_week(folder: Path) -> None:
    """Readings and charges that reach the end of the week, so that it can be sealed."""
    start = small_company.START
    lines = ["# TYPE vllm:prompt_tokens counter"]
    moment = int(start.timestamp()) + 7 * 3600
    while moment < int(start.timestamp()) + 7 * 86_400 + 3600:
        for instance in "abc":
            model = small_company.ENGINES[instance][0]
            labels = f'instance="{instance}",job="vllm",model_name="{model}",engine="0"'
            lines.append(f"vllm:prompt_tokens_total{{{labels}}} 900000 {moment}")
        moment += 600
    path = folder / "rest.om"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    assert ingested(path)[0]["status"] == "posted"
    end = {"ChargePeriodStart": "2026-11-16T07:00:00Z", "ChargePeriodEnd": "2026-11-23T00:00:00Z"}
    rows = small_company.charges()
    rows.append(rows[-1] | end | {"ChargeCategory": "Usage", "ResourceId": "i-b"})
    invoice = folder / "whole.csv"
    invoice.write_text(small_company.csv_text(rows))
    assert ingested(invoice)[0]["status"] == "posted"


def test_closing_again_makes_a_revision_only_when_something_differs(company: Path) -> None:
    first = command("close", WEEK, "--by", "Ada")
    assert (first["revision"], first["new"], first["state"]) == (1, True, "preliminary")
    again = command("close", WEEK, "--by", "Ada")
    assert (again["revision"], again["new"], again["digest"]) == (1, False, first["digest"])
    later_invoice(company, "0.80")
    third = command("close", WEEK, "--by", "Ada")
    assert (third["revision"], third["new"]) == (2, True)
    stored = Report.objects.get(week=WEEK, revision=1)
    assert hashlib.sha256(bytes(stored.statement)).hexdigest() == first["digest"]


def test_the_report_command_gives_the_contract_s_keys(company: Path) -> None:
    command("close", WEEK, "--by", "Ada")
    html = company / "r.html"
    report = command("report", WEEK, "--html", html)
    for key in ("week", "state", "revision", "digest", "sample", "cost_reaches", "tokens_reach",
                "headline", "figures", "workloads", "tieout", "exceptions"):  # fmt: skip
        assert key in report, key
    assert Decimal(report["tieout"]["period"]["difference"]) == 0
    assert Decimal(report["tieout"]["invoice"]["difference"]) == 0
    assert report["sample"] is False
    assert report["headline"] in html.read_text().replace("&#x27;", "'")


def test_what_cannot_be_done_says_so(company: Path) -> None:
    with pytest.raises(CommandError, match="not closed"):
        command("report", WEEK)
    with pytest.raises(CommandError, match="no such ISO week"):
        command("close", "2026-W99", "--by", "Ada")
    future = command("close", "2099-W01", "--by", "Ada")
    assert not future["ok"] and "not begun" in future["error"]
    command("close", WEEK, "--by", "Ada")
    refused = command("approve", WEEK, "--by", "Ada")
    assert not refused["ok"] and "two people" in refused["error"]
    refused = command("seal", WEEK, "--by", "Ben")
    assert not refused["ok"] and "approved" in refused["error"]
    assert "reach" in refused["error"]


def test_a_sealed_week_is_restated_only_when_a_printed_figure_changes(company: Path) -> None:
    whole_week(company)
    command("close", WEEK, "--by", "Ada")
    command("dispose", WEEK, "all", "--text", "Known.", "--by", "Ada")
    command("review", WEEK, "--by", "Cy")
    command("approve", WEEK, "--by", "Ben")
    sealed = command("seal", WEEK, "--by", "Ben")
    assert sealed["state"] == "final", sealed
    record = company / "record.json"
    command("report", WEEK, "--record", record)
    assert hashlib.sha256(record.read_bytes()).hexdigest() == sealed["digest"]
    assert command("verify", record)["ok"]
    refused = command("restate", WEEK, "--reason", "nothing changed", "--by", "Ada")
    assert not refused["ok"] and "No printed figure" in refused["error"]
    rows = small_company.charges()
    whole = (company / "whole.csv").read_text()
    assert whole.count("0.70") == 2 and rows
    (company / "more.csv").write_text(whole.replace("0.70", "9.70"))
    assert ingested(company / "more.csv")[0]["status"] == "posted"
    closed = command("close", WEEK, "--by", "Ada")
    assert not closed["new"] and closed["differences"]
    restated = command("restate", WEEK, "--reason", "support was billed late", "--by", "Ada")
    assert restated["revision"] == 2 and restated["state"] == "preliminary"
    assert command("report", WEEK)["revision"] == 1
    command("dispose", WEEK, "all", "--text", "Known.", "--by", "Ada")
    command("approve", WEEK, "--by", "Ben")
    command("seal", WEEK, "--by", "Ben")
    assert command("report", WEEK)["revision"] == 2
    assert command("report", WEEK, "--revision", 1)["state"] == "superseded"
    record.write_bytes(record.read_bytes().replace(b"Known.", b"known."))
    assert not command("verify", record)["ok"]
    assert command("verify")["ok"]
    assert Seal.objects.count() == 2


def test_the_monday_task_is_safe_twice(company: Path) -> None:
    whole_week(company)
    first = close_week_task.apply(kwargs={"week": WEEK}).get()
    again = close_week_task.apply(kwargs={"week": WEEK}).get()
    assert first["closed"] and not again["closed"]
    assert first["digest"] == again["digest"]
    assert Report.objects.get().prepared_by == "schedule"


def test_the_monday_task_without_data_says_so() -> None:
    answer = close_week_task.apply(kwargs={}).get()
    assert not answer["closed"] and "no data" in answer["why"]


def test_latest_is_the_newest_week_that_cost_and_tokens_reach_the_end_of(company: Path) -> None:
    whole_week(company)
    assert command("close", "latest", "--by", "Ada")["week"] == WEEK


def test_annotations_of_the_week_are_part_of_what_is_said(company: Path) -> None:
    from reports.operations.notes import annotate

    annotate(instant=small_company.START, text="moved", author="Ada", at=NOW)
    annotate(instant=NOW, text="another week", author="Ada", at=NOW)
    closed = close_week(WEEK, by="Ada", at=NOW)
    said = json.loads(bytes(closed.report.statement))["annotations"]
    assert [row["text"] for row in said] == ["moved"]
