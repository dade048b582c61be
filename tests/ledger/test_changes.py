"""Changes found in real readings, decided on by people (method §10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from finops.core.period import milliseconds
from finops.core.statement import statement
from finops.ledger.models import ChangeDecision
from finops.ledger.operations import changes as operations
from finops.ledger.queries.changes import configuration_changes, replica_changes
from finops.ledger.queries.facts import facts
from finops.trail.models import Entry
from tests.ledger.doors import command, ingested
from tests.ledger.small_company import PERIOD

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
START = datetime(2026, 11, 16, tzinfo=UTC)
OLD, NEW = (("gpu_memory_utilization", "0.92"),), (("gpu_memory_utilization", "0.75"),)
UNTIL = "2026-11-17T16:00:00Z"


def span(first: int, last: int, settings: Any = OLD) -> tuple[int, int, Any]:
    hours = (milliseconds(START + timedelta(hours=n)) for n in (first, last))
    return next(hours), next(hours), settings


def test_a_setting_that_changes_is_one_change() -> None:
    (found,) = configuration_changes("chat", [span(0, 9), span(10, 20, NEW)])
    assert found.at == START + timedelta(hours=10)
    assert (found.before, found.after) == (
        "gpu_memory_utilization 0.92", "gpu_memory_utilization 0.75"
    )  # fmt: skip


def test_a_roll_out_is_one_change_from_its_first_hour() -> None:
    spans = [span(0, 12), span(0, 9), span(10, 20, NEW), span(13, 20, NEW)]
    (found,) = configuration_changes("chat", spans)
    assert found.at == START + timedelta(hours=10)


def test_engines_that_always_differ_and_settings_that_stay_are_no_change() -> None:
    assert list(configuration_changes("chat", [span(0, 20), span(0, 20, NEW)])) == []
    assert list(configuration_changes("chat", [span(0, 9), span(14, 20)])) == []


def test_another_number_of_engines_counts_when_it_lasts() -> None:
    (found,) = replica_changes("chat", [span(0, 20), span(8, 20)])
    assert (found.before, found.after) == ("1 engine", "2 engines")
    assert found.at == START + timedelta(hours=8)
    assert list(replica_changes("chat", [span(0, 10), span(10, 20)])) == []


def gauges() -> str:
    """An engine's settings and use every ten minutes: after ten hours it has less memory."""
    engine = 'instance="a",job="vllm",engine="0"'
    use, told = [], []
    for step in range(20 * 6):
        at = int((START + step * timedelta(minutes=10)).timestamp())
        setting = "0.92" if step < 60 else "0.75"
        labels = (
            f'{engine},gpu_memory_utilization="{setting}",num_gpu_blocks="1000",block_size="16"'
        )
        use.append(f'vllm:kv_cache_usage_perc{{{engine},model_name="llama"}} 0.25 {at}')
        told.append(f"vllm:cache_config_info{{{labels}}} 1 {at}")
    heads = [f"# TYPE vllm:{name} gauge" for name in ("cache_config_info", "kv_cache_usage_perc")]
    return "\n".join([heads[0], *sorted(told), heads[1], *use, "# EOF", ""])


@pytest.fixture
def read(tmp_path: Path) -> None:
    path = tmp_path / "gauges.om"
    path.write_text(gauges())
    assert ingested(path)[0]["status"] == "posted"
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "chat", "--series", "model_name=llama", "--by", "Ada")


def listed() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = command("change", "list", "--until", UNTIL)["changes"]
    return found


def test_changes_are_proposed_and_decided(read: None, monkeypatch: pytest.MonkeyPatch) -> None:
    every = listed()
    settings = [one for one in every if one["kind"] == "configuration"]
    assert [(one["before"], one["after"], one["at"]) for one in settings] == [
        ("gpu_memory_utilization 0.92", "gpu_memory_utilization 0.75", "2026-11-16T10:00:00Z")
    ]
    assert all(one["verdict"] is None for one in every)
    until = datetime.fromisoformat(UNTIL.replace("Z", "+00:00"))
    found = operations.found
    monkeypatch.setattr(operations, "found", lambda at: found(until))
    key = settings[0]["key"]
    command("change", "confirm", key, "--note", "roll-out", "--by", "Ines")
    command("change", "dismiss", key, "--by", "Bo")
    (one,) = [row for row in listed() if row["key"] == key]
    assert (one["verdict"], one["by"]) == ("dismissed", "Bo")
    assert ChangeDecision.objects.count() == 2
    entry = Entry.objects.filter(action="change confirmed").get()
    assert (entry.actor, entry.detail["change"]) == ("Ines", key)
    with pytest.raises(CommandError, match="no change"):
        command("change", "confirm", "abc", "--by", "Ines")


def test_without_decisions_a_statement_has_no_changes() -> None:
    assert statement(facts(PERIOD, week="2026-W47"))["changes"] == []
