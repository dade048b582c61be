"""Fills the ledger of a running service for the benchmark of the pages: many weeks and workloads.

Run inside the service's environment: `manage.py shell -c "from benchmarks.pages_fill import fill; …"`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.contrib.auth.models import Group, User

from finops.core.canonical import canonical_bytes, digest
from finops.core.facts import (
    CurrencySum,
    EngineMemory,
    Facts,
    Notice,
    PlaceSum,
    Reaches,
    WorkloadFacts,
)
from finops.core.memory import CacheRow, kv_figures
from finops.core.memory_hours import memory_hours
from finops.core.period import Period, week_before, week_of
from finops.core.statement import statement, trend_row
from finops.core.tokens import Tokens
from finops.core.unit_cost import Counted
from finops.ledger.models import Document, Workload
from reports.models import Report, ReportEvent
from reports.queries.weeks import zone
from reports.roles import ensure_groups

LAST = "2026-W47"
HOUR_MS = 3_600_000
NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)


def fill(weeks: int, workloads: int, password: str) -> None:
    """A person who may everything, and a preliminary report of each week with each workload."""
    ensure_groups()
    person = User.objects.create_user("bench", password=password)
    person.groups.set(Group.objects.filter(name="admin"))
    Document.objects.create(
        sha256="ab" * 32, size_bytes=1, name="invoice.csv", origin="bench", format="focus",
        received_at=NOW, received_by="bench",
    )  # fmt: skip
    names = [f"service-{number:03}" for number in range(workloads)]
    Workload.objects.bulk_create(
        Workload(slug=name, model="model", stack="vllm", created_at=NOW, created_by="bench")
        for name in names
    )
    trend: list[dict[str, object]] = []
    previous = None
    for back in range(weeks - 1, -1, -1):
        week = week_before(LAST, zone(), back) if back else LAST
        value = statement(_facts(week, names), previous, trend[-11:])
        trend.append(trend_row(value))
        previous = value
        _store(week, value)


def _store(week: str, value: dict[str, object]) -> None:
    content = canonical_bytes(value)
    report = Report.objects.create(
        week=week, revision=1, statement=content, digest=digest(content), method_version="1.0",
        created_at=NOW, prepared_by="bench", headline=value["headline"],
        figures=dict(value["figures"]) | {"currency": "USD"},  # type: ignore[call-overload]
    )  # fmt: skip
    ReportEvent.objects.create(report=report, kind="closed", at=NOW, by="bench")


def _facts(week: str, names: list[str]) -> Facts:
    period = week_of(week, zone())
    rows = [_workload(period, name, number) for number, name in enumerate(names)]
    cost = sum((w.cost for w in rows), Decimal(0))
    return Facts(
        week=week, period=period, zone="UTC", organisation="Example", sample=False,
        software_version="bench", currency="USD",
        reaches=Reaches(period.end, period.end, period, complete=True),
        money=(CurrencySum("USD", cost, cost, len(rows), 0, 0),),
        places=tuple(PlaceSum("workload", w.slug, "USD", w.cost, w.cost, 1) for w in rows),
        workloads=tuple(rows),
        notices=tuple(Notice("gaps", w.slug, f"{w.slug}: 2 gaps in the readings.") for w in rows[::4]),
    )  # fmt: skip


def _workload(period: Period, slug: str, number: int) -> WorkloadFacts:
    prompt, generation = 80_000_000 + number, 20_000_000 + number
    tokens = Tokens(
        prompt=prompt, generation=generation, prompt_lower=prompt, prompt_upper=prompt,
        generation_lower=generation, generation_upper=generation, exact=True, readings=9,
        coverage=Decimal("0.9987"),
    )  # fmt: skip
    cost = Decimal(180 + number)
    rows = [
        CacheRow(
            hour=period.start + timedelta(hours=hour), blocks=4000, block_size=16,
            pool_tokens=64_000, max_model_len=8192, observed_ms=HOUR_MS,
            active_block_ms=Decimal(HOUR_MS * (200 + 37 * (hour * number % 90))),
            peak_blocks=3000, peak_ms=None, peak_running=12, stale_ms=0,
        )
        for hour in range(168)
    ]  # fmt: skip
    figures = kv_figures(rows, 131_072)
    assert figures is not None
    found = WorkloadFacts(
        slug=slug, model="model", stack="vllm", team="red", purpose="inference", cluster="",
        namespace="", tokens=tokens, cost_own=cost, cost_shared=Decimal(0), charges=1,
        common=period, common_tokens=tokens,
        counted=Counted(prompt, generation, None, prompt + generation, prompt + generation),
        common_cost=cost, active_hours=84, common_hours=168, gpu_hours=Decimal(168),
        common_gpu_hours=Decimal(168), gpu_hours_source="the invoice", gpu_model="H100",
        memory=(EngineMemory(f"{slug}-0", figures, 0),),
    )  # fmt: skip
    return replace(found, memory_hours=memory_hours(slug, period, [rows], 131_072))
