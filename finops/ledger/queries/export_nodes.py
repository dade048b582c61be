"""Nodes, and who held GPUs when, for evidence packs: idle shares and GPU-hours follow (method §4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finops.core.period import instant_of

from .export_table import Table, table
from .nodes import DEVICES, REQUESTS, NodeLedger


def nodes_and_holders(known: NodeLedger) -> Iterator[Table]:
    """Every node with its hours, and every holder of GPUs with its hours, GPU × milliseconds."""
    nodes = list(enumerate(known.nodes.nodes, start=1))
    columns = ("node", "source", "cluster", "name", "keys")
    yield table("nodes", columns, ((n, *one.name, sorted(one.keys)) for n, one in nodes))
    hours = ("node", "hour", "observed_ms", "capacity_ms")
    yield table("node_hours", hours, (
        (number, instant_of(at), hour.observed_ms, _exact(hour.capacity_ms))
        for number, one in nodes
        for at, hour in sorted(one.hours.items())
    ))  # fmt: skip
    yield from _holders(known)


def _holders(known: NodeLedger) -> Iterator[Table]:
    holders: dict[tuple[Any, ...], int] = {}
    hours = []
    for source, every in ((REQUESTS, known.requests), (DEVICES, known.devices)):
        for one in every:
            key = (source, *one.pod, tuple(sorted(one.labels.items())))
            number = holders.setdefault(key, len(holders) + 1)
            hours.append((number, instant_of(one.hour_ms), _exact(one.gpu_ms)))
    yield table("gpu_holders", ("holder", "source", "namespace", "pod", "labels"), (
        (number, *key[:3], dict(key[3])) for key, number in holders.items()
    ))  # fmt: skip
    yield table("gpu_hours", ("holder", "hour", "gpu_ms"), sorted(hours))


def _exact(value: Any) -> str | None:
    """A fraction as text: `7` or `7/2`."""
    return None if value is None else str(value)
