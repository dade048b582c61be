"""Who holds GPUs: running pods, by containers and init containers, in whole and in parts (method §4)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from finops.core.statement import statement
from finops.ledger.queries.facts import facts
from tests.ledger.doors import command
from tests.ledger.fleet import PERIOD, Shown, counter, level, take_in
from tests.ledger.test_nodes import ENGINE, KSM, node, request

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

HOURS = 6


def stated(tmp_path: Path, *series: Shown) -> dict[str, Any]:
    """The statement of a cluster whose engine stands in pod llama-0."""
    engine = counter("vllm:prompt_tokens_total", 600, **ENGINE, namespace="llm", pod="llama-0")
    take_in(tmp_path, [engine, *series])
    command("workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "llama", "--series", "model_name=llama", "--by", "Ada")
    return statement(facts(PERIOD, week="2026-W47"))


def hours_of(value: dict[str, Any]) -> Decimal | None:
    (row,) = value["workloads"]
    told = row["figures"]["gpu_hours"]
    return None if told is None else Decimal(told)


def phase(pod: str, running: float | Shown, **labels: str) -> list[Shown]:
    named = {"namespace": "llm", "pod": pod} | labels
    runs = running if isinstance(running, Shown) else level("x", running)
    return [
        Shown("kube_pod_status_phase", KSM | named | {"phase": "Running"}, runs.value),
        Shown("kube_pod_status_phase", KSM | named | {"phase": "Pending"},
              lambda step: 1 - runs.value(step)),
    ]  # fmt: skip


def test_only_running_pods_hold_what_they_asked_for(tmp_path: Path) -> None:
    """llama-0 runs for three hours of six; done-0 has ended and still stands in the list."""
    halfway = Shown("x", {}, lambda step: 1 if step < 18 else 0)
    value = stated(
        tmp_path, *node("n1", "aws:///z/i-a", 4), request(2, "llm", "llama-0"),
        request(1, "llm", "done-0"), *phase("llama-0", halfway), *phase("done-0", 0),
    )  # fmt: skip
    assert hours_of(value) == 2 * 3
    assert Decimal(value["nodes"]["held_gpu_hours"]) == 2 * 3
    assert Decimal(value["nodes"]["idle_gpu_hours"]) == 4 * HOURS - 6


def test_a_pod_of_which_no_phase_is_told_holds(tmp_path: Path) -> None:
    value = stated(tmp_path, request(2, "llm", "llama-0"), *phase("other-0", 0))
    assert hours_of(value) == 2 * HOURS


def test_a_pod_of_the_same_name_is_another_pod(tmp_path: Path) -> None:
    """A stateful set's llama-0 was made anew: the old one has ended, the new one runs."""
    value = stated(
        tmp_path, request(2, "llm", "llama-0", uid="old"), request(2, "llm", "llama-0", uid="new"),
        *phase("llama-0", 0, uid="old"), *phase("llama-0", 1, uid="new"),
    )  # fmt: skip
    assert hours_of(value) == 2 * HOURS


def test_containers_of_a_pod_are_added(tmp_path: Path) -> None:
    value = stated(
        tmp_path, request(2, "llm", "llama-0"), request(1, "llm", "llama-0", container="helper")
    )
    assert hours_of(value) == 3 * HOURS


@pytest.mark.parametrize(("init", "held"), [(1, 2), (4, 4)])
def test_an_init_container_counts_where_it_asks_for_more(
    tmp_path: Path, init: int, held: int
) -> None:
    """Kubernetes: the most any init container asks for, or the sum of the containers."""
    asked = request(init, "llm", "llama-0", container="warm-up")
    value = stated(
        tmp_path, request(2, "llm", "llama-0"),
        Shown("kube_pod_init_container_resource_requests", asked.labels, asked.value),
    )  # fmt: skip
    assert hours_of(value) == held * HOURS


def shaped(**labels: str) -> Shown:
    told = {f"label_nvidia_com_gpu_{name}": value for name, value in labels.items()}
    return level("kube_node_labels", 1, **KSM, node="n1", **told)


def part(count: int, resource: str, pod: str = "llama-0") -> Shown:
    named = dict(request(count, "llm", pod).labels) | {"resource": resource}
    return level("kube_pod_container_resource_requests", count, **named)


def capacity(count: int, resource: str) -> Shown:
    return level("kube_node_status_capacity", count, **KSM, node="n1", resource=resource)


