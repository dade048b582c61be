"""A long FOCUS file from bytes to committed charges, against a bare scan and COPY and two naive ways.

    .venv/bin/python benchmarks/invoices_bulk.py --lines 1000000 [--naive-lines 100000] [--threads 2]

Everything runs on the same cores with the same number of threads, each measure in a process of its
own, so that its memory is its own. *Product* is `ingest`: the document hashed and kept, decimals
exact, rejected rows listed, charges and sums committed. *Floor* is a bare DuckDB scan that reads the
columns of kept sums and machines exactly, and a bare COPY of the same rows into a table without
indexes of the same Postgres; *whole floor* has a scan that reads the other columns of charges, too,
which the product reads for the lines that it keeps whole. *Grouped* is such a scan that also adds up by the texts of the kept sums. Naive ways read
the first lines only, and are compared by lines a second: the csv module with `executemany`, and
pandas' `to_sql` where pandas is installed. Prints one JSON object.

    .venv/bin/python benchmarks/invoices_bulk.py --parts 4 --lines 250000

measures instead one delivery of several part files: read and posted by the caller alone, and read by
one and by two Celery workers of one thread each while the caller posts; and compares all ledgers'
totals. The workers' processor time stands beside the caller's. With `--share` each worker may use that
fraction of a core only (`rationing.py`), so that on two cores, too, it is workers that are waited for.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

COST_COLUMNS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
SUMS = [f'sum("{name}"::DECIMAL(38,18))' for name in COST_COLUMNS]
READ_COLUMNS = (
    "InvoiceIssuerName",
    "ProviderName",
    "BillingAccountId",
    "BillingAccountName",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "BillingCurrency",
    "SubAccountId",
    "SubAccountName",
    "ServiceName",
    "ServiceCategory",
    "InvoiceId",
    "PricingCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "ResourceType",
    "SkuMeter",
    "SkuId",
    "SkuPriceId",
)
OTHER_COLUMNS = (
    "ChargeFrequency",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "RegionId",
    "ResourceId",
    "Tags",
)
"""What else a charge holds of a line that is kept whole."""
NAIVE_TABLE = "naive_lines"
_UNCOMPILED = (
    "PYTHONDONTWRITEBYTECODE"  # the product's modules are compiled once, not in each process
)


def measured(
    what: str,
    *arguments: object,
    data: Path,
    threads: int,
    workers: int = 0,
    cores: int = 0,
    share: float | None = None,
) -> dict[str, Any]:
    """One measure in a process of its own on `threads` cores; its answer, time and peak memory."""
    environment = {name: os.environ[name] for name in os.environ if name != _UNCOMPILED} | {
        "HEADROOM_DATA": str(data),
        "HEADROOM_BULK_THREADS": str(threads),
        # Of one worker's parts none is read beside the caller unless the product spreads them at all.
        "HEADROOM_BULK_PROCESSES": str(max(2, workers) if workers else 1),
        "WORKERS": str(workers),
        "SHARE": str(share or 0),
        "BENCHMARK_CORES": str(cores or threads),
    }
    command = [sys.executable, __file__, "--measure", what, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{what} {arguments}: {answer}", file=sys.stderr)
    return answer


def _timed(run: Callable[[], dict[str, Any]], *, with_server: bool = True) -> dict[str, Any]:
    """Wall time, processor time of this process and of its Postgres process, and peak memory.

    From here on this process has as many cores as it may; its server, which is there, has all.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = int(os.environ["BENCHMARK_CORES"])
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    server = _server_cpu() if with_server else 0.0
    before, cpu = time.perf_counter(), time.process_time()
    found = run()
    seconds, cpu = time.perf_counter() - before, time.process_time() - cpu
    used = resource.getrusage(resource.RUSAGE_SELF)
    more = _server_cpu() - server if with_server else 0.0
    return found | {
        "seconds": seconds,
        "cpu_seconds": cpu + more,
        "of_server": more,
        "peak_mib": used.ru_maxrss / 1024,
    }


def _server_cpu() -> float:
    """Processor seconds of the server's process behind this connection."""
    with _cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (process,) = cursor.fetchone()
    return _cpu_of(process)


def _cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ledger() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "finops.settings")
    import django
    from django.core.management import call_command

    from finops import embedded

    embedded.ensure_database()
    django.setup()
    for ledger in ("default", "sample"):  # what is refused is looked for in both
        call_command("migrate", database=ledger, verbosity=0)


