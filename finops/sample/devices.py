"""Writes what a DCGM exporter tells of the sample's GPUs in the newest week, as a saved answer.

Every five minutes, in MiB: used, free and reserved by the driver. Used is what the start-up log
says the engine holds, and activations that come and go with the load. Only one cluster has such an
exporter; what the other's GPUs hold is not measured, and its GPU-hours follow from its invoices.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from random import Random

from finops.core.period import HOUR, milliseconds
from finops.sample.calendar import SLOW_STEP_MS, Calendar
from finops.sample.fleet import Life, Service, Target, services
from finops.sample.logs import CARDS, Card

MIB_A_GIB = 1024
# Board memory and the driver's reserve in MiB, as the cards' own tools tell them.
BOARDS = {
    "chat-70b": ("NVIDIA H100 80GB HBM3", 81_559, 479),
    "code-32b": ("NVIDIA L40S", 46_068, 588),
}
CLUSTERS = ("eu-prod-1",)
METRICS = ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_USED")


def write(folder: Path, cluster: str, calendar: Calendar, random: Random) -> Path:
    """The newest week, with an hour before and after it, of one cluster's GPUs; the same random,
    the same bytes."""
    path = folder / f"prometheus-{cluster}-{calendar.names[-1]}-gpus.json.gz"
    rows: dict[str, list[str]] = {metric: [] for metric in METRICS}
    for service in services(calendar):
        if service.cluster == cluster:
            for metric, row in _service(service, calendar, random):
                rows[metric].append(row)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 4, raw, 0) as file:
        for metric in METRICS:
            answer = (
                '{"status":"success","data":{"resultType":"matrix","result":['
                + ",".join(rows[metric])
                + "]}}\n"
            )
            file.write(answer.encode())
    return path


def _service(service: Service, calendar: Calendar, random: Random) -> Iterator[tuple[str, str]]:
    card = CARDS[service.slug]
    since = milliseconds(calendar.weeks[-1].start - HOUR) + SLOW_STEP_MS
    until = milliseconds(calendar.horizon)
    for target in service.targets:
        times = [
            time_ms
            for time_ms in range(since + target.phase_ms, until, SLOW_STEP_MS)
            if target.from_ms <= time_ms < target.to_ms
        ]
        if times:
            engines = max(life.pool.engines for life in target.lives)
            for gpu in range(card.gpus * engines):
                yield from _gpu(service, target, card, gpu, times, random)


def _gpu(
    service: Service, target: Target, card: Card, gpu: int, times: list[int], random: Random
) -> Iterator[tuple[str, str]]:
    model, board, reserved = BOARDS[service.slug]
    labels = {
        "job": "dcgm-exporter", "instance": f"{target.node}:9400", "Hostname": target.node,
        "gpu": str(gpu), "UUID": f"GPU-{sha256(f'{target.node} {gpu}'.encode()).hexdigest()[:32]}",
        "modelName": model, "namespace": service.namespace, "pod": target.pod,
        "cluster": service.cluster,
    }  # fmt: skip
    used = [_used(service, card, _life(target, time_ms), random) for time_ms in times]
    values = {
        METRICS[0]: [board - reserved - one for one in used],
        METRICS[1]: [reserved] * len(used),
        METRICS[2]: used,
    }
    for metric, column in values.items():
        name = json.dumps({"__name__": metric, **labels}, separators=(",", ":"), sort_keys=True)
        pairs = ",".join(
            f'[{time_ms // 1000}.{time_ms % 1000:03d},"{one}"]'
            for time_ms, one in zip(times, column, strict=True)
        )
        yield metric, f'{{"metric":{name},"values":[{pairs}]}}'


def _life(target: Target, time_ms: int) -> Life | None:
    for life in target.lives:
        if life.born_ms <= time_ms < life.stop_ms:
            return life
    return None


def _used(service: Service, card: Card, life: Life | None, random: Random) -> int:
    """MiB in use: the engine's parts, and part of its activation peak; next to nothing without."""
    if life is None:
        return 4
    kv = life.pool.tokens * service.kv_bytes_per_token // (1 << 20)
    parts = Decimal(card.weights) + Decimal(card.non_torch) + Decimal(card.graphs)
    activations = random.randrange(180, 420)
    return int(parts * MIB_A_GIB) + kv + activations
