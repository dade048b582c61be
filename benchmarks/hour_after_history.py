"""What one more hour costs after 1, 12 and 52 weeks of history: it must not grow.

    .venv/bin/python benchmarks/hour_after_history.py

Posts readings of a small fleet at five minutes, week by week, into a database of its own, and
measures posting one more hour and reading one week's tokens. Prints one JSON object.
"""

from __future__ import annotations

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
ENGINES, STEP_MS, HOUR_MS = 10, 300_000, 3_600_000
WEEK_HOURS, MEASURED_AFTER, TRIES = 168, (1, 12, 52), 5


def readings(first_ms: int, hours: int) -> list[Any]:
    from finops.sources.records import SeriesReadings

    times = array("q", range(first_ms, first_ms + hours * HOUR_MS, STEP_MS))
    begun = int(START.timestamp() * 1000)
    found = []
    for engine in range(ENGINES):
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


def measured() -> dict[str, Any]:
    from finops.core.period import Period
    from finops.ledger.models import Source
    from finops.ledger.queries.tokens import token_totals

    source = Source.objects.create(name="bench", kind="files", created_at=START, created_by="b")
    at_ms, result = int(START.timestamp() * 1000), {}
    for week in range(1, MEASURED_AFTER[-1] + 1):
        post(source, readings(at_ms, WEEK_HOURS - TRIES), START)
        at_ms += (WEEK_HOURS - TRIES) * HOUR_MS
        hours = []
        for _ in range(TRIES):
            before = time.perf_counter()
            post(source, readings(at_ms, 1), START)
            hours.append(time.perf_counter() - before)
            at_ms += HOUR_MS
        if week in MEASURED_AFTER:
            end = START + timedelta(weeks=week)
            before = time.perf_counter()
            assert token_totals(Period(end - timedelta(weeks=1), end)).prompt
            result[f"{week} weeks"] = {
                "hour_seconds": median(hours),
                "week_totals_seconds": time.perf_counter() - before,
            }
    return result


def main() -> None:
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
        print(json.dumps(measured(), indent=1))
    finally:
        embedded.release_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
