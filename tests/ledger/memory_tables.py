"""What tests of the memory table share: the hour and card of most, a workload, whether a row closes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.ledger.doors import command
from tests.ledger.gpu_fleet import Fleet

HOUR = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T01:00:00Z")
MIB = 1 << 20
UUID = "GPU-5a0b1c2d-0000-1111-2222-333344445555"
PARTS = ("driver", "free", "other", "weights", "kv_active", "kv_unreferenced", "graphs",
         "non_torch", "unattributed")  # fmt: skip


def workload(slug: str = "chat", **options: object) -> None:
    flags = [str(x) for name, value in options.items() for x in (f"--{name}", value)]
    command("workload", "add", slug, "--model", "meta-llama/Llama-3.1-8B-Instruct", "--stack",
            "vllm", "--purpose", "inference", "--by", "Ada", *flags)  # fmt: skip
    command("rule", "add", slug, "--series", "namespace=llm", "--by", "Ada")


def closes(row: dict[str, Any]) -> bool:
    return sum(row[f"{name}_bytes"] or 0 for name in PARTS) == row["total_bytes"]


def one_card(tmp_path: Path, usage: float = 0.25) -> Path:
    fleet = Fleet()
    fleet.engine("chat-0", usage)
    fleet.gpu(UUID, 76_000, 5_080, namespace="llm", pod="chat-0")
    return fleet.write(tmp_path / "hour.om")
