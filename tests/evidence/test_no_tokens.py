"""A week of a rested engine: cost and no tokens. It is sealed, and its pack says n/a."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports.evidence import sealed as sealing
from reports.queries.standing import report_of, standing
from tests.evidence.conftest import Sealed, seal_week, unpacked
from tests.ledger import small_company
from tests.ledger.doors import ingested
from tests.reports.test_closing import WEEK, command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def rested(folder: Path) -> None:
    """Counters that stand still to the end of the week, and charges as ever."""
    small_company.found(folder)
    start, lines = int(small_company.START.timestamp()), []
    for kind in ("prompt", "generation"):
        lines.append(f"# TYPE vllm:{kind}_tokens counter")
        for instance, (model, *_) in small_company.ENGINES.items():
            labels = f'instance="{instance}",job="vllm",model_name="{model}",engine="0"'
            for at in range(start + 7 * 3600, start + 7 * 86_400 + 3600, 600):
                lines.append(f"vllm:{kind}_tokens_total{{{labels}}} 1000 {at}")
    (folder / "rest.om").write_text("\n".join([*lines, "# EOF", ""]))
    rows = small_company.charges()
    end = {"ChargePeriodStart": "2026-11-16T07:00:00Z", "ChargePeriodEnd": "2026-11-23T00:00:00Z"}
    rows.append(rows[-1] | end | {"ChargeCategory": "Usage", "ResourceId": "i-b"})
    (folder / "whole.csv").write_text(small_company.csv_text(rows))
    for name in ("rest.om", "whole.csv"):
        assert ingested(folder / name)[0]["status"] == "posted"


def pack_of(folder: Path) -> dict[str, bytes]:
    report = report_of(WEEK)
    assert report is not None
    content = Sealed(standing(report), folder).pack()
    (folder / "pack.zip").write_bytes(content)
    checked = command("verify", folder / "pack.zip")
    assert checked["ok"] and checked["problems"] == []
    return unpacked(content)


def test_a_week_with_cost_and_no_tokens_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    still = {name: (row[0], 0, 0, row[3]) for name, row in small_company.ENGINES.items()}
    monkeypatch.setattr(small_company, "ENGINES", still)
    rested(tmp_path)
    seal_week()
    files = pack_of(tmp_path)
    figures = json.loads(files["statement.json"])["figures"]
    assert figures["prompt_tokens"] == figures["generation_tokens"] == 0
    assert float(figures["effective_cost"]) > 0 and figures["cost_per_million_tokens"] is None
    steps = files["recipe.md"].decode()
    assert "| cost ÷ tokens × 1,000,000 | n/a: there are no tokens to divide by |" in steps
    assert steps in files["README.md"].decode()


def test_steps_that_cannot_be_written_keep_no_week_from_being_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def broken(*_: object) -> str:
        raise KeyError("a table of another shape")

    monkeypatch.setattr(sealing, "recipe", broken)
    small_company.found(tmp_path)
    whole_week(tmp_path)
    seal_week()
    files = pack_of(tmp_path)
    assert "recipe.md" not in files
    text = files["README.md"].decode()
    assert "were not kept with its rows" in text and "`recipe.md`" not in text
    assert json.loads(files["seal.json"])["evidence"]["figures_unequal"] == []


def test_a_week_of_readings_without_cost_tells_nothing_it_does_not_know(tmp_path: Path) -> None:
    """There are readings: only none in hours that have cost. Restarts are not known to be none."""
    (tmp_path / "readings.om").write_text(small_company.openmetrics())
    assert ingested(tmp_path / "readings.om")[0]["status"] == "posted"
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose", "inference")
    command("rule", "add", "chat", "--series", "job=vllm")
    command("close", WEEK, "--by", "Ada")
    command("report", WEEK, "--html", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    strip = page[page.index('<dl class="strip">') :]
    strip = strip[: strip.index("</dl>")]
    for tile in ("Tokens processed", "Readings cover"):
        text = strip[strip.index(f"<dt>{tile}") :]
        text = text[: text.index("</dd>")]
        assert "n/a" in text and "no readings of tokens in hours that have cost" in text
        assert "restart" not in text and "bounds" not in text
    assert not command("seal", WEEK, "--by", "Ben")["ok"]
