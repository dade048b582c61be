"""KV and memory gauges into hourly rows against the store's own time.

    .venv/bin/python benchmarks/memory_hours.py --engines 100 --hours 24
    .venv/bin/python benchmarks/memory_hours.py --engines 1000 --hours 48 --storage /tmp/blocks

A real Prometheus is filled with the gauges of engines (use, running, waiting, configuration, the
counters that tell when tokens moved) and of a GPU each (used, free, reserved), at 15 s. `collect`
reads them into a ledger of its own and derives the hours. *Store* is the time in which Prometheus
answers the very requests, the answers thrown away; *hours* the time spent on deriving and posting
the hours of caches and devices. Every hour's mean, peak and percentiles are compared with those
worked out here from the values. The store's processor time is that of its process while it
answered. `--storage` keeps the blocks of the Prometheus for the next run, which may ask for fewer
hours of them. Prints one JSON object; the ratios are what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import tokens_backfill as shared
from rationing import cpu_seconds
from tokens_backfill import START, STEP_S, free_port, instants_ms, serving

BLOCKS, BOARD_MIB, RESERVED_MIB = 10_001, 81_559, 479
HOUR_S, SEGMENT_HOURS = 3600, 4
UNCOMPACTED = ("--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h")
"""Blocks stay as they were made: joining those of a week would count as the store's time to answer."""


def used_blocks(engine: int, step: int) -> int:
    """Blocks in use: a wave of the day with a spike now and then; always whole."""
    wave = abs((step * 7 + engine * 131) % 4_000 - 2_000)
    return min(BLOCKS - 1, 500 + wave + (6_000 if step % 997 == engine % 997 else 0))


def used_mib(engine: int, step: int) -> int:
    return 70_000 + (step + engine) % 400


def series_of(
    engine: int, since: int, until: int
) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """The series of one engine and its GPU between two steps."""
    target = shared.labels_of(engine)
    mine = target | {"engine": "0", "model_name": f"model-{engine % 20}"}
    every = range(since, until)
    yield "up", target, ["1"] * len(every)
    born = f"{START.timestamp() - 60:.0f}"
    yield "process_start_time_seconds", target, [born] * len(every)
    yield "vllm:prompt_tokens_total", mine, [str(s * 90) for s in every]
    yield "vllm:generation_tokens_total", mine, [str(s * 30) for s in every]
    usage = [repr(used_blocks(engine, s) / (BLOCKS - 1)) for s in every]
    yield "vllm:kv_cache_usage_perc", mine, usage
    yield "vllm:num_requests_running", mine, [str((s + engine) % 60) for s in every]
    yield "vllm:num_requests_waiting", mine, ["0"] * len(every)
    pool = {"block_size": "16", "num_gpu_blocks": str(BLOCKS), "gpu_memory_utilization": "0.9"}
    yield "vllm:cache_config_info", target | {"engine": "0"} | pool, ["1"] * len(every)
    gpu = {"job": "dcgm", "instance": f"node-{engine // 8}:9400", "gpu": str(engine % 8),
           "UUID": f"GPU-{engine:032x}", "namespace": target["namespace"], "pod": target["pod"]}  # fmt: skip
    used = [used_mib(engine, s) for s in every]
    yield "DCGM_FI_DEV_FB_USED", gpu, list(map(str, used))
    yield "DCGM_FI_DEV_FB_FREE", gpu, [str(BOARD_MIB - RESERVED_MIB - one) for one in used]
    yield "DCGM_FI_DEV_FB_RESERVED", gpu, [str(RESERVED_MIB)] * len(every)


