"""A company with charges in three currencies, from files to the statement (method §3.9)."""

from __future__ import annotations

import zipfile
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from finops import checkup
from finops.core.period import Period
from finops.core.statement import statement
from finops.ledger.queries.costs import costs
from finops.ledger.queries.facts import facts
from finops.ledger.queries.reading import read
from tests.ledger import currencies, small_company
from tests.ledger.doors import command, ingested
from tests.ledger.small_company import PERIOD

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

USD, CAD = (Fraction(currencies.MONDAY[code]) for code in ("USD", "CAD"))
FRIDAY_USD = Fraction(currencies.FRIDAY["USD"])


def stated() -> dict[str, Any]:
    return statement(facts(PERIOD, week="2026-W47"))


def workload(value: dict[str, Any], slug: str) -> dict[str, Any]:
    (row,) = [one for one in value["workloads"] if one["slug"] == slug]
    return row


def near(text: str, expected: Fraction, digits: int = 9) -> bool:
    """Equal but for the one rounding of each charge, to ten digits more than its own."""
    return abs(Fraction(text) - expected) < Fraction(1, 10**digits)


def test_in_dollars_every_place_is_the_sum_of_its_converted_charges(
    tmp_path: Path, settings: Any
) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    document = currencies.rates(tmp_path)
    value = stated()
    assert value["currency"] == "USD"
    llama, mistral = workload(value, "llama")["figures"], workload(value, "mistral")["figures"]
    # Own: six hours of 1.50 USD. Shared: six hours of 1 EUR at Monday's rate, two thirds of them.
    assert Decimal(llama["cost_own"]) == 9
    assert near(llama["effective_cost"], 9 + 6 * USD * Fraction(2, 3))
    # Own: six hours of 2 CAD, through the euro.
    assert Decimal(mistral["cost_own"]) == 6 * Decimal("1.454545454545")
    assert near(mistral["effective_cost"], 12 * USD / CAD + 6 * USD / 3)
    tokens = 35 * 660
    price = Fraction(llama["effective_cost"]) / tokens * 10**6
    assert abs(Fraction(llama["cost_per_million_tokens"]) - price) < Fraction(1, 10**40)
    # The contract began on Sunday: Friday's rate, and a quarter day of its four days.
    contract = next(row for row in value["allocation"] if row["place"] == "unassigned")
    rest = Fraction("0.70") + Fraction("5.55")
    assert near(contract["effective"], 96 * FRIDAY_USD * Fraction(6, 96) + rest)
    table = value["tieout"]["period"]
    assert Decimal(table["difference"]) == 0 and table["other_currencies"] == []
    assert Decimal(table["effective"]) == sum(Decimal(r["effective"]) for r in value["allocation"])
    assert {row["kind"] for row in value["exceptions"]} & {
        "currencies-mixed", "exchange-rate-missing", "exchange-rates-end-early"
    } == set()  # fmt: skip
    _both_amounts_are_kept(value, document["sha256"])


def _both_amounts_are_kept(value: dict[str, Any], sha256: str) -> None:
    found = value["exchange"]
    originals = {row["currency"]: row for row in found["originals"]}
    assert Decimal(originals["EUR"]["billed"]) == 6 + 6  # network, and a quarter day of 96 in four
    assert Decimal(originals["CAD"]["effective"]) == 12
    assert Decimal(originals["USD"]["effective"]) == 9 + 3 + Decimal("0.70") + Decimal("5.55")
    assert sum(row["charges"] for row in originals.values()) == 6 * 3 + 4 + 1
    used = {(row["from"], row["day"]): row for row in found["rates"]}
    assert used.keys() == {("EUR", "2026-11-13"), ("EUR", "2026-11-16"), ("CAD", "2026-11-16")}
    assert used["CAD", "2026-11-16"]["from_per_eur"] == "1.5400"
    assert used["EUR", "2026-11-13"]["first_day"] == "2026-11-15"
    assert {digest for row in used.values() for digest in row["document_digests"]} == {sha256}
    assert sha256 in {row["sha256"] for row in value["control_totals"]["documents"]}
    converted = sum(Decimal(row["converted_effective"]) for row in found["rates"])
    own = Decimal(originals["USD"]["effective"])
    assert Decimal(value["control_totals"]["effective"]) == converted + own
    by_currency = value["control_totals"]["by_currency"]
    assert {name: Decimal(row["effective"]) for name, row in by_currency.items()} == {
        name: Decimal(row["effective"]) for name, row in originals.items()
    }


def test_the_same_week_in_euros_and_in_canadian_dollars(tmp_path: Path, settings: Any) -> None:
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    expected = {
        "EUR": (9 / USD + 4, 12 / CAD + 2),
        "CAD": (9 * CAD / USD + 4 * CAD, 12 + 2 * CAD),
    }
    for currency, (llama, mistral) in expected.items():
        settings.REPORT_CURRENCY = currency
        value = stated()
        assert value["currency"] == currency
        assert near(workload(value, "llama")["figures"]["effective_cost"], llama)
        assert near(workload(value, "mistral")["figures"]["effective_cost"], mistral)
        assert f" {currency} in week" in value["headline"]
        assert Decimal(value["tieout"]["period"]["difference"]) == 0


