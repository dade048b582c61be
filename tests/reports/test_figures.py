"""The one rounding and the typography of figures."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reports import allocation_words, figures, memory_words, sheet
from reports.templatetags.figures import said

T = "\u202f"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2.675", "2.68"),
        ("2.665", "2.66"),
        ("0.125", "0.12"),
        ("-0.135", "−0.14"),
        ("1234567.891", f"1{T}234{T}567.89"),
        ("-0.001", "0.00"),
        (None, "n/a"),
        ("1.81E-8", "0.00"),
    ],
)
def test_money_rounds_half_to_even_once(value: str | None, shown: str) -> None:
    assert figures.money(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [("1.832914", "1.83"), ("0.441", "0.441"), ("0.00123456", "0.00123"), ("0", "0.00"),
     ("181.5", "181.50")],
)  # fmt: skip
def test_prices_keep_three_significant_digits(value: str, shown: str) -> None:
    assert figures.price(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(999, "999"), (999_999_999, "1.00 billion"), (1_494_578, "1.49 million"),
     (9_616_456_052, "9.62 billion"), (123_456_789_012, "123 billion")],
)  # fmt: skip
def test_large_counts_in_words(value: int, shown: str) -> None:
    assert figures.short(value) == shown


@pytest.mark.parametrize(
    ("value", "shown", "with_sign"),
    [
        (5_033_165, "4.8 MiB", "+4.8 MiB"),  # 4.8 × 2^20 would read as 0.0 GiB
        (1 << 20, "1.0 MiB", "+1.0 MiB"),
        (0, "0.0 GiB", "0.0 GiB"),
        (13 << 30, "13.0 GiB", "+13.0 GiB"),
        (-((1 << 30) // 64), "−16.0 MiB", "−16.0 MiB"),
        ((1 << 30) // 20 + 1, "0.1 GiB", "+0.1 GiB"),
        (None, "n/a", "n/a"),
    ],
)
def test_no_amount_of_memory_reads_as_nothing(value, shown, with_sign) -> None:
    plain = {"\u202f": " ", "\u00a0": " ", "-": "−"}
    assert figures.gib(value).translate(str.maketrans(plain)) == shown
    assert figures.signed_gib(value).translate(str.maketrans(plain)) == with_sign


def test_coverage_is_never_rounded_up_to_whole() -> None:
    assert figures.coverage("0.99999") == f">{T}99.99{T}%"
    assert figures.coverage("1.0000") == f"100.00{T}%"
    assert figures.coverage("0.9987") == f"99.87{T}%"
    assert figures.coverage(None) == "n/a"


def test_binary_floats_are_refused() -> None:
    with pytest.raises(TypeError):
        figures.money(0.1)


amounts = st.decimals(min_value=-(10**9), max_value=10**9, places=6)


@given(amounts)
def test_rounding_agrees_with_exact_fractions(value: Decimal) -> None:
    shown = figures.money(value).replace(T, "").replace("−", "-")
    assert abs(Fraction(shown) - Fraction(value)) <= Fraction(1, 200)
    assert Decimal(shown) == value.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)


@given(st.lists(amounts, min_size=1, max_size=8))
def test_a_table_foots_or_says_why(values: list[Decimal]) -> None:
    total = sum(values, Decimal(0))
    rounded = sum(
        (v.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN) for v in values), Decimal(0)
    )
    foots = rounded == total.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)
    said = figures.footing(values, total)
    assert (said == "") == foots
    assert foots or said.endswith("The exact amounts add up without a difference.")


def test_parts_that_do_not_add_up_are_not_said_to() -> None:
    said = figures.footing([Decimal("1.004"), Decimal("1.004")], Decimal("2.018"))
    assert said.endswith("The exact amounts differ by 0.010.")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("of 1,234,567 tokens", f"of 1{T}234{T}567 tokens"),
        ("2.6 GiB, 12.0 % of 4 cards", f"2.6{T}GiB, 12.0{T}% of 4 cards"),
        (
            "fewer (--max-num-seqs), <b>",
            'fewer (<code class="nowrap">--max-num-seqs</code>), &lt;b&gt;',
        ),
        ("a--b, 2026-10, 7,5 and --", "a--b, 2026-10, 7,5 and --"),
    ],
)
def test_a_sentence_groups_its_numbers_and_keeps_flags_whole(text: str, shown: str) -> None:
    assert said(text) == shown


GAP = "rounded on"


@given(amounts, amounts)
@example(Decimal("0.004"), Decimal("0.004"))
def test_amounts_that_stand_in_a_row_or_a_sentence_foot_or_say_why(a: Decimal, b: Decimal) -> None:
    """The two parts of efficiency, a team's own and shared cost, and a saving."""

    def shown(value: Decimal) -> Decimal:
        return value.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)

    foots = shown(a) + shown(b) == shown(a + b)
    parts = {"active_share": str(a), "throughput": str(b), "efficiency": str(a + b)}
    assert (GAP not in sheet._efficiency_parts(parts, 2)) == foots
    teams = [{"team": "search", "own": str(a), "shared": str(b), "effective": str(a + b)}]
    told = {"teams": teams, "elsewhere": "0", "effective": str(a + b)}
    note = allocation_words._teams(
        {"allocation_statement": told, "allocation": [], "currency": "USD"}
    )["teams_note"]
    assert (GAP not in note) == foots and ("search" in note) != foots
    saving = {"actual": str(-b), "counterfactual": str(a), "saving": str(a + b)}
    row = sheet._baseline(saving | {"basis": "delivered", "kind": "declared"}, "UTC")
    assert (GAP not in row["rounding"]) == foots


