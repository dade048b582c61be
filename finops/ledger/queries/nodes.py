"""Nodes, what was held on them and by whom, from the cluster's and the devices' exporters (§4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from fractions import Fraction

from finops.core.allocation import WORKLOAD, Assigner, Place
from finops.core.held import resource_keys
from finops.core.nodes import Node, NodeHour, NodeName, Nodes
from finops.core.period import HOUR_MS, Period, instant_of, milliseconds
from finops.core.slices import (
    is_partition,
    part_of_partition,
    part_of_profile,
    shape_of_device,
)
from finops.ledger.models import DeviceHour

from .as_of import known_by
from .cluster import Held, Pod, Told, cluster_of
from .tokens import TokenLedger

REQUESTS = "GPU requests of pods (kube-state-metrics)"
DEVICES = "devices held by pods (DCGM)"
_POD = ("pod", "kubernetes_pod_name", "pod_name")
_NAMESPACE = ("namespace", "kubernetes_namespace")


class NodeLedger:
    """The nodes and held GPUs of one period, read once."""

    def __init__(
        self,
        period: Period,
        tokens: TokenLedger,
        assign: Assigner,
        as_of: datetime | None = None,
    ) -> None:
        self.period, self.assign, self.as_of = period, assign, as_of
        self._engines = _engines(tokens)
        self._nodes: dict[NodeName, Node] = {}
        self.cluster = cluster_of(period, as_of)
        self.requests = self.cluster.held()
        self._fill()
        self.partitions: dict[str, Fraction] = {}
        """Modes of AMD's cards and the part of one that each partition of a device was counted as."""
        self.devices = list(_devices(period, as_of, self.partitions))
        self.nodes = Nodes(self._nodes.values())

    def gpu_hours(self, period: Period) -> dict[str, tuple[Fraction, str]]:
        """GPU-hours of each workload in a part of the period, and by what: requests, else devices.

        Absent for a workload of which neither tells, or only of a part of the week.
        """
        found: dict[str, tuple[Fraction, str]] = {}
        for held, source in ((self.devices, DEVICES), (self.requests, REQUESTS)):
            if not self._tells_the_week(held):
                continue
            for slug, gpu_ms in self._by_workload(held, period).items():
                found[slug] = (gpu_ms / HOUR_MS, source)
        return found

    def _tells_the_week(self, held: Sequence[Held]) -> bool:
        """Whether a source tells of 95 % of the hours from the week's start to its last one. An
        exporter that came in the middle of a week would make a whole week's GPU-hours few."""
        hours = {one.hour_ms for one in held}
        if not hours:
            return False
        expected = (max(hours) - milliseconds(self.period.start)) // HOUR_MS + 1
        return 20 * len(hours) >= 19 * expected

    def unassigned_ms(self) -> dict[Pod, Fraction]:
        """GPU time held by pods that no rule gives to a place, by pod."""
        found: dict[Pod, Fraction] = {}
        for one in self.requests:
            if self.place_of(one).kind not in (WORKLOAD, "out of scope"):
                found[one.pod] = found.get(one.pod, Fraction(0)) + one.gpu_ms
        return found

    def place_of(self, held: Held) -> Place:
        """The place of a pod at an hour: its engine's, else what the rules say of its own labels."""
        instant = instant_of(held.hour_ms)
        for labels in self._engines.get(held.pod, ()):
            place = self.assign(labels, instant)
            if place.kind == WORKLOAD:
                return place
        return self.assign(held.labels, instant)

    def _by_workload(self, held: Iterable[Held], period: Period) -> dict[str, Fraction]:
        start, end = milliseconds(period.start), milliseconds(period.end)
        found: dict[str, Fraction] = {}
        for one in held:
            if start <= one.hour_ms < end:
                place = self.place_of(one)
                if place.kind == WORKLOAD and place.target:
                    found[place.target] = found.get(place.target, Fraction(0)) + one.gpu_ms
        return found

    def _node(self, one: Told) -> NodeHour | None:
        """The hour of the node that a row is of; None for what stands on no node."""
        if not one.node[2]:
            return None
        node = self._nodes.setdefault(one.node, Node(one.node))
        if one.role == "node_info":
            node.keys |= frozenset(resource_keys(one.labels.get("provider_id", "")))
        return node.hours.setdefault(one.hour_ms, NodeHour())

    def _fill(self) -> None:
        """The nodes' own hours; of several resources of a node the GPUs are added."""
        for one in self.cluster.of_role("node_info"):
            if (hour := self._node(one)) is not None:
                hour.observed_ms = max(hour.observed_ms, one.observed_ms)
        for one, gpu_ms in self.cluster.capacities():
            if (hour := self._node(one)) is not None:
                hour.observed_ms = min(HOUR_MS, max(hour.observed_ms, one.observed_ms))
                hour.capacity_ms = (hour.capacity_ms or 0) + gpu_ms
        for held in self.requests:
            labels = held.labels
            name = (labels["source"], labels.get("cluster", ""), labels.get("node", ""))
            node = self._nodes.setdefault(name, Node(name))
            node.hours.setdefault(held.hour_ms, NodeHour()).held_ms += held.gpu_ms


def _engines(tokens: TokenLedger) -> dict[Pod, list[dict[str, str]]]:
    """The labels of the engines' counters by the pod they run in."""
    found: dict[Pod, list[dict[str, str]]] = {}
    for known in tokens.known:
        pod = next((known.labels[name] for name in _POD if known.labels.get(name)), "")
        if pod and known.series.role in ("prompt", "generation", "delivered_prompt"):
            space = next((known.labels[n] for n in _NAMESPACE if known.labels.get(n)), "")
            found.setdefault((space, pod), []).append(known.labels)
    return found


def _devices(
    period: Period, as_of: datetime | None, partitions: dict[str, Fraction]
) -> Iterator[Held]:
    """What pods held of devices while they were seen: of a MIG instance its part of the card, of a
    device that several pods shared an equal part each. Where it passed from one pod to another
    within the hour, nobody can say how long each had it."""
    hours = DeviceHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("target_id", "device", "hour", "-revision").distinct(
        "target_id", "device", "hour"
    )
    for one in newest.select_related("target__source"):
        tenants: list[Pod] = [(space, pod) for space, pod in one.tenants if pod]
        part = _part_of(one)
        if part is not None and tenants and is_partition(one.labels):
            mode = shape_of_device(one.labels)
            partitions[f"partitions {mode.partition.upper()} of {mode.card or 'AMD cards'}"] = part
        if part is None or (len(tenants) != 1 and not one.shared):
            continue
        for pod in tenants:
            labels = {"namespace": pod[0], "pod": pod[1], "source": one.target.source.name}
            gpu_ms = part * one.observed_ms / len(tenants)
            yield Held(pod, labels, milliseconds(one.hour), gpu_ms)


def _part_of(one: DeviceHour) -> Fraction | None:
    """The part of a whole GPU that a device is; None for a MIG instance of unknown profile. A compute
    partition of a card of unknown dies counts as a GPU of its own, which the exceptions say."""
    if is_partition(one.labels):
        shape = shape_of_device(one.labels)
        return part_of_partition(shape.partition, shape.card) or Fraction(1)
    if "/" not in one.device:
        return Fraction(1)
    return part_of_profile(str(one.labels.get("GPU_I_PROFILE", "")))
