"""Collecting token counters against the store's own time: back-fill, one more hour, a naive client.

    .venv/bin/python benchmarks/tokens_backfill.py --series 1000 --hours 24
    .venv/bin/python benchmarks/tokens_backfill.py --series 10000 --hours 1 --store /path/victoria-metrics

A real Prometheus (or VictoriaMetrics) is filled with counters at 15 s that are known to the token,
then read by `collect` into a database of its own. Each measure runs in a process of its own, so
that its memory is its own. Prints one JSON object; the ratios are what counts, for machines differ.
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
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parent.parent
START = datetime(2026, 11, 16, tzinfo=UTC)
STEP_S = 15
COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:request_prompt_tokens_sum",
    "vllm:request_generation_tokens_sum",
)
RESTART_EVERY = 40  # one engine in so many restarts once a day, in its middle


def value_at(engine: int, counter: int, step: int, restart: int | None) -> int:
    """What a counter shows at a step: a rise that depends on engine and counter, and a third of it
    at birth, which lies between two scrapes."""
    since = restart if restart is not None and step >= restart else 0
    each = 37 + engine % 11 + 7 * counter
    at_birth = each // 3 if engine or since else 0
    return (step - since) * each + at_birth


def restart_of(engine: int, steps: int) -> int | None:
    return steps // 2 + engine % 7 if engine % RESTART_EVERY == 3 and steps > 240 else None


def labels_of(engine: int) -> dict[str, str]:
    return {
        "job": "vllm",
        "instance": f"10.{engine // 62500}.{engine // 250 % 250}.{engine % 250}:8000",
        "namespace": f"llm-{engine % 20}",
        "pod": f"llama-{engine}-7c9d8b6f5-x2k4q",
    }


def truth(engines: int, steps: int) -> dict[str, int]:
    """Tokens of all engines over the whole span, by counter, as far as any reading shows them."""
    found = dict.fromkeys(COUNTERS, 0)
    for engine in range(engines):
        restart = restart_of(engine, steps)
        for index, name in enumerate(COUNTERS):
            last = value_at(engine, index, steps - 1, restart)
            before = value_at(engine, index, restart - 1, None) if restart is not None else 0
            found[name] += last + before
    return found


def columns(engine: int, steps: int) -> Iterator[tuple[str, dict[str, str], list[float]]]:
    """The series of one engine: its counters, `up` and the start of its process."""
    labels, restart = labels_of(engine), restart_of(engine, steps)
    model = {"model_name": f"model-{engine % 20}", "engine": "0"}
    for index, name in enumerate(COUNTERS):
        yield name, labels | model, [value_at(engine, index, s, restart) for s in range(steps)]
    born = instants_ms(engine, 1)[0] / 1000 - 3
    again = born if restart is None else born + restart * STEP_S - 5
    marks = [again if restart is not None and s >= restart else born for s in range(steps)]
    yield "process_start_time_seconds", labels, marks
    yield "up", labels, [1] * steps


def instants_ms(engine: int, steps: int) -> list[int]:
    """The first engine is read first, so that the births of all others are proven."""
    first = round(START.timestamp() * 1000) + (5000 + engine * 37 % 10_000 if engine else 0)
    return list(range(first, first + steps * STEP_S * 1000, STEP_S * 1000))


# -- stores ----------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def prometheus(folder: Path, engines: int, steps: int) -> Iterator[str]:
    """A real Prometheus over blocks that promtool made of the series."""
    text, storage = folder / "samples.om", folder / "tsdb"
    with text.open("w") as file:
        for index, name in enumerate((*COUNTERS, "process_start_time_seconds", "up")):
            for engine in range(engines):
                _, labels, values = list(columns(engine, steps))[index]
                inner = ",".join(f'{k}="{v}"' for k, v in labels.items())
                head = f"{name}{{{inner}}} "
                file.writelines(
                    f"{head}{value} {at / 1000:.3f}\n"
                    for at, value in zip(instants_ms(engine, steps), values, strict=True)
                )
        file.write("# EOF\n")
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=162h"]
    subprocess.run([*made, str(text), str(storage)], check=True, stdout=subprocess.DEVNULL)
    text.unlink()
    (folder / "p.yml").write_text("scrape_configs: []\n")
    port = free_port()
    with serving(
        ["prometheus", f"--config.file={folder / 'p.yml'}", f"--storage.tsdb.path={storage}",
         "--storage.tsdb.retention.time=10y", f"--web.listen-address=127.0.0.1:{port}"],
        f"http://127.0.0.1:{port}", "/-/ready", folder,
    ) as url:  # fmt: skip
        yield url


@contextmanager
def victoria(binary: str, folder: Path, engines: int, steps: int) -> Iterator[str]:
    """A VictoriaMetrics that the series are imported into."""
    port = free_port()
    command = [binary, f"-storageDataPath={folder / 'vm'}", f"-httpListenAddr=127.0.0.1:{port}",
               "-retentionPeriod=100y", "-maxLabelsPerTimeseries=60",
               "-search.maxPointsPerTimeseries=100000", "-search.maxUniqueTimeseries=1000000",
               "-search.latencyOffset=0s"]  # fmt: skip
    with serving(command, f"http://127.0.0.1:{port}", "/health", folder) as url:
        for engine in range(engines):
            lines = [
                json.dumps({"metric": {"__name__": name} | labels, "values": values,
                            "timestamps": instants_ms(engine, steps)})
                for name, labels, values in columns(engine, steps)
            ]  # fmt: skip
            urlopen(Request(url + "/api/v1/import", "\n".join(lines).encode()))
        urlopen(url + "/internal/force_flush")
        time.sleep(2)
        yield url


@contextmanager
def serving(command: list[str], url: str, ready: str, folder: Path) -> Iterator[str]:
    with (folder / "store.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(600):
            try:
                urlopen(url + ready, timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


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
    result = {"collect": collect, "drain": drain, "naive": naive}[what](url, since, until)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"seconds": time.perf_counter() - before, "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_mib": usage.ru_maxrss / 1024} | result  # fmt: skip


def collect(url: str, since: datetime, until: datetime) -> dict[str, Any]:
    """`collect` into the ledger; the seconds are without starting Django and the database."""
    source, collect_source, period = _ledger(url, since, until)
    before, cpu = time.perf_counter(), time.process_time()
    found = collect_source(source, by="benchmark", at=until + timedelta(minutes=5), period=period)
    seconds, cpu_seconds = time.perf_counter() - before, time.process_time() - cpu
    from finops.ledger.queries.tokens import token_totals

    tokens = token_totals(period)
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "readings": found.readings, "warnings": found.warnings,
            "prompt": tokens.prompt, "generation": tokens.generation}  # fmt: skip


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


def drain(url: str, since: datetime, until: datetime) -> dict[str, Any]:
    """The store's own time: the very requests that `collect` sends, their answers thrown away."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "finops.settings")
    from finops.core.period import Period
    from finops.ledger import store
    from finops.ledger.access import Access
    from finops.ledger.fetch import Door

    answered = {"bytes": 0, "requests": 0}

    class Draining(Door):
        def _value(self, answer: Any, body: bytes, read: Any) -> Any:
            answered["bytes"] += len(body)
            answered["requests"] += 1
            if b"/series" in answer.request.url.encode():
                return super()._value(answer, body, read)
            return {"status": "success", "data": {"resultType": "matrix", "result": []}}

    at = since
    with Draining(Access(url)) as door:
        while at < until:
            end = min(until, at + timedelta(hours=1))
            store.gather(door, (), Period(at, end))
            at = end
    return dict(answered)


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


