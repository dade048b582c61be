"""Weeks whose names are numbers, lists of numbers and the register's own words are sealed (method §11).

Every sentence of such a week is confirmed by the second computation: a name is no figure.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.conftest import closed_week
from tests.evidence.flips import figures_not_found, leaves
from tests.evidence.test_exceptions_again import odd_invoice
from tests.ledger import currencies, gpu_fleet, small_company
from tests.ledger.doors import ingested
from tests.reports.test_closing import command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

# Issuer, invoice, account, commitment, two workloads, two sources, currency.
NAMES = [
    ("report", "report", "report", "report", "report", "7", "report", "prom-2", "USD"),
    ("Cloud 1,000 Ltd. 7.50", "1,234.5", "2026-11", "0", "12", "1-5", "1-5", "2500", "JPY"),
    ("1", "36", "1/2 (3) 4", "sp 9, 36", "100", "2026", "0", "6_7", "KWD"),
    ("36 lines, 1.25", "INV 174.05", "-1", "not 6 USD", "w47", "3-1-8b", "v0-6-3", "99", "CHF"),
]


def closed() -> dict[str, Any]:
    """The week's statement; every figure and number of it was confirmed."""
    return closed_week()[1]


def company(folder: Path, names: tuple[str, ...]) -> None:
    """The small company's odd week under these names: of its two sources one ends early, and both
    of its workloads have a baseline."""
    issuer, invoice, account, plan, llama, mistral, early, late, currency = names
    text = small_company.openmetrics().removesuffix("# EOF\n")
    stays = [line for line in text.splitlines() if "instance=" not in line or '"c"' in line]
    goes = [line for line in text.splitlines() if '"c"' not in line]
    at = int(small_company.START.timestamp()) + 6 * 86_400
    stays.append(f'process_start_time_seconds{{instance="c",job="vllm"}} 1 {at}')
    for source, lines in ((early, goes), (late, stays)):
        path = folder / "readings.om"
        path.write_text("\n".join([*lines, "# EOF", ""]))
        answer = command("ingest", path, "--source", source, "--by", "Ada")
        assert answer["documents"][0]["status"] == "posted", answer
    rows = [
        row | {"InvoiceIssuerName": issuer, "InvoiceId": invoice, "BillingAccountId": account,
               "BillingCurrency": currency}
        | ({"CommitmentDiscountId": plan} if row.get("CommitmentDiscountId") else {})
        for row in odd_invoice()
    ]  # fmt: skip
    rows.append(rows[-1] | {"InvoiceId": "", "ResourceId": "open", "ServiceName": "Open"})
    path = folder / "invoice.csv"
    path.write_text(small_company.csv_text(rows))
    assert ingested(path)[0]["status"] == "posted"
    command("invoice-amount", issuer, invoice, "2026-11", "1000", currency, "--by", "Ada")
    for slug, model, machine in ((llama, "llama", "i-a"), (mistral, "mistral", "i-b")):
        command("workload", "add", slug, "--model", model, "--stack", "vllm", "--by", "Ada")
        command("rule", "add", slug, "--series", f"model_name={model}", "--by", "Ada")
        command("rule", "add", slug, "--charge", f"ResourceId={machine}", "--by", "Ada")
    command("shared-key", "add", llama, "--shares", f"{llama}=2,{mistral}=1", "--by", "Ada")
    command("rule", "add", f"shared:{llama}", "--charge", "service=Network", "--by", "Ada")
    command("rule", "add", "out-of-scope", "--charge", "category=Tax", "--by", "Ada")
    paper = folder / "price.txt"
    paper.write_text("1000 a million")
    command("baseline", "add", llama, "--per-million", "1000", "--currency", currency,
            "--document", paper, "--by", "Ada")  # fmt: skip


