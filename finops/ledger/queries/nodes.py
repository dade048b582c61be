"""Nodes, what was held on them and by whom, from the cluster's and the devices' exporters (§4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from finops.core.allocation import WORKLOAD, Assigner, Place
from finops.core.held import resource_keys
from finops.core.nodes import Node, NodeHour, NodeName, Nodes
from finops.core.period import HOUR_MS, Period, instant_of, milliseconds
from finops.ledger.models import DeviceHour, GpuHour, Series

from .tokens import TokenLedger

REQUESTS = "GPU requests of pods (kube-state-metrics)"
DEVICES = "devices held by pods (DCGM)"
_POD = ("pod", "kubernetes_pod_name", "pod_name")
_NAMESPACE = ("namespace", "kubernetes_namespace")
Pod = tuple[str, str]
"""Namespace and pod."""


@dataclass(frozen=True, slots=True)
class Held:
    """GPU time that one pod held in one hour."""

    pod: Pod
    labels: Mapping[str, str]
    hour_ms: int
    gpu_ms: int


class NodeLedger:
    """The nodes and held GPUs of one period, read once."""

    def __init__(self, period: Period, tokens: TokenLedger, assign: Assigner) -> None:
        self.period, self.assign = period, assign
        self._engines = _engines(tokens)
        self._nodes: dict[NodeName, Node] = {}
        self.requests = list(self._read())
        self.devices = list(_devices(period))
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
                found[slug] = (Fraction(gpu_ms, HOUR_MS), source)
        return found

    def _tells_the_week(self, held: Sequence[Held]) -> bool:
        """Whether a source tells of 95 % of the hours from the week's start to its last one. An
        exporter that came in the middle of a week would make a whole week's GPU-hours few."""
        hours = {one.hour_ms for one in held}
        if not hours:
            return False
        expected = (max(hours) - milliseconds(self.period.start)) // HOUR_MS + 1
        return 20 * len(hours) >= 19 * expected

    def unassigned_ms(self) -> dict[Pod, int]:
        """GPU time held by pods that no rule gives to a place, by pod."""
        found: dict[Pod, int] = {}
        for one in self.requests:
            if self.place_of(one).kind not in (WORKLOAD, "out of scope"):
                found[one.pod] = found.get(one.pod, 0) + one.gpu_ms
        return found

    def place_of(self, held: Held) -> Place:
        """The place of a pod at an hour: its engine's, else what the rules say of its own labels."""
        instant = instant_of(held.hour_ms)
        for labels in self._engines.get(held.pod, ()):
            place = self.assign(labels, instant)
            if place.kind == WORKLOAD:
                return place
        return self.assign(held.labels, instant)

    def _by_workload(self, held: Iterable[Held], period: Period) -> dict[str, int]:
        start, end = milliseconds(period.start), milliseconds(period.end)
        found: dict[str, int] = {}
        for one in held:
            if start <= one.hour_ms < end:
                place = self.place_of(one)
                if place.kind == WORKLOAD and place.target:
                    found[place.target] = found.get(place.target, 0) + one.gpu_ms
        return found

    def _read(self) -> Iterator[Held]:
        """The requests of scheduled pods; on the way the nodes' own hours are filled."""
        for series, rows in _newest(self.period):
            labels = _own(series)
            name = (series.target.source.name, labels.get("cluster", ""), labels.get("node", ""))
            if not name[2]:
                continue  # not yet on a node: nothing is held
            node = self._nodes.setdefault(name, Node(name))
            if series.role == "node_info":
                node.keys |= frozenset(resource_keys(labels.get("provider_id", "")))
            for hour_ms, gpu_ms, observed_ms in rows:
                _add(node.hours.setdefault(hour_ms, NodeHour()), series.role, gpu_ms, observed_ms)
                if series.role == "gpu_request":
                    pod = (labels.get("namespace", ""), labels.get("pod", ""))
                    yield Held(pod, labels, hour_ms, gpu_ms)


def _add(hour: NodeHour, role: str, gpu_ms: int, observed_ms: int) -> None:
    """Adds one series to its node's hour. Two exporters of one cluster say the same: of capacity
    and presence the most counts, not the sum."""
    if role == "gpu_request":
        hour.held_ms += gpu_ms
        return
    hour.observed_ms = min(HOUR_MS, max(hour.observed_ms, observed_ms))
    if role == "gpu_capacity":
        hour.capacity_ms = max(hour.capacity_ms or 0, gpu_ms)


def _own(series: Series) -> dict[str, str]:
    """The labels as the exporter gave them: where Prometheus kept its own under the plain names,
    the exporter's stand under `exported_…`."""
    labels: dict[str, str] = dict(series.labels)
    for name in ("namespace", "pod", "container", "node"):
        if f"exported_{name}" in labels:
            labels[name] = labels[f"exported_{name}"]
    return labels | {"source": series.target.source.name, "__name__": series.metric}


def _newest(period: Period) -> Iterator[tuple[Series, list[tuple[int, int, int]]]]:
    hours = GpuHour.objects.filter(hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for pk, hour, gpu_ms, observed in newest.values_list(
        "series_id", "hour", "gpu_ms", "observed_ms"
    ):
        rows.setdefault(pk, []).append((milliseconds(hour), gpu_ms, observed))
    found = Series.objects.filter(pk__in=rows).select_related("target__source").order_by("pk")
    once: set[tuple[Any, ...]] = set()
    for series in found:
        yield series, [row for row in rows[series.pk] if _is_first(once, series, row)]


def _is_first(once: set[tuple[Any, ...]], series: Series, row: tuple[int, int, int]) -> bool:
    """Whether no other exporter of the cluster told the whole of the same container's hour."""
    if series.role != "gpu_request" or row[2] < HOUR_MS:
        return True
    names = ("cluster", "namespace", "pod", "container", "resource", "node")
    labels = _own(series)
    key = (labels["source"], *(labels.get(name) for name in names), row[0])
    known = key in once
    once.add(key)
    return not known


def _engines(tokens: TokenLedger) -> dict[Pod, list[dict[str, str]]]:
    """The labels of the engines' counters by the pod they run in."""
    found: dict[Pod, list[dict[str, str]]] = {}
    for known in tokens.known:
        pod = next((known.labels[name] for name in _POD if known.labels.get(name)), "")
        if pod and known.series.role in ("prompt", "generation", "delivered_prompt"):
            space = next((known.labels[n] for n in _NAMESPACE if known.labels.get(n)), "")
            found.setdefault((space, pod), []).append(known.labels)
    return found


def _devices(period: Period) -> Iterator[Held]:
    """Devices with one tenant through the hour: that pod held one GPU while it was seen."""
    hours = DeviceHour.objects.filter(hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("target_id", "device", "hour", "-revision").distinct(
        "target_id", "device", "hour"
    )
    for one in newest.select_related("target__source"):
        tenants = [tuple(t) for t in one.tenants if t[1]]
        if len(tenants) == 1 and not one.shared and "/" not in one.device:
            pod: Pod = (tenants[0][0], tenants[0][1])
            labels = {"namespace": pod[0], "pod": pod[1], "source": one.target.source.name}
            yield Held(pod, labels, milliseconds(one.hour), one.observed_ms)
