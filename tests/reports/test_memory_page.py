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


def test_the_hours_close_for_the_cards_that_are_measured(admin: Client, tmp_path: Path) -> None:
    """Of two engines one has a card with metrics: 76,000 of 81,559 MiB in use, 74.2 of 79.6 GiB."""
    chat()
    fleet = gpu_fleet.Fleet()
    fleet.engine("chat-0", 0.25)
    fleet.engine("chat-1", 0.25, blocks=10_001)
    fleet.gpu("GPU-0", 76_000, 5_080, namespace="llm", pod="chat-0")
    ingested(fleet.write(tmp_path / "h.om"))
    for query in ("", "&workload=chat"):
        page = admin.get(f"/memory/hours/?week=2026-W47{query}").content.decode()
        assert "the highest is 79.6" in page and "nvidia-smi shows: 74.2" in page
        assert "no exporter tells of their cards: chat-1 engine 0." in page
        # 27,471 blocks of 16 tokens less the quarter in use, one null block apart: 40.2 GiB.
        assert "40.2" in page


def amd_card(fleet: gpu_fleet.Fleet, prefix: str = "gpu", **labels: str) -> None:
    """An MI300X as AMD's exporter labels it (its documentation), in MiB."""
    target = {"job": "amd", "instance": "node-a:5000", "gpu_id": "0", "serial_number": "692247001282",
              "card_model": "AMD Instinct MI300X", "hostname": "node-a", "gpu_partition_id": "0",
              "gpu_compute_partition_type": "spx"} | labels  # fmt: skip
    for name, value in (("used", 180_000), ("free", 16_592), ("total", 196_592)):
        fleet.gauge(f"{prefix}_{name}_vram", value, **target)


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


def amd_rows(folder: Path, prefix: str, *cards: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Cards beside each other, by the name that the table gives each."""
    fleet = gpu_fleet.Fleet()
    for card in cards:
        amd_card(fleet, prefix, **card)
    ingested(fleet.write(folder / "h.om"))
    return {row["key"]: row for row in command("memory", *HOUR, "--by", "gpu")["rows"]}


def test_virtual_amd_cards_that_all_have_the_uuid_of_zeros_are_several(tmp_path: Path) -> None:
    """ROCm/device-metrics-exporter#233: every virtual MI300X says 0000…00, no serial number and the
    greatest partition; the names begin with `amd_`, as the packaged configuration has them."""
    virtual = {"card_model": "", "card_series": "Aqua Vanjaram [Instinct MI300X VF]", "pod": "",
               "serial_number": "", "hostname": "enc1-gpuvm022", "gpu_partition_id": "4294967295",
               "gpu_uuid": "00000000-0000-0000-0000-000000000000"}  # fmt: skip
    rows = amd_rows(tmp_path, "amd_gpu", virtual, virtual | {"gpu_id": "1"})
    assert set(rows) == {"enc1-gpuvm022:0", "enc1-gpuvm022:1"}
    for row in rows.values():
        assert (row["total_bytes"], row["used_bytes"]) == (196_592 * MIB, 180_000 * MIB)
        assert row["labels"]["card_series"] == virtual["card_series"] and closes(row)
        assert not [flag for flag in row["flags"] if "partition" in flag or "MIG" in flag]


@pytest.mark.parametrize(
    ("uuid", "names"),
    [
        ({}, {"723be48b185a:8", "723be48b185a:14"}),
        ({"gpu_uuid": "17FF74B5-0000"}, {"17ff74b5-0000/0", "17ff74b5-0000/6"}),
    ],
)
def test_partitions_of_an_amd_card_are_apart_and_say_what_they_are(
    tmp_path: Path, uuid: dict[str, str], names: set[str]
) -> None:
    """ROCm/device-metrics-exporter#316 (labels of partitions) and ROCm/legacy-rocm-build#4750 (each
    shows the whole card's memory)."""
    card = {"serial_number": "692407005126", "hostname": "723be48b185a", "card_model": "102-G30213-0C",
            "gpu_compute_partition_type": "cpx"} | uuid  # fmt: skip
    parts = ({"gpu_id": "8", "gpu_partition_id": "0"}, {"gpu_id": "14", "gpu_partition_id": "6"})
    rows = amd_rows(tmp_path, "amd_gpu", *(card | part for part in parts))
    assert set(rows) == names
    (fleet,) = command("memory", *HOUR)["rows"]
    for row in (*rows.values(), fleet):
        assert any("partition" in flag and "whole card" in flag for flag in row["flags"])
        assert not any("MIG" in flag for flag in row["flags"])


def test_an_amd_card_that_only_other_pods_hold_is_theirs(tmp_path: Path) -> None:
    fleet = gpu_fleet.Fleet()
    amd_card(fleet, namespace="ml", pod="train-0")
    ingested(fleet.write(tmp_path / "h.om"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["other_bytes"] == row["used_bytes"] == 180_000 * MIB and closes(row)
