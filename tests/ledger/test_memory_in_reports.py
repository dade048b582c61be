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


def spread_over_gpus(tmp_path: Path) -> None:
    """Engines of one model: one on one GPU, one on two with 8-bit keys, in a workload of its own."""
    for slug, pod in (("chat", "chat-0"), ("pair", "pair-0")):
        add(slug)
        command("rule", "add", slug, "--series", f"pod={pod}", "--by", "Ada")
    fleet = Fleet()
    fleet.engine("chat-0", 0.5)
    fleet.engine("pair-0", 0.5, blocks=30_001)
    fleet.gpu("GPU-0", 76_000, 5_080, namespace="llm", pod="chat-0")
    for number in "12":
        fleet.gpu(f"GPU-{number}", 70_500, 10_580, index=number, namespace="llm", pod="pair-0")
    pair = gpu_fleet.log(tmp_path / "pair.log", tokens=480_016)
    text = pair.read_text().replace("tensor_parallel_size=1", "tensor_parallel_size=2, "
                                    "kv_cache_dtype=fp8")  # fmt: skip
    pair.write_text(text.replace("15 23:50", "15 23:55"))
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.log(tmp_path / "chat.log"), pair,
             gpu_fleet.config(tmp_path / "config.json"))  # fmt: skip


def test_each_engine_of_a_model_has_the_bytes_of_its_own_gpus(tmp_path: Path) -> None:
    """32 layers × 2 × 8 KV heads × 128 × 2 bytes; on two GPUs 4 heads each, in 8 bits a byte each."""
    spread_over_gpus(tmp_path)
    sizes = {"chat": 439_536 * 131_072, "pair": 480_016 * 32_768}
    week = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
    found = {one.slug: one.memory[0].figures for one in facts(week, week="2026-W47").workloads}
    assert {slug: one.reserved_bytes for slug, one in found.items()} == sizes
    rows = command("memory", "--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T01:00:00Z",
                   "--by", "workload")["rows"]  # fmt: skip
    on_gpus = {row["key"]: (row["gpus"], row["kv_reserved_bytes"]) for row in rows}
    assert on_gpus == {"chat": (1, sizes["chat"]), "pair": (2, 2 * sizes["pair"])}


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
