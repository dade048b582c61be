"""Nodes and the invoice side by side: what matched, what did not, what stood idle (method §4)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from finops.core.bridge import decimal_of
from finops.core.facts import Notice
from finops.core.nodes import Node, NodeFacts
from finops.core.period import HOUR_MS
from finops.core.wording import counted_text

from .costs import Sum
from .reading import Reading

MOST_NAMED = 5
DIFFERENT = Fraction(5, 100)
_LABEL_OF_NVIDIA = "Let kube-state-metrics export the node label nvidia.com/gpu.replicas."
_LABELS_OF_AMD = (
    "Let kube-state-metrics export the node labels amd.com/compute-memory-partition and "
    "amd.com/gpu.product-name."
)


def node_facts(reading: Reading) -> NodeFacts | None:
    """Both sides of the join in the period; None where no exporter tells of nodes with GPUs."""
    nodes = reading.nodes.nodes.nodes
    if not nodes:
        return None
    hours = [hour for node in nodes for hour in node.hours.values()]
    on = reading.whole.on_nodes.get(reading.currency, Sum())
    off = reading.whole.off_nodes.get(reading.currency, Sum())
    return NodeFacts(
        node_hours=_hours(sum(hour.observed_ms for hour in hours)),
        matched_node_hours=_hours(sum(_charged_ms(reading, node) for node in nodes)),
        unmatched_nodes=tuple(node.name[2] for node in nodes if not _charged_ms(reading, node)),
        capacity_gpu_hours=_hours(sum(hour.capacity_ms or 0 for hour in hours)),
        held_gpu_hours=_hours(sum(hour.held_ms for hour in hours)),
        idle_gpu_hours=_hours(sum(hour.idle_ms for hour in hours)),
        unassigned_gpu_hours=_hours(sum(reading.nodes.unassigned_ms().values())),
        matched_cost=on.effective,
        unmatched_cost=off.effective,
        unmatched_charges=off.charges,
        currency=reading.currency,
    )


def _hours(gpu_ms: int | Fraction) -> Decimal:
    return decimal_of(Fraction(gpu_ms) / HOUR_MS)


def _charged_ms(reading: Reading, node: Node) -> int:
    charged = reading.whole.charged_node_hours
    return sum(h.observed_ms for at, h in node.hours.items() if (node.name, at) in charged)


def node_notices(reading: Reading) -> Iterator[Notice]:
    """What of nodes and invoice does not meet, with hours and money."""
    yield from _parts(reading)
    facts = node_facts(reading)
    if facts is None:
        return
    if facts.unmatched_node_hours:
        yield Notice(
            "nodes-without-charges",
            ", ".join(facts.unmatched_nodes[:MOST_NAMED]) or "hours",
            f"{_shown(facts.unmatched_node_hours)} of {_shown(facts.node_hours)} node-hours with "
            "GPUs meet no charge of the period: their provider ids stand in no invoice line.",
        )
    if facts.unmatched_charges:
        yield Notice(
            "gpu-charges-without-node",
            facts.currency,
            f"{counted_text(facts.unmatched_charges, 'GPU charge')} of a resource that is no node "
            "of the cluster at that time.",
            facts.unmatched_cost,
            facts.currency,
        )
    yield from _unassigned(reading)
    yield from _differing(reading)


def _unassigned(reading: Reading) -> Iterator[Notice]:
    """Pods that hold GPUs and that no rule gives to a place."""
    spaces: dict[str, Fraction] = {}
    for (space, _), gpu_ms in reading.nodes.unassigned_ms().items():
        spaces[space] = spaces.get(space, Fraction(0)) + gpu_ms
    for space, gpu_ms in sorted(spaces.items()):
        if gpu_ms:
            yield Notice(
                "gpu-hours-without-workload",
                space or "(no namespace)",
                f"Pods of namespace {space or '(none)'} held {_shown(_hours(gpu_ms))} GPU-hours; no "
                "rule gives them to a workload.",
            )


def _parts(reading: Reading) -> Iterator[Notice]:
    """What was counted as a part of a GPU, and what nobody can tell the part of."""
    cluster = reading.nodes.cluster
    parts = {name: {part} for name, part in reading.nodes.partitions.items()} | cluster.slices
    if parts:
        told = ", ".join(
            f"{name} as {' and '.join(map(str, sorted(found)))}"
            for name, found in sorted(parts.items())
        )
        yield Notice(
            "gpu-parts",
            "resources",
            f"Parts of a GPU are counted as such, MIG slices by their memory: {told}.",
        )
    for resource in sorted(cluster.untold):
        yield Notice(
            "gpu-parts",
            resource,
            f"Each {resource} is counted as a whole card; nobody tells whether cards are partitioned, and "
            f"then it would be a part of one. {_LABELS_OF_AMD}",
        )
    for resource, unit_ms in sorted(cluster.unknown.items()):
        cure = _LABELS_OF_AMD if resource.startswith("amd_com") else _LABEL_OF_NVIDIA
        yield Notice(
            "gpu-parts-unknown",
            resource,
            f"Pods held {_shown(_hours(unit_ms))} hours of {resource}; nobody tells what part of a "
            f"GPU one is, so they are not counted. {cure}",
        )


def _differing(reading: Reading) -> Iterator[Notice]:
    """Where what pods held and what the invoice's shapes give differ by over 5 %."""
    for workload in reading.workloads:
        held, source = reading.gpu_hours(workload.slug)
        billed = reading.whole.gpu_hours(workload.slug)
        if held is None or billed is None or held == billed or source is None:
            continue
        if abs(Fraction(held) - Fraction(billed)) > DIFFERENT * max(
            Fraction(held), Fraction(billed)
        ):
            yield Notice(
                "gpu-hours-differ",
                workload.slug,
                f"{workload.slug}: {_shown(held)} GPU-hours by {source}, {_shown(billed)} by the "
                "invoice's shapes. The first count.",
            )


def _shown(hours: Decimal) -> str:
    return f"{hours:,.1f}"
