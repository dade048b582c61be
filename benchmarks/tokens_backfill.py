"""Collecting token counters against the store's own time: back-fill, one more hour, a naive client.

    .venv/bin/python benchmarks/tokens_backfill.py --series 1000 --hours 24
    .venv/bin/python benchmarks/tokens_backfill.py --series 10000 --hours 1 --store /path/victoria-metrics
    .venv/bin/python benchmarks/tokens_backfill.py --series 10000 --hours 24 --storage /tmp/blocks

A real Prometheus (or VictoriaMetrics) is filled with counters at 15 s that are known to the token,
then read by `collect` into a database of its own. Each measure runs in a process of its own, so
that its memory is its own. `--storage` keeps the blocks of a Prometheus for the next run, which
may ask for fewer hours of them. Prints one JSON object; the ratios are what counts, for machines
differ. The naive client is prometheus-api-client with pandas where `--naive` names a Python that
has them, else a plain loop over `query_range`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from rationing import cpu_seconds

ROOT = Path(__file__).resolve().parent.parent
START = datetime(2026, 11, 16, tzinfo=UTC)
STEP_S = 15
SEGMENT_HOURS = 10
COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:request_prompt_tokens_sum",
    "vllm:request_generation_tokens_sum",
)
RESTART_EVERY, RESTART_STEP = 40, 12 * 3600 // STEP_S  # one engine in so many restarts at noon


def value_at(engine: int, counter: int, step: int, restart: int | None) -> int:
    """What a counter shows at a step: a rise that depends on engine and counter, and a third of it
    at birth, which lies between two scrapes."""
    since = restart if restart is not None and step >= restart else 0
    each = 37 + engine % 11 + 7 * counter
    at_birth = each // 3 if engine or since else 0
    return (step - since) * each + at_birth


def restart_of(engine: int, steps: int) -> int | None:
    restart = RESTART_STEP + engine % 7
    return restart if engine % RESTART_EVERY == 3 and restart < steps else None


def labels_of(engine: int) -> dict[str, str]:
    return {
        "job": "vllm",
        "instance": f"10.{engine // 62500}.{engine // 250 % 250}.{engine % 250}:8000",
        "namespace": f"llm-{engine % 20}",
        "pod": f"llama-{engine}-7c9d8b6f5-x2k4q",
    }


def truth(engines: int, steps: int, seen: int) -> dict[str, int]:
    """Tokens of all engines over the first `seen` of the store's steps, by counter, as far as any
    reading shows them."""
    found = dict.fromkeys(COUNTERS, 0)
    for engine in range(engines):
        restart = restart_of(engine, steps)
        has_restarted = restart is not None and restart < seen
        for index, name in enumerate(COUNTERS):
            found[name] += value_at(engine, index, seen - 1, restart)
            if has_restarted:
                found[name] += value_at(engine, index, restart - 1, None)
    return found


def series_of(
    engine: int, index: int, steps: int
) -> tuple[str, dict[str, str], Callable[[int], float]]:
    """One of the series of an engine: its counters, the start of its process, `up`."""
    labels, restart = labels_of(engine), restart_of(engine, steps)
    if index < len(COUNTERS):
        model = {"model_name": f"model-{engine % 20}", "engine": "0"}
        return COUNTERS[index], labels | model, lambda s: value_at(engine, index, s, restart)
    if index > len(COUNTERS):
        return "up", labels, lambda s: 1
    born = instants_ms(engine, 1)[0] / 1000 - 3
    again = born if restart is None else born + restart * STEP_S - 5
    return (
        "process_start_time_seconds",
        labels,
        lambda s: again if restart is not None and s >= restart else born,
    )


def instants_ms(engine: int, steps: int) -> list[int]:
    """The first engine is read first, so that the births of all others are proven."""
    first = round(START.timestamp() * 1000) + (5000 + engine * 37 % 10_000 if engine else 0)
    return list(range(first, first + steps * STEP_S * 1000, STEP_S * 1000))


# -- stores ----------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def make_blocks(folder: Path, storage: Path, engines: int, steps: int) -> None:
    """Blocks that promtool makes of the series, a few hours at a time: the texts are large."""
    each = SEGMENT_HOURS * 3600 // STEP_S
    for since in range(0, steps, each):
        text = folder / "samples.om"
        with text.open("w") as file:
            for index in range(len(COUNTERS) + 2):
                for engine in range(engines):
                    file.writelines(lines_of(engine, index, since, min(steps, since + each), steps))
            file.write("# EOF\n")
        made = [
            "promtool",
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "--max-block-duration=162h",
        ]
        subprocess.run([*made, text, storage], check=True, stdout=subprocess.DEVNULL)
        text.unlink()


def lines_of(engine: int, index: int, since: int, until: int, steps: int) -> Iterator[str]:
    """The lines of one series of one engine between two steps."""
    name, labels, values = series_of(engine, index, steps)
    head = name + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "} "
    first = instants_ms(engine, 1)[0]
    for step in range(since, until):
        at = first + step * STEP_S * 1000
        yield f"{head}{values(step)} {at // 1000}.{at % 1000:03d}\n"


@contextmanager
def prometheus(
    folder: Path, engines: int, steps: int, kept: Path | None
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
         "--storage.tsdb.retention.time=10y", f"--web.listen-address=127.0.0.1:{port}"],
        f"http://127.0.0.1:{port}", "/-/ready", folder,
    ) as serving_it:  # fmt: skip
        yield serving_it


@contextmanager
def victoria(binary: str, folder: Path, engines: int, steps: int) -> Iterator[tuple[str, int]]:
    """A VictoriaMetrics that the series are imported into."""
    port = free_port()
    command = [binary, f"-storageDataPath={folder / 'vm'}", f"-httpListenAddr=127.0.0.1:{port}",
               "-retentionPeriod=100y", "-maxLabelsPerTimeseries=60",
               "-search.maxPointsPerTimeseries=100000", "-search.maxUniqueTimeseries=1000000",
               "-search.latencyOffset=0s"]  # fmt: skip
    with serving(command, f"http://127.0.0.1:{port}", "/health", folder) as (url, process):
        for engine in range(engines):
            lines = [
                json.dumps({"metric": {"__name__": name} | labels,
                            "values": [values(step) for step in range(steps)],
                            "timestamps": instants_ms(engine, steps)})
                for name, labels, values in (
                    series_of(engine, index, steps) for index in range(len(COUNTERS) + 2)
                )
            ]  # fmt: skip
            urlopen(Request(url + "/api/v1/import", "\n".join(lines).encode()))
        urlopen(url + "/internal/force_flush")
        time.sleep(2)
        yield url, process


@contextmanager
def serving(command: list[str], url: str, ready: str, folder: Path) -> Iterator[tuple[str, int]]:
    with (folder / "store.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(600):
            try:
                urlopen(url + ready, timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)


SERVED = ("prometheus_http_request_duration_seconds_sum", "vm_request_duration_seconds_sum")


def served_seconds_of(url: str) -> float:
    """How long a store has been serving requests, by its own metrics; requests at once add up."""
    with urlopen(url + "/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(SERVED))


# -- measures, each in a process of its own --------------------------------------------------------


def measured(
    what: str, url: str, since: datetime, until: datetime, data: Path, script: str = __file__
) -> dict[str, Any]:
    """Runs one measure in a process of its own and gives what it prints."""
    environment = os.environ | {"HEADROOM_DATA": str(data), "HEADROOM_TEST": "1"}
    done = subprocess.run(
        [sys.executable, script, "--measure", what, "--url", url,
         "--from", since.isoformat(), "--to", until.isoformat()],
        env=environment, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def measure(what: str, url: str, since: datetime, until: datetime) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT))
    before = time.perf_counter()
    measures = {"collect": collect, "drain": drain, "naive": naive,
                "drain-in-turn": partial(drain, at_once=1)}  # fmt: skip
    result = measures[what](url, since, until)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"seconds": time.perf_counter() - before, "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_mib": usage.ru_maxrss / 1024} | result  # fmt: skip


def collect(url: str, since: datetime, until: datetime) -> dict[str, Any]:
    """`collect` into the ledger; the seconds are without starting Django and the database."""
    source, collect_source, period = _ledger(url, since, until)
    server = database_server()
    database_cpu, before, cpu = cpu_seconds(server), time.perf_counter(), time.process_time()
    found = collect_source(source, by="benchmark", at=until + timedelta(minutes=5), period=period)
    seconds, own_cpu = time.perf_counter() - before, time.process_time() - cpu
    database_cpu = cpu_seconds(server) - database_cpu
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    from finops.ledger.queries.tokens import TokenLedger

    tokens = TokenLedger(period).totals()  # reads every row of the period: not part of collecting
    return {"seconds": seconds, "peak_mib": peak_mib, "cpu_seconds": own_cpu,
            "database_cpu_seconds": database_cpu, "readings": found.readings, "warnings": found.warnings,
            "prompt": tokens.prompt, "generation": tokens.generation}  # fmt: skip


def database_server() -> int:
    """The process of the ledger's database server."""
    from finops.embedded.places import find
    from finops.embedded.postgres import Postgres

    process = Postgres(find(Path(os.environ["HEADROOM_DATA"]))).pid()
    assert process is not None
    return process


