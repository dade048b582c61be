"""What an engine's log tells of its GPUs: another number than metrics do, weights and non-torch memory
as one figure (method §8.2, §8.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.ledger.memory_tables import HOUR, MIB, closes, workload

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
GIB = 1 << 30


def cards(fleet: Fleet, *used: int) -> None:
    """The GPUs of the pod by number, with what is in use on each, in MiB."""
    for number, size in enumerate(used):
        fleet.gpu(f"GPU-{number}", size, 81_080 - size, index=str(number), namespace="llm",
                  pod="chat-0")  # fmt: skip


def test_a_card_that_the_engine_is_not_spread_over_holds_nothing_of_it(tmp_path: Path) -> None:
    """The pod asked for two GPUs, its engine runs on one: the other stands idle beside it."""
    workload()
    fleet = Fleet()
    fleet.engine("chat-0", 0.5)
    cards(fleet, 76_000, 500)
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.log(tmp_path / "e.log"))
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert (row["gpus"], row["total_bytes"]) == (1, 81_559 * MIB)
    assert row["weights_bytes"] == round(14.99 * GIB) and closes(row)
    assert row["kv_reserved_bytes"] == 439_536 * 131_072  # the model's own bytes of a token
    assert any("holds 1 more GPUs than its log says" in flag for flag in row["flags"])
    first, second = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert first["used_bytes"] == 76_000 * MIB and second["used_bytes"] == 500 * MIB
    assert not second["weights_bytes"] and closes(second)
    (whole,) = command("memory", *HOUR)["rows"]
    assert whole["total_bytes"] == 2 * 81_559 * MIB and closes(whole)


def test_ranks_of_a_pod_have_as_many_cards_as_the_log_tells(tmp_path: Path) -> None:
    """Two data-parallel engines of one GPU each in a pod of four: the first two GPUs are theirs."""
    workload()
    fleet = Fleet()
    for number in "01":
        fleet.engine("chat-0", 0.5, engine=number, num_gpu_blocks="54942",
                     kv_cache_size_tokens="439536")  # fmt: skip
    cards(fleet, 76_000, 75_000, 500, 500)
    path = gpu_fleet.log(tmp_path / "e.log")
    ranks = [path.read_text().replace("EngineCore_DP0", f"EngineCore_DP{rank}") for rank in "01"]
    path.write_text("".join(ranks))
    ingested(fleet.write(tmp_path / "h.om"), path)
    rows = command("memory", *HOUR, "--by", "engine")["rows"]
    assert [row["used_bytes"] for row in rows] == [76_000 * MIB, 75_000 * MIB]
    assert all(row["gpus"] == 1 and closes(row) for row in rows)
    assert any("holds 2 more GPUs" in flag for flag in rows[0]["flags"])


def test_cards_that_no_metrics_tell_of_are_named(tmp_path: Path) -> None:
    """An engine over two GPUs of which the exporter shows one, as with pods on several machines."""
    workload()
    fleet = Fleet()
    fleet.engine("chat-0", 0.5)
    cards(fleet, 76_000)
    path = gpu_fleet.log(tmp_path / "e.log")
    path.write_text(path.read_text().replace("tensor_parallel_size=1", "tensor_parallel_size=2"))
    ingested(fleet.write(tmp_path / "h.om"), path)
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert row["gpus"] == 1 and closes(row)
    assert any("over 2 GPUs by its log, and GPU metrics tell of 1" in flag for flag in row["flags"])


def test_non_torch_memory_is_what_newer_logs_print_beyond_the_weights(tmp_path: Path) -> None:
    """From vLLM 0.27 one figure of both: 15.89 GiB, of which the model took 14.99."""
    workload()
    fleet = Fleet()
    fleet.engine("chat-0", 0.5)
    cards(fleet, 76_000)
    path = gpu_fleet.log(tmp_path / "e.log")
    text = (
        path.read_text()
        .replace("v0.26.0", "v0.33.0")
        .replace(
            "14.99 GiB for weight, 3.28 GiB for peak activation, 0.90 GiB for non-torch memory, and",
            "15.89 GiB for consumed memory (weights + non-torch), 3.28 GiB for peak activation, and",
        )
    )
    path.write_text(text)
    ingested(fleet.write(tmp_path / "h.om"), path)
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert row["weights_bytes"] == round(14.99 * GIB)
    assert row["non_torch_bytes"] == round(15.89 * GIB) - round(14.99 * GIB)
    assert row["not_measured"] == ["other"] and closes(row)
