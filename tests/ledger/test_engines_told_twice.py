"""One engine read by two stores or two jobs: what an engineer sees, before and after a rule (§2.7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client

from finops.core.period import Period
from finops.ledger.queries.facts import facts
from finops.ledger.queries.memory_notices import memory_notices
from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

START = datetime(2026, 11, 16, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(hours=1))
HOUR = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T01:00:00Z")
POOL = 439_536 * 131_072
PARTS = ("driver", "free", "other", "weights", "kv_active", "kv_unreferenced", "graphs",
         "non_torch", "unattributed")  # fmt: skip


def rows(by: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = command("memory", *HOUR, *(("--by", by) if by else ()))["rows"]
    for row in found:
        assert sum(row[f"{name}_bytes"] or 0 for name in PARTS) == row["total_bytes"]
    return found


def two_stores(
    tmp_path: Path,
    *,
    usage: tuple[float, float] = (0.25, 0.25),
    until: tuple[int, int] = (60, 60),
) -> None:
    """One hour of a pod's engine and its GPU as two Prometheus tell it, each with its own target;
    of each the use of the cache, and the minutes it was read."""
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose",
            "inference", "--kv-bytes-per-token", 131_072, "--by", "Ada")  # fmt: skip
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    for number, name in enumerate(("prom-a", "prom-b")):
        fleet = gpu_fleet.Fleet()
        fleet.times = range(gpu_fleet.START, gpu_fleet.START + 60 * until[number], 60)
        fleet.engine("chat-0", usage[number])
        fleet.gauge("up", 1, job="prometheus", instance=f"{name}:9090")
        fleet.gpu("GPU-aaaa", 76_000, 5_080, namespace="llm", pod="chat-0")
        path = fleet.write(tmp_path / f"{name}.om")
        command("ingest", path, "--source", name, "--by", "Ada")


def decide(*labels: str) -> None:
    for number, label in enumerate(labels):
        command("rule", "add", "out-of-scope", "--series", label, "--order", 1 + number,
                "--by", "Ada")  # fmt: skip


def test_until_a_rule_decides_one_counts_and_it_is_said(tmp_path: Path) -> None:
    two_stores(tmp_path)
    said = (
        "read twice, it seems: chat-0 engine 0 is told by job vllm of prom-a and job vllm of prom-b"
    )
    for by in ("gpu", "workload", None):
        (row,) = rows(by)
        assert (row["gpus"], row["kv_reserved_bytes"]) == (1, POOL)
        assert [one["engine"] for one in row["engines"]] == ["chat-0 engine 0"]
        assert len([flag for flag in row["flags"] if said in flag]) == 1
        assert not any("engines share this GPU" in flag for flag in row["flags"])
    apart = rows("engine")
    name = "chat-0 engine 0"
    assert [(row["key"], row["labels"]["source"], row["labels"]["job"]) for row in apart] == [
        (name, "prom-a", "vllm"), (name, "prom-b", "vllm"),
    ]  # fmt: skip
    assert [row["kv_reserved_bytes"] for row in apart] == [POOL, POOL]
    assert all(any(said in flag for flag in row["flags"]) for row in apart)
    assert not [n for n in memory_notices(PERIOD) if n.kind == "memory-over-total"]
    found = facts(PERIOD, week="2026-W47")
    assert [n.kind for n in found.notices].count("duplicate-series") == 1
    (workload,) = found.workloads
    assert workload.memory_hours is not None and workload.memory_hours.engines == 1
    assert {pool for pool in workload.memory_hours.reserved if pool} == {POOL >> 20}
    assert [(one.told_by, one.counts) for one in workload.memory] == [
        ("job vllm of prom-a", True), ("job vllm of prom-b", False),
    ]  # fmt: skip


def test_of_two_that_differ_the_one_read_longest_counts(tmp_path: Path) -> None:
    two_stores(tmp_path, usage=(0.5, 0.25), until=(30, 60))
    for by in ("gpu", "workload", None):
        (row,) = rows(by)
        active, reserved = row["kv_active_bytes"], row["kv_reserved_bytes"]
        assert reserved == POOL and abs(active - reserved // 4) < 2 * POOL // 27_471
    first, second = command("rightsize", "--to", HOUR[3])["engines"]
    assert (first["told_by"], first["counts"]) == ("job vllm of prom-a", False)
    assert (second["told_by"], second["counts"]) == ("job vllm of prom-b", True)


def test_the_advisor_says_which_of_two_counts(tmp_path: Path, client: Client) -> None:
    two_stores(tmp_path, until=(30, 60))
    user = get_user_model().objects.create_user("engineer", password="a-long-sentence")
    user.groups.add(*Group.objects.filter(name__in=("reader", "engineer")))
    client.force_login(user)
    page = client.get("/rightsizing/").content.decode()
    for store, how in (("prom-a", "it is not added up"), ("prom-b", "it is the one that counts")):
        said = f"this is what job vllm of {store} tells"
        assert how in page[page.index(said) :][:300]


@pytest.mark.parametrize("out", ["prom-a", "prom-b"])
def test_once_a_rule_decided_the_engine_stands_once_on_its_card(tmp_path: Path, out: str) -> None:
    two_stores(tmp_path)
    decide(f"source={out}")
    kept = "prom-b" if out == "prom-a" else "prom-a"
    (engine,) = rows("engine")
    assert (engine["labels"]["source"], engine["labels"]["workload"]) == (kept, "chat")
    for by in ("gpu", "engine", "workload", None):
        (row,) = rows(by)
        assert (row["gpus"], row["kv_reserved_bytes"]) == (1, POOL)
        assert [e["engine"] for e in row["engines"]] == ["chat-0 engine 0"]
        (said,) = [flag for flag in row["flags"] if "counted once" in flag]
        assert "job vllm of prom-a and job vllm of prom-b" in said
    assert not [n for n in memory_notices(PERIOD) if n.kind == "memory-over-total"]
    (advice,) = command("rightsize", "--to", HOUR[3])["engines"]
    assert advice["engine"] == "chat-0 engine 0"


def test_two_jobs_of_one_store_are_one_engine_once_decided(tmp_path: Path) -> None:
    fleet = gpu_fleet.Fleet()
    fleet.engine("chat-0", 0.25)
    fleet.families = {
        name: [one for line in lines for one in (line, line.replace('job="vllm"', 'job="pods"'))]
        for name, lines in fleet.families.items()
    }
    for name, lines in fleet.families.items():  # series by series, as the text must be
        fleet.families[name] = sorted(lines, key=lambda line: 'job="pods"' in line)
    fleet.gpu("GPU-aaaa", 76_000, 5_080, namespace="llm", pod="chat-0")
    ingested(fleet.write(tmp_path / "h.om"))
    assert len(rows("engine")) == 2
    decide("job=pods")
    (engine,) = rows("engine")
    assert engine["labels"]["job"] == "vllm" and engine["gpus"] == 1


def test_engines_of_one_address_on_gpus_of_their_own_are_two(tmp_path: Path) -> None:
    """Two clusters may give one name and one address: each has its own card, and neither is told
    twice, whatever a rule says of one of them."""
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose",
            "inference", "--kv-bytes-per-token", 131_072, "--by", "Ada")  # fmt: skip
    for number, (source, uuid) in enumerate((("east", "aaaa"), ("west", "bbbb"))):
        fleet = gpu_fleet.Fleet(start=gpu_fleet.START + number)
        labels = {"job": "vllm", "instance": "vm-1:8000", "engine": "0"}
        fleet.gauge("vllm:kv_cache_usage_perc", 0.1, **labels, model_name="m")
        fleet.gauge("vllm:cache_config_info", 1, **labels, block_size="16", num_gpu_blocks="5000")
        for name, value in (("used", 40_000), ("free", 41_080), ("total", 81_559)):
            fleet.gauge(f"nvidia_smi_memory_{name}_bytes", value << 20, job="smi",
                        instance="vm-1:9835", uuid=uuid)  # fmt: skip
        path = fleet.write(tmp_path / f"{source}.om")
        command("ingest", path, "--source", source, "--by", "Ada")
    decide("source=west")
    found = command("memory", *HOUR, "--by", "engine")["rows"]
    assert len(found) == 2
    assert not any(" twice" in flag for row in found for flag in row["flags"])
