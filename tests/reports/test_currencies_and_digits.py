"""Money in a currency that exists, numbers in digits that every reader reads (§1, §3.9)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.test import Client

from finops.ledger.models import Charge, RejectedRow
from finops.sources.currencies import codes, refusal
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, focus_text

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

ARABIC = "\u0661\u0662\u0663"  # 123 in Arabic-Indic digits, which Decimal and int read as 123
WIDE = "\uff11\uff12"
RATES = "Date, USD, QQQ, CHF,\n2026-10-01, 1.1, 2.5, 0.9,\n"


def as_said(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("line", "column", "value")
    return [tuple(one[name] for name in names) for one in document["rejections"]]


def test_codes_are_those_of_the_standard() -> None:
    """Counted in ISO 4217's lists: 178 current codes, one of them for tests."""
    assert len(codes()) == 237
    for code in ("USD", "EUR", "JPY", "CLF", "XCG", "ZWG", "XAD"):
        assert refusal(code) is None
    for withdrawn in ("DEM", "HRK", "BGN", "VEF", "LTL", "ANG"):  # in bills of past years
        assert refusal(withdrawn) is None
    for code in ("XYZ", "XTS", "DBU", "usd", "US$", "", "\uff35\uff33\uff24"):
        assert refusal(code)
    assert refusal("usd") == "is written in capital letters: USD"
    assert "capital" not in str(refusal("xyz"))


@pytest.mark.parametrize("lines", [3, 120_000])
def test_a_row_in_no_currency_is_rejected_and_the_others_count(tmp_path: Path, lines: int) -> None:
    """In a file read line by line and in one that keeps sums."""
    rows = [{"ResourceId": f"i-{n % 50}"} for n in range(lines)]
    rows[1] |= {"BillingCurrency": "XYZ"}
    path = tmp_path / "bill.csv.gz"
    path.write_bytes(gzip.compress(focus_text(rows).encode(), 1))
    (document,) = ingested(path)
    assert document["status"] == "posted" and document["rows_rejected"] == 1
    assert as_said(document) == [(3, "BillingCurrency", "XYZ")]
    assert "no currency of ISO 4217" in document["rejections"][0]["reason"]
    assert {code: sums["billed"] for code, sums in document["totals"].items()} == {
        "USD": f"{lines - 1}.00"
    }
    assert RejectedRow.objects.get().column == "BillingCurrency"


@pytest.mark.parametrize("text", ["u\u017fd", "\u0131nr", "u\xdf"])
def test_letters_of_other_scripts_are_no_currency(tmp_path: Path, text: str) -> None:
    """Their capitals would be: `\u017f`.upper() is S, and `\xdf`.upper() is SS."""
    (document,) = ingested(focus_file(tmp_path / "a.csv", {"BillingCurrency": text}, {}))
    assert as_said(document) == [(2, "BillingCurrency", text)]
    assert Charge.objects.count() == 1


def test_small_letters_and_old_money_are_read(tmp_path: Path) -> None:
    rows = [{"BillingCurrency": "eur"}, {"BillingCurrency": "HRK"}]
    (document,) = ingested(focus_file(tmp_path / "a.csv", *rows))
    assert sorted(document["totals"]) == ["EUR", "HRK"]


def test_rates_of_no_currency_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(RATES)
    (document,) = ingested(path)
    assert as_said(document) == [(2, "currency", "QQQ")]


def refused(*arguments: object) -> str:
    with pytest.raises(CommandError) as told:
        command(*map(str, arguments))
    return str(told.value)


def test_what_people_type_is_a_currency_too(tmp_path: Path, admin: Client) -> None:
    paper = tmp_path / "offer.txt"
    paper.write_text("3 XYZ a million")
    for said in (
        refused("training-budget", "set", "2026-Q4", "20", "--currency", "XYZ", "--document",
                paper, "--by", "Ada"),
        refused("invoice-amount", "Cloud Ltd", "INV-1", "2026-10", "5", "XYZ", "--by", "Ada"),
    ):  # fmt: skip
        assert "XYZ" in said and "no currency of ISO 4217" in said
    card = {"rate_card": "mine", "currency": "XYZ", "valid_from": "2026-01-01", "rates": [
        {"match": {}, "unit": "GPU-Hour", "price": "2.39"}]}  # fmt: skip
    (tmp_path / "card.json").write_text(json.dumps(card))
    (document,) = ingested(tmp_path / "card.json")
    assert "no currency of ISO 4217" in document["rejections"][0]["reason"]
    values = {"issuer": "Cloud Ltd", "invoice": "INV-1", "billing_period": "2026-10",
              "amount": "5", "currency": "XYZ"}  # fmt: skip
    page = admin.post("/invoices/2026-10/", values, follow=True).content.decode()
    assert "no currency of ISO 4217" in page


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("BilledCost", ARABIC),
        ("EffectiveCost", f"1.{WIDE}"),
        ("ListCost", f"1E{WIDE}"),
        ("ChargePeriodStart", "\u0662\u0660\u0662\u0666-10-05T10:00:00Z"),
        ("ChargePeriodStart", f"{WIDE}/01/2026"),
    ],
)
def test_digits_of_other_scripts_are_no_amounts_and_no_days(
    tmp_path: Path, column: str, value: str
) -> None:
    (document,) = ingested(focus_file(tmp_path / "a.csv", {column: value}, {}))
    assert as_said(document) == [(2, column, value)]
    assert Charge.objects.count() == 1


