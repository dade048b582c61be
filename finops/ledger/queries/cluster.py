"""What a cluster's exporter said, by the hour: requests, capacities, running pods, nodes (§4).

Rows of several exporters of one cluster are made one here, and parts of GPUs become fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import cached_property

from finops.core.nodes import NodeName
from finops.core.period import HOUR_MS, Period, milliseconds
from finops.core.slices import (
    AMD_GPU,
    PARTITION_LABEL,
    Shape,
    part_of_gpu,
    shape_of,
    shape_of_device,
)
from finops.ledger.models import DeviceHour, GpuHour, Series

from .as_of import known_by

Pod = tuple[str, str]
"""Namespace and pod."""
PodKey = tuple[str, str, str, str, str]
"""Source, cluster label, namespace, pod, uid (or "" where none is told)."""
_ITSELF = (
    "cluster", "namespace", "pod", "uid", "container", "resource", "node", "phase", "provider_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """One gauge in one hour, of the exporters that told it made one."""

    role: str
    labels: Mapping[str, str]
    hour_ms: int
    gpu_ms: int
    observed_ms: int

    @property
    def node(self) -> NodeName:
        """Source, cluster label, node."""
        labels = self.labels
        return labels["source"], labels.get("cluster", ""), labels.get("node", "")

    @property
    def pod(self) -> PodKey:
        """The pod, told apart from an earlier one of its name by its uid."""
        labels = self.labels
        names = (labels.get(name, "") for name in ("cluster", "namespace", "pod", "uid"))
        return (labels["source"], *names)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Held:
    """GPU time that one pod held in one hour; parts of a GPU count as such."""

    pod: Pod
    labels: Mapping[str, str]
    hour_ms: int
    gpu_ms: Fraction


@dataclass(slots=True)
class _Asked:
    """What one pod asked for on one node in one hour."""

    labels: Mapping[str, str]
    containers: Fraction = Fraction(0)
    most_of_inits: Fraction = Fraction(0)


@dataclass
class Cluster:
    """All that the exporters of clusters told in a period."""

    rows: list[Told] = field(default_factory=list)
    unknown: dict[str, Fraction] = field(default_factory=dict)
    """Resource → units × milliseconds of which nobody tells what part of a GPU they are."""
    slices: dict[str, set[Fraction]] = field(default_factory=dict)
    """Resource → the parts of a GPU it was counted as, by node, where one is not a whole GPU."""
    hosts: dict[tuple[str, int], Shape] = field(default_factory=dict)
    """What AMD's exporter tells of the cards of a host, by host and hour, where no node label does."""
    untold: set[str] = field(default_factory=set)
    """Resources that were counted as whole cards of which nobody tells whether they are partitioned."""

    @cached_property
    def shapes(self) -> dict[tuple[NodeName, int], Shape]:
        """What labels of nodes say of their GPUs, by node and hour."""
        told = (one for one in self.rows if one.role == "node_labels")
        return {(one.node, one.hour_ms): shape_of(one.labels) for one in told}

    @cached_property
    def running(self) -> dict[tuple[PodKey, int], Fraction]:
        """The share of its observed time in which a pod ran, by pod and hour; absent: not told."""
        told = (one for one in self.rows if one.role == "pod_running" and one.observed_ms)
        return {(one.pod, one.hour_ms): Fraction(one.gpu_ms, one.observed_ms) for one in told}

    def of_role(self, role: str) -> Iterator[Told]:
        """The rows of one role."""
        return (one for one in self.rows if one.role == role)

    def capacities(self) -> Iterator[tuple[Told, Fraction]]:
        """Capacity of nodes in GPU-milliseconds, a row for each resource."""
        for one in self.of_role("gpu_capacity"):
            if (gpus := self._gpus(one)) is not None:
                yield one, gpus

    def held(self) -> list[Held]:
        """What running pods hold: the sum of what their containers ask for, or what their hungriest
        init container does where that is more, as the scheduler counts it."""
        asked: dict[tuple[PodKey, NodeName, int], _Asked] = {}
        for one in self.rows:
            if one.role not in ("gpu_request", "gpu_init_request") or not one.node[2]:
                continue  # not yet on a node: nothing is held
            gpus = self._gpus(one)
            if gpus is None:
                continue
            mine = asked.setdefault((one.pod, one.node, one.hour_ms), _Asked(one.labels))
            if one.role == "gpu_request":
                mine.containers += gpus
            else:
                mine.most_of_inits = max(mine.most_of_inits, gpus)
        found = []
        for (pod, _, hour_ms), mine in asked.items():
            whole = max(mine.containers, mine.most_of_inits)
            share = self.running.get((pod, hour_ms), Fraction(1))
            found.append(Held((pod[2], pod[3]), mine.labels, hour_ms, whole * share))
        return found

    def _gpus(self, one: Told) -> Fraction | None:
        """GPU-milliseconds of a row; None, and noted, where nobody tells what part a unit is."""
        resource = one.labels.get("resource", "")
        shape = self._shape(one)
        if resource == AMD_GPU and not shape.partition:
            self.untold.add(resource)
        part = part_of_gpu(resource, shape)
        if part is None:
            if one.role == "gpu_request":
                known = self.unknown.get(resource, Fraction(0))
                self.unknown[resource] = known + one.gpu_ms
            return None
        if part != 1:
            self.slices.setdefault(resource, set()).add(part)
        return part * one.gpu_ms

    def _shape(self, one: Told) -> Shape:
        """What is known of the GPUs of a row's node: by its labels, else by AMD's exporter."""
        told = self.shapes.get((one.node, one.hour_ms), Shape())
        if told.partition:
            return told
        seen = self.hosts.get((one.node[2], one.hour_ms))
        return seen if seen and one.labels.get("resource") == AMD_GPU else told


