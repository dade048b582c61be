"""Nodes, pods and the invoice joined by resource and hour (method §4): hours and money on both sides.

A node of four GPUs at 4 USD an hour: a llama engine asked for two of them, a training pod of nobody
for one, one stands idle. Another node has no charge, another charge has no node.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from finops.core.held import charged_key, held_hours, resource_keys
from finops.core.period import HOUR_MS
from finops.core.statement import statement
from finops.ledger.models import GpuHour
from finops.ledger.queries.facts import facts
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import PERIOD, Shown, booked, counter, level, openmetrics, take_in
from tests.ledger.small_company import _line as line
from tests.ledger.small_company import _machine as machine
from tests.ledger.small_company import csv_text

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

KSM = {"job": "kube-state-metrics", "instance": "ksm:8080"}
ENGINE = {"job": "vllm", "instance": "10.0.0.1:8000", "model_name": "llama", "engine": "0"}


def request(gpus: int, namespace: str, pod: str, node: str = "n1", **labels: str) -> Shown:
    named = {"namespace": namespace, "pod": pod, "container": "main", "node": node} | labels
    return level("kube_pod_container_resource_requests", gpus, **KSM,
                 **named, resource="nvidia_com_gpu")  # fmt: skip


def node(name: str, provider_id: str, gpus: int) -> list[Shown]:
    return [
        level("kube_node_info", 1, **KSM, node=name, provider_id=provider_id),
        level("kube_node_status_capacity", gpus, **KSM, node=name, resource="nvidia_com_gpu"),
    ]


FLEET = [
    counter("vllm:prompt_tokens_total", 600, **ENGINE, namespace="llm", pod="llama-0"),
    counter("vllm:generation_tokens_total", 60, **ENGINE, namespace="llm", pod="llama-0"),
    request(2, "llm", "llama-0"),
    request(1, "train", "tune-0"),
    request(1, "llm", "waiting-0", node=""),
    level("kube_pod_container_resource_requests", 16, **KSM, namespace="llm", pod="llama-0",
          container="main", node="n1", resource="cpu"),
    *node("n1", "aws:///eu-west-1a/i-A", 4),
    *node("n2", "aws:///eu-west-1a/i-unbilled", 1),
]  # fmt: skip


def invoice(folder: Path) -> None:
    rows = []
    for hour in range(-1, 7):
        rows.append(line(hour, "4.00", "4.00", **machine("i-a") | {"ResourceType": "g5.12xlarge"}))
        rows.append(line(hour, "2.00", "2.00", **machine("i-b")))
    (folder / "invoice.csv").write_text(csv_text(rows))
    (document,) = ingested(folder / "invoice.csv")
    assert document["status"] == "posted", document


@pytest.fixture
def cluster(tmp_path: Path) -> None:
    take_in(tmp_path, FLEET)
    invoice(tmp_path)
    command("workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "llama", "--series", "model_name=llama", "--by", "Ada")


def stated() -> dict[str, Any]:
    return statement(facts(PERIOD, week="2026-W47"))


def places(value: dict[str, Any]) -> dict[str, Decimal]:
    return {row["label"]: Decimal(row["effective"]) for row in value["allocation"]}


def closes(value: dict[str, Any]) -> bool:
    return Decimal(value["tieout"]["period"]["difference"]) == 0


def test_gpu_hours_of_a_workload_are_what_its_pods_asked_for(cluster: None) -> None:
    (row,) = stated()["workloads"]
    assert Decimal(row["figures"]["gpu_hours"]) == 2 * 6
    assert "GPU requests" in row["figures"]["gpu_hours_source"]


def test_idle_is_split_off_what_no_rule_gives_to_a_workload(cluster: None) -> None:
    value = stated()
    # Six hours of 4 USD, of which one GPU of four is idle; i-b has no node and stays whole.
    assert places(value) == {"Idle": 6, "Unassigned": 18 + 12}
    assert closes(value)


def test_a_shared_pot_is_split_by_hours_without_what_stood_idle(cluster: None) -> None:
    command("rule", "add", "shared:gpu-hours", "--charge", "resource=i-a", "--by", "Ada")
    value = stated()
    assert places(value) == {"llama": 18, "Idle": 6, "Unassigned": 12}
    assert closes(value)


def test_what_a_rule_gives_to_a_workload_is_its_own_idle_or_not(cluster: None) -> None:
    command("rule", "add", "llama", "--charge", "resource=i-a", "--by", "Ada")
    assert places(stated()) == {"llama": 24, "Unassigned": 12}


def test_both_sides_of_the_join_are_told_in_hours_and_money(cluster: None) -> None:
    value = stated()
    nodes = {k: v if isinstance(v, list | int) else str(v) for k, v in value["nodes"].items()}
    assert (nodes["node_hours"], nodes["matched_node_hours"]) == ("12", "6")
    assert (nodes["unmatched_node_hours"], nodes["unmatched_nodes"]) == ("6", ["n2"])
    assert (nodes["capacity_gpu_hours"], nodes["held_gpu_hours"]) == ("30", "18")
    assert (nodes["idle_gpu_hours"], nodes["unassigned_gpu_hours"]) == ("12", "6")
    assert (Decimal(value["nodes"]["matched_cost"]), nodes["unmatched_charges"]) == (24, 6)
    lines = {row["kind"]: row for row in value["exceptions"]}
    assert lines["nodes-without-charges"]["subject"] == "n2"
    assert "6.0 of 12.0 node-hours" in lines["nodes-without-charges"]["text"]
    assert Decimal(lines["gpu-charges-without-node"]["amount"]) == 12
    assert "6.0 GPU-hours" in lines["gpu-hours-without-workload"]["text"]


def test_time_that_nobody_saw_is_not_called_idle(tmp_path: Path) -> None:
    (tmp_path / "half.om").write_text(openmetrics(FLEET, range(-6, 18)))
    ingested(tmp_path / "half.om")
    invoice(tmp_path)
    value = stated()
    # The exporter was heard for three hours of six: a quarter of three hours is idle.
    assert places(value)["Idle"] == 3
    assert closes(value)


def test_devices_tell_where_nobody_exports_requests(tmp_path: Path) -> None:
    dcgm = {"job": "dcgm", "instance": "n1:9400", "Hostname": "n1", "namespace": "llm",
            "pod": "llama-0"}  # fmt: skip
    gpus = [level("DCGM_FI_DEV_FB_USED", 70_000, **dcgm, UUID=f"GPU-{n}", gpu=str(n))
            for n in range(2)]  # fmt: skip
    take_in(tmp_path, [*FLEET[:2], *gpus])
    command("workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "llama", "--series", "model_name=llama", "--by", "Ada")

    (row,) = stated()["workloads"]
    assert Decimal(row["figures"]["gpu_hours"]) == 2 * 6
    assert "DCGM" in row["figures"]["gpu_hours_source"]


def test_the_same_readings_again_post_nothing(cluster: None, tmp_path: Path) -> None:
    rows = GpuHour.objects.count()
    take_in(tmp_path, [*FLEET, request(1, "llm", "late-0")], "more.om")
    added = GpuHour.objects.count() - rows
    assert added == GpuHour.objects.filter(series__labels__pod="late-0").count() > 0


def test_two_exporters_of_one_cluster_hold_nothing_twice(cluster: None, tmp_path: Path) -> None:
    other = [Shown(one.metric, dict(one.labels) | {"instance": "ksm-2:8080"}, one.value)
             for one in FLEET if one.labels["job"] == KSM["job"]]  # fmt: skip
    take_in(tmp_path, other, "twin.om")
    value = stated()
    assert Decimal(value["nodes"]["held_gpu_hours"]) == 18
    assert Decimal(value["nodes"]["capacity_gpu_hours"]) == 30


@pytest.mark.parametrize(
    ("provider_id", "resource"),
    [
        ("aws:///us-east-1a/i-0abc", "i-0abc"),
        ("aws:///us-east-1a/i-0abc", "arn:aws:ec2:us-east-1:123456789012:instance/i-0abc"),
        ("gce://my-project/us-central1-a/gke-pool-1", "projects/123/instances/gke-pool-1"),
        (
            "azure:///subscriptions/S/resourceGroups/g/providers/Microsoft.Compute/"
            "virtualMachineScaleSets/aks-GPU/virtualMachines/3",
            "/subscriptions/s/resourcegroups/G/providers/microsoft.compute/"
            "virtualmachinescalesets/aks-gpu",
        ),
        ("ocid1.instance.oc1.iad.abc", "ocid1.instance.oc1.iad.abc"),
    ],
)
def test_provider_ids_meet_the_resources_of_invoices(provider_id: str, resource: str) -> None:
    assert charged_key(resource) in resource_keys(provider_id)


def test_a_request_holds_until_the_next_reading_and_not_over_a_gap() -> None:
    minute = 60_000
    times = [*range(0, 30 * minute, minute), *range(90 * minute, 120 * minute, minute)]
    first, second = held_hours(times, [2] * len(times))
    assert (first.gpu_ms, first.observed_ms) == (2 * 30 * minute, 30 * minute)
    assert (second.hour_ms, second.observed_ms) == (HOUR_MS, 30 * minute)


def test_tokens_stand_beside(cluster: None) -> None:
    (row,) = stated()["workloads"]
    assert row["tokens"]["prompt"] == booked(600)


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ({"gpu_ms": -1}, "gpu_hour_not_negative"),
        ({"observed_ms": HOUR_MS + 1}, "gpu_hour_observed_within_hour"),
        ({"observed_ms": -1}, "gpu_hour_observed_within_hour"),
        ({}, "gpu_hour_once"),
    ],
)
def test_the_schema_refuses_hours_that_cannot_be(
    cluster: None, change: dict[str, int], constraint: str
) -> None:
    row = GpuHour.objects.first()
    assert row is not None
    row.pk = None
    row.revision += 1 if change else 0
    for name, value in change.items():
        setattr(row, name, value)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        row.save(force_insert=True)
