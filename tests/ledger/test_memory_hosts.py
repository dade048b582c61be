"""Engines and GPUs of hosts without pods, joined by host (method §8.1, §8.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.ledger.memory_tables import HOUR, MIB, closes, workload

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def smi_host(fleet: Fleet, uuid: str, used: int, **processes: int) -> None:
    """One GPU of a host without pods, by an exporter of nvidia-smi; figures in MiB."""
    target = {"job": "smi", "instance": "vm-1:9835", "uuid": uuid}
    for name, value in (("used", used), ("free", 81_080 - used), ("reserved", 479),
                        ("total", 81_559)):  # fmt: skip
        fleet.gauge(f"nvidia_smi_memory_{name}_bytes", value * MIB, **target)
    for number, (name, value) in enumerate(processes.items()):
        fleet.gauge("nvidia_smi_compute_app_used_memory_bytes", value * MIB,
                    **target, pid=str(900 + number), process_name=name)  # fmt: skip


def vm_engine(fleet: Fleet, port: int, tokens: int = 80_000) -> None:
    """An engine on a host without pods."""
    labels = {"job": "vllm", "instance": f"vm-1:{port}", "namespace": "llm", "engine": "0"}
    fleet.gauge("vllm:kv_cache_usage_perc", 0.1, **labels, model_name="m")
    fleet.gauge("vllm:cache_config_info", 1, **labels, block_size="16", kv_cache_size_tokens=str(tokens),
                num_gpu_blocks=str(tokens // 16))  # fmt: skip


def test_programs_that_are_no_engine_are_told_by_process(tmp_path: Path) -> None:
    """A machine with one GPU and no pods: the engine can only be on it."""
    workload()
    fleet = Fleet()
    vm_engine(fleet, 8000)
    smi_host(fleet, "aaaa", 40_000, **{"VLLM::EngineCore": 30_000, "python3": 6_000, "Xorg": 100})
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["other_bytes"] == 6_100 * MIB and row["used_bytes"] == 40_000 * MIB
    assert row["kv_reserved_bytes"] == 80_000 * 131_072 and closes(row)
    assert "other" not in row["not_measured"]
    (engine,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert (engine["gpus"], engine["other_bytes"]) == (1, row["other_bytes"])


def test_several_engines_on_one_gpu_are_added_and_others_stay_apart(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    for port in (8000, 8001):
        vm_engine(fleet, port)
    smi_host(fleet, "aaaa", 50_000, **{"/opt/venv/bin/python3": 24_000, "python3": 24_000,
                                       "./gpu_burn": 1_000})  # fmt: skip
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["kv_reserved_bytes"] == 2 * 80_000 * 131_072
    assert row["other_bytes"] == 1_000 * MIB and closes(row)
    assert any("2 engines share this GPU" in flag for flag in row["flags"])
    (whole,) = command("memory", *HOUR)["rows"]
    assert whole["total_bytes"] == 81_559 * MIB and closes(whole)  # the device counts once


def test_which_gpu_of_several_an_engine_has_is_not_guessed(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    for port in (8000, 8001):
        vm_engine(fleet, port)
    smi_host(fleet, "aaaa", 50_000, python3=24_000)
    smi_host(fleet, "bbbb", 20_000, **{"./gpu_burn": 1_000})
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    rows = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert [row["other_bytes"] for row in rows] == [None, 1_000 * MIB]
    assert all(row["kv_reserved_bytes"] is None and closes(row) for row in rows)
    engines = command("memory", *HOUR, "--by", "engine")["rows"]
    assert all(any("no GPU metrics" in flag for flag in one["flags"]) for one in engines)


def test_hosts_of_one_name_in_two_sources_are_two_hosts(tmp_path: Path) -> None:
    workload()
    for source, uuid, tokens in (("east", "aaaa", 80_000), ("west", "bbbb", 96_000)):
        fleet = Fleet()
        vm_engine(fleet, 8000, tokens)
        smi_host(fleet, uuid, 40_000)
        path = fleet.write(tmp_path / f"{source}.om")
        command("ingest", path, "--source", source, "--by", "Ada")
    ingested(gpu_fleet.config(tmp_path / "config.json"))
    rows = command("memory", *HOUR, "--by", "gpu")["rows"]
    held = {row["key"]: row["kv_reserved_bytes"] for row in rows}
    assert held == {"aaaa": 80_000 * 131_072, "bbbb": 96_000 * 131_072}


def test_an_engine_is_not_on_the_gpu_of_another_source_s_host_of_that_name(tmp_path: Path) -> None:
    workload()
    for source in ("east", "west"):
        fleet = Fleet()
        vm_engine(fleet, 8000)
        if source == "east":
            smi_host(fleet, "aaaa", 40_000)
        command("ingest", fleet.write(tmp_path / f"{source}.om"), "--source", source, "--by", "Ada")
    engines = command("memory", *HOUR, "--by", "engine")["rows"]
    assert sorted(any("no GPU metrics" in flag for flag in one["flags"]) for one in engines) == [
        False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("host", ["vm-1", "localhost", "127.0.0.1", "[::1]"])
def test_a_host_told_by_one_source_and_its_gpu_by_another_is_one_host(
    tmp_path: Path, host: str
) -> None:
    """Unless it is what every machine calls itself."""
    workload()
    engines, gpus = Fleet(), Fleet()
    vm_engine(engines, 8000)
    smi_host(gpus, "aaaa", 40_000)
    for one in (engines, gpus):
        one.families = {
            name: [line.replace("vm-1", host) for line in lines]
            for name, lines in one.families.items()
        }
    for source, fleet in (("engines", engines), ("gpus", gpus)):
        command("ingest", fleet.write(tmp_path / f"{source}.om"), "--source", source, "--by", "Ada")
    (engine,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert any("no GPU metrics" in flag for flag in engine["flags"]) is (host != "vm-1")


@pytest.mark.parametrize("engines", [1, 2])
def test_a_host_s_gpus_are_an_engine_s_only_when_no_other_is_there(
    tmp_path: Path, engines: int
) -> None:
    """One engine's log tells of both GPUs; the other engine of the host has no log at all."""
    workload()
    fleet = Fleet()
    for number in range(engines):
        vm_engine(fleet, 8000 + number, 80_000 + 16_000 * number)
    smi_host(fleet, "aaaa", 40_000)
    smi_host(fleet, "bbbb", 40_000)
    log = gpu_fleet.log(tmp_path / "engine.log", tokens=80_000)
    log.write_text(log.read_text().replace("tensor_parallel_size=1", "tensor_parallel_size=2"))
    ingested(fleet.write(tmp_path / "h.om"), log)
    rows = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert [len(row["engines"]) for row in rows] == ([1, 1] if engines == 1 else [0, 0])