def _ledger(url: str, since: datetime, until: datetime) -> Any:
    os.environ["DJANGO_SETTINGS_MODULE"] = "finops.settings"
    import django
    from django.core.management import call_command

    from finops import embedded

    embedded.ensure_database()
    django.setup()
    call_command("migrate", verbosity=0)
    from finops.core.period import Period
    from finops.ledger.models import Source
    from finops.ledger.operations.collect import collect_source
    from finops.ledger.operations.sources import add_source

    source = Source.objects.filter(name="bench").first() or add_source(
        "bench", url, by="benchmark", at=until
    )
    if source.url != url:
        Source.objects.filter(pk=source.pk).update(url=url)
        source.url = url
    return source, collect_source, Period(since, until)


def drain(url: str, since: datetime, until: datetime, at_once: int | None = None) -> dict[str, Any]:
    """The store's own time: the very requests that `collect` sends, as many at once unless said
    otherwise, and their answers thrown away."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "finops.settings")
    import django

    django.setup()
    from finops.core.period import Period
    from finops.ledger import store
    from finops.ledger.access import Access
    from finops.ledger.fetch import Door
    from finops.ledger.operations.planning import cut
    from finops.ledger.probe import probe

    answered = {"bytes": 0, "requests": 0}

    class Draining(Door):
        def _value(self, answer: Any, body: bytes, read: Any) -> Any:
            answered["bytes"] += len(body)
            answered["requests"] += 1
            if b"/series" in answer.request.url.encode():
                return super()._value(answer, body, read)
            if read is bytes:  # a remote read
                return b""
            return {"status": "success", "data": {"resultType": "matrix", "result": []}}

        def unpacked(self, body: bytes, place: bytearray | None = None) -> bytes:
            return body

    def thrown_away(door: Door, listing: Any, coming: Any, period: Period) -> store.Gathered:
        for _ in coming:  # an answer that holds nothing would be asked for by queries as well
            pass
        return store.Gathered()

    store._gather_remotely = thrown_away
    with Door(Access(url)) as door:
        told = probe(door, until)
    access = Access(url, product=told["product"] or "", remote_read=told["remote_read"])
    before = time.perf_counter()
    with Draining(access) as door:
        if at_once is not None:
            door._turn = BoundedSemaphore(at_once)
        for piece in cut(door, (), Period(since, until), is_first=since == START):
            store.gather(door, (), piece.window, piece.shard)
    return answered | {"seconds": time.perf_counter() - before}


NAIVE = """
import json, sys, time
import pandas
from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect
from datetime import datetime, timedelta
url, since, until, step, names = sys.argv[1:6]
since, until = map(datetime.fromisoformat, (since, until))
client, totals, at, before = PrometheusConnect(url=url), {}, since, time.perf_counter()
for name in names.split(","):
    at, last = since, None
    while at < until:
        end = min(until, at + timedelta(hours=1))
        rows = client.custom_query_range(name, at, end, step)
        frame = MetricRangeDataFrame(rows)
        wide = frame.pivot_table(index=frame.index, columns="instance", values="value")
        if last is not None:
            wide = pandas.concat([last, wide])
        totals[name] = totals.get(name, 0.0) + float(wide.diff().clip(lower=0).sum().sum())
        last, at = wide.iloc[[-1]], end
