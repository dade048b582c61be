"""Kept sums through the door: totals, tie-outs and checks are those of a ledger of single lines."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.db.models import F

from finops.ledger.models import Charge, Document, Snapshot
from finops.ledger.operations import charges
from finops.sources.bulk_table import SumsTable
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours
from tests.paths import SAMPLES
from tests.trail.test_chain import triggers_off

INVOICES = SAMPLES / "invoices"
KEYS = ("account", "sub_account", "service", "gpu_model", "category", "invoice", "day", "hour")
SPAN = ("--from", "2026-10-01T00:00:00Z", "--to", "2026-11-01T00:00:00Z")

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.fixture(autouse=True)
def _sums_of_any_document(settings: Any) -> None:
    settings.SUM_LINES_ABOVE = 0


def month(folder: Path) -> Path:
    """A month's export: plain usage, GPU time, commitments, tax, a correction, rows that are wrong."""
    rows: list[dict[str, str]] = []
    for i in range(120):
        day, hour = 4 * (i % 5) + 1, i % 3
        rows.append(
            hours(
                f"2026-10-{day:02d}T{hour:02d}",
                f"2026-10-{day:02d}T{hour + 1:02d}",
                BilledCost=f"{i}.{i:03d}",
                EffectiveCost=f"{i}.{i:03d}" if i % 5 else "0.12345678901234567890123",
                SubAccountId=f"team-{i % 3}",
                ServiceName=("Compute", "Storage")[i % 15 // 8],
                ResourceId=f"i-{i}",
                ChargeDescription="8 H100 GPUs" if i % 10 == 7 else "hours",
                ListCost="" if i % 4 else "9.99",
                InvoiceId="" if i % 11 == 3 else "INV-1",
            )
        )
    whole_month = {
        "ChargePeriodStart": "2026-10-01T00:00:00Z",
        "ChargePeriodEnd": "2026-11-01T00:00:00Z",
    }
    rows += [
        whole_month | {"ChargeCategory": "Tax", "BilledCost": "12.34", "EffectiveCost": "12.34"},
        {"CommitmentDiscountId": "sp-1", "CommitmentDiscountStatus": "Unused"},
        {"CommitmentDiscountId": "sp-1", "CommitmentDiscountStatus": "Used", "BilledCost": "0"},
        {"ChargeClass": "Correction", "BilledCost": "-3", "EffectiveCost": "-3"},
        {"BilledCost": "NaN"},
        {"ChargeCategory": "Gift"},
    ]
    return focus_file(folder / "october.csv", *rows)


def totals(*more: str) -> Iterator[dict[str, Any]]:
    for basis in ("incurred", "invoiced"):
        yield numbers(command("totals", *SPAN, "--basis", basis, *more)["money"])
        for key in KEYS:
            rows = command("totals", *SPAN, "--by", key, "--basis", basis, *more)["rows"]
            yield {row["key"]: numbers(row["money"]) for row in rows if row["money"]}
        odd = ("--from", "2026-10-03T00:00:00Z", "--to", "2026-10-17T05:00:00Z")
        yield numbers(command("totals", *odd, "--basis", basis, *more)["money"])


def numbers(money: dict[str, dict[str, str | None]]) -> dict[tuple[str, str], Decimal | None]:
    return {
        (currency, basis): None if text is None else Decimal(text)
        for currency, four in money.items()
        for basis, text in four.items()
    }


def test_totals_and_tie_outs_are_those_of_single_lines(tmp_path: Path, settings: Any) -> None:
    path = month(tmp_path)
    (summed,) = ingested(path)
    settings.SUM_LINES_ABOVE = 1000
    (single,) = command("ingest", path, "--sample")["documents"]
    assert single["rows_summed"] == single["sums"] == 0
    assert summed["rows_read"] == single["rows_read"] == 126
    assert summed["charges"] + summed["rows_summed"] + summed["rows_rejected"] == 126
    assert summed["charges"] == 13  # twelve of GPUs, and the tax of a month
    assert 0 < summed["sums"] < summed["rows_summed"]
    assert summed["rejections"] == single["rejections"]
    assert summed["totals"] == single["totals"]
    assert summed["gpu_totals"] == single["gpu_totals"]
    assert list(totals()) == list(totals("--sample"))
    ties = [command("tieout", "--period", "2026-10", *more) for more in ((), ("--sample",))]
    assert ties[0] | {"sample": None} == ties[1] | {"sample": None}
    assert command("check-ledger")["ok"]


@pytest.mark.parametrize(
    "name",
    [
        "aws_cur-legacy_anonymised_first699rows.csv",
        "azure_ea_amortizedcost_small_finops-toolkit.csv",
        "focus-1.0_anonymised_aws-azure-oci_1000rows.csv",
    ],
)
def test_any_format_of_invoices(name: str, settings: Any) -> None:
    path = INVOICES / name
    if not path.exists():
        pytest.skip("third-party samples are not here")
    (summed,) = ingested(path)
    settings.SUM_LINES_ABOVE = 100_000
    (single,) = command("ingest", path, "--sample")["documents"]
    for key in ("rows_read", "rejections", "unknown_columns", "missing_columns", "warnings"):
        assert summed[key] == single[key]
    for key in ("totals", "gpu_totals", "gpu_unrecognised_totals"):
        assert numbers(summed[key]) == numbers(single[key])
    assert summed["rows_summed"] + summed["charges"] == single["charges"]
    assert command("check-ledger")["ok"]


def test_a_sum_names_its_lines_and_what_they_share(tmp_path: Path) -> None:
    rows = [{"ResourceId": f"i-{i}", "BilledCost": "0.10"} for i in range(7)]
    ingested(focus_file(tmp_path / "a.csv", *rows, {"SubAccountId": "team-b"}))
    first = Charge.objects.get(sub_account="team-a")
    assert (first.line, first.last_line, first.line_count) == (2, 8, 7)
    assert str(first.billed_cost) == "0.70"
    assert (first.service, first.category, first.invoice) == ("Compute", "Usage", "INV-1")
    assert (first.resource, first.description, first.tags) == (None, None, {})
    alone = Charge.objects.get(sub_account="team-b")
    assert (alone.line, alone.last_line, alone.line_count) == (9, 9, 1)
    assert Snapshot.objects.get().charges == 8
    document = Document.objects.get()
    assert (document.charges, document.account["rows_summed"], document.account["sums"]) == (
        0,
        8,
        2,
    )


def test_below_the_threshold_every_line_is_kept(tmp_path: Path, settings: Any) -> None:
    settings.SUM_LINES_ABOVE = 5
    (five,) = ingested(focus_file(tmp_path / "a.csv", *[{}] * 5))
    (six,) = ingested(focus_file(tmp_path / "b.csv", *[{"BillingAccountId": "B"}] * 6))
    assert (five["charges"], five["sums"]) == (5, 0)
    assert (six["charges"], six["rows_summed"], six["sums"]) == (0, 6, 1)


def test_lines_of_a_rule_stay_lines(tmp_path: Path) -> None:
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose", "inference",
            "--by", "Ada")  # fmt: skip
    command("rule", "add", "chat", "--charge", "tag:team=chat", "--by", "Ada")
    command("rule", "add", "out-of-scope", "--charge", "service!=Compute", "--by", "Ada")
    rows = [
        {"ResourceId": f"i-{i}", "Tags": '{"team": "chat"}' if i % 3 == 0 else "",
         "ServiceName": "Storage" if i % 4 == 0 else "Compute"}
        for i in range(24)
    ]  # fmt: skip
    (document,) = ingested(focus_file(tmp_path / "a.csv", *rows))
    reached = [i for i in range(24) if i % 3 == 0 or i % 4 == 0]
    assert document["charges"] == len(reached)
    lines = Charge.objects.filter(last_line__isnull=True).values_list("line", flat=True)
    assert sorted(lines) == [i + 2 for i in reached]
    rows = command("totals", *SPAN, "--by", "workload")["rows"]
    money = {row["key"]: row["money"] for row in rows}
    assert Decimal(money["chat"]["USD"]["billed"]) == 8
    assert Decimal(money["out of scope"]["USD"]["billed"]) == 4
    assert Decimal(money["unassigned"]["USD"]["billed"]) == 12


