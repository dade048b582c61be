"""What a configuration or a log tells reaches the facts of a week, and so the reports (§8.3)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from finops.core.memory_table import PARTS
from finops.core.period import Period
from finops.ledger.models import Workload
from finops.ledger.queries.evidence import Evidence, stated_memory
from finops.ledger.queries.facts import facts
from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def add(slug: str, *flags: object) -> None:
    command("workload", "add", slug, "--model", MODEL, "--stack", "vllm", "--purpose", "inference",
            "--by", "Ada", *flags)  # fmt: skip


def told(slug: str) -> tuple[int | None, str]:
    found = Evidence().kv_bytes(Workload.objects.get(slug=slug))
    return (found.bytes_per_token, found.source.split()[0]) if found else (None, "")


def test_a_week_s_facts_have_bytes_once_the_configuration_is_there(tmp_path: Path) -> None:
    add("chat")
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    fleet = Fleet()
    fleet.engine("chat-0", 0.5)
    ingested(fleet.write(tmp_path / "h.om"))
    week = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
    (before,) = facts(week, week="2026-W47").workloads
    assert before.memory[0].figures.reserved_bytes is None
    ingested(gpu_fleet.config(tmp_path / "config.json"))
    (after,) = facts(week, week="2026-W47").workloads
    assert after.memory[0].figures.reserved_bytes == 439_536 * 131_072
    assert after.memory[0].figures.active_bytes_mean == 13_735 * 16 * 131_072


def test_a_report_made_before_does_not_see_what_came_later(tmp_path: Path) -> None:
    add("chat")
    ingested(gpu_fleet.config(tmp_path / "config.json"))
    workloads = list(Workload.objects.all())
    assert stated_memory(workloads, datetime(2026, 1, 1, tzinfo=UTC)) == {"chat": (None, None)}
    assert stated_memory(workloads) == {"chat": (131_072, None)}


def test_a_configuration_goes_before_a_log_and_both_before_what_people_state(
    tmp_path: Path,
) -> None:
    add("chat", "--kv-bytes-per-token", 100)
    assert told("chat") == (100, "stated")
    ingested(gpu_fleet.log(tmp_path / "engine.log"))
    # 53.65 GiB for 439,536 tokens, both printed: only 131,072 is round within what rounding allows.
    assert told("chat") == (131_072, "start-up")
    ingested(gpu_fleet.config(tmp_path / "config.json"))
    assert told("chat") == (131_072, "model")


def test_layers_of_several_kinds_have_no_bytes_a_token(tmp_path: Path) -> None:
    add("chat", "--kv-bytes-per-token", 77)
    kinds = ["full_attention", "sliding_attention"] * 16
    ingested(gpu_fleet.config(tmp_path / "c.json", layer_types=kinds, sliding_window=1024))
    assert told("chat") == (77, "stated")


def test_tensor_parallelism_comes_from_the_log(tmp_path: Path) -> None:
    add("chat")
    path = gpu_fleet.log(tmp_path / "engine.log")
    path.write_text(path.read_text().replace("tensor_parallel_size=1", "tensor_parallel_size=2"))
    ingested(path, gpu_fleet.config(tmp_path / "config.json"))
    assert told("chat") == (65_536, "model")


def test_a_link_to_another_workload_takes_the_evidence_away(tmp_path: Path) -> None:
    add("chat")
    add("other")
    ingested(gpu_fleet.config(tmp_path / "config.json"), "--workload", "other")
    assert told("chat") == (None, "") and told("other") == (131_072, "model")


def test_memory_is_told_hour_by_hour_and_each_hour_closes(tmp_path: Path) -> None:
    add("chat")
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    fleet = Fleet(hours=2)
    fleet.engine("chat-0", lambda n: 0.25 if n < 60 else 0.75)
    fleet.gpu("GPU-a", 74_000, 7_000, exported_namespace="llm", exported_pod="chat-0")
    ingested(gpu_fleet.config(tmp_path / "config.json"), fleet.write(tmp_path / "h.om"))
    asked = ("memory", "--from", "2026-11-16T00:00:00Z", "--to", "2026-11-17T00:00:00Z")
    told = command(*asked, "--hours")["hours"]
    assert [one["hour"] for one in told] == ["2026-11-16T00:00:00Z", "2026-11-16T01:00:00Z"]
    assert told == command(*asked, "--by", "workload", "--hours")["rows"][0]["hours"]
    block = 16 * 131_072
    active = [one["kv_active_bytes"] for one in told]
    assert [round(value / block) for value in active] == [round(27_470 * u) for u in (0.25, 0.75)]
    parts = [f"{name}_bytes" for name in (*PARTS, "unattributed")]
    for one in told:
        assert one["total_bytes"] == 81_479 * 2**20 == sum(one[name] or 0 for name in parts)
    assert "hours" not in command(*asked)
    with pytest.raises(CommandError) as refused:
        command(*asked, "--by", "gpu", "--hours")
    assert refused.value.returncode == 2
