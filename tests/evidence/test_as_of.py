"""Facts "as of" an instant: the same bytes for the same instant, whatever arrives later (§11)."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from finops.core.canonical import canonical_bytes
from finops.core.period import week_of
from finops.core.statement import statement
from finops.ledger.queries.export import tables
from finops.ledger.queries.facts import facts
from reports.evidence.sealed import csv_bytes
from tests.ledger import gpu_fleet, small_company
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import counter, openmetrics, take_in
from tests.ledger.test_nodes import FLEET, KSM, node, request
from tests.ledger.test_nodes import invoice as node_invoice

pytestmark = [pytest.mark.slow, pytest.mark.django_db(databases=["default", "sample"])]
PERIOD = week_of("2026-W47", ZoneInfo("UTC"))


def as_of(instant: datetime) -> tuple[bytes, dict[str, bytes]]:
    """The statement and the ledger rows as the ledger stood at an instant."""
    value = statement(facts(PERIOD, week="2026-W47", as_of=instant))
    return canonical_bytes(value), {t.name: csv_bytes(t) for t in tables(PERIOD, instant)}


def arrivals(folder: Path) -> list[Callable[[], object]]:
    """Documents and decisions of every kind, each of which changes some figure or exception."""

    def more_gpus() -> object:
        fleet = gpu_fleet.Fleet(hours=2)
        fleet.engine("vllm-0", lambda number: 0.25)
        fleet.gpu("GPU-1", 70_000, 10_000, namespace="llm", pod="vllm-0")
        return ingested(fleet.write(folder / "gpus.om"))

    def twin_exporter() -> object:
        labels = {**KSM, "instance": "ksm-b:8080"}
        twins = [one.__class__(one.metric, {**one.labels, **labels}, one.value)
                 for one in [*node("n3", "aws:///x/i-b", 8), request(4, "llm", "llama-0", "n3")]]  # fmt: skip
        return take_in(folder, twins, "twins.om")

    def corrected() -> object:
        rows = small_company.charges()
        rows[1] |= {"BilledCost": "2.50", "EffectiveCost": "2.25", "InvoiceId": ""}
        (folder / "again.csv").write_text(small_company.csv_text(rows))
        return ingested(folder / "again.csv")

    def late_readings() -> object:
        text = openmetrics([counter("vllm:prompt_tokens_total", 900, job="vllm", instance="a",
                                    model_name="llama", engine="0")], range(-12, 5))  # fmt: skip
        (folder / "late.om").write_text(text)
        return ingested(folder / "late.om")

    offer = folder / "offer.pdf"
    offer.write_bytes(b"%PDF- an offer")
    return [
        lambda: take_in(folder, FLEET),
        more_gpus,
        twin_exporter,
        corrected,
        late_readings,
        lambda: node_invoice(folder),
        lambda: ingested(gpu_fleet.log(folder / "engine.log")),
        lambda: ingested(gpu_fleet.config(folder / "config.json")),
        lambda: command("invoice-amount", "Cloud Ltd", "INV-9", "2026-11", "99", "USD"),
        lambda: command("confirm-period", "Cloud Ltd", "0012", "2026-11", "--reason", "seen",
                        "--by", "Ada"),
        lambda: command("workload", "add", "newer", "--model", "x", "--stack", "vllm"),
        lambda: command("rule", "add", "mistral", "--series", "model_name=stray", "--by", "Ada"),
        lambda: command("baseline", "add", "llama", "--per-million", "1000", "--currency", "USD",
                        "--document", offer, "--by", "Ada"),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_instant_gives_the_same_bytes_whatever_arrives_later(
    tmp_path: Path, seed: int
) -> None:
    small_company.found(tmp_path)
    steps = arrivals(tmp_path)
    random.Random(seed).shuffle(steps)
    seen = [(timezone.now(), as_of(timezone.now()))]
    for step in steps:
        step()
        instant = timezone.now()
        seen.append((instant, as_of(instant)))
    for instant, (value, rows) in seen:
        again, rows_again = as_of(instant)
        assert again == value, instant
        assert rows_again == rows, instant
    assert len({value for _, (value, _) in seen}) >= len(steps) - 3  # they did change something
