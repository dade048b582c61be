"""A confirmed change is measured in the statement and again by verify.py, draw by draw (§10)."""

from __future__ import annotations

import copy
import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from finops.core.canonical import canonical_bytes
from finops.core.period import Period
from finops.core.statement import statement
from finops.ledger.operations import changes as operations
from finops.ledger.queries.export import tables
from finops.ledger.queries.facts import facts
from reports.change_words import message, rows
from reports.evidence import verify
from reports.evidence.sealed import csv_bytes, documents_read
from tests.evidence.flips import columns_not_found
from tests.ledger.doors import command, ingested
from tests.ledger.small_company import COMMON, csv_text

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
START = datetime(2026, 11, 9, tzinfo=UTC)
CHANGE = datetime(2026, 11, 16, 10, tzinfo=UTC)
END = datetime(2026, 11, 18, tzinfo=UTC)
WEEK = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
HALF_HOUR = timedelta(minutes=30)


def gauges() -> str:
    """One engine: 1,000 tokens and a few more every half hour, on less memory since the change."""
    engine = 'instance="a",job="vllm",engine="0"'
    kinds: dict[str, list[str]] = {name: [] for name in (
        "vllm:prompt_tokens", "vllm:generation_tokens", "vllm:kv_cache_usage_perc",
        "vllm:cache_config_info", "process_start_time_seconds")}  # fmt: skip
    born = int((START - timedelta(hours=1)).timestamp())
    moment, prompt = START, 0
    while moment < END:
        at, is_after = int(moment.timestamp()), moment >= CHANGE
        prompt += 1000 + moment.hour
        setting, use = ("0.75", "0.5") if is_after else ("0.92", "0.25")
        labels = (
            f'{engine},gpu_memory_utilization="{setting}",num_gpu_blocks="1001",block_size="16"'
        )
        named = f'{{{engine},model_name="llama"}}'
        kinds["vllm:prompt_tokens"].append(f"vllm:prompt_tokens_total{named} {prompt} {at}")
        kinds["vllm:generation_tokens"].append(
            f"vllm:generation_tokens_total{named} {prompt // 10} {at}"
        )
        kinds["vllm:kv_cache_usage_perc"].append(f"vllm:kv_cache_usage_perc{named} {use} {at}")
        kinds["vllm:cache_config_info"].append(f"vllm:cache_config_info{{{labels}}} 1 {at}")
        kinds["process_start_time_seconds"].append(
            f'process_start_time_seconds{{instance="a",job="vllm"}} {born} {at}'
        )
        moment += HALF_HOUR
    lines = []
    for name, samples in kinds.items():
        lines += [f"# TYPE {name} {'counter' if name.endswith('tokens') else 'gauge'}"]
        lines += sorted(samples)
    return "\n".join([*lines, "# EOF", ""])


def charges() -> list[dict[str, str]]:
    """2 USD an hour, from the change on 1.50."""
    found, moment = [], START
    while moment < END:
        cost = "1.50" if moment >= CHANGE else "2.00"
        times = (moment, moment + timedelta(hours=1))
        start, end = (one.strftime("%Y-%m-%dT%H:%M:%SZ") for one in times)
        found.append(COMMON | {"BilledCost": cost, "EffectiveCost": cost, "ListCost": cost,
                               "ContractedCost": cost, "ResourceId": "i-a",
                               "ChargePeriodStart": start, "ChargePeriodEnd": end})  # fmt: skip
        moment = times[1]
    return found


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "gauges.om").write_text(gauges())
    (tmp_path / "bill.csv").write_text(csv_text(charges()))
    for document in ingested(tmp_path / "gauges.om", tmp_path / "bill.csv"):
        assert document["status"] == "posted", document
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "chat", "--series", "instance=a", "--by", "Ada")
    command("rule", "add", "chat", "--charge", "resource=i-a", "--by", "Ada")
    found = operations.found
    monkeypatch.setattr(operations, "found", lambda at: found(END))
    (one,) = operations.found(END)
    assert (one.change.kind, one.change.at) == ("configuration", CHANGE)
    now = datetime.now(UTC)
    operations.decide(one.change.key, "confirmed", by="Ines", at=now, note="OPS-1")
    return statement(facts(WEEK, week="2026-W47", as_of=now))


def pack_of(said: dict[str, Any]) -> verify.Pack:
    read = documents_read(one["sha256"] for one in said["control_totals"]["documents"])
    every = [*tables(WEEK, datetime.now(UTC)), read]
    files = {f"ledgers/{t.name}.csv": csv_bytes(t) for t in every}
    return verify.Pack(files | {"statement.json": canonical_bytes(said)})


def test_the_difference_is_that_of_hours_of_the_same_load(said: dict[str, Any]) -> None:
    """Every hour after has its own hour of the week before: the price falls by a quarter."""
    (row,) = said["changes"]
    cost = row["cost_per_million"]
    assert row["pairs"] == 37 and row["reason"] is None
    after, before = Fraction(cost["after"]), Fraction(cost["before"])
    assert abs(after / before - Fraction(3, 4)) < Fraction(1, 10**15)
    assert Decimal(cost["lower"]) <= Decimal(cost["difference"]) <= Decimal(cost["upper"]) < 0
    assert [row["p99_kv_use"][name] for name in ("before", "after")] == ["0.255", "0.505"]
    assert (row["confirmed_by"], row["note"]) == ("Ines", "OPS-1")


def test_the_second_computation_draws_the_same_interval(said: dict[str, Any]) -> None:
    pack = pack_of(said)
    checks = verify.recompute(pack, json.loads(canonical_bytes(said)))
    assert checks.wrong == []
    assert sum("changes" in line[0] for line in checks.lines) > 15
    for name, part in (("cost_per_million", "lower"), ("p99_kv_use", "difference")):
        changed = copy.deepcopy(said)
        value = Decimal(changed["changes"][0][name][part])
        changed["changes"][0][name][part] = str(value + Decimal("1e-9"))
        assert verify.recompute(pack, changed).wrong


def test_every_column_of_a_change_and_its_hours_is_computed_again(said: dict[str, Any]) -> None:
    pack, statement = pack_of(said), json.loads(canonical_bytes(said))
    assert columns_not_found(
        pack.files, statement, tables=("changes", "change_hours"), untold={},
        drawn=random.Random(7), rows=6,
    ) == []  # fmt: skip


def test_the_words_say_what_the_interval_says(said: dict[str, Any]) -> None:
    (row,) = rows(said)
    assert row["tone"] == "cheaper"
    assert "→" in row["use_words"]
    assert message(said).startswith("chat, gpu_memory_utilization 0.92 → 0.75: cheaper")
