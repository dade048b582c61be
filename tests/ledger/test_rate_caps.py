"""A cap that a workload declares raises every upper bound of its series alike (method §2.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from finops.core.statement import statement
from finops.ledger.models import Series
from finops.ledger.queries.explain import bounds
from finops.ledger.queries.facts import facts
from finops.ledger.queries.source_hours import engines_of
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import PERIOD, START, Shown, openmetrics, take_in
from tests.ledger.test_fleet_pages import HOUR, RESTARTED
from tests.ledger.test_nodes import ENGINE

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

SPAN = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T06:00:00Z")
UP = Shown("up", {"job": "vllm", "instance": "10.0.0.1:8000"}, lambda _: 1)
# Steps of ten minutes: 1,013 at the thirteenth, 14 at the fourteenth. Without a mark and without an `up` =
# 0 the engine was dark for 600 s, and the 14 tokens that the next reading shows are of that time.
DARK_S, SHOWN = 600, 14


def prompt_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    return row


def uppers() -> dict[str, int]:
    """What each door says of the prompt tokens of the six hours, at most; and of the third hour."""
    week = statement(facts(PERIOD, week="2026-W47"))
    (workload,) = (one for one in week["workloads"] if one["slug"] == "llama")
    totals, by = command("totals", *SPAN), command("totals", *SPAN, "--by", "workload")
    by_series = command("totals", *SPAN, "--by", "series")
    (series,) = command("series", *SPAN)["rows"]
    hour = START + 2 * HOUR
    third = bounds(Series.objects.get(pk=series["series_id"]), hour)
    (engine,) = engines_of(series["source"], hour)
    assert third is not None and third["upper"] == engine["upper"]
    return {
        "report": workload["tokens"]["prompt_upper"],
        "series": series["upper"],
        "totals": totals["tokens"]["prompt_upper"],
        "by workload": prompt_of(by["rows"])["tokens"]["prompt_upper"],
        "by series": prompt_of(by_series["rows"])["tokens"]["prompt_upper"],
        "hour": third["upper"],
    }


@pytest.mark.parametrize("cap", [None, 5])
def test_every_door_uses_the_cap(tmp_path: Path, cap: int | None) -> None:
    take_in(tmp_path, [UP, RESTARTED])
    declared = [] if cap is None else ["--rate-cap-tokens-per-second", str(cap)]
    made = command(
        "workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada", *declared
    )
    assert made["workload"]["rate_cap_tokens_per_second"] == cap
    command("rule", "add", "llama", "--series", "model_name=llama", "--by", "Ada")
    # Of 36 steps from 0 on, one token each: 14 at the restart in place of one.
    booked = 36 - 1 + SHOWN
    # Its own highest rise is 14 tokens in a step, less than the reading after it shows beside.
    unseen = 0 if cap is None else cap * DARK_S - SHOWN
    found = uppers()
    third = found.pop("hour")
    assert found == dict.fromkeys(found, booked + unseen)
    assert third == 5 + SHOWN + unseen  # steps 12 to 17


@pytest.mark.parametrize(("cap", "upper"), [(None, None), (5, 50 + 5 * 600 - 10 + 5 * 600)])
def test_a_series_whose_speed_no_reading_tells_has_a_bound_by_its_cap(
    tmp_path: Path, cap: int | None, upper: int | None
) -> None:
    """Two lives of one reading each, 40 and 10 tokens, and then it is gone: twice dark for 600 s."""
    other = ENGINE | {"instance": "10.0.0.2:8000"}
    take_in(tmp_path, [UP, RESTARTED])
    up = Shown("up", {"job": "vllm", "instance": other["instance"]}, lambda _: 1)
    lives = Shown("vllm:prompt_tokens_total", other, lambda step: 40 if step == 2 else 10)
    for name, shown, steps in (("up.om", up, range(4)), ("lives.om", lives, (2, 3))):
        (tmp_path / name).write_text(openmetrics([shown], steps))
        ingested(tmp_path / name)
    declared = [] if cap is None else ["--rate-cap-tokens-per-second", str(cap)]
    command(
        "workload", "add", "llama", "--model", "llama", "--stack", "vllm", "--by", "Ada", *declared
    )
    command("rule", "add", "llama", "--series", "model_name=llama", "--by", "Ada")
    rows = {row["labels"]["instance"]: row for row in command("series", *SPAN)["rows"]}
    row = rows[other["instance"]]
    assert (row["tokens"], row["restarts"], row["upper"]) == (50, 1, upper)


def test_a_cap_is_more_than_nothing() -> None:
    with pytest.raises(CommandError):
        call_command("workload", "add", "x", "--model", "m", "--stack", "vllm",
                     "--rate-cap-tokens-per-second", "0")  # fmt: skip
