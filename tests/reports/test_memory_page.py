"""The page of GPU memory as a reader sees it (method §8.5)."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested

HOUR = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T01:00:00Z")
MIB = 1 << 20
PARTS = ("driver", "free", "other", "weights", "kv_active", "kv_unreferenced", "graphs",
         "non_torch", "unattributed")  # fmt: skip
pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def chat() -> None:
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose",
            "inference", "--kv-bytes-per-token", 131_072, "--by", "Ada")  # fmt: skip
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")


def closes(row: dict[str, Any]) -> bool:
    return sum(row[f"{name}_bytes"] or 0 for name in PARTS) == row["total_bytes"]


def test_rows_of_one_name_say_when_each_was_there(admin: Client, tmp_path: Path) -> None:
    """A pod that came back behind another address: two rows of one name."""
    chat()
    paths = []
    for number in range(2):
        fleet = gpu_fleet.Fleet(start=gpu_fleet.START + 2 * number * 3600, hours=2)
        fleet.engine("chat-0", 0.25)
        path = fleet.write(tmp_path / f"{number}.om")
        path.write_text(path.read_text().replace(":8000", f":800{number}"))
        paths.append(path)
    ingested(*paths)
    page = admin.get("/memory/?by=engine&week=2026-W47").content.decode()
    assert page.count("<strong>chat-0 engine 0</strong>, ") == 2
    for first, last in (("00:00", "02:00"), ("02:00", "04:00")):
        assert f"Mon 16 Nov 2026, {first} UTC to Mon 16 Nov 2026, {last} UTC" in page
    once = admin.get("/memory/?by=workload&week=2026-W47").content.decode()
    assert "<strong>chat</strong></summary>" in once


def amd_card(fleet: gpu_fleet.Fleet, **labels: str) -> None:
    """An MI300X as AMD's exporter labels it (its documentation), in MiB."""
    target = {"job": "amd", "instance": "node-a:5000", "gpu_id": "0", "serial_number": "692247001282",
              "card_model": "AMD Instinct MI300X", "hostname": "node-a", "gpu_partition_id": "0",
              "gpu_compute_partition_type": "spx"} | labels  # fmt: skip
    for name, value in (("used", 180_000), ("free", 16_592), ("total", 196_592)):
        fleet.gauge(f"gpu_{name}_vram", value, **target)


def test_amd_s_exporter_does_not_tell_what_other_programs_hold(
    admin: Client, tmp_path: Path
) -> None:
    """It names the processes of a card, never their memory: not told, and in the remainder."""
    chat()
    fleet = gpu_fleet.Fleet()
    fleet.engine("chat-0", 0.25)
    amd_card(fleet, namespace="llm", pod="chat-0", container="vllm", kfd_process_id="4711,4712")
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert (row["total_bytes"], row["used_bytes"]) == (196_592 * MIB, 180_000 * MIB)
    assert row["other_bytes"] is None and "other" in row["not_measured"] and closes(row)
    (said,) = [flag for flag in row["flags"] if "other programs" in flag]
    assert said.startswith("AMD's exporter") and "kfd_process_id" in said
    out = StringIO()
    call_command("memory", *HOUR, "--by", "gpu", stdout=out)
    assert re.search(r"other processes +not told", out.getvalue())
    page = admin.get("/memory/?by=gpu&week=2026-W47").content.decode()
    assert page.count('<span class="na">not told</span>') == 2  # in the fleet's line and in the row
    assert "AMD&#x27;s exporter tells this GPU&#x27;s memory as a whole" in page


def test_an_amd_card_that_only_other_pods_hold_is_theirs(tmp_path: Path) -> None:
    fleet = gpu_fleet.Fleet()
    amd_card(fleet, namespace="ml", pod="train-0")
    ingested(fleet.write(tmp_path / "h.om"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["other_bytes"] == row["used_bytes"] == 180_000 * MIB and closes(row)