def test_a_missing_rate_blocks_the_unit_cost_and_is_an_exception(
    tmp_path: Path, settings: Any
) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    only_dollars = ("2026-11-16", {"USD": "1.1200", "JPY": "171.02", "GBP": "0.84"})
    currencies.rates(tmp_path, only_dollars)
    value = stated()
    llama, mistral = workload(value, "llama"), workload(value, "mistral")
    assert near(llama["figures"]["effective_cost"], 9 + 4 * USD)  # its euros are known
    assert mistral["figures"]["effective_cost"] is None  # its Canadian dollars are not
    assert mistral["figures"]["cost_per_million_tokens"] is None
    assert "CAD and was not converted" in mistral["reasons"]["cost_per_million_tokens"]
    rows = {(r["kind"], r["subject"]): r for r in value["exceptions"]}
    missing = rows["exchange-rate-missing", "CAD"]
    assert (Decimal(missing["amount"]), missing["currency"]) == (12, "CAD")
    assert "6 charges in CAD" in missing["text"]
    # The Sunday contract: no rate was published in the ten days before it.
    assert Decimal(rows["exchange-rate-missing", "EUR"]["amount"]) == 6
    assert rows["currencies-mixed", "mistral CAD"]["amount"] == "12.00"
    assert {row["currency"] for row in value["exchange"]["missing"]} == {"CAD", "EUR"}
    others = {t["currency"]: t for t in value["tieout"]["period"]["other_currencies"]}
    assert {name: Decimal(t["effective"]) for name, t in others.items()} == {"CAD": 12, "EUR": 6}
    assert all(Decimal(t["difference"]) == 0 for t in (value["tieout"]["period"], *others.values()))


def test_rates_that_come_later_count_and_older_readings_stay(tmp_path: Path, settings: Any) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.rates(tmp_path, ("2026-11-13", currencies.FRIDAY))
    early = stated()
    kinds = {row["kind"]: row for row in early["exceptions"]}
    assert "end on 2026-11-13" in kinds["exchange-rates-end-early"]["text"]
    euros = [row for row in early["exchange"]["rates"] if row["from"] == "EUR"]
    assert [row["day"] for row in euros] == ["2026-11-13"]
    currencies.rates(tmp_path, ("2026-11-16", currencies.MONDAY))
    late = stated()
    assert {row["day"] for row in late["exchange"]["rates"]} == {"2026-11-13", "2026-11-16"}
    assert "exchange-rates-end-early" not in {row["kind"] for row in late["exceptions"]}


def test_without_a_choice_nothing_is_converted(tmp_path: Path) -> None:
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    value = stated()
    assert "exchange" not in value and "report_currency" not in value["parameters"]
    texts = [r["text"] for r in value["exceptions"] if r["kind"] == "currencies-mixed"]
    assert any("HEADROOM_REPORT_CURRENCY" in text for text in texts)
    totals = {t["currency"] for t in value["tieout"]["period"]["other_currencies"]}
    assert totals | {value["currency"]} == {"USD", "CAD", "EUR"}


def test_a_ledger_of_one_currency_states_the_same_with_and_without_a_choice(
    tmp_path: Path, settings: Any
) -> None:
    small_company.found(tmp_path)
    currencies.rates(tmp_path)
    without = stated()
    settings.REPORT_CURRENCY = "USD"
    chosen = stated()
    assert chosen["parameters"].pop("report_currency") == "USD"
    assert chosen == without


def test_totals_keep_the_currencies_of_the_documents(tmp_path: Path, settings: Any) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    money = command("totals", "--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T06:00:00Z",
                    "--by", "workload")["money"]  # fmt: skip
    assert {name: Decimal(row["effective"]) for name, row in money.items()} == {
        "USD": Decimal("18.25"), "CAD": 12, "EUR": 12
    }  # fmt: skip


def test_amounts_of_two_currencies_are_never_compared(tmp_path: Path, settings: Any) -> None:
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    settings.REPORT_CURRENCY = "EUR"
    before = stated()
    settings.REPORT_CURRENCY = "USD"
    value = statement(facts(PERIOD, week="2026-W47"), before)
    assert value["previous"] is None and value["bridge"] is None
    assert value["figures"]["tokens_per_dollar_change"] is None
    assert "another currency" in value["reasons"]["tokens_per_dollar_change"]
    assert "the week before" not in value["headline"]


