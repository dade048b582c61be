"""Readings of cache use that are not plain: a gauge for each process, and no share at all (§8.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.ledger.memory_tables import workload

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
BOTH_HOURS = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T02:00:00Z")
USAGE = "vllm:kv_cache_usage_perc"


def engine(fleet: Fleet) -> dict[str, str]:
    """An engine of 1,001 blocks of 16 tokens without a gauge of use; the labels of one."""
    fleet.engine("chat-0", None, blocks=1001)
    return {"job": "vllm", "instance": "chat-0:8000", "namespace": "llm", "pod": "chat-0",
            "engine": "0", "model_name": "meta-llama/Llama-3.1-8B-Instruct"}  # fmt: skip


def of_the_engine(*hours: str) -> dict[str, Any]:
    (row,) = command("memory", *hours, "--by", "engine")["rows"]
    found: dict[str, Any] = row["engines"][0]
    return found


def test_one_of_the_processes_of_a_front_end_has_the_engine_s_use(tmp_path: Path) -> None:
    """Eight series, one 0.653 and seven 0.0 (vllm#28792); after a restart eight others at 0.25."""
    workload()
    fleet = Fleet(hours=2)
    labels = engine(fleet)
    for number in range(8):
        first = 0.653 if number == 3 else 0.0
        fleet.gauge(
            USAGE, lambda n, v=first: v if n < 60 else None, **labels, pid=str(100 + number)
        )
        then = 0.25 if number == 0 else 0.0
        fleet.gauge(
            USAGE, lambda n, v=then: v if n >= 60 else None, **labels, pid=str(200 + number)
        )
    ingested(fleet.write(tmp_path / "h.om"))
    for hour, blocks in (("00", 653), ("01", 250)):
        until = f"{int(hour) + 1:02}"
        found = of_the_engine(
            "--from", f"2026-11-16T{hour}:00:00Z", "--to", f"2026-11-16T{until}:00:00Z"
        )
        assert found["active_tokens_mean"] == blocks * 16
        assert found["observed_seconds"] == 3600
    assert of_the_engine(*BOTH_HOURS)["peak_active_tokens"] == 653 * 16


@pytest.mark.parametrize("beyond", [1.7, -0.01])
def test_what_is_no_share_of_the_pool_counts_as_not_read(tmp_path: Path, beyond: float) -> None:
    """Gauges of dead processes push the sum above 1 (V0): such a minute is neither full nor empty."""
    workload()
    fleet = Fleet(hours=2)
    labels = engine(fleet)
    fleet.gauge(USAGE, lambda n: beyond if n % 2 else 0.5, **labels)
    ingested(fleet.write(tmp_path / "h.om"))
    found = of_the_engine(*BOTH_HOURS)
    assert found["active_tokens_mean"] == found["peak_active_tokens"] == 500 * 16
    assert (found["observed_seconds"], found["stale_seconds"]) == (3600, 0)
