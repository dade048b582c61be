"""A week in which two stores tell of one engine is sealed, and its pack computes the same (§2.7)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evidence.conftest import seal_week
from tests.evidence.test_no_tokens import pack_of
from tests.ledger import gpu_fleet, small_company
from tests.ledger.doors import ingested
from tests.reports.test_closing import WEEK, command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

POOL = 2_000 * 16


@pytest.mark.parametrize("decided", [False, True])
def test_memory_told_twice_is_sealed_and_verifies(tmp_path: Path, decided: bool) -> None:
    small_company.found(tmp_path)
    whole_week(tmp_path)
    for name, use, hours in (("prom-a", 0.9, 4), ("prom-b", 0.5, 5)):
        fleet = gpu_fleet.Fleet(start=int(small_company.START.timestamp()), hours=hours, step=300)
        labels = {"job": "vllm", "instance": "a", "engine": "0", "namespace": "llm", "pod": "a-0"}
        fleet.gauge("vllm:kv_cache_usage_perc", use, **labels, model_name="llama")
        fleet.gauge("vllm:num_requests_running", 4, **labels, model_name="llama")
        settings = {"block_size": "16", "num_gpu_blocks": "2000", "gpu_memory_utilization": "0.9"}
        fleet.gauge("vllm:cache_config_info", 1, **labels, **settings)
        fleet.gpu("GPU-aaaa", 70_000, 11_080, namespace="llm", pod="a-0")
        fleet.gauge("up", 1, job="prometheus", instance=f"{name}:9090")
        command("ingest", fleet.write(tmp_path / f"{name}.om"), "--source", name, "--by", "Ada")
    if decided:
        command("rule", "add", "out-of-scope", "--series", "source=prom-b", "--order", "1",
                "--by", "Ada")  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(gpu_fleet.LLAMA_8B))
    assert ingested(tmp_path / "config.json")[0]["status"] == "posted"
    seal_week()
    files = pack_of(tmp_path)
    statement = json.loads(files["statement.json"])
    engines = [row["engine"] for row in statement["memory"] if row["reserved_tokens"] == POOL]
    assert len(engines) == (1 if decided else 2)
    counting = [row["told_by"] for row in statement["memory"] if row["counts"] and row["told_by"]]
    assert counting == ([] if decided else ["job vllm of prom-b"])
    (hours,) = [row for row in statement["memory_hours"] if row["engines"] == 1]
    assert {pool for _, pool in hours["reserved_steps"] if pool} == {POOL}
    command("report", WEEK, "--html", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert ("job vllm of prom-a, not added up" in page) == (not decided)
    seal = json.loads(files["seal.json"])["evidence"]
    assert seal["figures_unequal"] == [] and seal["figures_unequal_count"] == 0
