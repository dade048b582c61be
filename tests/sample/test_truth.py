"""Every printed total of the sample equals the truth; where readings are lost it lies inside the
bounds. The truth was kept while the files were written and owes nothing to the product's sums."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from finops.sample import books, fleet
from finops.sample.generator import Made
from tests.ledger.doors import command
from tests.sample.restarts import restarts_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(databases=["default", "sample"]),
]

VLLM = ("chat-70b", "code-32b", "assist-8b", "extract-7b")
PLACES = {
    "unused commitment": "unused commitment",
    "out of scope": "out of scope",
    "unassigned": "unassigned",
    "shared:tokens": "shared:tokens",
    "shared:platform": "shared:platform",
    "shared:gpu-hours": "shared:gpu-hours",
    "covering purchase": "shared:savings-plan",
}


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _totals(start: datetime, end: datetime, *more: str) -> dict[str, Any]:
    return command(
        "totals", "--from", start.isoformat(), "--to", end.isoformat(), *more, "--sample"
    )


def _by_workload(start: datetime, end: datetime) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in _totals(start, end, "--by", "workload")["rows"]}


def _check_tokens(printed: dict[str, Any], made: Made, slug: str, start: int, end: int) -> None:
    truth, lost = made.truth.tokens(slug, start, end), made.truth.lost(slug, start, end)
    restarts = restarts_of(made.truth, slug, start, end)
    for name in (
        "prompt",
        "generation",
        "cached_prompt",
        "delivered_prompt",
        "delivered_generation",
    ):
        assert printed[name] == truth[name], (slug, name)
    assert (printed["restarts"], printed["hidden_resets"]) == restarts, slug
    for name in ("prompt", "generation"):
        whole = truth[name] + lost[name]
        assert printed[f"{name}_lower"] <= whole <= printed[f"{name}_upper"], (slug, name)
    if printed["exact"]:
        assert not lost["prompt"] and not restarts[0]
        assert printed["prompt_lower"] == printed["prompt_upper"] == truth["prompt"]


@pytest.mark.parametrize("number", range(12))
def test_tokens_of_every_week(made: Made, number: int) -> None:
    week = made.calendar.weeks[number]
    rows = _by_workload(week.start, week.end)
    for slug in VLLM:
        _check_tokens(rows[slug]["tokens"], made, slug, _ms(week.start), _ms(week.end))
    assert rows["extract-7b"]["tokens"]["exact"] is True or number in (5, 11)
    if number < fleet.LEGACY_WEEKS:
        legacy = made.truth.tokens(fleet.LEGACY, _ms(week.start), _ms(week.end))
        printed = rows[fleet.LEGACY]["tokens"]
        assert printed["delivered_prompt"] == legacy["delivered_prompt"]
        assert printed["delivered_generation"] == legacy["delivered_generation"]
        assert printed["prompt"] is None, "usage records tell what was delivered, not processed"


def test_tokens_of_all_weeks_at_once(made: Made) -> None:
    start, end = made.calendar.start, made.calendar.weeks[-1].end
    rows = _by_workload(start, end)
    for slug in VLLM:
        _check_tokens(rows[slug]["tokens"], made, slug, _ms(start), _ms(end))


def test_hours_of_the_newest_week_add_up_to_it(made: Made) -> None:
    week = made.calendar.weeks[-1]
    answer = _totals(week.start, week.end, "--by", "hour")
    for name in ("prompt", "generation", "delivered_prompt", "delivered_generation"):
        parts = [row["tokens"][name] or 0 for row in answer["rows"] if row["tokens"]]
        truth = sum(made.truth.tokens(slug, _ms(week.start), _ms(week.end))[name] for slug in VLLM)
        assert sum(parts) == answer["tokens"][name] == truth


def test_readings_are_all_there(made: Made) -> None:
    week = made.calendar.weeks[-1]
    rows = _by_workload(week.start, week.end)
    hours = range(_ms(week.start) // 3_600_000, _ms(week.end) // 3_600_000)
    for slug in VLLM:
        assert rows[slug]["tokens"]["readings"] == sum(
            made.truth.readings.get((slug, hour), 0) for hour in hours
        )
    assert Decimal(rows["assist-8b"]["tokens"]["coverage"]) < Decimal("0.98")
    assert Decimal(rows["code-32b"]["tokens"]["coverage"]) == 1


@pytest.mark.parametrize("number", range(12))
def test_money_of_every_week_by_place(made: Made, number: int) -> None:
    """To the last digit; charges of months, days and hours are cut at the week's edges."""
    week = made.calendar.weeks[number]
    answer = _totals(week.start, week.end, "--by", "workload")
    printed = {row["key"]: row["money"]["USD"] for row in answer["rows"] if row["money"]}
    truth = made.truth.money(_ms(week.start), _ms(week.end))
    for place, (billed, effective) in truth.items():
        row = printed.pop(PLACES.get(place, place), None)
        if row is None:
            assert billed == effective == 0
            continue
        assert Decimal(row["billed"]) == billed, place
        assert Decimal(row["effective"]) == effective, place
    assert not printed, "no money but what is in the truth"
    assert Decimal(answer["money"]["USD"]["billed"]) == sum(b for b, _ in truth.values())
    assert Decimal(answer["money"]["USD"]["effective"]) == sum(e for _, e in truth.values())


def test_money_as_invoiced(made: Made) -> None:
    for (issuer, month, number), (lines, billed) in made.truth.invoices().items():
        rows = command("tieout", "--period", month, "--sample")["invoice"]
        row = next(r for r in rows if r["issuer"] == issuer)
        assert (row["invoice"], row["lines"]) == (number, lines)
        assert Decimal(row["billed"]) == billed
        if number:
            assert Decimal(row["difference"]) == 0 and row["within"] is True
            assert row["provisional"] is False
        else:
            assert row["issued"] is None and row["provisional"] is True


def test_the_rules_know_the_places_that_the_files_mean(made: Made) -> None:
    targets = {target for _, target, _ in books.CHARGE_RULES}
    assert {"shared:tokens", "shared:platform", "shared:gpu-hours", "out-of-scope"} <= targets