def test_a_file_without_billed_costs(tmp_path: Path) -> None:
    text = tmp_path / "a.csv"
    text.write_text(
        "ChargePeriodStart,ChargePeriodEnd,BillingPeriodStart,BillingPeriodEnd,BillingAccountId,"
        "BillingCurrency,ChargeCategory,EffectiveCost,ChargeDescription\n"
        "2026-10-05T10:00:00Z,2026-10-05T11:00:00Z,2026-10-01,2026-11-01,A,USD,Usage,1,hours\n"
    )
    (document,) = ingested(text)
    assert (document["sums"], document["rows_summed"]) == (1, 1)
    assert Charge.objects.get().billed_cost is None


def test_tables_are_posted_as_their_records_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that COPY could take for something else, and the same document told record by record."""
    odd = (r"\N", r"a\tb\\", "tab\tin it", "two\nlines", "\\.", "é\u2028x", "{}", 'a "quoted" one')
    rows = [
        {
            "ServiceName": text,
            "SubAccountId": text * 2,
            "BilledCost": f"{place}.10",
            "ListCost": "" if place % 2 else "1",
            "ChargePeriodEnd": f"2026-10-05T1{place % 3 + 1}:00:00Z",
        }
        for place, text in enumerate(odd * 3)
    ]
    tags = (
        '{"a": "b\\\\c", "d": "two\\nlines"}',
        '{"é": "\\u2028"}',
        '{"n": "\\u0000"}',
        "no map",
        "{a=b}",
    )
    rows += [
        {
            "ChargeDescription": f"{place % 3 + 1} H100 GPUs",
            "Tags": tags[place % 5],
            "ResourceId": text,
            "ListCost": "" if place % 2 else "0.10",
            "ChargePeriodEnd": f"2026-10-{place % 3 + 5:02d}T11:00:00Z",
        }
        for place, text in enumerate((*odd, *"abcdefghijk"))
    ]
    path = tmp_path / "odd.parquet"
    given = focus_file(tmp_path / "odd.csv", *rows)
    whole = f"read_csv('{given}', all_varchar = true, parallel = false)"
    duckdb.execute(f"COPY (SELECT * FROM {whole}) TO '{path}' (FORMAT parquet)")
    (by_table,) = ingested(path)
    monkeypatch.setattr(SumsTable, "lines", None)
    real = charges.batches
    monkeypatch.setattr(charges, "batches", lambda *a, **k: real(*a, **k | {"take_table": None}))
    (by_record,) = command("ingest", path, "--sample")["documents"]
    assert by_table["totals"] == by_record["totals"]
    assert {name: by_table[name] for name in COUNTS} == {name: by_record[name] for name in COUNTS}
    kept = [list(told(ledger)) for ledger in ("default", "sample")]
    assert kept[0] == kept[1]
    assert {row["service"] for row in kept[0]} >= {*odd}
    assert {row["resource"] for row in kept[0]} >= {*odd, *"abcdefghijk"}
    assert {"a": "b\\c", "d": "two\nlines"} in [row["tags"] for row in kept[0]]
    assert [
        (s.charges, s.charge_start, s.charge_end) for s in Snapshot.objects.using("default")
    ] == [(s.charges, s.charge_start, s.charge_end) for s in Snapshot.objects.using("sample")]
    assert command("check-ledger")["ok"]


COUNTS = ("rows_read", "charges", "rows_summed", "sums", "rows_rejected")


def told(ledger: str) -> Iterator[dict[str, Any]]:
    rows = Charge.objects.using(ledger).order_by("line").values()
    return ({k: v for k, v in row.items() if k not in ("id", "snapshot_id")} for row in rows)


@pytest.mark.parametrize("column", ["billed_cost", "effective_cost", "list_cost", "line_count"])
def test_an_amount_moved_from_one_sum_to_another_is_found(tmp_path: Path, column: str) -> None:
    """The document's control totals stay as they were: each sum is added up again from its lines."""
    ingested(month(tmp_path))
    assert command("check-ledger")["problems"] == []
    sums = Charge.objects.filter(last_line__isnull=False, **{f"{column}__gt": 1})
    one, other = sums.order_by("pk")[:2]
    kinds = [(row.charge_start, row.service, row.sub_account) for row in (one, other)]
    assert kinds[0] != kinds[1]
    with triggers_off():
        Charge.objects.filter(pk=one.pk).update(**{column: F(column) + 1})
        Charge.objects.filter(pk=other.pk).update(**{column: F(column) - 1})
    problems = command("check-ledger")["problems"]
    assert len(problems) == 2, problems
    assert all("of a kept sum is" in one and "its lines come to" in one for one in problems)


def test_a_sum_taken_out_names_its_lines(tmp_path: Path) -> None:
    ingested(month(tmp_path))
    gone = Charge.objects.filter(last_line__isnull=False).order_by("pk")[0]
    with triggers_off():
        Charge.objects.filter(pk=gone.pk).delete()
    problems = " ".join(command("check-ledger")["problems"])
    assert f"line {gone.line}: {gone.line_count} lines stand in no charge and no sum" in problems