print(json.dumps({"seconds": time.perf_counter() - before, **totals}))
"""


def by_pandas(python: str, url: str, since: datetime, until: datetime) -> dict[str, Any]:
    """The usual client: stepped values into a data frame of floats, positive differences added."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        [python, "-c", NAIVE, url, since.isoformat(), until.isoformat(), str(STEP_S),
         ",".join(COUNTERS)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    told = json.loads(found.stdout.splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # its peak is that of all measures so far
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": told["seconds"], "cpu_seconds": cpu_seconds,
            "peak_mib_of_all": after.ru_maxrss / 1024,
            "prompt": told[COUNTERS[0]], "generation": told[COUNTERS[1]]}  # fmt: skip


def naive(url: str, since: datetime, until: datetime) -> dict[str, Any]:
    """What is usually done: query_range at the scrape's step, floats, positive differences added."""
    totals: dict[str, float] = {}
    for name in COUNTERS:
        at = since
        held: dict[str, float] = {}
        while at < until:
            end = min(until, at + timedelta(hours=24))
            form = {"query": name, "start": at.timestamp(), "end": end.timestamp(), "step": STEP_S}
            with urlopen(url + "/api/v1/query_range", urlencode(form).encode()) as answer:
                rows = json.loads(answer.read())["data"]["result"]
            for row in rows:
                key = json.dumps(row["metric"], sort_keys=True)
                last = held.get(key)
                for _, text in row["values"]:
                    value = float(text)
                    if last is not None:
                        totals[name] = totals.get(name, 0.0) + max(0.0, value - last)
                    last = value
                held[key] = last or 0.0
            at = end
    return {"prompt": totals[COUNTERS[0]], "generation": totals[COUNTERS[1]]}


