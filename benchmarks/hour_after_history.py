"""What one more hour costs after 1, 12 and 52 weeks of history: it must not grow.

    .venv/bin/python benchmarks/hour_after_history.py
    .venv/bin/python benchmarks/hour_after_history.py --engines 40 --weeks 1 12

Posts readings of a small fleet at five minutes, week by week, into a database of its own, and
measures posting one more hour and reading one week's tokens, by wall and by our own processor time
(the database's is not in it). Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from array import array
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START = datetime(2025, 11, 3, tzinfo=UTC)
STEP_MS, HOUR_MS = 300_000, 3_600_000
WEEK_HOURS, TRIES = 168, 5


def readings(engines: int, first_ms: int, hours: int) -> list[Any]:
    from finops.sources.records import SeriesReadings

    times = array("q", range(first_ms, first_ms + hours * HOUR_MS, STEP_MS))
    begun = int(START.timestamp() * 1000)
    found = []
    for engine in range(engines):
        target = (("instance", f"10.0.0.{engine}:8000"), ("job", "vllm"))
        labels = (*target, ("model_name", "llama"))
        for metric, each in (("vllm:prompt_tokens_total", 31), ("vllm:generation_tokens_total", 7)):
            values = array("d", ((t - begun) // STEP_MS * each for t in times))
            found.append(SeriesReadings(metric, labels, times, values))
        ones, born = array("d", [1.0] * len(times)), array("d", [begun / 1000] * len(times))
        found.append(SeriesReadings("up", target, times, ones))
        found.append(SeriesReadings("process_start_time_seconds", target, times, born))
    return found


def post(source: Any, series: list[Any], at: datetime) -> None:
    from finops.ledger.models import Document
    from finops.ledger.operations.documents import keep_bytes
    from finops.ledger.operations.readings import post_readings
    from finops.ledger.which import atomic
    from finops.sources.samples import encode

    kept = keep_bytes(encode(series), "bench", "bench")
    with atomic():
        document = Document(
            sha256=kept.sha256, size_bytes=kept.size_bytes, name="bench", origin="bench",
            format="headroom-samples", version="HRS2", received_at=at, received_by="bench",
        )  # fmt: skip
        post_readings(document, source, series, at=at)
        document.save(force_insert=True)


def measured(engines: int, measured_after: list[int]) -> dict[str, Any]:
    from finops.core.period import Period
    from finops.ledger.models import Source
    from finops.ledger.queries.tokens import TokenLedger

    source = Source.objects.create(name="bench", kind="files", created_at=START, created_by="b")
    at_ms, result = int(START.timestamp() * 1000), {}
    for week in range(1, measured_after[-1] + 1):
        post(source, readings(engines, at_ms, WEEK_HOURS - TRIES), START)
        at_ms += (WEEK_HOURS - TRIES) * HOUR_MS
        hours, cpu = [], []
        for _ in range(TRIES):
            before, own = time.perf_counter(), time.process_time()
            post(source, readings(engines, at_ms, 1), START)
            hours.append(time.perf_counter() - before)
            cpu.append(time.process_time() - own)
            at_ms += HOUR_MS
        if week in measured_after:
            end = START + timedelta(weeks=week)
            before, own = time.perf_counter(), time.process_time()
            assert TokenLedger(Period(end - timedelta(weeks=1), end)).totals().prompt
            result[f"{week} weeks"] = {
                "hour_seconds": median(hours),
                "hour_cpu_seconds": median(cpu),
                "week_totals_seconds": time.perf_counter() - before,
                "week_totals_cpu_seconds": time.process_time() - own,
                "load": os.getloadavg()[0],
            }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=10)
    parser.add_argument("--weeks", type=int, nargs="+", default=[1, 12, 52])
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headroom-bench-"))
    folder.chmod(0o711)
    (folder / "data").mkdir(mode=0o711)
    os.environ |= {"HEADROOM_DATA": str(folder / "data"), "HEADROOM_TEST": "1",
                   "DJANGO_SETTINGS_MODULE": "finops.settings"}  # fmt: skip
    sys.path.insert(0, str(ROOT))
    import django
    from django.core.management import call_command

    from finops import embedded

    try:
        embedded.ensure_database()
        django.setup()
        call_command("migrate", verbosity=0)
        print(json.dumps(measured(chosen.engines, sorted(chosen.weeks)), indent=1))
    finally:
        embedded.release_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
