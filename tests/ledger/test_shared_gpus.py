"""Slices, shared GPUs, engines that sleep: each collected from a store, and as the table shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.ledger.memory_tables import HOUR, MIB, UUID, closes, workload
from tests.ledger.stores import replay

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

_LINE = re.compile(r"([\w:]+)\{(.*)\} (\S+) (\d+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
TOKEN_BYTES = 131_072


def series_of(fleet: Fleet) -> list[dict[str, Any]]:
    """What a store holds of a fleet."""
    found: dict[str, dict[str, Any]] = {}
    for line in (line for lines in fleet.families.values() for line in lines):
        name, labels, value, at = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        metric = {"__name__": name} | dict(_LABEL.findall(labels))
        row = found.setdefault(f"{name}{{{labels}}}", {"metric": metric, "values": []})
        row["values"].append([int(at), value])
    return list(found.values())


def collected(fleet: Fleet, tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    """The memory tables of an hour that was read from a store: by GPU, by engine, and of all."""
    workload()
    with replay(series_of(fleet)) as store:
        told = command("collect", "--url", store.url, *HOUR, "--by", "Ada")
    assert told["ok"], told
    ingested(gpu_fleet.config(tmp_path / "config.json"))
    return {by: command("memory", *HOUR, "--by", by)["rows"] for by in ("gpu", "engine")} | {
        "all": command("memory", *HOUR)["rows"]
    }


def mig(fleet: Fleet, instance: str, pod: str, used: int, **more: Any) -> None:
    """A slice of three sevenths of the card's compute and half of its memory."""
    fleet.gpu(UUID, used, 40_000 - used, 200, GPU_I_PROFILE="3g.40gb", GPU_I_ID=instance,
              namespace="llm", pod=pod, **more)  # fmt: skip


def test_slices_are_cards_of_their_own_and_the_card_is_not_added_to_them(tmp_path: Path) -> None:
    fleet = Fleet()
    for instance, pod, used in (("1", "chat-0", 30_000), ("2", "chat-1", 25_000)):
        fleet.engine(pod, 0.25, blocks=8_001)
        mig(fleet, instance, pod, used)
    fleet.gpu(UUID, 55_000, 26_080)  # the whole card, told besides
    rows = collected(fleet, tmp_path)
    assert [row["key"].rpartition("/")[2] for row in rows["gpu"]] == ["1", "2"]
    assert [row["used_bytes"] for row in rows["gpu"]] == [30_000 * MIB, 25_000 * MIB]
    assert all(any("MIG" in flag for flag in row["flags"]) and closes(row) for row in rows["gpu"])
    assert all(row["kv_reserved_bytes"] == 8_001 * 16 * TOKEN_BYTES for row in rows["gpu"])
    (whole,) = rows["all"]
    assert (whole["total_bytes"], whole["gpus"]) == (2 * 40_200 * MIB, 2) and closes(whole)


def test_a_card_whose_slices_are_not_told_stands_for_them(tmp_path: Path) -> None:
    """Exporters leave the memory of slices out on some versions: the card is what is measured."""
    fleet = Fleet()
    fleet.gpu(UUID, 55_000, 26_080)
    fleet.gpu(UUID, 9_000, None, None, GPU_I_PROFILE="1g.10gb", GPU_I_ID="7", namespace="llm",
              pod="chat-0")  # fmt: skip
    rows = collected(fleet, tmp_path)
    assert {row["key"]: row["total_bytes"] for row in rows["gpu"]} == {
        UUID.lower().removeprefix("gpu-"): 81_559 * MIB,
        UUID.lower().removeprefix("gpu-") + "/7": None,
    }