def test_a_rate_cards_price_in_another_currency_is_converted_and_labelled(
    tmp_path: Path, settings: Any
) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    card = tmp_path / "card.json"
    card.write_text(
        '{"rate_card": "rack", "currency": "EUR", "valid_from": "2026-11-16T00:00:00Z",'
        '"valid_to": "2026-11-17T00:00:00Z", "rates": [],'
        '"owned": [{"name": "rack-7", "gpu_model": "H100", "gpus": 1, "capex": "8766.00",'
        '"life_months": 12, "power_kw": "0", "pue": "1", "tariff_per_kwh": "0.10",'
        '"in_service": "2026-11-16"}]}'
    )
    assert ingested(card)[0]["status"] == "posted"
    value = stated()
    rows = {row["key"]: row for row in value["tieout"]["period"]["rows"]}
    (key,) = [key for key in rows if key.startswith("use rate card rack")]
    assert "not invoiced" in rows[key]["label"]
    card_line = next(row for row in command("totals", "--from", "2026-11-16T00:00:00Z", "--to",
                                            "2026-11-16T06:00:00Z", "--by", "account")["rows"]
                     if row["key"] == "rack")  # fmt: skip
    euros = Fraction(card_line["money"]["EUR"]["effective"])
    assert near(rows[key]["amount"], euros * USD, 6) and euros > 0
    assert Decimal(value["tieout"]["period"]["difference"]) == 0


def test_a_baseline_in_another_currency_is_converted_by_its_own_day(
    tmp_path: Path, settings: Any
) -> None:
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    made = command("baseline", "add", "llama", "--from", "2026-11-16T00:00:00Z", "--to",
                   "2026-11-16T06:00:00Z", "--workload", "mistral")["baseline"]  # fmt: skip
    assert made["currency"] == "USD" and near(made["cost"], 12 * USD / CAD + 2 * USD)
    settings.REPORT_CURRENCY = "EUR"
    (row,) = stated()["baselines"]
    assert row["currency"] == "EUR"
    assert (row["quoted"]["currency"], row["quoted"]["day"]) == ("USD", "2026-11-16")
    price = Fraction(row["quoted"]["cost_per_million_tokens"]) / USD
    assert near(row["cost_per_million_tokens"], price, 4)
    assert any("converted at 0.892857 EUR for one USD" in note for note in row["notes"])
    actual = 9 / USD + 4
    counterfactual = Fraction(made["cost"]) / USD / 5400 * 23100
    assert near(row["saving"], counterfactual - actual, 7)


def test_the_banks_own_zip_is_read_as_it_is(tmp_path: Path) -> None:
    days = [("2026-11-16", currencies.MONDAY), ("2026-11-13", currencies.FRIDAY)]
    with zipfile.ZipFile(tmp_path / "eurofxref-hist.zip", "w") as archive:
        archive.writestr("eurofxref-hist.csv", currencies.rates_csv(*days))
    (document,) = ingested(tmp_path / "eurofxref-hist.zip")
    assert (document["format"], document["status"], document["rows_read"]) == (
        "fx-ecb",
        "posted",
        6,
    )


def test_the_doctor_asks_for_a_currency_once_charges_are_in_several(
    tmp_path: Path, settings: Any
) -> None:
    settings.REPORT_CURRENCY = ""
    assert checkup.currencies().ok
    currencies.found(tmp_path)
    asked = checkup.currencies()
    assert not asked.ok and asked.found == "charges in CAD, EUR, USD"
    assert "HEADROOM_REPORT_CURRENCY" in str(asked.advice)
    settings.REPORT_CURRENCY = "EUR"
    assert checkup.currencies().ok and "reports in EUR" in checkup.currencies().found


def test_hours_of_a_week_sum_to_it_in_every_place_and_currency(
    tmp_path: Path, settings: Any
) -> None:
    """Whole charges are converted before they are cut, so nothing is lost between the hours."""
    settings.REPORT_CURRENCY = "USD"
    currencies.found(tmp_path)
    currencies.rates(tmp_path)
    whole = read(PERIOD)
    sums: dict[str, Decimal] = {}
    for hour in PERIOD.hours():
        found = costs(Period(hour, hour + timedelta(hours=1)), whole.charge_places, None, None,
                      whole.rates)  # fmt: skip
        assert found.currencies.keys() == {"USD"}
        for (place, _), total in found.places.items():
            key = f"{place.kind} {place.target}"
            sums[key] = sums.get(key, Decimal(0)) + total.effective
        for (name, _), pot in found.shared.items():
            sums[name] = sums.get(name, Decimal(0)) + pot.effective
    expected = {f"{place.kind} {place.target}": total.effective
                for (place, _), total in whole.whole.places.items()}  # fmt: skip
    expected |= {name: pot.effective for (name, _), pot in whole.whole.shared.items()}
    assert sums == expected


def test_cross_rates_are_told_as_reports_use_them(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no rate to USD"):
        command("exchange-rates", "--to", "USD")
    currencies.rates(tmp_path)
    sunday = command("exchange-rates", "--on", "2026-11-15", "--to", "USD")["rates"]
    told = {row["from"]: (row["date"], Fraction(row["rate"])) for row in sunday}
    assert told.keys() == {"CAD", "EUR", "JPY"}
    assert told["EUR"] == ("2026-11-13", Fraction("1.1"))
    assert near(sunday[0]["rate"], Fraction("1.1") / Fraction("1.5"), 40)
    newest = command("exchange-rates", "--to", "EUR")["rates"]
    assert {row["from"]: row["date"] for row in newest} == dict.fromkeys(
        ("CAD", "JPY", "USD"), "2026-11-16"
    )
    with pytest.raises(CommandError, match="no rate to GBP"):
        command("exchange-rates", "--to", "GBP")