def make_blocks(folder: Path, storage: Path, engines: int, steps: int) -> None:
    """Blocks that promtool makes of the series, a few hours at a time: the texts are large."""
    each = SEGMENT_HOURS * HOUR_S // STEP_S
    for since in range(0, steps, each):
        samples = folder / "samples.om"
        write_samples(folder, samples, engines, since, min(steps, since + each))
        made = ["promtool", "tsdb", "create-blocks-from", "openmetrics"]
        made += ["--max-block-duration=162h", str(samples), str(storage)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        samples.unlink()


def write_samples(folder: Path, samples: Path, engines: int, since: int, until: int) -> None:
    """The samples of all series between two steps, metric after metric."""
    parts: dict[str, Path] = {}
    handles: dict[str, Any] = {}
    for engine in range(engines):
        instants = [f"{at / 1000:.3f}" for at in instants_ms(engine, until)[since:]]
        for name, labels, values in series_of(engine, since, until):
            if name not in handles:
                parts[name] = folder / f"part-{len(parts)}"
                handles[name] = parts[name].open("w")
            inner = ",".join(f'{k}="{v}"' for k, v in labels.items())
            head = f"{name}{{{inner}}} "
            handles[name].writelines(
                f"{head}{value} {at}\n" for value, at in zip(values, instants, strict=True)
            )
    with samples.open("w") as text:
        for name, handle in handles.items():
            handle.close()
            with parts[name].open() as part:
                shutil.copyfileobj(part, text)
            parts[name].unlink()
        text.write("# EOF\n")


@contextmanager
def prometheus(
    folder: Path, engines: int, steps: int, kept: Path | None = None
) -> Iterator[tuple[str, int]]:
    """A real Prometheus over blocks that promtool made of the series: its URL and process."""
    storage = kept or folder / "tsdb"
    if not (storage / "made").exists():
        make_blocks(folder, storage, engines, steps)
        (storage / "made").touch()
    (folder / "p.yml").write_text("scrape_configs: []\n")
    port = free_port()
    with serving(
        ["prometheus", f"--config.file={folder / 'p.yml'}", f"--storage.tsdb.path={storage}",
         "--storage.tsdb.retention.time=10y", *UNCOMPACTED, f"--web.listen-address=127.0.0.1:{port}"],
        f"http://127.0.0.1:{port}", "/-/ready", folder,
    ) as serving_it:  # fmt: skip
        yield serving_it


def collect(url: str, since: datetime, until: datetime) -> dict[str, Any]:
    """`collect` into the ledger, with the time that deriving the hours of memory took of it."""
    source, collect_source, period = shared._ledger(url, since, until)
    from finops.ledger.operations import derive

    spent = {"wall": 0.0, "cpu": 0.0}

    def timed(work: Any) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return work(*given, **named)
            finally:
                spent["wall"] += time.perf_counter() - wall
                spent["cpu"] += time.process_time() - cpu

        return run

    for name in ("derive_caches", "derive_devices", "_derive_gauges_at_hand"):
        setattr(derive, name, timed(getattr(derive, name)))
    server = shared.database_server()
    database_cpu, before, cpu = cpu_seconds(server), time.perf_counter(), time.process_time()
    found = collect_source(source, by="benchmark", at=until + timedelta(minutes=5), period=period)
    seconds, own_cpu = time.perf_counter() - before, time.process_time() - cpu
    database_cpu = cpu_seconds(server) - database_cpu
    peak_mib = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )  # before hours are compared
    return {
        "peak_mib": peak_mib, "seconds": seconds, "cpu_seconds": own_cpu, "database_cpu_seconds": database_cpu, "readings": found.readings,
        "hours_seconds": spent["wall"], "hours_cpu_seconds": spent["cpu"],
        "wrong": wrong_hours(until), "warnings": found.warnings,
    }  # fmt: skip


def wrong_hours(until: datetime) -> dict[str, int]:
    """Hours of caches and devices in the ledger, and how many differ from what the values say; the
    hour that only the last reading reaches into is not whole."""
    from finops.ledger.models import CacheHour, DeviceHour

    counted = {"cache_hours": 0, "device_hours": 0, "wrong": 0}
    caches = CacheHour.objects.filter(hour__lt=until).order_by("series_id", "hour", "-revision")
    for row in caches.distinct("series_id", "hour").select_related("series").iterator():
        engine = int(row.series.labels["pod"].split("-")[1])
        counted["cache_hours"] += 1
        counted["wrong"] += (row.observed_ms, row.active_block_ms, row.peak_blocks) != _cache(
            engine, row.hour
        )
    devices = DeviceHour.objects.filter(hour__lt=until).order_by("device", "hour", "-revision")
    for one in devices.distinct("device", "hour").iterator():
        counted["device_hours"] += 1
        counted["wrong"] += (one.observed_ms, one.used_byte_ms) != _device(
            int(one.device, 16), one.hour
        )
    return counted