def test_nor_in_a_mapped_file(tmp_path: Path) -> None:
    mapping = {
        "columns": {"amount": "BilledCost", "day": "ChargePeriodStart"},
        "constants": {"BillingCurrency": "EUR", "InvoiceIssuerName": "RZ", "BillingAccountId": "1",
                      "ServiceName": "GPU"},
        "dates": "%d.%m.%Y", "decimal": ",",
    }  # fmt: skip
    (tmp_path / "m.json").write_text(json.dumps(mapping))
    command("mapping", "rz", "--file", tmp_path / "m.json", "--by", "Ada")
    path = tmp_path / "a.csv"
    path.write_text(f"amount;day\n1,5;01.10.2026\n{ARABIC};02.10.2026\n2;\u0660\u0663.10.2026\n")
    (document,) = command("ingest", path, "--as", "csv:rz", "--by", "Ada")["documents"]
    assert [line for line, *_ in as_said(document)] == [3, 4]
    assert document["totals"]["EUR"]["billed"] == "1.5"


def test_nor_in_readings(tmp_path: Path) -> None:
    path = tmp_path / "a.om"
    lines = [f'vllm:prompt_tokens_total{{job="v",instance="a"}} {v} {t}' for v, t in
             (("10", 1780000000), (ARABIC, 1780000060), ("20", 1780000120))]  # fmt: skip
    path.write_text("\n".join(["# TYPE vllm:prompt_tokens counter", *lines, "# EOF", ""]))
    (document,) = ingested(path)
    assert [line for line, *_ in as_said(document)] == [3] and document["readings"] == 2
    path = tmp_path / "a.json"
    series = {"metric": {"__name__": "vllm:prompt_tokens_total", "job": "v", "instance": "b"},
              "values": [[1780000000, "10"], [1780000060.5, ARABIC]]}  # fmt: skip
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [series]}}
    path.write_text(json.dumps(answer))
    (document,) = ingested(path)
    assert document["readings"] == 1 and document["rows_rejected"] == 1


def test_nor_in_arguments_and_forms(admin: Client) -> None:
    assert "number" in refused("rule", "retire", "\u0663", "--by", "Ada")
    assert "not a number" in refused(
        "invoice-amount", "Cloud Ltd", "INV-1", "2026-10", ARABIC, "USD", "--by", "Ada"
    )
    values = {"subject": "series", "matchers": "job=x", "target": "out-of-scope", "order": ARABIC,
              "valid_from": "\u0662\u0660\u0662\u0666-10-05"}  # fmt: skip
    page = admin.post("/rules/preview/", values)
    errors = page.context["form"].errors
    assert {"order", "valid_from"} <= set(errors)


def test_a_label_in_other_digits_stops_nothing(tmp_path: Path) -> None:
    """`²` is a digit to Python and no number: such a label is as one that is not there."""
    lines = []
    for at in range(1780000000, 1780003600, 60):
        labels = 'job="v",instance="a",engine="0"'
        lines.append(f'vllm:cache_config_info{{{labels},num_gpu_blocks="\u00b2",'
                     f'kv_cache_memory_bytes="\u00b2",block_size="16"}} 1 {at}')  # fmt: skip
    use = [f'vllm:kv_cache_usage_perc{{job="v",instance="a",engine="0"}} 0.5 {at}'
           for at in range(1780000000, 1780003600, 60)]  # fmt: skip
    path = tmp_path / "a.om"
    path.write_text("\n".join([*lines, *use, "# EOF", ""]))
    (document,) = ingested(path)
    assert document["status"] == "posted"
    start, end = "2026-05-28T20:00:00Z", "2026-05-28T22:00:00Z"
    (row,) = command("memory", "--from", start, "--to", end, "--by", "engine")["rows"]
    assert row["kv_reserved_bytes"] is None


def test_a_report_names_the_mapping_and_its_version(tmp_path: Path, admin: Client) -> None:
    mapping: dict[str, Any] = {
        "columns": {"amount": ["BilledCost", "EffectiveCost"], "day": "ChargePeriodStart"},
        "constants": {"BillingCurrency": "EUR", "InvoiceIssuerName": "RZ", "BillingAccountId": "1"},
        "dates": "%d.%m.%Y",
    }
    for decimal in (".", ","):
        (tmp_path / "m.json").write_text(json.dumps(mapping | {"decimal": decimal}))
        command("mapping", "rz", "--file", tmp_path / "m.json", "--by", "Ada")
    path = tmp_path / "a.csv"
    path.write_text("amount;day\n1,5;06.10.2026\n")
    command("ingest", path, "--as", "csv:rz", "--by", "Ada")
    command("close", "2026-W41", "--by", "Ada")
    page = admin.get("/reports/2026-W41/").content.decode()
    assert "csv:rz 2, received" in page
