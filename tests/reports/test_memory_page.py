"""The page of GPU memory as a reader sees it (method §8.5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def test_rows_of_one_name_say_when_each_was_there(admin: Client, tmp_path: Path) -> None:
    """A pod that came back behind another address: two rows of one name."""
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose",
            "inference", "--kv-bytes-per-token", 131_072, "--by", "Ada")  # fmt: skip
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
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