def _steps(engine: int, hour: datetime) -> Iterator[tuple[int, int]]:
    """The steps that hold in an hour, each with its milliseconds in it."""
    first, low = instants_ms(engine, 1)[0], round(hour.timestamp() * 1000)
    high, each = low + HOUR_S * 1000, STEP_S * 1000
    start = max(0, (low - first) // each)
    for step in range(start, (high - first) // each + 1):
        at = first + step * each
        held = min(at + each, high) - max(at, low)
        if held > 0:
            yield step, held


def _cache(engine: int, hour: datetime) -> tuple[int, int, int]:
    known = [(used_blocks(engine, step), held) for step, held in _steps(engine, hour)]
    return (
        sum(held for _, held in known),
        sum(blocks * held for blocks, held in known),
        max(blocks for blocks, _ in known),
    )


def _device(engine: int, hour: datetime) -> tuple[int, int]:
    known = [(used_mib(engine, step) << 20, held) for step, held in _steps(engine, hour)]
    return sum(held for _, held in known), sum(size * held for size, held in known)


def run(
    engines: int, hours: int, storage: Path | None = None, storage_hours: int | None = None
) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    folder.chmod(0o711)
    data = folder / "data"
    data.mkdir(mode=0o711)
    # A scrape beyond the end, so that the last hour's readings hold as long as the others.
    steps = (storage_hours or hours) * HOUR_S // STEP_S + 8
    until = START + timedelta(hours=hours)
    try:
        with prometheus(folder, engines, steps, storage) as (url, process):
            before, served = cpu_seconds(process), shared.served_seconds_of(url)
            own = shared.measured("drain-in-turn", url, START, until, data, __file__)
            store_cpu = cpu_seconds(process) - before
            served = shared.served_seconds_of(url) - served
            as_asked = shared.measured("drain", url, START, until, data, __file__)
            load = os.getloadavg()[0]
            filled = shared.measured("collect", url, START, until, data, __file__)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "engines": engines, "hours": hours, "readings": filled["readings"],
        "load": load, "store_seconds": own["seconds"], "store_cpu_seconds": store_cpu,
        "store_served_seconds": served, "store_as_asked_seconds": as_asked["seconds"],
        "collect_seconds": filled["seconds"], "collect_cpu_seconds": filled["cpu_seconds"],
        "database_cpu_seconds": filled["database_cpu_seconds"],
        "hours_seconds": filled["hours_seconds"], "hours_cpu_seconds": filled["hours_cpu_seconds"],
        "hours_over_store": filled["hours_seconds"] / own["seconds"],
        "collect_over_store": filled["seconds"] / own["seconds"],
        "collect_over_store_as_asked": filled["seconds"] / as_asked["seconds"],
        "collect_over_served": filled["seconds"] / served,
        "hours_cpu_over_store_cpu": filled["hours_cpu_seconds"] / store_cpu,
        "collect_cpu_over_store_cpu": filled["cpu_seconds"] / store_cpu,
        "peak_mib": filled["peak_mib"], **filled["wrong"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=100)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--storage", type=Path, help="blocks of a Prometheus, made once and kept")
    parser.add_argument("--storage-hours", type=int, help="how many hours those blocks hold")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="since", help=argparse.SUPPRESS)
    parser.add_argument("--to", dest="until", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        shared.collect = collect
        since, until = map(datetime.fromisoformat, (chosen.since, chosen.until))
        print(json.dumps(shared.measure(chosen.measure, chosen.url, since, until)))
        return
    found = run(chosen.engines, chosen.hours, chosen.storage, chosen.storage_hours)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.path.insert(0, str(shared.ROOT))
    main()