def _cursor() -> Any:
    from django.db import connections

    return connections["default"].cursor()


# -- measures --------------------------------------------------------------------------------------


def product(path: str) -> dict[str, Any]:
    """The command's own operation on one file."""
    _ledger()
    from datetime import UTC, datetime

    from finops.ledger.operations.ingest import ingest

    def run() -> dict[str, Any]:
        (document,) = ingest([path], by="benchmark", at=datetime.now(UTC))
        names = ("status", "rows_read", "charges", "rows_summed", "sums", "rows_rejected", "totals")
        return {name: document[name] for name in names}

    return _timed(run)


def delivery(*paths: str) -> dict[str, Any]:
    """The same of several part files of one delivery."""
    _ledger()
    from datetime import UTC, datetime

    from finops.core.amounts import plus
    from finops.ledger.operations.ingest import ingest

    def run() -> dict[str, Any]:
        documents = ingest(paths, by="benchmark", at=datetime.now(UTC))
        billed: Any = None
        for one in documents:
            billed = plus(billed, Decimal(one["totals"]["USD"]["billed"]))
        names = ("rows_read", "charges", "rows_summed", "sums", "rows_rejected")
        counts = {name: sum(one[name] for one in documents) for name in names}
        return counts | {"billed": str(billed)}

    return _timed(run)


def delivery_by_workers(*paths: str) -> dict[str, Any]:
    """The same with Celery workers beside, HEADROOM_BULK_PROCESSES children of one process, each of
    which may use the environment's SHARE of a core."""
    from rationing import rationed

    from finops import embedded

    _ledger()
    from django.conf import settings

    embedded.ensure_broker(settings.DATA)
    from finops.celery import app

    words = [sys.executable, "-m", "celery", "-A", "finops.celery", "worker", "--queues", "parts"]
    words += ["--concurrency", os.environ["WORKERS"], "--without-gossip", "--without-mingle"]
    worker = subprocess.Popen([*words, "--loglevel", "ERROR"], cwd=ROOT, stdout=sys.stderr)
    try:
        while not app.control.ping(timeout=1):
            time.sleep(0.1)
        before = _cpu_of_children(worker.pid)
        share = float(os.environ["SHARE"]) or None
        with rationed(_children_of(worker.pid), share):
            found = delivery(*paths)
        return found | {
            "cpu_of_workers": _cpu_of_children(worker.pid) - before,
            "peak_mib_of_a_worker": max(map(_peak_mib, _children_of(worker.pid))),
        }
    finally:
        worker.terminate()
        worker.wait()


def _children_of(process: int) -> list[int]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(pid) for pid in path.read_text().split()]


def _cpu_of_children(process: int) -> float:
    return sum(_cpu_of(pid) for pid in _children_of(process))