# -- the whole -------------------------------------------------------------------------------------


def run(chosen: argparse.Namespace) -> dict[str, Any]:
    engines, hours = chosen.series // len(COUNTERS), chosen.hours
    made_hours = chosen.storage_hours or hours + 1
    steps = made_hours * 3600 // STEP_S
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    folder.chmod(0o711)
    data = folder / "data"
    data.mkdir(mode=0o711)
    store = (
        victoria(chosen.store, folder, engines, steps)
        if chosen.store
        else prometheus(folder, engines, steps, chosen.storage)
    )
    until, later = START + timedelta(hours=hours), START + timedelta(hours=hours + 1)
    found: dict[str, dict[str, Any]] = {}
    try:
        with store as (url, process):
            for name, what, since, end in (
                ("store", "drain-in-turn", START, until),
                ("store_as_asked", "drain", START, until),
                ("backfill", "collect", START, until),
                ("hour_store", "drain", until, later),
                ("hour", "collect", until, later),
            ):
                before, load = cpu_seconds(process), os.getloadavg()[0]
                served = served_seconds_of(url)
                found[name] = measured(what, url, since, end, data)
                found[name]["store_cpu_seconds"] = cpu_seconds(process) - before
                found[name]["store_served_seconds"] = served_seconds_of(url) - served
                found[name]["load_before"] = load
            if chosen.naive:
                found["naive"] = by_pandas(chosen.naive, url, START, later)
            elif not chosen.no_naive:
                found["naive"] = measured("naive", url, START, later, data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    exact = truth(engines, steps, (hours + 1) * 3600 // STEP_S)[COUNTERS[0]]
    backfill, own = found["backfill"], found["store"]
    return {
        "store": Path(chosen.store).name if chosen.store else "prometheus",
        "counter_series": engines * len(COUNTERS),
        "all_series": engines * (len(COUNTERS) + 2),
        "hours": hours,
        **found,
        "backfill_over_store": backfill["seconds"] / own["seconds"],
        "backfill_over_store_as_asked": backfill["seconds"] / found["store_as_asked"]["seconds"],
        "backfill_over_served": backfill["seconds"] / own["store_served_seconds"],
        "backfill_cpu_over_store_cpu": backfill["cpu_seconds"] / own["store_cpu_seconds"],
        "readings_per_second": backfill["readings"] / backfill["seconds"],
        "readings_per_cpu_second": backfill["readings"] / backfill["cpu_seconds"],
        "true_prompt": exact,
        "counted_prompt": backfill["prompt"] + found["hour"]["prompt"],
        "naive_error": found["naive"]["prompt"] - exact if "naive" in found else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--store", help="path of a victoria-metrics binary; else prometheus")
    parser.add_argument("--storage", type=Path, help="blocks of a Prometheus, made once and kept")
    parser.add_argument("--storage-hours", type=int, help="how many hours those blocks hold")
    parser.add_argument("--naive", help="a Python that has prometheus-api-client")
    parser.add_argument("--no-naive", action="store_true", help="leave the naive client out")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="since", help=argparse.SUPPRESS)
    parser.add_argument("--to", dest="until", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        since, until = map(datetime.fromisoformat, (chosen.since, chosen.until))
        print(json.dumps(measure(chosen.measure, chosen.url, since, until)))
        return
    print(json.dumps(run(chosen), indent=1))


if __name__ == "__main__":
    main()
