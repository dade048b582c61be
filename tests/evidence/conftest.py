"""A small ledger whose week was closed, approved by a second person and sealed, by commands."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reports.evidence import verify
from reports.evidence.pack import pack
from reports.evidence.printed import print_report
from reports.evidence.sealed import gather
from reports.queries.standing import Standing, report_of, standing, statement_of
from tests.ledger import histograms, small_company
from tests.ledger.doors import ingested
from tests.reports.helpers import NOW
from tests.reports.test_closing import WEEK, command, whole_week


@dataclass
class Sealed:
    """The sealed report and the folder the company's files lie in."""

    stand: Standing
    folder: Path

    def pack(self) -> bytes:
        printed = print_report(self.stand, size="A4", by="Ben", at=NOW, sign=False)
        return pack(self.stand, printed=printed.unsigned).content


def unpacked(content: bytes) -> dict[str, bytes]:
    """The files of a pack."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def closed_week() -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files behind the closed week, every figure of which was computed again, and its statement."""
    command("close", WEEK, "--by", "Ada")
    report = report_of(WEEK)
    assert report is not None
    statement: dict[str, Any] = statement_of(report)
    evidence = gather(report, statement)
    assert evidence is not None
    wrong = verify.recompute(verify.Pack(dict(evidence.files)), statement).wrong
    assert evidence.unequal == (), [line[:3] for line in wrong]
    return dict(evidence.files), statement


def later_invoice(folder: Path, billed: str) -> None:
    """The month's export again, to the week's end, with another amount for support."""
    rows = small_company.charges()
    support = next(row for row in rows if row["ServiceName"] == "Support")
    support |= {"BilledCost": billed, "EffectiveCost": billed}
    end = {"ChargePeriodStart": "2026-11-16T07:00:00Z", "ChargePeriodEnd": "2026-11-23T00:00:00Z"}
    rows.append(rows[-1] | end | {"ChargeCategory": "Usage", "ResourceId": "i-b"})
    path = folder / f"invoice-{billed}.csv"
    path.write_text(small_company.csv_text(rows))
    assert ingested(path)[0]["status"] == "posted"


def next_week(folder: Path) -> None:
    """The week after: llama goes on, and its machine costs more than was said."""
    start = int(small_company.START.timestamp()) + 7 * 86_400
    labels = 'instance="a",job="vllm",model_name="llama",engine="0"'
    lines = []
    for kind, first in (("prompt", 900000), ("generation", 3160)):
        lines.append(f"# TYPE vllm:{kind}_tokens counter")
        for step in range(7, 7 * 144 + 1):
            at = start + step * 600
            lines.append(f"vllm:{kind}_tokens_total{{{labels}}} {first + step} {at}")
    path = folder / "next.om"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    assert ingested(path)[0]["status"] == "posted"
    rows = small_company.charges()
    machine = next(row for row in rows if row.get("ResourceId") == "i-a")
    for begin, end, hours in (("16T07", "23T00", "161"), ("23T00", "30T00", "168")):
        span = {"ChargePeriodStart": f"2026-11-{begin}:00:00Z",
                "ChargePeriodEnd": f"2026-11-{end}:00:00Z",
                "ConsumedQuantity": hours, "PricingQuantity": hours,
                "BilledCost": "6.55", "EffectiveCost": "6.55"}  # fmt: skip
        rows.append(machine | span)
    invoice = folder / "next.csv"
    invoice.write_text(small_company.csv_text(rows))
    assert ingested(invoice)[0]["status"] == "posted"


def seal_week(week: str = WEEK) -> None:
    command("close", week, "--by", "Ada")
    command("dispose", week, "all", "--text", "Known.", "--by", "Ada")
    command("waive", week, "all", "all", "--text", "Known.", "--by", "Ben")
    command("review", week, "--by", "Cy")
    command("approve", week, "--by", "Ben")
    answer = command("seal", week, "--by", "Ben")
    assert answer["ok"], answer


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    small_company.found(tmp_path)
    whole_week(tmp_path)
    for model in ("llama", "mistral"):
        histograms.taken_in(tmp_path, model)
        histograms.objective(model, "--inter-token", "0.05", "--target", "0.7")
    adds = "workload", "add", "tune", "--model", "m", "--stack", "torchrun"
    command(*adds, "--purpose", "training", "--by", "Ada")
    command("rule", "add", "tune", "--charge", "service=Support", "--order", "1", "--by", "Ada")
    command("training-budget", "set", "2026-Q4", "20", "--by", "Ada")
    seal_week()
    report = report_of(WEEK)
    assert report is not None
    return Sealed(standing(report), tmp_path)
