"""A statement of invented facts, its figures recomputed here in plain fractions (method §4–§7)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from finops.core.baseline import Terms
from finops.core.canonical import canonical_bytes
from finops.core.facts import (
    CommitmentSum,
    CurrencySum,
    Facts,
    Notice,
    PlaceSum,
    Reaches,
    WorkloadFacts,
)
from finops.core.period import Period
from finops.core.statement import statement, trend_row
from finops.core.tokens import Tokens
from finops.core.unit_cost import Counted

START = datetime(2026, 11, 16, tzinfo=UTC)
WEEK = Period(START, START + timedelta(days=7))
LEGACY = Terms("llama", "declared", "processed", "measured", "USD", START - timedelta(days=200),
               "ada", declared_price=Decimal(5))  # fmt: skip


def _workload(
    slug, cost, prompt, generation, *, gpu_hours="168", baseline=None, purpose="inference"
):
    tokens = Tokens(
        prompt=prompt, generation=generation, prompt_lower=prompt, prompt_upper=prompt,
        generation_lower=generation, generation_upper=generation, exact=True, readings=9,
        coverage=Decimal("1.0000"),
    )  # fmt: skip
    cost = Decimal(cost)
    return WorkloadFacts(
        slug=slug, model=slug, stack="vllm", team="red", purpose=purpose, cluster="", namespace="",
        tokens=tokens, cost_own=cost, cost_shared=Decimal(0), charges=1, common=WEEK,
        common_tokens=tokens,
        counted=Counted(prompt, generation, None, prompt + generation, prompt + generation),
        common_cost=cost, active_hours=84, common_hours=168, gpu_hours=Decimal(gpu_hours),
        common_gpu_hours=Decimal(gpu_hours), gpu_hours_source="the invoice", gpu_model="H100",
        baseline=baseline,
    )  # fmt: skip


def _facts(week="2026-W47", workloads=(), **changes):
    cost = sum((w.cost for w in workloads), Decimal(0))
    places = [PlaceSum("workload", w.slug, "USD", w.cost, w.cost, 1) for w in workloads]
    facts = Facts(
        week=week, period=WEEK, zone="UTC", organisation="Example", sample=False,
        software_version="0", currency="USD",
        reaches=Reaches(WEEK.end, WEEK.end, WEEK, complete=True),
        money=(CurrencySum("USD", cost, cost, len(workloads), 0, 0),),
        places=tuple(places), workloads=tuple(workloads),
    )  # fmt: skip
    return replace(facts, **changes)


LLAMA = _workload("llama", "180.00", 80_000_000, 20_000_000, baseline=LEGACY)
TINY = _workload("tiny", "20", 10_000_000, 0)
TRAINING = _workload("training", "999", 1, 1, purpose="training")


def test_the_organisations_figures_are_of_inference_only():
    value = statement(_facts(workloads=[LLAMA, TINY, TRAINING]))
    assert Fraction(value["figures"]["cost_per_million_tokens"]) - Fraction(200, 110) < Fraction(
        1, 10**50
    )
    assert value["figures"]["effective_cost"] == "200.00"
    assert value["figures"]["period_effective_cost"] == "1199.00"
    assert value["figures"]["prompt_tokens"] == 90_000_000
    # Tokens moved in half of the hours.
    usage = Fraction(value["figures"]["usage_cost_per_million_tokens"])
    assert abs(usage - Fraction(100, 110)) < Fraction(1, 10**50)
    training = value["workloads"][2]
    assert training["figures"]["cost_per_million_tokens"] is None
    assert "apart" in training["reasons"]["cost_per_million_tokens"]


def test_every_null_has_a_reason_and_only_nulls_have():
    value = statement(_facts(workloads=[LLAMA, replace(TINY, counted=None, common_cost=None)]))
    for part in (value, *value["workloads"]):
        nulls = {name for name, figure in part["figures"].items() if figure is None}
        assert nulls == set(part["reasons"])
        assert all(part["reasons"].values())


def test_the_headline_answers():
    before = statement(_facts("2026-W46", [replace(LLAMA, common_cost=Decimal("200"))]))
    value = statement(_facts(workloads=[LLAMA]), before)
    # 1.80 against 2.00 the week before and against the declared 5.00.
    assert value["headline"] == (
        "A million tokens cost 1.80 USD in week 2026-W47, 10 % less than the week before and "
        "64 % less than on the legacy stack."
    )
    assert Decimal(value["figures"]["tokens_per_dollar_change"]).quantize(Decimal("0.0001")) == (
        Decimal("0.1111")
    )
    assert value["figures"]["saving_vs_baseline"] == "320.00"
    assert (
        "preliminary"
        in statement(_facts(workloads=[LLAMA], reaches=Reaches(None, None, WEEK, complete=False)))[
            "headline"
        ]
    )
    assert statement(_facts())["headline"].startswith("No cost per million tokens can be given")


def test_a_saving_of_some_workloads_is_said_to_be_theirs():
    value = statement(_facts(workloads=[LLAMA, TINY]))
    assert "; llama cost 64 % less than on the legacy stack." in value["headline"]
    scope = value["saving_scope"]
    assert (scope["workloads"], scope["of"], Decimal(scope["share_of_cost"])) == (
        ["llama"],
        2,
        Decimal("0.9"),
    )


def test_the_bridge_sums_to_the_printed_change():
    mistral = _workload("mistral", "50", 3_000_000, 999_999)
    before = statement(_facts("2026-W46", [LLAMA, TINY]))
    value = statement(
        _facts(workloads=[replace(LLAMA, common_cost=Decimal("170.01")), mistral]), before
    )
    bridge = value["bridge"]
    rows = [Fraction(bridge[n]) for n in
            ("price", "efficiency", "mix", "entered", "left", "cost_without_tokens")]  # fmt: skip
    assert sum(rows) == Fraction(bridge["total"])
    now = Fraction("220.01") / 103_999_999 * 10**6
    assert abs(Fraction(bridge["total"]) - (now - Fraction(200, 110))) < Fraction(1, 10**23)
    assert Fraction(bridge["active_share"]) + Fraction(bridge["throughput"]) == Fraction(
        bridge["efficiency"]
    )
    assert (bridge["from"], bridge["to"]) == ("2026-W46", "2026-W47")


def _period(value):
    table = value["tieout"]["period"]
    return table, {row["key"]: Decimal(row["amount"]) for row in table["rows"]}


def test_the_period_table_goes_from_billed_to_places():
    # A plan bought for 100 covers 70 of use, 10 of it unused; 50 are billed on demand.
    facts = _facts(
        workloads=[_workload("llama", "110", 1, 1)],
        money=(CurrencySum("USD", Decimal(150), Decimal(120), 4, 0, 0),),
        commitments=(CommitmentSum("sp-1", "Plan", "USD", Decimal(-100), Decimal(70)),),
        places=(
            PlaceSum("workload", "llama", "USD", Decimal(50), Decimal(110), 2),
            PlaceSum("unused commitment", None, "USD", Decimal(0), Decimal(10), 1),
        ),
    )
    table, rows = _period(statement(facts))
    assert rows["billed"] + rows["purchases sp-1"] + rows["use sp-1"] == rows["effective"] == 120
    assert rows["place workload"] + rows["place unused commitment"] == 120
    assert (table["difference"], table["billed_side"], table["allocated"]) == ("0", "120", "120")


@pytest.mark.parametrize("lost", ["0.01", "-1"])
def test_what_is_not_explained_has_its_own_row_and_is_the_difference(lost):
    effective = Decimal(100) + Decimal(lost)
    facts = _facts(
        money=(CurrencySum("USD", Decimal(100), effective, 1, 0, 0),),
        places=(PlaceSum("unassigned", None, "USD", Decimal(100), effective, 1),),
    )
    table, rows = _period(statement(facts))
    assert rows["not explained"] == Decimal(lost) == Decimal(table["difference"])


def test_money_in_no_place_is_the_difference():
    facts = _facts(money=(CurrencySum("USD", Decimal(7), Decimal(7), 1, 0, 0),))
    table, rows = _period(statement(facts))
    assert rows["not placed"] == 7 == Decimal(table["difference"])


def test_the_register_names_what_a_reader_must_know():
    restless = replace(LLAMA.tokens, restarts=2, hidden_resets=1, gaps=3, unplaced_openings=1,
                       opening_tokens=55, alternations=1, unmarked_restarts=1, unread_edges=1)  # fmt: skip
    facts = _facts(
        workloads=[
            replace(LLAMA, tokens=restless, old_engine=True, preemptions=7,
                    other_currencies={"EUR": Decimal("3.5")}),
            _workload("idle", "5", 0, 0),
            replace(TINY, cost_own=Decimal(0), charges=0),
        ],
        places=(PlaceSum("unassigned", None, "USD", Decimal(1), Decimal("1.25"), 2),
                PlaceSum("shared", "net", "USD", Decimal(1), Decimal(1), 1)),
        notices=(Notice("cost-lags", "AWS", "AWS: charges reach only to Sunday"),),
    )  # fmt: skip
    value = statement(facts)
    kinds = {row["kind"] for row in value["exceptions"]}
    assert kinds == {
        "gaps", "restarts", "hidden-resets", "weak-restart-evidence", "unplaced-openings",
        "alternations", "edges-unread", "preempted-prompts-counted-twice", "currencies-mixed", "cost-without-tokens",
        "tokens-without-cost", "unassigned-charges", "shared-not-yet-split",
        "ageing-baseline", "baseline-not-approved", "cost-lags",
    }  # fmt: skip
    unassigned = next(row for row in value["exceptions"] if row["kind"] == "unassigned-charges")
    assert (unassigned["amount"], unassigned["currency"]) == ("1.25", "USD")
    ids = [row["id"] for row in value["exceptions"]]
    assert len(set(ids)) == len(ids)
    assert ids == [row["id"] for row in statement(facts)["exceptions"]]
    assert statement(_facts(workloads=[replace(TINY)]))["exceptions"] == []


def test_a_statement_has_canonical_bytes_and_a_trend():
    first = statement(_facts("2026-W46", [LLAMA]))
    value = statement(_facts(workloads=[LLAMA]), first, first["trend"])
    assert [row["week"] for row in value["trend"]] == ["2026-W46", "2026-W47"]
    assert value["trend"][1]["tokens"] == 100_000_000
    assert value["trend"][1]["first_token"] is None  # nobody told what came in time
    counted = {"counted": 472, "in_time_lower": 324, "in_time_upper": 341, "share_lower": "0.68",
               "share_upper": "0.72"}  # fmt: skip
    told = trend_row(value | {"service_level": {"first_token": counted, "inter_token": None}})
    assert (told["first_token"], told["inter_token"]) == (counted, None)
    before = {key: of for key, of in value.items() if key != "service_level"}
    assert trend_row(before)["first_token"] is None  # a statement made before levels were counted
    assert canonical_bytes(value) == canonical_bytes(
        statement(_facts(workloads=[LLAMA]), first, first["trend"])
    )
