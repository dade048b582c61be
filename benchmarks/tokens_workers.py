"""One source shared out among real Celery workers: two against one.

    .venv/bin/python benchmarks/tokens_workers.py --series 10000 --hours 2
    .venv/bin/python benchmarks/tokens_workers.py --series 10000 --hours 2 --storage /tmp/blocks --storage-hours 4
    .venv/bin/python benchmarks/tokens_workers.py --series 2000 --hours 2 --order 1 2 2 1
    .venv/bin/python benchmarks/tokens_workers.py --series 10000 --hours 12 --share 0.2

A real Prometheus is filled as `tokens_backfill.py` does. The schedule's own task then collects it
into a fresh ledger, with one worker of one process and the source whole, or with two such workers
and the source in two shards. Each worker has a core to itself; the database and the store may use as many
cores as there are workers. Prints one JSON object: seconds by wall, processor seconds of each worker, of
the database and the store, and tokens counted against the truth. On a shared machine wall times say little:
`ideal` is how many times as quick two would be with nothing else in the way, one worker's
processor seconds ÷ those of the busier of two.

On two cores, two workers, store and database are four parties: what is measured then is the machine.
With `--share`, each worker may use that fraction of a core only (`rationing.py`), store and database
all that is left, on whatever core: the workers are what is waited for, as on a machine with cores to
spare, and `wall` tells how the sharing itself scales.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from rationing import cpu_seconds, descendants, rationed
from tokens_backfill import COUNTERS, ROOT, START, STEP_S, prometheus, truth

TASK = "finops.ledger.tasks.collect_source"
PATIENCE_S = 3600
STATE = """
SELECT (SELECT coalesce(sum(extract(epoch FROM window_end - window_start)), 0)::bigint / 3600
        FROM ledger_fetch WHERE complete),
       (SELECT count(*) FROM ledger_fetch WHERE NOT complete)
"""
TOKENS = """
SELECT sum(tokens)::bigint FROM (
    SELECT DISTINCT ON (series_id, hour) hour.tokens FROM ledger_tokenhour hour
    JOIN ledger_series series ON series.id = hour.series_id WHERE series.metric = %s
    ORDER BY series_id, hour, revision DESC) newest
