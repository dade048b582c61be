"""How long verify.py takes for a pack of 200 workloads, against reading its tables alone.

    .venv/bin/python benchmarks/verify_pack.py [--workloads 200]

Makes the tables of a pack (two engines a workload, six series an engine, hourly charges) and a
statement of the right shape, runs the second computation, and prints one JSON object. The figures
of the made-up statement do not fit: only the time counts.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reports.evidence import verify

START, HOURS = datetime(2026, 11, 16, tzinfo=UTC), 168
ROLES = ("prompt", "generation", "cached_prompt", "delivered_prompt", "delivered_generation",
         "prefix_hits")  # fmt: skip


def rfc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def table(columns: str, rows: list[tuple[Any, ...]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name.replace("kept_sum", "kept sum") for name in columns.split()])
    writer.writerows(rows)
    return text.getvalue().encode()


def files(workloads: int) -> dict[str, bytes]:
    hours = [rfc(START + timedelta(hours=h)) for h in range(HOURS)]
    end = ms(START) + HOURS * 3_600_000
    series: list[tuple[Any, ...]] = []
    rows: list[tuple[Any, ...]] = []
    rules: list[tuple[Any, ...]] = []
    charges: list[tuple[Any, ...]] = []
    for w in range(workloads):
        slug = f"service-{w:03d}"
        rules.append(
            (2 * w, 1, 100, "series", "workload", slug, json.dumps([["job", "=", slug]]), "", "")
        )
        rules.append(
            (
                2 * w + 1,
                1,
                100,
                "charge",
                "workload",
                slug,
                json.dumps([["resource", "=", slug]]),
                "",
                "",
            )
        )
        for engine in range(2):
            labels = json.dumps({"job": slug, "instance": str(engine)})
            for role in ROLES:
                number = len(series)
                series.append((number, "p", role, role, "engine", 0, f"{w}.{engine}", "0", 0,
                               ms(START), end, 15_000, end, "", labels))  # fmt: skip
                rows += [(number, hour, slug, 4_000_000 + number, 240, 0, 0, 0, 0, 0, 0, 4000, 15_000,
                          ms(START), end) for hour in hours]  # fmt: skip
        charges += [("d" * 64, 168 * w + h, hours[h], rfc(START + timedelta(hours=h + 1)), "2.39",
                     "2.39", "1", "1", "Hours", "1", "Hours", "workload", slug, "", slug, "Usage",
                     "USD", "cloud", "", "", "", "", "H100", "", "", "2.39", "2.39", "2.50", "0012", "Compute",
                     "p5", "p5 Instance Hour", "INV-9", "", "", "2026-11") for h in range(HOURS)]  # fmt: skip
    return {
        "ledgers/series.csv": table("series source metric role layer preference target engine other_half born_ms last_ms usual_ms source_last_ms end_dark_ms labels", series),
        "ledgers/token_hours.csv": table("series hour workload tokens readings restarts hidden_resets openings opening_tokens alternations unmarked rate_tokens rate_ms first_ms last_ms", rows),
        "ledgers/rules.csv": table("number version order subject place target matchers valid_from valid_to", rules),
        "ledgers/charges.csv": table("document line start end billed effective gpu_count consumed_quantity consumed_unit pricing_quantity pricing_unit place target idle_share resource category currency issuer commitment commitment_name commitment_status class gpu_model rate_card kept_sum contracted contracted_unit_price list_unit_price account service sku description invoice sub_account tags_digest billing_period", charges),
        "ledgers/workloads.csv": table("slug model stack team purpose cluster namespace rate_cap_tokens_per_second kv_bytes_per_token max_model_len", [(f"service-{w:03d}", "m", "vllm", "", "inference", "", "", "", "", "") for w in range(workloads)]),
        "ledgers/reaches.csv": table("kind name first last ended", [("cost", "", hours[0], rfc(START + timedelta(hours=HOURS)), ""), ("issuer", "cloud", "", rfc(START + timedelta(hours=HOURS)), ""), ("source", "p", hours[0], rfc(START + timedelta(hours=HOURS)), 0)]),
    }  # fmt: skip


def statement(workloads: int) -> dict[str, Any]:
    empty: dict[str, Any] = defaultdict(lambda: None)
    row = {"figures": {}, "class_costs": {}, "basis": "processed", "common": None,
           "share_of_cost": None, "tokens": None, "baseline": None, "memory": None}  # fmt: skip
    table_ = {"rows": [], "other_currencies": [], "difference": "0"}
    return {
        "period": {"start": rfc(START), "end": rfc(START + timedelta(hours=HOURS)), "week": "2026-W47"},
        "weights": {"prompt": "1", "cached_prompt": "0.1", "generation": "4"},
        "currency": "USD", "figures": {}, "headline": "", "previous": None, "memory": [], "baselines": [],
        "workloads": [row | {"slug": f"service-{w:03d}"} for w in range(workloads)],
        "tieout": {"invoice": [], "period": table_}, "allocation": [], "exceptions": [],
        "provisional_months": [], "bridge": None, "bridge_groups": {}, "trend": [empty],
        "control_totals": defaultdict(lambda: None, {"documents": [], "by_currency": {}}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workloads", type=int, default=200)
    count = parser.parse_args().workloads
    made = files(count)
    began = time.perf_counter()
    for name in made:
        list(csv.DictReader(io.StringIO(made[name].decode(), newline="")))
    read = time.perf_counter() - began
    began, busy = time.perf_counter(), time.process_time()
    checks = verify.recompute(verify.Pack(made), statement(count))
    took, busy = time.perf_counter() - began, time.process_time() - busy
    print(json.dumps({
        "workloads": count, "megabytes": round(sum(map(len, made.values())) / 1e6, 1),
        "figures": len(checks.lines), "reading_tables_s": round(read, 2),
        "verify_s": round(took, 2), "verify_cpu_s": round(busy, 2), "ratio": round(took / read, 2),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