@pytest.mark.parametrize("names", NAMES)
def test_names_that_are_numbers_keep_no_week_from_its_seal(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    company(tmp_path, names)
    statement = closed()
    kinds = {one["kind"] for one in statement["exceptions"]}
    assert {
        "contracted-zero", "duplicated-lines", "effective-differs-from-billed", "invoice-differs",
        "far-from-list-price", "price-times-quantity", "purchase-with-effective-cost",
        "unassigned-charges", "unrecognised-gpu", "provisional-month", "baseline-not-approved",
    } <= kinds  # fmt: skip
    assert {one["kind"] for one in statement["exceptions"] if one["subject"] == names[6]} & {
        "readings-late", "readings-ended",
    }  # fmt: skip
    assert f" {names[4]} cost " in statement["headline"]


@pytest.mark.parametrize("setting", ["0.875", "0.9250000000000001"])
def test_settings_between_the_steps_are_told_as_they_are(tmp_path: Path, setting: str) -> None:
    """Over several steps of 0.05 the way leads from a setting of more than two decimals."""
    small_company.found(tmp_path)
    whole_week(tmp_path)
    fleet = gpu_fleet.Fleet(hours=7 * 24, step=300)
    fleet.engine("1.5", 0.2, gpu_memory_utilization=setting)
    settled = fleet.write(tmp_path / "week.om")
    command("ingest", settled, "--source", "prom-2", "--by", "Ada")
    command("workload", "add", "8", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--stack",
            "vllm", "--by", "Ada")  # fmt: skip
    command("rule", "add", "8", "--series", "namespace=llm", "--by", "Ada")
    command("rule", "add", "8", "--charge", "service=Support", "--order", "1", "--by", "Ada")
    ingested(gpu_fleet.config(tmp_path / "config.json"),
             gpu_fleet.log(tmp_path / "engine.log", first=gpu_fleet.ARGUMENTS))  # fmt: skip
    statement = closed()
    (row,) = [one for one in statement["rightsizing"] if one["workload"] == "8"]
    assert row["setting"] == setting and row["verdict"] == "over-reserved"
    assert row["next_step"].startswith("One step down, to 0.8") and "USD" in row["money"]
    assert len(row["guidance"]) == 7


def test_a_share_of_memory_in_other_words_is_not_known(tmp_path: Path) -> None:
    """A label that is no plain number stops neither the closing nor the seal."""
    small_company.found(tmp_path)
    fleet = gpu_fleet.Fleet(hours=3, step=300)
    fleet.engine("chat-0", 0.2, gpu_memory_utilization="NaN")
    fleet.engine("chat-1", 0.2, gpu_memory_utilization="9e-1")
    ingested(fleet.write(tmp_path / "week.om"))
    command("workload", "add", "8", "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "8", "--series", "namespace=llm", "--by", "Ada")
    assert [row["setting"] for row in closed()["rightsizing"]] == [None, None]


def test_a_count_of_gpus_with_decimals_names_the_same_shape(tmp_path: Path) -> None:
    """8.0 GPUs are 8, at a price that nobody asks: both are one shape with one amount."""
    rows = small_company.charges()
    machines = [row for row in rows if row.get("ResourceId") == "i-b"]
    for number, row in enumerate(machines):
        row |= {
            "ResourceType": "p5.48xlarge",
            "ChargeDescription": "p5.48xlarge Instance Hour",
            "SkuPriceDetails": json.dumps({"GpuCount": "8" if number == 5 else "8.0"}),
            "BilledCost": "2000",
            "EffectiveCost": "2000",
        }
    path = tmp_path / "invoice.csv"
    path.write_text(small_company.csv_text(rows))
    assert ingested(path)[0]["status"] == "posted"
    found = [one for one in closed()["exceptions"] if one["kind"] == "unit-price-implausible"]
    assert [one["subject"].rpartition(" × ")[2] for one in found] == ["8"]


@pytest.mark.parametrize("currency", ["EUR", "CAD"])
def test_a_baseline_in_another_currency_keeps_no_week_from_its_seal(
    tmp_path: Path, settings: Any, currency: str
) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    command("baseline", "add", "llama", "--from", "2026-11-16T00:00:00Z", "--to",
            "2026-11-16T06:00:00Z", "--workload", "mistral", "--by", "Ada")  # fmt: skip
    settings.REPORT_CURRENCY = currency
    files, statement = closed_week()
    (row,) = statement["baselines"]
    assert row["currency"] == currency and row["quoted"]["currency"] == "USD"
    quoted = [place for place, _ in leaves(statement) if "quoted" in place]
    assert len(quoted) > 12 and figures_not_found(files, statement, quoted) == []


@pytest.mark.parametrize("then", ["talk", "out-of-scope"])
def test_an_engine_that_a_rule_moves_within_the_week(tmp_path: Path, then: str) -> None:
    """Its cache stands in the memory of both workloads, each with its own hours; one of the two
    engines stands still, and that time is told of both."""
    small_company.found(tmp_path)
    fleet = gpu_fleet.Fleet(hours=6, step=300)
    fleet.engine("chat-0", 0.2)
    fleet.gpu("GPU-a", 74_000, 7_000, exported_namespace="llm", exported_pod="chat-0")
    still = {"job": "vllm", "instance": "chat-1:8000", "namespace": "llm", "pod": "chat-1",
             "engine": "0", "model_name": "meta-llama/Llama-3.1-8B-Instruct"}  # fmt: skip
    for name, value in (("prompt_tokens_total", 5), ("generation_tokens_total", 5),
                        ("kv_cache_usage_perc", 0.5)):  # fmt: skip
        fleet.gauge(f"vllm:{name}", value, **still)
    pool = {"block_size": "16", "num_gpu_blocks": "2000", "gpu_memory_utilization": "0.9"}
    fleet.gauge("vllm:cache_config_info", 1, **still, **pool)
    ingested(fleet.write(tmp_path / "week.om"), gpu_fleet.config(tmp_path / "config.json"))
    for slug in ("chat", "talk"):
        command("workload", "add", slug, "--model", "meta-llama/Llama-3.1-8B-Instruct", "--stack",
                "vllm", "--by", "Ada")  # fmt: skip
    noon = "2026-11-16T03:00:00Z"
    command("rule", "add", "chat", "--series", "namespace=llm", "--to", noon, "--by", "Ada")
    command("rule", "add", then, "--series", "namespace=llm", "--from", noon, "--by", "Ada")
    statement = closed()
    named = [row["workload"] for row in statement["memory"]]
    assert named == ["chat"] * 2 + ["talk"] * (2 if then == "talk" else 0)
    stale = {e["subject"] for e in statement["exceptions"] if e["kind"] == "stale-gauges"}
    assert stale == set(named)


@pytest.mark.parametrize("currency", ["", "CAD"])
def test_charges_timed_to_the_microsecond(tmp_path: Path, settings: Any, currency: str) -> None:
    settings.REPORT_CURRENCY = currency
    small_company.found(tmp_path)
    if currency:
        currencies.rates(tmp_path)
    rows = small_company.charges()
    finer = {"ChargePeriodStart": "2026-11-16T07:00:00.000001Z",
             "ChargePeriodEnd": "2026-11-16T09:00:00.123456Z", "ChargeCategory": "Usage"}  # fmt: skip
    rows += [rows[-1] | finer | {"ResourceId": name} for name in ("i-a", "i-b")]
    path = tmp_path / "finer.csv"
    path.write_text(small_company.csv_text(rows))
    assert ingested(path)[0]["status"] == "posted"
    command("workload", "add", "tune", "--model", "m", "--stack", "torchrun", "--purpose",
            "training", "--by", "Ada")  # fmt: skip
    command("rule", "add", "tune", "--charge", "resource=i-b", "--order", "1", "--by", "Ada")
    command(
        "training-budget", "set", "2026-Q4", "20", "--currency", currency or "USD", "--by", "Ada"
    )
    statement = closed()
    assert statement["reaches"]["cost"] == "2026-11-16T09:00:00.123456Z"
    assert statement["training"]["budget"]["forecast"] is not None


def test_engines_of_any_configuration(tmp_path: Path) -> None:
    """Pods that are called like numbers or addresses, sized by hand, of two blocks, of eight bits,
    of unknown size; two engines of one pod; a gauge that is read now and then."""
    small_company.found(tmp_path)
    fleet = gpu_fleet.Fleet(hours=7 * 24, step=600)
    fleet.engine("1.5", 0.2, cache_dtype="fp8")
    fleet.engine("10.0.0.10:8000", lambda n: 0.95 if n % 3 else 0.5, num_gpu_blocks="0")
    fleet.engine("10.0.0.9:8000", 0.9, blocks=999, num_gpu_blocks_override="999", running=0)
    fleet.engine("a/b c", 1, block_size="None", engine="1", running=1)
    fleet.engine("a/b c", 0.01, blocks=2, engine="0", gpu_memory_utilization="None")
    fleet.engine("GPU 7", lambda n: 0.7 if n % 50 else None, blocks=5000)
    fleet.gpu("GPU-7", 74_000, 7_000, exported_namespace="llm", exported_pod="GPU 7")
    ingested(fleet.write(tmp_path / "week.om"), gpu_fleet.config(tmp_path / "config.json"),
             gpu_fleet.log(tmp_path / "engine.log", first=gpu_fleet.ARGUMENTS))  # fmt: skip
    for slug, pods in (("7", ',pod=~"1.5|a.*"'), ("0-5", "")):
        command("workload", "add", slug, "--model", "m", "--stack", "vllm", "--by", "Ada")
        command("rule", "add", slug, "--series", f"namespace=llm{pods}", "--by", "Ada")
    verdicts = {row["engine"]: row["verdict"] for row in closed()["rightsizing"]}
    assert len(verdicts) == 6 and {"tight", "fits", "over-reserved"} <= set(verdicts.values())