def test_slices_count_by_their_memory(tmp_path: Path) -> None:
    """Two slices 1g.10gb of a card of 80 GB: a quarter of a GPU; one whole GPU stands idle."""
    value = stated(
        tmp_path, part(2, "nvidia_com_mig_1g_10gb"), capacity(2, "nvidia_com_mig_1g_10gb"),
        capacity(1, "nvidia_com_mig_3g_40gb"), capacity(1, "nvidia_com_gpu"),
    )  # fmt: skip
    assert hours_of(value) == Decimal("0.25") * HOURS
    assert Decimal(value["nodes"]["capacity_gpu_hours"]) == Decimal("1.75") * HOURS
    assert Decimal(value["nodes"]["idle_gpu_hours"]) == Decimal("1.5") * HOURS
    (told,) = [one for one in value["exceptions"] if one["kind"] == "gpu-parts"]
    assert "nvidia_com_mig_1g_10gb as 1/8" in told["text"]


def test_replicas_of_a_time_sliced_gpu_are_parts_of_it(tmp_path: Path) -> None:
    value = stated(
        tmp_path, shaped(count="2", replicas="4"), part(3, "nvidia_com_gpu_shared"),
        capacity(8, "nvidia_com_gpu_shared"),
    )  # fmt: skip
    assert hours_of(value) == Decimal("0.75") * HOURS
    assert Decimal(value["nodes"]["capacity_gpu_hours"]) == 2 * HOURS


def test_replicas_of_unknown_number_are_named_and_not_counted(tmp_path: Path) -> None:
    value = stated(tmp_path, part(3, "nvidia_com_gpu_shared"))
    assert not hours_of(value)
    (told,) = [one for one in value["exceptions"] if one["kind"] == "gpu-parts-unknown"]
    assert "18.0 hours of nvidia_com_gpu_shared" in told["text"]


def device(uuid: str, pod: str, **labels: str) -> Shown:
    named = {"job": "dcgm", "instance": "n1:9400", "Hostname": "n1", "namespace": "llm", "pod": pod}
    return level("DCGM_FI_DEV_FB_USED", 70_000, **named, UUID=uuid, gpu="0", **labels)


def test_devices_count_slices_by_memory_and_shared_ones_evenly(tmp_path: Path) -> None:
    value = stated(
        tmp_path, device("GPU-1", "llama-0", GPU_I_ID="7", GPU_I_PROFILE="3g.40gb"),
        device("GPU-2", "llama-0"), device("GPU-2", "other-0"),
    )  # fmt: skip
    assert hours_of(value) == (Decimal("0.5") + Decimal("0.5")) * HOURS
    (row,) = value["workloads"]
    assert "DCGM" in row["figures"]["gpu_hours_source"]


@pytest.mark.parametrize("uuid", [{}, {"gpu_uuid": "17FF74B5-0000"}])
def test_a_partition_of_a_card_is_a_gpu_of_its_own_however_it_is_named(
    tmp_path: Path, uuid: dict[str, str]
) -> None:
    card = {"job": "amd", "instance": "n1:5000", "hostname": "n1", "namespace": "llm", "pod": "llama-0",
            "serial_number": "692407005126", "gpu_compute_partition_type": "cpx"} | uuid  # fmt: skip
    parts = ({"gpu_id": "8", "gpu_partition_id": "0"}, {"gpu_id": "14", "gpu_partition_id": "6"})
    value = stated(tmp_path, *(level("amd_gpu_used_vram", 70_000, **card, **one) for one in parts))
    assert hours_of(value) == 2 * HOURS
    assert "partitions CPX of AMD cards as 1" in said_of(value, "gpu-parts")


def said_of(value: dict[str, Any], kind: str) -> str:
    (told,) = [one["text"] for one in value["exceptions"] if one["kind"] == kind]
    return str(told)