def run(series: int, hours: int, binary: str | None) -> dict[str, Any]:
    engines, steps = series // len(COUNTERS), (hours + 1) * 3600 // STEP_S
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    folder.chmod(0o711)
    data = folder / "data"
    data.mkdir(mode=0o711)
    store = (
        victoria(binary, folder, engines, steps) if binary else prometheus(folder, engines, steps)
    )
    until = START + timedelta(hours=hours)
    try:
        with store as url:
            own = measured("drain", url, START, until, data)
            filled = measured("collect", url, START, until, data)
            hour_own = measured("drain", url, until, until + timedelta(hours=1), data)
            hour = measured("collect", url, until, until + timedelta(hours=1), data)
            plain = measured("naive", url, START, until + timedelta(hours=1), data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    exact = truth(engines, steps)
    counted = filled["prompt"] + hour["prompt"]
    return {
        "store": Path(binary).name if binary else "prometheus",
        "counter_series": engines * len(COUNTERS),
        "all_series": engines * (len(COUNTERS) + 2),
        "hours": hours,
        "readings": filled["readings"],
        "store_seconds": own["seconds"],
        "backfill_seconds": filled["seconds"],
        "backfill_cpu_seconds": filled["cpu_seconds"],
        "backfill_over_store": filled["seconds"] / own["seconds"],
        "readings_per_second": filled["readings"] / filled["seconds"],
        "peak_mib": filled["peak_mib"],
        "hour_store_seconds": hour_own["seconds"],
        "hour_seconds": hour["seconds"],
        "hour_cpu_seconds": hour["cpu_seconds"],
        "hour_peak_mib": hour["peak_mib"],
        "naive_seconds": plain["seconds"],
        "naive_peak_mib": plain["peak_mib"],
        "true_prompt": exact[COUNTERS[0]],
        "counted_prompt": counted,
        "naive_prompt": plain["prompt"],
        "naive_error": plain["prompt"] / exact[COUNTERS[0]] - 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--store", help="path of a victoria-metrics binary; else prometheus")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="since", help=argparse.SUPPRESS)
    parser.add_argument("--to", dest="until", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        since, until = map(datetime.fromisoformat, (chosen.since, chosen.until))
        print(json.dumps(measure(chosen.measure, chosen.url, since, until)))
        return
    print(json.dumps(run(chosen.series, chosen.hours, chosen.store), indent=1))


if __name__ == "__main__":
    main()
