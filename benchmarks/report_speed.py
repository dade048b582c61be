"""How long a week's facts take to become canonical bytes, and what our PDF adds to WeasyPrint's.

    .venv/bin/python benchmarks/report_speed.py [--workloads 200] [--weeks 12]

Fills a database of its own with two counters and daily charges for each workload, week by week.
After the first week and after the last it measures facts → statement → canonical bytes of the
newest week, which must not grow with history. Then it prints the last week's report and compares
with bare WeasyPrint on the same HTML, the two taking turns. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import csv
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
START = datetime(2026, 8, 31, tzinfo=UTC)
STEP_MS, HOUR_MS, WEEK_HOURS = 1_800_000, 3_600_000, 168
TRIES = 3


def readings(workloads: int, first_ms: int) -> list[Any]:
    from finops.sources.records import SeriesReadings

    times = array("q", range(first_ms, first_ms + WEEK_HOURS * HOUR_MS, STEP_MS))
    begun = int(START.timestamp() * 1000)
    born = array("d", [begun / 1000] * len(times))
    found = []
    for number in range(workloads):
        target = (("instance", f"10.0.{number}.1:8000"), ("job", f"service-{number:03}"))
        for metric, each in (("vllm:prompt_tokens_total", 31), ("vllm:generation_tokens_total", 7)):
            values = array("d", ((t - begun) // STEP_MS * each for t in times))
            found.append(SeriesReadings(metric, target, times, values))
        found.append(SeriesReadings("process_start_time_seconds", target, times, born))
    return found


def invoice(path: Path, workloads: int, month: datetime, until: datetime) -> Path:
    following = (month + timedelta(days=32)).replace(day=1)
    days = [month + timedelta(days=n) for n in range((min(following, until) - month).days)]
    text = "%Y-%m-%dT00:00:00Z"
    fixed = {
        "BillingCurrency": "USD", "BillingAccountId": "1", "InvoiceIssuerName": "Cloud",
        "ProviderName": "Cloud", "ServiceName": "Compute", "ServiceCategory": "Compute",
        "ChargeCategory": "Usage", "ChargeFrequency": "Usage-Based", "InvoiceId": f"{month:%Y-%m}",
        "BillingPeriodStart": month.strftime(text), "BillingPeriodEnd": following.strftime(text),
        "BilledCost": "57.36", "EffectiveCost": "57.36", "ListCost": "60", "ContractedCost": "57.36",
    }  # fmt: skip
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(
            file, [*fixed, "ResourceId", "ChargePeriodStart", "ChargePeriodEnd"]
        )
        writer.writeheader()
        for day in days:
            end = (day + timedelta(days=1)).strftime(text)
            for number in range(workloads):
                row = {"ResourceId": f"service-{number:03}", "ChargePeriodEnd": end}
                writer.writerow(fixed | row | {"ChargePeriodStart": day.strftime(text)})
    return path


def filled(workloads: int) -> None:
    from finops.ledger.models import Rule, Workload

    names = [f"service-{number:03}" for number in range(workloads)]
    Workload.objects.bulk_create(
        Workload(slug=name, model="m", stack="vllm", created_at=START, created_by="bench")
        for name in names
    )
    owners = {one.slug: one for one in Workload.objects.all()}
    rules = []
    for number, name in enumerate(names):
        for subject, matcher in (
            ("charge", ["resource", "=", name]),
            ("series", ["job", "=", name]),
        ):
            rules.append(
                Rule(number=2 * number + (subject == "series") + 1, version=1, order=100,
                     subject=subject, place="workload", workload=owners[name], matchers=[matcher],
                     at=START, by="bench")
            )  # fmt: skip
    Rule.objects.bulk_create(rules)


def stated(week: str) -> tuple[float, float, bytes]:
    from finops.core.canonical import canonical_bytes
    from finops.core.period import week_of
    from finops.core.statement import statement
    from finops.ledger.queries.facts import facts
    from reports.queries.weeks import zone

    spent = []
    for _ in range(TRIES):
        before = time.process_time(), time.perf_counter()
        content = canonical_bytes(statement(facts(week_of(week, zone()), week=week)))
        spent.append((time.process_time() - before[0], time.perf_counter() - before[1]))
    own, wall = (median(one[index] for one in spent) for index in (0, 1))
    print(f"{week}: {wall:.2f} s by wall, {own:.2f} s of our processor", file=sys.stderr)
    return wall, own, content


def measured(workloads: int, weeks: int, folder: Path) -> dict[str, Any]:
    from django.core.management import call_command

    from benchmarks.hour_after_history import post
    from finops.ledger.models import Source

    filled(workloads)
    end, month = START + timedelta(weeks=weeks), START.replace(day=1)
    while month < end:
        path = invoice(folder / f"{month:%Y-%m}.csv", workloads, month, end)
        call_command("ingest", str(path), stdout=sys.stderr)
        month = (month + timedelta(days=32)).replace(day=1)
    source = Source.objects.create(name="bench", kind="files", created_at=START, created_by="b")
    result: dict[str, Any] = {"workloads": workloads, "weeks": weeks}
    for week in range(weeks):
        begun = START + timedelta(weeks=week)
        post(source, readings(workloads, int(begun.timestamp() * 1000)), START)
        year, number, _ = begun.isocalendar()
        if week in (0, weeks - 1):
            wall, own, content = stated(f"{year}-W{number:02}")
            result[f"facts_to_bytes_after_{week + 1}_weeks"] = {
                "wall_s": round(wall, 2),
                "own_processor_s": round(own, 2),
            }
            result["statement_bytes"] = len(content)
    return result | printed(content)


def printed(content: bytes) -> dict[str, Any]:
    """Our PDF against bare WeasyPrint on the same HTML, by turns."""
    import weasyprint

    from finops.core.canonical import digest
    from reports import paper
    from reports.models import Report
    from reports.queries.standing import standing

    value = json.loads(content)
    report = Report.objects.create(
        week=value["period"]["week"], revision=1, statement=content, digest=digest(content),
        method_version=value["method_version"], headline=value["headline"],
        figures=value["figures"] | {"currency": value["currency"]}, prepared_by="bench",
        created_at=START, reason="",
    )  # fmt: skip
    stand = standing(report)
    text, ours, bare = paper.html(stand), [], []
    for _ in range(TRIES):
        before = time.process_time()
        weasyprint.HTML(
            string=text, base_url=paper.BASE, url_fetcher=paper.closed_fetcher()
        ).write_pdf()
        bare.append(time.process_time() - before)
        before = time.process_time()
        paper.pdf(stand)
        ours.append(time.process_time() - before)
    return {
        "bare_weasyprint_cpu_s": round(median(bare), 2),
        "report_pdf_cpu_s": round(median(ours), 2),
        "ratio": round(median(ours) / median(bare), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--weeks", type=int, default=12)
    given = parser.parse_args()
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
        print(json.dumps(measured(given.workloads, given.weeks, folder), indent=1))
    finally:
        embedded.release_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