@pytest.mark.parametrize(
    ("mode", "model", "part"),
    [
        ("cpx", "AMD Instinct MI300X", "1/8"),
        ("cpx", "AMD Instinct MI300A", "1/6"),
        ("dpx", "", "1/2"),
    ],
)
def test_a_partition_of_a_known_card_is_a_part_of_it(
    tmp_path: Path, mode: str, model: str, part: str
) -> None:
    """AMD: a MI300X has eight dies that compute, a MI300A six; DPX halves any card."""
    card = {"job": "amd", "instance": "n1:5000", "hostname": "n1", "namespace": "llm", "pod": "llama-0",
            "gpu_compute_partition_type": mode, "card_model": model, "gpu_uuid": "17FF74B5"}  # fmt: skip
    parts = ({"gpu_id": "0", "gpu_partition_id": "0"}, {"gpu_id": "1", "gpu_partition_id": "1"})
    value = stated(tmp_path, *(level("amd_gpu_used_vram", 70_000, **card, **one) for one in parts))
    assert Fraction(hours_of(value) or 0) == 2 * HOURS * Fraction(part)
    assert f"partitions {mode.upper()}" in said_of(value, "gpu-parts")
    assert f"as {part}" in said_of(value, "gpu-parts")


def labelled(partition: str, product: str = "") -> Shown:
    told = {"label_amd_com_compute_memory_partition": partition} | (
        {"label_amd_com_gpu_product_name": product} if product else {}
    )
    return level("kube_node_labels", 1, **KSM, node="n1", **told)


def test_partitions_asked_for_as_gpus_are_parts_where_the_node_says_so(tmp_path: Path) -> None:
    """Sixteen of sixty-four partitions of a node of eight cards: two cards of eight."""
    value = stated(
        tmp_path, labelled("cpx_nps4", "AMD_Instinct_MI300X_OAM"), part(16, "amd_com_gpu"),
        capacity(64, "amd_com_gpu"),
    )  # fmt: skip
    assert hours_of(value) == 2 * HOURS
    assert Decimal(value["nodes"]["capacity_gpu_hours"]) == 8 * HOURS
    assert Decimal(value["nodes"]["idle_gpu_hours"]) == 6 * HOURS
    assert "amd_com_gpu as 1/8" in said_of(value, "gpu-parts")


def test_partitions_asked_for_by_name_are_parts(tmp_path: Path) -> None:
    """A node of two kinds: three cards in CPX, of which nobody tells the dies, and two in QPX."""
    value = stated(
        tmp_path, part(1, "amd_com_spx_nps1"), part(3, "amd_com_qpx_nps4", pod="llama-0"),
        part(8, "amd_com_cpx_nps1", pod="other-0"),
    )  # fmt: skip
    assert hours_of(value) == Decimal("1.75") * HOURS
    assert "48.0 hours of amd_com_cpx_nps1" in said_of(value, "gpu-parts-unknown")
    assert "amd.com/gpu.product-name" in said_of(value, "gpu-parts-unknown")


def test_what_the_exporter_tells_of_a_host_holds_for_its_node(tmp_path: Path) -> None:
    """No node label, but AMD's exporter on the node says that its cards are in two partitions."""
    card = {"job": "amd", "instance": "n1:5000", "hostname": "n1", "gpu_compute_partition_type": "dpx",
            "gpu_uuid": "17FF74B5", "gpu_id": "0", "gpu_partition_id": "0"}  # fmt: skip
    value = stated(
        tmp_path, level("amd_gpu_used_vram", 70_000, **card), part(4, "amd_com_gpu"),
        capacity(16, "amd_com_gpu"),
    )  # fmt: skip
    assert hours_of(value) == 2 * HOURS
    assert Decimal(value["nodes"]["capacity_gpu_hours"]) == 8 * HOURS


@pytest.mark.parametrize("told", [False, True])
def test_a_card_of_which_nobody_tells_whether_it_is_parted_counts_whole_and_says_so(
    tmp_path: Path, told: bool
) -> None:
    labels = [labelled("spx_nps1", "AMD_Instinct_MI300X_OAM")] if told else []
    value = stated(tmp_path, *labels, part(4, "amd_com_gpu"))
    assert hours_of(value) == 4 * HOURS
    said = [one["text"] for one in value["exceptions"] if one["kind"] == "gpu-parts"]
    assert [("nobody tells whether cards are partitioned" in one) for one in said] == [True] * (
        not told
    )


def test_a_shard_of_the_exporter_tells_of_its_own_pods_only(tmp_path: Path) -> None:
    """kube-state-metrics may run as shards: each sees the whole hour, none sees every pod."""
    shard = {"instance": "ksm-1:8080"}
    other = request(1, "llm", "llama-1")
    value = stated(
        tmp_path, request(2, "llm", "llama-0"),
        Shown(other.metric, dict(other.labels) | shard, other.value),
    )  # fmt: skip
    assert Decimal(value["nodes"]["held_gpu_hours"]) == 3 * HOURS
