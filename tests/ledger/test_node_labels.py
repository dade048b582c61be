"""Labels of nodes are asked for by the vendors' own, and no node's come twice (docs/sources.md)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from finops.core.period import Period, parse_instant
from finops.ledger.access import Access
from finops.ledger.fetch import Door
from finops.ledger.store import gather
from finops.sources.shards import shards
from tests.ledger.stores import PROMETHEUS, from_samples, prometheus

START = parse_instant("2026-11-16T00:00:00Z")
NVIDIA = {"label_nvidia_com_gpu_count": "8"}
AMD = {"label_amd_com_compute_memory_partition": "cpx_nps4"}
NODES = {"n": NVIDIA, "a": AMD, "both": NVIDIA | AMD, "neither": {"label_zone": "z"}}


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here")
@pytest.mark.parametrize("by_remote_read", [False, True])
def test_nodes_of_each_vendor_are_asked_for_once(tmp_path: Path, by_remote_read: bool) -> None:
    rows = [
        {"metric": {"__name__": "kube_node_labels", "job": "ksm", "instance": "k:1", "node": name}
         | labels,
         "values": [[START.timestamp() + 60 * minute, "1"] for minute in range(60)]}
        for name, labels in NODES.items()
    ]  # fmt: skip
    hour = Period(START, START + timedelta(hours=1))
    with (
        prometheus(tmp_path, from_samples(tmp_path, rows)) as url,
        Door(Access(url, remote_read=by_remote_read)) as door,
    ):
        whole = gather(door, (), hour).series
        parted = [one for shard in shards(2) for one in gather(door, (), hour, shard).series]
    for series in (whole, parted):
        found = sorted((dict(one.labels)["node"], len(one.times_ms)) for one in series)
        assert found == [("a", 60), ("both", 60), ("n", 60)]