def cluster_of(period: Period, as_of: datetime | None = None) -> Cluster:
    """The cluster rows of a period."""
    every: dict[tuple[str, ...], list[tuple[int, Told]]] = {}
    for series, told in _newest(period, as_of):
        names = (told.labels.get(name, "") for name in _ITSELF)
        key = (told.labels["source"], series.role, *names, str(told.hour_ms))
        every.setdefault(key, []).append((series.target_id, told))
    whole = {
        (target, one.hour_ms)
        for rows in every.values()
        for target, one in rows
        if one.observed_ms == HOUR_MS
    }
    found = Cluster([_made_one(rows, whole) for rows in every.values()])
    if any(one.labels.get("resource") == AMD_GPU for one in found.rows):
        found.hosts = _hosts(period, as_of)
    return found


def _hosts(period: Period, as_of: datetime | None) -> dict[tuple[str, int], Shape]:
    """The mode and model of the cards of each host and hour, by AMD's exporter; none of a host whose
    cards differ."""
    hours = DeviceHour.objects.filter(
        known_by(as_of),
        hour__gte=period.start,
        hour__lt=period.end,
        labels__has_key=PARTITION_LABEL,
    )
    found: dict[tuple[str, int], set[Shape]] = {}
    for hour, labels in hours.values_list("hour", "labels"):
        host = labels.get("hostname", "")
        found.setdefault((host, milliseconds(hour)), set()).add(shape_of_device(labels))
    return {at: shapes.pop() for at, shapes in found.items() if at[0] and len(shapes) == 1}


def _made_one(rows: list[tuple[int, Told]], whole: set[tuple[int, int]]) -> Told:
    """One gauge of several exporters: of those that saw the whole hour the fullest, since they say
    the same; else the parts that follow each other, as of an exporter that moved, are added."""
    full = [one for target, one in rows if (target, one.hour_ms) in whole]
    if full or len(rows) == 1:
        return max(full or [rows[0][1]], key=lambda one: one.observed_ms)
    first = rows[0][1]
    observed = sum(one.observed_ms for _, one in rows)
    if observed > HOUR_MS:
        return max((one for _, one in rows), key=lambda one: one.observed_ms)
    gpu_ms = sum(one.gpu_ms for _, one in rows)
    return Told(first.role, first.labels, first.hour_ms, gpu_ms, observed)


def _newest(period: Period, as_of: datetime | None) -> Iterator[tuple[Series, Told]]:
    hours = GpuHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    rows: dict[int, list[tuple[int, int, int]]] = {}
    values = newest.values_list("series_id", "hour", "gpu_ms", "observed_ms")
    for pk, hour, gpu_ms, observed in values:
        rows.setdefault(pk, []).append((milliseconds(hour), gpu_ms, observed))
    series = Series.objects.filter(pk__in=rows).select_related("target__source").order_by("pk")
    for one in series:
        labels = own_labels(one)
        for hour_ms, gpu_ms, observed in rows[one.pk]:
            yield one, Told(one.role, labels, hour_ms, gpu_ms, observed)


def own_labels(series: Series) -> dict[str, str]:
    """The labels as the exporter gave them: where Prometheus kept its own under the plain names,
    the exporter's stand under `exported_…`."""
    labels = series.rule_labels
    for name in ("namespace", "pod", "container", "node", "uid"):
        if f"exported_{name}" in labels:
            labels[name] = labels[f"exported_{name}"]
    return labels


def summed(rows: Iterable[Held]) -> Fraction:
    """GPU-milliseconds of all rows."""
    return sum((one.gpu_ms for one in rows), Fraction(0))
