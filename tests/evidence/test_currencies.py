"""A sealed week in three currencies computes itself again from its pack (method §3.9, §11)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from decimal import Decimal
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from reports.evidence import verify
from reports.queries.standing import report_of, standing
from reports.roles import ensure_groups
from tests.evidence.conftest import Sealed, seal_week, unpacked
from tests.ledger import currencies
from tests.reports.test_closing import WEEK, command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.fixture
def three(tmp_path: Path, settings: Any) -> Sealed:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.whole_week(tmp_path)
    currencies.rates(tmp_path)
    seal_week()
    report = report_of(WEEK)
    assert report is not None
    return Sealed(standing(report), tmp_path)


def table(files: dict[str, bytes], name: str) -> list[dict[str, str]]:
    text = files[f"ledgers/{name}.csv"].decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def recomputed(files: dict[str, bytes]) -> verify.Checks:
    return verify.recompute(verify.Pack(files), json.loads(files["statement.json"]))


def test_the_pack_holds_the_rates_and_computes_every_amount_again(three: Sealed) -> None:
    files = unpacked(three.pack())
    assert recomputed(files).wrong == []
    evidence = (three.stand.seal or {})["evidence"]
    assert evidence["figures_unequal_count"] == 0
    quotes = {(row["currency"], row["day"]): row for row in table(files, "exchange_rates")}
    assert quotes["CAD", "2026-11-16"]["per_eur"] == "1.5400"
    assert quotes["USD", "2026-11-13"]["per_eur"] == "1.1000"
    kept = {row["sha256"] for row in csv.DictReader(io.StringIO(files["documents.csv"].decode()))}
    assert {row["document"] for row in quotes.values()} <= kept
    assert b"exchange_rates.csv" in files["README.md"]
    # By hand, from two rows of the pack: 99.99 CAD of Tuesday at Monday's 1.12 ÷ 1.54.
    (rest,) = [row for row in table(files, "charges") if row["billed"] == "99.99"]
    assert (rest["currency"], rest["rate_day"]) == ("CAD", "2026-11-16")
    exact = Fraction("99.99") * Fraction("1.12") / Fraction("1.54")
    assert abs(Fraction(rest["report_effective"]) - exact) <= Fraction(1, 2 * 10**12)
    assert command("verify", _written(three))["ok"]


def _written(three: Sealed) -> Path:
    path = three.folder / "pack.zip"
    path.write_bytes(three.pack())
    return path


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        ("ledgers/exchange_rates.csv", b"1.5400", b"1.5401", "exchange rates"),
        ("ledgers/exchange_rates.csv", b"CAD,2026-11-16", b"CAD,2026-11-12", "exchange rates"),
        ("statement.json", b'"from_per_eur":"1.5400"', b'"from_per_eur":"1.5500"', "from_per_eur"),
        ("statement.json", b'"report_currency":"USD"', b'"report_currency":"EUR"', "currency"),
        ("ledgers/charges.csv", b"1.454545454545", b"1.454545454546", " in USD"),
    ],
)
def test_a_changed_rate_or_amount_is_found(
    three: Sealed, name: str, old: bytes, new: bytes, what: str
) -> None:
    files = unpacked(three.pack())
    assert old in files[name]
    files[name] = files[name].replace(old, new)
    wrong = [line[0] for line in recomputed(files).wrong]
    assert any(what in line for line in wrong), wrong


def test_the_report_says_which_rates_it_used(three: Sealed) -> None:
    statement = three.stand.statement
    answer = command("report", WEEK)
    assert answer["currency"] == "USD"
    assert answer["exchange"] == statement["exchange"]
    days = {(row["from"], row["day"]) for row in answer["exchange"]["rates"]}
    assert days == {("EUR", "2026-11-13"), ("EUR", "2026-11-16"), ("CAD", "2026-11-16")}
    shown = sum(Decimal(row["converted_billed"]) for row in answer["exchange"]["rates"])
    (dollars,) = [r for r in answer["exchange"]["originals"] if r["currency"] == "USD"]
    period = answer["tieout"]["period"]["rows"][0]
    assert period["key"] == "billed"
    assert Decimal(period["amount"]) == shown + Decimal(dollars["billed"])
    assert hashlib.sha256(three.pack()).hexdigest() == hashlib.sha256(three.pack()).hexdigest()


@pytest.fixture
def auditor(db: None) -> Client:
    ensure_groups()
    user = User.objects.create_user("Vera", password="a long enough one")
    user.groups.set(Group.objects.filter(name="auditor"))
    client = Client()
    client.force_login(user)
    return client


def text_of(client: Client, address: str, **query: str) -> str:
    answer = client.get(address, query)
    assert answer.status_code == 200
    plain = re.sub(r"<[^>]+>", " ", answer.content.decode())
    return " ".join(unescape(plain).replace("\u202f", "").split())


def test_pages_show_the_rates_and_both_amounts(three: Sealed, auditor: Client) -> None:
    where = {"week": WEEK, "revision": 1}
    page = text_of(auditor, reverse("report-revision", kwargs=where))
    assert "All amounts of the tables above are in USD" in page
    # 1.12 ÷ 1.54 and the two euro rates, with the day of each.
    assert "1 CAD = 0.727273 USD rate of 2026-11-16: 1 EUR = 1.5400 CAD = 1.1200 USD" in page
    assert "1 EUR = 1.100000 USD rate of 2026-11-13 2026-11-15 1 charge" in page
    prices = text_of(auditor, reverse("prices"))
    assert "Reports are in USD" in prices and f"Used in the report of {WEEK}" in prices
    assert "1 CAD = 0.727273 USD 2026-11-16" in prices
    behind = reverse("report-behind", kwargs=where | {"figure": "effective_cost"})
    rows = text_of(auditor, behind, workload="mistral")
    # Seven machine hours of 2 and 99.99 more in Canadian dollars: 7 × 1.454545454545 + 72.72; and a
    # third of seven shared euros of 1.12, cut to 14 decimals: 2.61333333333333.
    assert "comes to 85.51515151514833 USD effective" in rows
    assert "2.00 CAD 1.454545454545 USD rate of 2026-11-16" in rows


def test_each_document_stands_with_its_sums_as_it_writes_them(three: Sealed) -> None:
    totals = three.stand.statement["control_totals"]
    added: dict[str, list[Decimal]] = {}
    for one in totals["documents"]:
        for currency, sums in one["sums"].items():
            mine = added.setdefault(currency, [Decimal(0)] * 3)
            for place, name in enumerate(("charges", "billed", "effective")):
                mine[place] += Decimal(sums[name])
    assert len(added) == 3
    assert added == {
        currency: [Decimal(sums[name]) for name in ("charges", "billed", "effective")]
        for currency, sums in totals["by_currency"].items()
    }
    files = unpacked(three.pack())
    document = next(one for one in totals["documents"] if one["sums"])
    (currency, sums) = next(iter(document["sums"].items()))
    sums["billed"] = str(Decimal(sums["billed"]) + 1)
    wrong = verify.recompute(verify.Pack(files), three.stand.statement).wrong
    name = f"control_totals documents {document['sha256'][:12]} sums {currency} billed"
    assert [line[0] for line in wrong] == [name]
