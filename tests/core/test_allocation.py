"""Rules find one place for every charge and series, and hostile patterns end at once (§4)."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.allocation import (
    NOWHERE,
    OUT_OF_SCOPE,
    UNUSED,
    WORKLOAD,
    Assigner,
    Place,
    Rule,
    charge_matchers,
    in_order,
    place_of,
)
from finops.core.matching import Matcher, check_pattern, parse_matchers

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def _rule(number, text, place, order=100, **dates):
    return Rule(number, 1, order, "charge", place, parse_matchers(text), **dates)


LLAMA, MISTRAL = Place(WORKLOAD, "llama"), Place(WORKLOAD, "mistral")


def test_conditions_are_read_with_quotes_commas_and_spaces():
    found = parse_matchers(
        'namespace=prod, model_name=~"llama-.*", pod!~"a{1,2}b" ,x!="say \\"hi\\""'
    )
    assert found == (
        Matcher("namespace", "=", "prod"),
        Matcher("model_name", "=~", "llama-.*"),
        Matcher("pod", "!~", "a{1,2}b"),
        Matcher("x", "!=", 'say "hi"'),
    )
    assert parse_matchers(",".join(map(str, found))) == found


@pytest.mark.parametrize(
    "text", ["", "namespace", "=x", "a=b,,c", 'a="unclosed', "a=b c=d,=", "a=~["]
)
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ValueError):
        parse_matchers(text)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(.*)*", "a?" * 40 + "a" * 40, ".*a.*a.*a.*b", r"(a)\1", "(?=a)a", "a" * 201,
     "(a|b)" * 60, "((a{1,9}){1,9}){1,9}", "(?P<n>a"],
)  # fmt: skip
def test_patterns_that_could_run_long_are_refused(pattern):
    with pytest.raises(ValueError):
        check_pattern(pattern)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@settings(max_examples=300, deadline=None)
@given(st.text("ab.*+?|(){}[]\\1,$^", min_size=1, max_size=14))
def test_every_pattern_taken_answers_quickly(pattern):
    try:
        check_pattern(pattern)
    except ValueError:
        return
    began = time.perf_counter()
    Matcher("x", "=~", pattern).holds({"x": "ab" * 400})
    assert time.perf_counter() - began < 1


def test_patterns_are_anchored():
    assert not Matcher("m", "=~", "llama").holds({"m": "llama-70b"})
    assert Matcher("m", "=~", "llama.*").holds({"m": "llama-70b"})
    assert Matcher("m", "!~", "llama").holds({"m": "llama-70b"})


def test_an_absent_label_is_the_empty_text():
    assert Matcher("team", "=", "").holds({})
    assert Matcher("team", "=", "").holds({"team": None})
    assert Matcher("team", "!=", "red").holds({})


def test_first_match_wins_by_order_then_number():
    rules = in_order(
        [
            _rule(3, "sku=a", MISTRAL),
            _rule(2, "sku=a", LLAMA),
            _rule(9, "sku=~b|c", MISTRAL, order=1),
        ]
    )
    assert place_of({"sku": "a"}, NOW, rules) == LLAMA
    assert place_of({"sku": "b"}, NOW, rules) == MISTRAL
    assert place_of({"sku": "d"}, NOW, rules) == NOWHERE


def test_a_rule_holds_from_its_first_instant_to_before_its_last():
    rules = [_rule(1, "sku=a", LLAMA, valid_from=NOW, valid_to=NOW.replace(day=20))]
    assert place_of({"sku": "a"}, NOW, rules) == LLAMA
    assert place_of({"sku": "a"}, NOW.replace(day=17), rules) == NOWHERE
    assert place_of({"sku": "a"}, NOW.replace(day=20), rules) == NOWHERE


def test_unused_commitment_goes_to_a_workload_only_when_a_rule_names_it():
    row = {"account": "1", "commitment_status": "Unused", "commitment": "sp-1"}
    assert place_of(row, NOW, [_rule(1, "account=1", LLAMA)]) == UNUSED
    assert place_of(row, NOW, [_rule(1, "commitment=sp-1", LLAMA)]) == LLAMA
    assert (
        place_of({**row, "commitment_status": "Used"}, NOW, [_rule(1, "account=1", LLAMA)]) == LLAMA
    )


def test_focus_names_are_understood_and_unknown_columns_named():
    found = charge_matchers(parse_matchers("ResourceId=i-1,BillingAccountId=0123,tag:team=red"))
    assert [m.name for m in found] == ["resource", "account", "tag:team"]
    with pytest.raises(ValueError, match="resourec"):
        charge_matchers(parse_matchers("resourec=i-1"))


columns = st.dictionaries(st.sampled_from(["sku", "resource", "commitment_status"]),
                          st.sampled_from(["a", "b", "Unused", None]))  # fmt: skip
days = st.integers(1, 28).map(lambda day: NOW.replace(day=day))
rules_drawn = st.lists(
    st.builds(
        Rule, st.integers(1, 99), st.just(1), st.integers(1, 3), st.just("charge"),
        st.sampled_from([LLAMA, MISTRAL, Place(OUT_OF_SCOPE)]),
        st.sampled_from(["sku=a", "sku=~a|b", "resource!=a", "commitment_status=Unused"]).map(parse_matchers),
        st.none() | days, st.none() | days,
    ), max_size=6, unique_by=lambda rule: rule.number,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(rules_drawn, st.lists(st.tuples(columns, days), max_size=12))
def test_the_kept_answers_are_those_of_the_plain_rule(rules, rows):
    assign = Assigner(rules)
    for row, instant in rows:
        assert assign(row, instant) == place_of(row, instant, in_order(rules))


@settings(max_examples=200, deadline=None)
@given(rules_drawn, columns, st.lists(st.integers(-2, 30 * 24), min_size=1, max_size=20))
def test_the_places_of_many_hours_are_those_of_each(rules, row, hours):
    of_hour = Assigner(rules).by_hour(row)
    for hour in hours:
        instant = NOW.replace(day=1) + timedelta(hours=hour)
        time_ms = int(instant.timestamp()) * 1000
        assert of_hour(time_ms) == place_of(row, instant, in_order(rules))