"""


def pin(pid: int, cores: Sequence[int]) -> None:
    """Lets a process, and what it starts from now on, use these cores only."""
    for one in [pid, *descendants(pid)]:
        os.sched_setaffinity(one, cores)


@contextmanager
def ledger(folder: Path, shards: int) -> Iterator[tuple[dict[str, str], str, int]]:
    """An empty ledger with its servers: the environment of its processes, its URL, the pid of its
    database server."""
    folder.mkdir(mode=0o711)
    changed = {
        "HEADROOM_DATA": str(folder),
        "HEADROOM_TEST": "1",
        "HEADROOM_COLLECT_SHARDS": str(shards),
        "DJANGO_SETTINGS_MODULE": "finops.settings",
    }
    sys.path.insert(0, str(ROOT))
    os.environ |= changed
    from finops import embedded
    from finops.embedded.places import find
    from finops.embedded.postgres import Postgres

    try:
        url = embedded.ensure_database(folder)
        embedded.ensure_broker(folder)
        pid = Postgres(find(folder)).pid()
        assert pid is not None
        yield os.environ | changed, url, pid
    finally:
        embedded.release_all()


@contextmanager
def workers(
    environment: dict[str, str], cores: Sequence[Sequence[int]], log: Path
) -> Iterator[list[int]]:
    """A worker of one process on each of these sets of cores; their pids."""
    command = [sys.executable, "-m", "celery", "-A", "finops.celery", "worker", "-c", "1",
               "-Q", "collect,default", "--without-mingle", "--without-gossip", "-l", "WARNING"]  # fmt: skip
    with log.open("ab") as file:
        started = [
            subprocess.Popen(
                ["taskset", "-c", ",".join(map(str, own)), *command, "-n", f"bench{n}@headroom"],
                cwd=ROOT, env=environment, stdout=file, stderr=file,
            )
            for n, own in enumerate(cores, 1)
        ]  # fmt: skip
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


def once(
    url: str, store: int, count: int, hours: int, share: float | None, folder: Path
) -> dict[str, Any]:
    """Collects the store with so many workers; what it took."""
    import psycopg
    from celery import Celery

    every = sorted(os.sched_getaffinity(0))
    # A core for each worker; of workers that may use a part of one only, no core is theirs.
    cores = every if share else every[:count]
    of_workers = [cores] * count if share else [[core] for core in cores]
    with ledger(folder, count) as (environment, database, postgres):
        for command in (["migrate", "-v", "0"], ["sources", "add", "bench", url]):
            subprocess.run(
                [sys.executable, "manage.py", *command],
                cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        from finops import embedded
        from finops.celery import urls

        broker, results = urls(embedded.broker_url(folder))
        celery = Celery(broker=broker, backend=results)
        pin(postgres, cores)
        pin(store, cores)
        with workers(environment, of_workers, folder / "worker.log") as pids:
            while len(celery.control.ping(timeout=1)) < count:
                time.sleep(0.2)
            measured = {
                "store": store,
                "database": postgres,
                **{f"worker {n}": pid for n, pid in enumerate(pids, 1)},
            }
            at = (START + timedelta(hours=hours, minutes=5)).isoformat()
            with psycopg.connect(database, autocommit=True) as connection:
                before = {name: cpu_seconds(pid) for name, pid in measured.items()}
                begun, load = time.perf_counter(), os.getloadavg()[0]
                with rationed(pids, share):
                    celery.send_task(TASK, kwargs={"source": "bench", "at": at}, queue="collect")
                    failed = until_read(connection, hours)
                seconds = time.perf_counter() - begun
                used = {
                    name: round(cpu_seconds(pid) - before[name], 2)
                    for name, pid in measured.items()
                }
                counted = connection.execute(TOKENS, [COUNTERS[0]]).fetchone()
        pin(store, every)
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "workers": count,
        "share": share,
        "seconds": round(seconds, 2),
        "load_before": load,
        "processor_seconds": used,
        "incomplete_fetches": failed,
        "counted_prompt": counted[0] if counted else None,
    }


def until_read(connection: Any, hours: int) -> int:
    """Waits until every hour stands as fetched; how many fetches were not complete."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        complete, failed = connection.execute(STATE).fetchone()
        if complete >= hours:
            return int(failed)
        if time.monotonic() > deadline:
            raise SystemExit(f"after {PATIENCE_S} s only {complete} of {hours} hours are there")
        time.sleep(0.05)


def run(chosen: argparse.Namespace) -> dict[str, Any]:
    engines = chosen.series // len(COUNTERS)
    steps = (chosen.storage_hours or chosen.hours) * 3600 // STEP_S
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-", dir=chosen.scratch))
    folder.chmod(0o711)
    runs = []
    try:
        with prometheus(folder, engines, steps, chosen.storage) as (url, store):
            for number, count in enumerate(chosen.order):
                place = folder / f"ledger{number}"
                runs.append(once(url, store, count, chosen.hours, chosen.share, place))
                print(json.dumps(runs[-1]), file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ones = [run for run in runs if run["workers"] == 1]
    twos = [run for run in runs if run["workers"] == 2]
    found: dict[str, Any] = {
        "counter_series": engines * len(COUNTERS),
        "hours": chosen.hours,
        "true_prompt": truth(engines, steps, chosen.hours * 3600 // STEP_S)[COUNTERS[0]],
        "runs": runs,
    }
    if ones and twos:
        found["wall"] = mean([r["seconds"] for r in ones]) / mean([r["seconds"] for r in twos])
        found["ideal"] = mean([busiest(r) for r in ones]) / mean([busiest(r) for r in twos])
    return found


def busiest(run: dict[str, Any]) -> float:
    """Processor seconds of the busiest worker."""
    return max(v for k, v in run["processor_seconds"].items() if k.startswith("worker"))


def mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--hours", type=int, default=2, help="less than two days")
    parser.add_argument("--order", type=int, nargs="+", default=[1, 2], help="workers, run by run")
    parser.add_argument("--storage", type=Path, help="blocks of a Prometheus, made once and kept")
    parser.add_argument("--storage-hours", type=int, help="how many hours those blocks hold")
    parser.add_argument("--scratch", help="where the ledgers are made")
    parser.add_argument("--share", type=float, help="of a core, what each worker may use; else one")
    chosen = parser.parse_args()
    if chosen.share is not None and not 0 < chosen.share < 1:
        parser.error("--share is a fraction of a core, between 0 and 1")
    print(json.dumps(run(chosen), indent=1))


if __name__ == "__main__":
    main()