MEMORY = st.one_of(st.none(), st.integers(0, 2**43), st.integers(0, 2**26))


@given(st.lists(MEMORY, min_size=9, max_size=9))
@example([2**30 * 54 // 1000] + [2**30 * 14 // 100] * 4 + [None] * 4)
def test_memory_of_a_card_foots_or_says_why(parts: list[int | None]) -> None:
    names = memory_words.PARTS
    total = sum(one for one in parts if one is not None)
    row = {f"{name}_bytes": one for name, one in zip(names, parts, strict=True)}
    said = memory_words.rounding_words([row | {"workload": "chat", "total_bytes": total}])
    units = {"GiB": 1, "MiB": 1024}
    printed = [
        figures.gib(one).replace("−", "-").split(T) for one in (*parts, total) if one is not None
    ]
    known = [Fraction("".join(one[:-1])) / units[one[-1]] for one in printed]
    assert (said == "") == (abs(sum(known[:-1]) - known[-1]) < Fraction(1, 20))
    assert memory_words.rounding_words([row | {"workload": "chat", "total_bytes": None}]) == ""


def test_the_last_row_of_the_memory_table_says_why_it_is_no_sum() -> None:
    """Two pods of 15 GiB that were there one after the other: one stood there, not two."""
    empty = dict.fromkeys((f"{name}_bytes" for name in memory_words.COLUMNS), None)
    one, two = ({"workload": name} | empty | {"weights_bytes": 15 * 2**30} for name in "ab")
    last = {"workload": None} | empty | {"weights_bytes": 15 * 2**30}
    said = memory_words.last_row_words([one, two, last])
    assert "not the sum of the rows above (weights)" in said and "any was" in said
    assert memory_words.last_row_words([one, two, last | {"weights_bytes": 30 * 2**30}]) == ""
    assert memory_words.last_row_words([one, two | {"weights_bytes": None}, last]) == ""
    assert memory_words.last_row_words([one, two]) == memory_words.last_row_words([]) == ""


def test_the_last_row_of_the_memory_table_says_whose_cards_were_not_measured() -> None:
    """Of two workloads one's card is measured: the row of all has no device total, and says why."""
    empty = dict.fromkeys((f"{name}_bytes" for name in memory_words.COLUMNS), None)
    measured = {"workload": "chat"} | empty | {"total_bytes": 80 * 2**30}
    other, last = {"workload": "search"} | empty, {"workload": None} | empty
    said = memory_words.last_row_words([measured, other, last])
    assert "not every card was measured (search)" in said
    assert memory_words.last_row_words([other, last]) == ""
    # A card that no engine is on may be the one: no workload is named then.
    assert "not every card was measured:" in memory_words.last_row_words([measured, last])
    assert memory_words.last_row_words([measured, last | {"total_bytes": 80 * 2**30}]) == ""
