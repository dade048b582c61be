"""Sentences of the report by their own writers, read by the second computation (method §9, §11).

Whatever figures and names a week has, its sentences are confirmed, and any number in them that is
changed is found: a wording that the second computation misread would keep a good week from its seal.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from finops.core import register, training, wording
from finops.core.money import grouped, plain
from finops.core.tokens import Tokens
from finops.core.wording import Legacy
from reports.evidence import verify
from tests.evidence.flips import with_another_number, with_two_swapped

CURRENCIES = st.sampled_from(["USD", "EUR", "JPY", "KWD", "CLF"])
SLUGS = st.one_of(
    st.sampled_from(
        ["7", "12", "100", "report", "2026", "1-5", "0_1", "llama-3-1-8b", "w47", "3-8"]
    ),
    st.from_regex(r"[a-z0-9][a-z0-9_-]{0,12}", fullmatch=True),
)
COUNTS = st.one_of(st.integers(0, 3), st.integers(0, 10**13))
AMOUNTS = st.one_of(
    st.decimals(min_value=-(10**9), max_value=10**9, places=2),
    st.decimals(min_value="-0.01", max_value="0.01", places=28),
)
QUOTIENTS = st.builds(
    lambda above, below: verify.quotient(Decimal(above) / 1000, below),
    st.one_of(st.integers(1, 200), st.integers(1, 10**14)),
    st.one_of(st.integers(1, 12), st.integers(1, 10**11)),
)


def week_of(**values: Any) -> Any:
    return SimpleNamespace(check=verify.Checks(), **values)


def confirmed(text: str | None, known: Iterable[Any], *names: str | None) -> bool:
    week = week_of()
    with localcontext(verify.EXACT):
        verify.sentence(week, "", text, known, *names)
    return not week.check.wrong


def every_change_is_found(text: str, known: Iterable[Any], *names: str | None) -> bool:
    """One number after the other is another, and two are swapped; names keep theirs. Of numbers
    that might have been told and are alike, two in each other's place say the same."""
    known = list(known)
    others = list(with_another_number(text))
    told = verify.as_told(known)
    if len(set(told)) == len(told):
        others += with_two_swapped(text)
    return not any(confirmed(one, known, *names) for one in others)


# -- the headline ----------------------------------------------------------------------------------


@given(
    QUOTIENTS,
    st.none() | QUOTIENTS,
    st.lists(st.tuples(SLUGS, AMOUNTS, QUOTIENTS), max_size=3, unique_by=lambda one: one[0]),
    st.sets(SLUGS, max_size=3),
    CURRENCIES,
    st.booleans(),
    st.booleans(),
)
# 13 ÷ 3 against 8 ÷ 3: five eighths more, 62.5 %, of two numbers that no decimals tell whole.
@example(verify.quotient(13, 3), verify.quotient(8, 3), [], {"7"}, "USD", True, True)
@example(Decimal("0.035875"), verify.quotient(Decimal("0.164"), 36), [], set(), "USD", True, True)
@example(verify.quotient(1, 10**15), None, [], {"0"}, "JPY", True, False)
@example(Decimal("12345.6"), Decimal("12346"), [("7", Decimal(1), Decimal(9))], {"5"}, "EUR", False, True)  # fmt: skip
def test_headlines(price, before, savings, others, currency, every, complete) -> None:
    actual = sum((one[1] for one in savings), Decimal(0))
    would = sum((Decimal(str(one[2])[:20]) for one in savings), Decimal(0))
    legacy = Legacy(actual, would, tuple(sorted(one[0] for one in savings)), every)
    text = wording.headline(
        "2026-W47", currency, {"cost_per_million_tokens": plain(price)}, {},
        before and {"cost_per_million_tokens": plain(before)}, legacy if savings else None, complete,
    )  # fmt: skip
    known = [{"actual": one[1], "counterfactual": Decimal(str(one[2])[:20])} for one in savings]

    def wrong(headline: str) -> list[Any]:
        figures = before and {"cost_per_million_tokens": plain(before)}
        week = week_of(
            figures={"cost_per_million_tokens": price}, currency=currency,
            workloads={one: {} for one in {*others, *(one[0] for one in savings)}},
            said={"headline": headline, "period": {"week": "2026-W47"},
                  "previous": figures and {"figures": figures}},
        )  # fmt: skip
        with localcontext(verify.EXACT):
            verify._headline(week, known)
        return week.check.wrong

    assert wrong(text) == [], text
    assert all(map(wrong, with_another_number(text))), text


