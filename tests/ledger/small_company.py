"""A small company whose figures can be recomputed by hand: six hours, two engines, one invoice.

Engine `a` serves llama (600 prompt and 60 generation tokens a reading, every ten minutes), engine
`b` serves mistral, only in the first three hours; `c` belongs to nobody. Each has one machine at
2 USD an hour; llama's is covered by a savings plan (1.50 an hour) that is bought for 12 and used
for 9. A network line of 1 USD an hour is shared.
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

from finops.core.period import Period
from tests.ledger.doors import command, ingested

START = datetime(2026, 11, 16, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(hours=6))
STEP = timedelta(minutes=10)

ENGINES = {"a": ("llama", 600, 60, 36), "b": ("mistral", 300, 0, 18), "c": ("stray", 7, 1, 36)}


def openmetrics() -> str:
    """Readings of the three engines from an hour before the period to half an hour after it."""
    lines = []
    for metric, which in (("vllm:prompt_tokens", 1), ("vllm:generation_tokens", 2)):
        lines.append(f"# TYPE {metric} counter")
        for instance, row in ENGINES.items():
            labels = f'instance="{instance}",job="vllm",model_name="{row[0]}",engine="0"'
            for step in range(-6, 40):
                moved = max(0, min(step, row[3])) * row[which]
                at = int((START + step * STEP).timestamp())
                lines.append(f"{metric}_total{{{labels}}} {1000 + moved} {at}")
    lines.append("# TYPE process_start_time_seconds gauge")
    for instance in ENGINES:
        started = int((START - timedelta(days=9)).timestamp())
        for step in range(-6, 40):
            at = int((START + step * STEP).timestamp())
            lines.append(
                f'process_start_time_seconds{{instance="{instance}",job="vllm"}} {started} {at}'
            )
    return "\n".join([*lines, "# EOF", ""])


COMMON = {
    "BillingCurrency": "USD",
    "BillingAccountId": "0012",
    "BillingPeriodStart": "2026-11-01T00:00:00Z",
    "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeFrequency": "Usage-Based",
    "InvoiceIssuerName": "Cloud Ltd",
    "ProviderName": "AWS",
    "ServiceName": "Compute",
    "ServiceCategory": "Compute",
    "InvoiceId": "INV-9",
    "PricingCategory": "Standard",
}


def _line(hour: int, billed: str, effective: str, length: int = 1, **cells: str) -> dict[str, str]:
    start = START + timedelta(hours=hour)
    end = start + timedelta(hours=length)
    return COMMON | {
        "BilledCost": billed,
        "EffectiveCost": effective,
        "ListCost": "2",
        "ContractedCost": "2",
        "ChargePeriodStart": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ChargePeriodEnd": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        **cells,
    }


def _machine(resource: str) -> dict[str, str]:
    return {
        "ResourceId": resource,
        "ResourceType": "g5.xlarge",
        "ChargeDescription": "g5.xlarge Instance Hour",
        "ConsumedQuantity": "1",
        "ConsumedUnit": "Hours",
        "PricingQuantity": "1",
        "PricingUnit": "Hours",
    }


PLAN = {"CommitmentDiscountId": "sp-1", "CommitmentDiscountName": "Plan",
        "CommitmentDiscountCategory": "Spend", "CommitmentDiscountType": "Savings Plan"}  # fmt: skip


def charges() -> list[dict[str, str]]:
    """The invoice's lines, from an hour before the period to an hour after it."""
    rows = []
    for hour in range(-1, 7):
        used = PLAN | {"CommitmentDiscountStatus": "Used", "PricingCategory": "Committed"}
        rows.append(_line(hour, "0", "1.50", **_machine("i-a"), **used))
        rows.append(_line(hour, "2.00", "2.00", **_machine("i-b")))
        rows.append(_line(hour, "1", "1", ResourceId="nat-1", ServiceName="Network"))
    unused = PLAN | {"CommitmentDiscountStatus": "Unused", "ChargeDescription": "unused"}
    rows.append(_line(0, "0", "3", 6, **unused))
    purchase = PLAN | {"ChargeCategory": "Purchase", "ChargeFrequency": "One-Time"}
    rows.append(_line(0, "12", "0", 6, **purchase))
    rows.append(_line(0, "0.70", "0.70", 6, ServiceName="Support", ResourceId="support"))
    rows.append(_line(0, "5.55", "5.55", 6, ChargeCategory="Tax", ResourceId="tax"))
    return rows


def csv_text(rows: list[dict[str, str]]) -> str:
    """The rows as a FOCUS CSV."""
    stream = io.StringIO()
    columns = sorted({name for row in rows for name in row})
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def found(folder: Path) -> None:
    """Takes the company's files in and tells the ledger who owns what, by commands."""
    (folder / "readings.om").write_text(openmetrics())
    (folder / "invoice.csv").write_text(csv_text(charges()))
    for document in ingested(folder / "readings.om", folder / "invoice.csv"):
        assert document["status"] == "posted", document
    for slug in ("llama", "mistral"):
        command("workload", "add", slug, "--model", slug, "--stack", "vllm", "--by", "Ada")
        command("rule", "add", slug, "--series", f"model_name={slug}", "--by", "Ada")
    command("rule", "add", "llama", "--charge", "ResourceId=i-a", "--by", "Ada")
    command("rule", "add", "mistral", "--charge", "resource=i-b", "--by", "Ada")
    command("shared-key", "add", "net", "--shares", "llama=2,mistral=1", "--by", "Ada")
    command("rule", "add", "shared:net", "--charge", "service=Network", "--by", "Ada")
    command("rule", "add", "out-of-scope", "--charge", "category=Tax", "--by", "Ada")
