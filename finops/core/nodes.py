"""Nodes against the invoice: GPUs held, idle, and charged, joined by resource and hour (method §4).

All sums are exact GPU-milliseconds; slices of a GPU are fractions of one. A node stands for the charges of the resource that its
provider id names, in the hours in which the cluster showed it: names are used again, so that no
join holds without its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from .held import charged_key
from .period import HOUR_MS, milliseconds

NodeName = tuple[str, str, str]
"""Source, cluster label (or ""), node."""


@dataclass(slots=True)
class NodeHour:
    """One node in one hour. `capacity_ms` is None where nothing tells how many GPUs it has."""

    observed_ms: int = 0
    held_ms: Fraction = Fraction(0)
    capacity_ms: Fraction | None = None

    @property
    def idle_ms(self) -> Fraction:
        """GPU time that the node had, was seen with, and nobody held."""
        return max(Fraction(0), (self.capacity_ms or 0) - self.held_ms)


@dataclass(slots=True)
class Node:
    """A node and its hours, by the hour's start in milliseconds."""

    name: NodeName
    keys: frozenset[str] = frozenset()
    hours: dict[int, NodeHour] = field(default_factory=dict)

    @property
    def has_gpus(self) -> bool:
        """Whether it ever had GPUs, by its capacity or by what was asked for on it."""
        return any(hour.capacity_ms or hour.held_ms for hour in self.hours.values())

    @property
    def most_gpus(self) -> Fraction:
        """GPUs of the node, by the hour that shows most."""
        return max(
            (
                hour.capacity_ms / hour.observed_ms
                for hour in self.hours.values()
                if hour.capacity_ms and hour.observed_ms
            ),
            default=Fraction(0),
        )


class Nodes:
    """The nodes with GPUs of a period, found by the resource a charge names."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = sorted((one for one in nodes if one.has_gpus), key=lambda one: one.name)
        self._by_key: dict[str, list[Node]] = {}
        for one in self.nodes:
            for key in one.keys:
                self._by_key.setdefault(key, []).append(one)

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def of_charge(self, resource: str | None, start: datetime, end: datetime) -> list[Node]:
        """The nodes that a charge of [start, end) may be for: named by it, and seen in its time."""
        key = charged_key(resource)
        hours = hours_of(start, end)
        return [
            one
            for one in (self._by_key.get(key, ()) if key else ())
            if any(hour in one.hours for hour in hours)
        ]

    def idle_share(self, resource: str | None, start: datetime, end: datetime) -> Fraction | None:
        """The share of a charge's GPU time that nobody held; None for no node of known capacity.

        Time that no reading saw is not idle: it may have been held. Of one node it is a share of
        all its GPUs over the whole charge; of a scale set, of what was seen of its machines.
        """
        nodes = [one for one in self.of_charge(resource, start, end) if one.most_gpus]
        if not nodes:
            return None
        weights = hours_of(start, end)
        idle = _sum(nodes, weights, "idle_ms")
        if len(nodes) == 1:
            window = milliseconds(end) - milliseconds(start)
            whole = nodes[0].most_gpus * window
        else:
            whole = _sum(nodes, weights, "capacity_ms")
        return min(Fraction(1), idle / whole) if whole else None


def _sum(nodes: Iterable[Node], weights: Mapping[int, Fraction], name: str) -> Fraction:
    total = Fraction(0)
    for node in nodes:
        for hour_ms, weight in weights.items():
            if hour_ms in node.hours:
                total += weight * (getattr(node.hours[hour_ms], name) or 0)
    return total


def hours_of(start: datetime, end: datetime) -> dict[int, Fraction]:
    """The hours that [start, end) touches, each with the share of it that lies inside."""
    since, until = milliseconds(start), milliseconds(end)
    first = since // HOUR_MS * HOUR_MS
    return {
        hour: Fraction(min(until, hour + HOUR_MS) - max(since, hour), HOUR_MS)
        for hour in range(first, max(until, first + 1), HOUR_MS)
    }


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Both sides of the join in a period, in hours and in the report's currency (method §4)."""

    node_hours: Decimal
    matched_node_hours: Decimal
    unmatched_nodes: tuple[str, ...]
    capacity_gpu_hours: Decimal
    held_gpu_hours: Decimal
    idle_gpu_hours: Decimal
    unassigned_gpu_hours: Decimal
    matched_cost: Decimal
    unmatched_cost: Decimal
    unmatched_charges: int
    currency: str

    @property
    def unmatched_node_hours(self) -> Decimal:
        """Hours of nodes with GPUs that no charge pays for."""
        return self.node_hours - self.matched_node_hours
