"""`totals`, `series` and `explain` as scripts call them (the contract's JSON)."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

RECORDING = Path(__file__).parent.parent / "data" / "vllm-recorded" / "raw-samples-5s.json.gz"
FROM, TO = "2026-11-29T14:00:00Z", "2026-11-29T16:00:00Z"

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def ran(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


@pytest.fixture
def recording(settings: Any) -> None:
    call_command("ingest", str(RECORDING), stdout=StringIO(), stderr=StringIO())


def test_rows_of_every_key_sum_to_the_whole(recording: None) -> None:
    for key in ("hour", "day", "series", "workload"):
        total = ran("totals", "--from", FROM, "--to", TO, "--by", key)
        for name in ("prompt", "generation", "delivered_prompt", "delivered_generation"):
            rows = [row["tokens"][name] for row in total["rows"] if row["tokens"]]
            assert sum(rows) == total["tokens"][name], (key, name)
    assert (total["tokens"]["prompt"], total["tokens"]["generation"]) == (1_494_578, 202_099)


def test_keys_are_written_as_the_contract_says(recording: None) -> None:
    hours = ran("totals", "--from", FROM, "--to", TO, "--by", "hour")["rows"]
    assert [row["key"] for row in hours] == ["2026-11-29T14:00:00Z", "2026-11-29T15:00:00Z"]
    (day,) = ran("totals", "--from", FROM, "--to", TO, "--by", "day")["rows"]
    assert day["key"] == "2026-11-29"


def test_a_period_without_readings_has_null_tokens_not_zero(recording: None) -> None:
    total = ran("totals", "--from", "2026-10-01T00:00:00Z", "--to", "2026-10-02T00:00:00Z")
    tokens = total["tokens"]
    assert (tokens["prompt"], tokens["generation"], tokens["cached_prompt"]) == (None, None, None)
    assert (tokens["readings"], tokens["coverage"]) == (0, "0.0000")
    assert total["rows"] == []


@pytest.mark.parametrize(
    ("since", "until"), [("2026-11-29T14:30:00Z", TO), ("yesterday", TO), (TO, FROM), (FROM, FROM)]
)
def test_a_period_that_is_none_cannot_be_run(since: str, until: str) -> None:
    with pytest.raises(CommandError) as error:
        call_command("totals", "--from", since, "--to", until, stdout=StringIO())
    assert error.value.returncode == 2


def test_series_lead_to_their_readings(recording: None) -> None:
    rows = ran("series", "--from", FROM, "--to", TO)["rows"]
    prompts = [row for row in rows if row["metric"] == "vllm:prompt_tokens_total"]
    assert sum(row["tokens"] for row in prompts) == 1_494_578
    assert sum(row["hidden_resets"] for row in prompts) == 1
    hidden = next(row for row in prompts if row["hidden_resets"])
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(hidden["labels"].items()))
    told = ran("explain", f"vllm:prompt_tokens_total{{{labels}}}", "2026-11-29T15:00:00Z")
    assert told["tokens"] == hidden["tokens"]
    assert told["arithmetic"].startswith("(") and told["arithmetic"].endswith("1 restart(s)")
    # The arithmetic redone from the readings that it shows: highest value of each mark.
    by_mark: dict[str, int] = {}
    for reading in told["readings"]:
        by_mark[reading["mark"]] = max(reading["value"], by_mark.get(reading["mark"], 0))
    assert sum(by_mark.values()) == told["tokens"]
    assert len(told["documents"]) == 1


def test_explain_names_what_it_does_not_know(recording: None) -> None:
    with pytest.raises(CommandError, match="no series"):
        call_command("explain", 'nothing{a="b"}', FROM, stdout=StringIO())
