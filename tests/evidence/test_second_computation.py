"""What the second computation must know to confirm a week: cases that once it did not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import getcontext
from pathlib import Path

import pytest

from reports.evidence import verify
from reports.evidence.recipe import recipe
from reports.evidence.sealed import gather
from reports.queries.standing import report_of, statement_of
from tests.evidence.conftest import Sealed, unpacked
from tests.ledger import gpu_fleet, small_company
from tests.ledger.doors import command, ingested
from tests.ledger.test_formats import coreweave
from tests.reports.test_closing import WEEK

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def unequal(week: str = WEEK) -> tuple[str, ...]:
    command("close", week, "--by", "Ada")
    report = report_of(week)
    assert report is not None
    evidence = gather(report, statement_of(report))
    assert evidence is not None and evidence.computed > 50
    return evidence.unequal


def not_invoiced(folder: Path) -> None:
    rows = [row | {"InvoiceId": ""} for row in small_company.charges()]
    (folder / "open.csv").write_text(small_company.csv_text(rows))
    assert ingested(folder / "open.csv")[0]["status"] == "posted"


def test_a_month_that_its_issuer_closed_is_final_in_both(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    not_invoiced(tmp_path)
    assert unequal() == ()
    (tmp_path / "period.csv").write_text(
        "BillingPeriodStart,BillingPeriodEnd,BillingPeriodStatus,BillingPeriodCreated,"
        "BillingPeriodLastUpdated,InvoiceIssuerName\n2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,"
        "Closed,2026-11-01T00:00:00Z,2026-12-04T00:00:00Z,Cloud Ltd\n"
    )
    assert ingested(tmp_path / "period.csv")[0]["format"] == "focus-billing-period"
    assert unequal() == ()
    report = report_of(WEEK)
    assert report is not None and report.revision == 2
    assert statement_of(report)["provisional_months"] == []


def test_usage_without_a_price_is_on_no_invoice_in_both(tmp_path: Path) -> None:
    (document,) = ingested(coreweave(tmp_path / "usage.csv", "8", "4"))
    assert (document["format"], document["charges"]) == ("coreweave-focus", 2)
    assert unequal("2026-W41") == ()


def test_engines_that_follow_each_other_are_one_at_a_time_in_both(tmp_path: Path) -> None:
    """A pod until 02:20 and its successor from then on, on one card; a third for ten minutes of a
    later hour that stands alone. One engine at one time, one card at all times."""
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose",
            "inference", "--kv-bytes-per-token", 131_072, "--by", "Ada")  # fmt: skip
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    paths = []
    for number, (start, minutes) in enumerate(((0, 140), (140, 160), (370, 10))):
        fleet = gpu_fleet.Fleet(start=gpu_fleet.START + start * 60, hours=7)
        fleet.times = fleet.times[:minutes]
        fleet.engine(f"chat-{number}", 0.25)
        fleet.gpu("GPU-1", 70_000 + number, 11_080, namespace="llm", pod=f"chat-{number}")
        paths.append(fleet.write(tmp_path / f"{number}.om"))
    ingested(*paths)
    assert unequal("2026-W47") == ()
    report = report_of("2026-W47")
    assert report is not None
    (hours,) = statement_of(report)["memory_hours"]
    assert (hours["engines"], hours["engines_at_once"]) == (3, 1)
    # 439,536 tokens of 131,072 bytes are 54,942 MiB, never twice as much.
    assert {value for _, value in hours["reserved_steps"]} == {54_942, None}
    assert hours["device_total"] == 70_002 + 11_080 + 479
    seen = [(row["first_seen"], row["last_seen"]) for row in statement_of(report)["memory"]]
    assert seen == [
        ("2026-11-16T00:00:00Z", "2026-11-16T02:20:00Z"),
        ("2026-11-16T02:20:00Z", "2026-11-16T05:00:00Z"),
        ("2026-11-16T06:10:00Z", "2026-11-16T06:20:00Z"),
    ]


def test_it_computes_the_same_in_every_thread(sealed: Sealed) -> None:
    """A decimal context belongs to one thread; a server seals in another than it was loaded in."""
    files, statement = unpacked(sealed.pack()), sealed.stand.statement
    before = getcontext().prec
    with ThreadPoolExecutor(1) as pool:
        check = pool.submit(verify.recompute, verify.Pack(files), statement).result()
        steps = pool.submit(recipe, files, statement).result()
    assert check.lines and check.wrong == []
    assert steps == recipe(files, statement)
    assert verify.recompute(verify.Pack(files), statement).wrong == []
    assert getcontext().prec == before < verify.EXACT.prec  # nobody else's figures change