def _peak_mib(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def export(target: str) -> dict[str, Any]:
    """The rows that the product committed, as COPY gives them."""
    _ledger()
    query = "COPY ledger_charge TO STDOUT"
    with _cursor() as cursor, open(target, "wb") as file, cursor.copy(query) as copy:
        for part in copy:
            file.write(part)
    return {}


def scan(path: str, threads: str) -> dict[str, Any]:
    """The columns of kept sums and machines read exactly by DuckDB alone."""
    return _scanned(path, threads, READ_COLUMNS)


def whole_scan(path: str, threads: str) -> dict[str, Any]:
    """Every column that a charge is made of."""
    return _scanned(path, threads, (*READ_COLUMNS, *OTHER_COLUMNS))


def _scanned(path: str, threads: str, names: Sequence[str]) -> dict[str, Any]:
    def run() -> dict[str, Any]:
        every = ", ".join((*(f'max("{name}")' for name in names), *SUMS))
        row = _asked(threads, f"SELECT count(*), {every} FROM {_read(path)}")
        return {"rows": row[0], "billed": str(row[1 + len(names)])}

    return _timed(run, with_server=False)


def grouped(path: str, threads: str) -> dict[str, Any]:
    """The same sums by DuckDB alone, grouped by the texts that a kept sum has of its lines."""
    from finops.sources.bulk_sums import REST, SPAN, STAMP

    def run() -> dict[str, Any]:
        keys = [f'"{name}"' for name in (*STAMP, *REST.values(), *SPAN) if name in READ_COLUMNS]
        by = ", ".join(str(place) for place in range(1, len(keys) + 1))
        sums = [f"{one} AS sum_{place}" for place, one in enumerate(SUMS)]
        kinds = f"SELECT {', '.join((*keys, *sums))} FROM {_read(path)} GROUP BY {by}"
        totals = [f"sum(sum_{place})" for place in range(len(SUMS))]
        row = _asked(threads, f"SELECT count(*), {', '.join(totals)} FROM ({kinds})")
        return {"groups": row[0], "billed": str(row[1])}

    return _timed(run, with_server=False)


def _read(path: str) -> str:
    if path.endswith(".gz"):
        return f"read_csv('{path}', all_varchar = true, header = true)"
    return f"read_parquet('{path}')"


def _asked(threads: str, query: str) -> tuple[Any, ...]:
    """The only row that DuckDB answers."""
    import duckdb

    with duckdb.connect(":memory:", config={"threads": threads, "memory_limit": "2GB"}) as one:
        (row,) = one.execute(query).fetchall()
        return tuple(row)


def bare_copy(source: str) -> dict[str, Any]:
    """The same rows into a table without indexes."""
    _ledger()

    def run() -> dict[str, Any]:
        with _cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS bare_charge")
            cursor.execute("CREATE TABLE bare_charge (LIKE ledger_charge)")
            with open(source, "rb") as file, cursor.copy("COPY bare_charge FROM STDIN") as copy:
                while part := file.read(1 << 20):
                    copy.write(part)
        return {}

    return _timed(run)


def _lines(path: str, most: int) -> Any:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        yield from (row for _, row in zip(range(most), rows, strict=False))


def executemany(path: str, most: str) -> dict[str, Any]:
    """Row at a time: the csv module, and executemany of every line."""
    _ledger()
    from focus_lines import COLUMNS

    names = [name for name, _, _ in COLUMNS]
    marks = ", ".join(["%s"] * len(names))

    def run() -> dict[str, Any]:
        with _cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {NAIVE_TABLE}")
            columns = ", ".join(f'"{name}" text' for name in names)
            cursor.execute(f"CREATE TABLE {NAIVE_TABLE} ({columns})")
            batch: list[tuple[str, ...]] = []
            query = f"INSERT INTO {NAIVE_TABLE} VALUES ({marks})"
            count = 0
            for row in _lines(path, int(most)):
                batch.append(tuple(row[name] for name in names))
                count += 1
                if len(batch) == 1000:
                    cursor.executemany(query, batch)
                    batch.clear()
            if batch:
                cursor.executemany(query, batch)
        return {"rows": count}

    return _timed(run)


def to_sql(path: str, most: str) -> dict[str, Any]:
    """The way of the nearest peer: pandas reads, `to_sql` writes."""
    _ledger()
    import pandas
    from django.conf import settings
    from sqlalchemy import create_engine

    from finops import embedded

    url = embedded.database_url(settings.DATA).replace("postgresql://", "postgresql+psycopg://")

    of_server = 0.0

    def run() -> dict[str, Any]:
        nonlocal of_server
        count = 0
        with create_engine(url).connect() as connection:
            server = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            before = _cpu_of(server)
            for frame in pandas.read_csv(path, chunksize=10_000, nrows=int(most)):
                frame.to_sql(NAIVE_TABLE, connection, if_exists="append" if count else "replace")
                count += len(frame)
            connection.commit()
            of_server = _cpu_of(server) - before
        return {"rows": count}

    found = _timed(run)
    return found | {"cpu_seconds": found["cpu_seconds"] + of_server, "of_server": of_server}


MEASURES = {
    one.__name__: one
    for one in (
        product,
        delivery,
        delivery_by_workers,
        export,
        scan,
        whole_scan,
        grouped,
        bare_copy,
        executemany,
        to_sql,
    )
}


# -- the whole -------------------------------------------------------------------------------------


def of_file(path: Path, data: Path, threads: int) -> dict[str, Any]:
    """Product and floor of one file, in a database of its own."""
    rows = data / "rows.copy"
    own = measured("product", path, data=data, threads=threads)
    measured("export", rows, data=data, threads=threads)
    read = measured("scan", path, threads, data=data, threads=threads)
    whole = measured("whole_scan", path, threads, data=data, threads=threads)
    sums = measured("grouped", path, threads, data=data, threads=threads)
    copied = measured("bare_copy", rows, data=data, threads=threads)
    floor = read["seconds"] + copied["seconds"]
    whole_floor = whole["seconds"] + copied["seconds"]
    return {
        "bytes": path.stat().st_size,
        "document": {name: own[name] for name in ("rows_read", "charges", "rows_summed", "sums")},
        "equal": own["totals"]["USD"]["billed"] == read["billed"].rstrip("0"),
        "product_seconds": own["seconds"],
        "product_cpu_seconds": own["cpu_seconds"],
        "scan_seconds": read["seconds"],
        "scan_cpu_seconds": read["cpu_seconds"],
        "grouped_seconds": sums["seconds"],
        "grouped_cpu_seconds": sums["cpu_seconds"],
        "grouped_over_scan": sums["seconds"] / read["seconds"],
        "over_grouped": own["seconds"] / (sums["seconds"] + copied["seconds"]),
        "copy_seconds": copied["seconds"],
        "copy_cpu_seconds": copied["cpu_seconds"],
        "over_floor": own["seconds"] / floor,
        "over_floor_by_cpu": own["cpu_seconds"] / (read["cpu_seconds"] + copied["cpu_seconds"]),
        "whole_scan_seconds": whole["seconds"],
        "whole_scan_cpu_seconds": whole["cpu_seconds"],
        "over_whole_floor": own["seconds"] / whole_floor,
        "over_whole_floor_by_cpu": own["cpu_seconds"]
        / (whole["cpu_seconds"] + copied["cpu_seconds"]),
        "peak_mib": own["peak_mib"],
        "lines_per_second": own["rows_read"] / own["seconds"],
    }


def run(lines: int, naive_lines: int, threads: int, folder: Path | None) -> dict[str, Any]:
    from focus_lines import write

    place = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    place.chmod(0o711)
    found: dict[str, Any] = {"lines": lines, "threads": threads}
    try:
        packed, parquet = write(lines, folder or place)
        for path in (packed, parquet):
            data = place / path.suffix.removeprefix(".")
            data.mkdir(mode=0o711)
            found[path.name] = of_file(path, data, threads)
        wall = found[packed.name]["lines_per_second"]
        rate = lines / found[packed.name]["product_cpu_seconds"]
        for way in ("executemany", "to_sql") if naive_lines else ():
            try:
                naive = measured(way, packed, naive_lines, data=data, threads=threads)
            except subprocess.CalledProcessError:
                found[way] = "not installed"
                continue
            found[way] = {
                "lines": naive["rows"],
                "seconds": naive["seconds"],
                "cpu_seconds": naive["cpu_seconds"],
                "product_is_times_as_quick": wall / (naive["rows"] / naive["seconds"]),
                "by_cpu": rate / (naive["rows"] / naive["cpu_seconds"]),
            }
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return found


def run_parts(parts: int, lines: int, share: float | None) -> dict[str, Any]:
    """One delivery of several part files: by the caller alone, by one worker, and by two."""
    from focus_lines import write_part

    place = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    place.chmod(0o711)
    found: dict[str, Any] = {"parts": parts, "lines_each": lines, "share": share}
    try:
        paths = [write_part(lines, part, place) for part in range(parts)]
        for workers in (0, 1, 2):
            data = place / f"by-{workers}"
            data.mkdir(mode=0o711)
            found[f"by_{workers}_workers"] = {"load_before": os.getloadavg()[0]} | measured(
                "delivery_by_workers" if workers else "delivery",
                *paths, data=data, threads=1, workers=workers, cores=2, share=share,
            )  # fmt: skip
    finally:
        shutil.rmtree(place, ignore_errors=True)
    alone, one, two = (found[f"by_{n}_workers"] for n in (0, 1, 2))
    same = ("billed", "charges", "sums", "rows_summed")
    found["equal"] = all(alone[k] == one[k] == two[k] for k in same)
    found["two_are_times_as_quick_as_the_caller_alone"] = alone["seconds"] / two["seconds"]
    found["two_are_times_as_quick_as_one"] = one["seconds"] / two["seconds"]
    return found


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(MEASURES[sys.argv[2]](*sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--naive-lines", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--parts", type=int, help="one delivery of so many files of --lines each")
    parser.add_argument("--folder", type=Path, help="where the files are kept for another run")
    parser.add_argument("--share", type=float, help="of a core, what each worker may use; else one")
    chosen = parser.parse_args()
    if chosen.parts:
        print(json.dumps(run_parts(chosen.parts, chosen.lines, chosen.share), indent=1))
        return
    print(
        json.dumps(run(chosen.lines, chosen.naive_lines, chosen.threads, chosen.folder), indent=1)
    )


if __name__ == "__main__":
    main()
