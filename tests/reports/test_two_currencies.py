"""Weeks that were told in two currencies stand side by side and are never compared (method §3.9)."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.test import Client
from django.urls import reverse

from reports import sheet

from .example import FIGURES, statement
from .helpers import make_report, text_of

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]


@pytest.fixture
def weeks(db: None) -> None:
    make_report("2026-W46", currency="EUR", figures=FIGURES | {"effective_cost": "9000.00"})
    make_report("2026-W47")


def test_side_by_side_shows_both_and_no_change_of_money(weeks: None, admin: Client) -> None:
    query = {"left": "2026-W46", "right": "2026-W47"}
    page = text_of(admin.get(reverse("compare"), query))
    assert "told in different currencies, EUR and USD" in page
    assert "Effective cost 9 000.00 17 626.40 n/a" in page
    assert re.search(r"Prompt tokens [\d ]+ [+−]?0\.0 %", page)
    table = admin.get(reverse("compare-csv"), query).content.decode()
    rows = {(r["workload"], r["figure"]): r["relative change"]
            for r in csv.DictReader(io.StringIO(table))}  # fmt: skip
    assert rows["organisation", "effective_cost"] == ""
    assert rows["organisation", "tokens_per_dollar"] == ""
    assert rows["organisation", "prompt_tokens"] != ""
    same = admin.get(reverse("compare"), {"left": "2026-W47", "right": "2026-W47"})
    assert "different currencies" not in text_of(same)


def test_the_list_and_a_workload_name_the_currency_of_each_week(weeks: None, admin: Client) -> None:
    listing = text_of(admin.get(reverse("reports")))
    assert "9 000.00 EUR" in listing and "17 626.40 USD" in listing
    answer = admin.get(reverse("workload", args=["chat-70b"]))
    page = text_of(answer)
    assert "17 626.40 EUR 1.83 EUR" in page and "17 626.40 USD" not in page.split("Weeks")[-1]
    shown = {week["week"]: week["other"] for week in answer.context["weeks"]}
    assert shown == {"2026-W47": "", "2026-W46": "EUR"}


def test_another_currency_is_a_difference_to_restate() -> None:
    before, after = statement(), statement(currency="EUR")
    (row,) = sheet.differences(before, after)
    assert (row["figure"], row["before"], row["after"]) == ("currency", "USD", "EUR")
    assert sheet.differences(before, statement()) == []