# -- training ------------------------------------------------------------------------------------------


@given(AMOUNTS, AMOUNTS, st.none() | st.tuples(AMOUNTS, AMOUNTS), CURRENCIES,
       st.none() | st.tuples(QUOTIENTS, QUOTIENTS, AMOUNTS, AMOUNTS))  # fmt: skip
def test_the_sentence_on_training(cost, inference, late, currency, budget) -> None:
    found: dict[str, Any] = {
        "cost": cost, "inference_cost": inference, "budget": None,
        "late_cost_lower": late and late[0], "late_cost_upper": late and late[1],
    }  # fmt: skip
    if budget:
        names = ("share_spent", "share_elapsed", "forecast", "forecast_over_budget")
        found["budget"] = dict(zip(names, budget, strict=True)) | {"quarter": "2026-Q4"}
    text = training.message(as_text(found), currency)
    with localcontext(verify.EXACT):
        known = verify.spending(found)
    names = currency, (found["budget"] or {}).get("quarter")
    assert confirmed(text, known, *names), text
    assert every_change_is_found(text, known, *names), text


def as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_text(one) for name, one in value.items()}
    return plain(value) if isinstance(value, Decimal) else value


# -- the register ----------------------------------------------------------------------------------


@given(SLUGS, st.lists(COUNTS, min_size=9, max_size=9))
def test_disturbances_of_readings(slug, counts) -> None:
    names = ("gaps", "restarts", "hidden_resets", "unmarked_restarts", "alternations",
             "unplaced_openings", "opening_tokens", "unread_edges")  # fmt: skip
    said = dict(zip(names, counts, strict=False))
    tokens = said | {"unobserved": counts[8], "living": counts[8] * 2 + 1}
    text_of = verify.coverage(tokens)
    ours = Tokens(unobserved_ms=counts[8], coverage=Decimal(text_of), **said)
    theirs = {
        kind: told for kind, _, _, _, *told in verify.of_workloads(one_workload(slug, tokens))
    }
    found = {kind: f"{slug}: {text}" for kind, count, text in register._counts(ours) if count}
    assert theirs.keys() == found.keys()
    for kind, text in found.items():
        assert verify.in_order(text, theirs[kind]), text
        # A count that a name before it happens to say stands in order even where it is changed.
        alone = text.removeprefix(f"{slug}: ")
        others = with_another_number(alone)
        assert not any(verify.in_order(one, theirs[kind]) for one in others), text


def one_workload(slug: str, tokens: dict[str, Any]) -> Any:
    return SimpleNamespace(
        rows={slug: {"slug": slug, "week_tokens": tokens, "purpose": "inference"}},
        baseline=lambda _: None, whole=SimpleNamespace(whole={}), currency="USD", met=None, span=None,
        engines=SimpleNamespace(stale_ms=lambda _: 0), gpu_hours=lambda *_: None,
    )  # fmt: skip


# -- numbers ---------------------------------------------------------------------------------------


@given(st.integers(0, 10**15), st.decimals(-(10**9), 10**9, places=4), SLUGS)
def test_numbers_are_read_however_they_are_set(count, amount, slug) -> None:
    text = f"Of {count:,} and {grouped(count)}, {amount:,f}; {slug} has {plain(amount)}."
    told = verify.numbers(text, [slug])
    assert told == [count, count, abs(amount), abs(amount)] or slug.isdigit()
    names = "v0.6.3", "llama-3.1-8b", "2026-W47"
    assert verify.numbers("vLLM v0.6.3 of llama-3.1-8b, fp8_e4m3, 2026-W47 and 5x", names) == []