@pytest.mark.parametrize("pods", [2, 4])
def test_tenants_of_one_card_are_a_risk_that_is_told(tmp_path: Path, pods: int) -> None:
    """Time-slicing and MPS look the same: each pod shows the whole device."""
    fleet = Fleet()
    for number in range(pods):
        fleet.engine(f"chat-{number}", 0.1, blocks=2_000)
        fleet.gpu(UUID, 60_000, 21_080, namespace="llm", pod=f"chat-{number}")
    rows = collected(fleet, tmp_path)
    (card,) = rows["gpu"]
    assert card["total_bytes"] == 81_559 * MIB and card["used_bytes"] == 60_000 * MIB
    assert closes(card) and card["other_bytes"] is None
    assert any("one may starve the other" in flag for flag in card["flags"])
    assert any(f"{pods} engines share this GPU" in flag for flag in card["flags"])
    assert len(card["labels"]["tenants"]) == pods
    assert card["kv_reserved_bytes"] == pods * 2_000 * 16 * TOKEN_BYTES
    (whole,) = rows["all"]
    assert whole["total_bytes"] == 81_559 * MIB and whole["gpus"] == 1
    # An engine that has the card with others is shown with the whole of it, and flagged.
    assert len(rows["engine"]) == pods
    assert all(any("starve" in flag for flag in row["flags"]) for row in rows["engine"])


def test_an_engine_on_four_cards_has_all_four_once(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.engine("chat-0", 0.5, blocks=4_001)
    for number in range(4):
        of = {"index": str(number), "namespace": "llm", "pod": "chat-0"}
        fleet.gpu(f"GPU-{number}", 50_000, 31_080, **of)
        fleet.gpu(f"GPU-{number}", 50_000, 31_080, index=str(number))  # the device's own series
    rows = collected(fleet, tmp_path)
    (engine,) = rows["engine"]
    assert (engine["gpus"], engine["total_bytes"]) == (4, 4 * 81_559 * MIB)
    assert engine["kv_reserved_bytes"] == 4 * 4_001 * 16 * TOKEN_BYTES
    assert engine["kv_active_bytes"] == 4 * 2_000 * 16 * TOKEN_BYTES and closes(engine)
    assert len(rows["gpu"]) == 4 and all(closes(row) for row in rows["gpu"])


def test_sleep_and_frozen_gauges_are_stale_and_in_no_mean(tmp_path: Path) -> None:
    """Half an hour at a quarter of the cache, then asleep with the gauge standing at 90 %."""
    fleet = Fleet()
    fleet.engine("chat-0", lambda n: 0.25 if n < 30 else 0.9, blocks=4_001)
    at = {"job": "vllm", "instance": "chat-0:8000", "namespace": "llm", "pod": "chat-0",
          "engine": "0", "model_name": "meta-llama/Llama-3.1-8B-Instruct"}  # fmt: skip
    fleet.gauge("vllm:engine_sleep_state", lambda n: int(n < 30), **at, sleep_state="awake")
    fleet.gauge("vllm:engine_sleep_state", lambda n: int(n >= 30), **at, sleep_state="discard_all")
    fleet.gpu(UUID, 50_000, 31_080, namespace="llm", pod="chat-0")
    (card,) = collected(fleet, tmp_path)["gpu"]
    assert card["kv_active_bytes"] == 1_000 * 16 * TOKEN_BYTES  # 0.9 was no use of the cache
    assert card["stale_seconds"] == 1_800 and closes(card)
    assert any("slept" in flag for flag in card["flags"])


def test_an_engine_that_nothing_tells_of_is_unknown_and_not_zero(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.engine("chat-0", 0.25)
    fleet.gpu(UUID, 50_000, None, None, namespace="llm", pod="elsewhere-0")
    rows = collected(fleet, tmp_path)
    (engine,) = rows["engine"]
    assert engine["total_bytes"] is None and engine["gpus"] is None
    assert {"total", "free", "driver", "weights", "graphs"} <= set(engine["not_measured"])
    assert all(engine[f"{name}_bytes"] is None for name in ("weights", "graphs", "non_torch"))
    (card,) = rows["gpu"]
    assert card["total_bytes"] is None and card["free_bytes"] is None
