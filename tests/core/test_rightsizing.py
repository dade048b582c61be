"""Right-sizing by hand-made windows (method §9)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.rightsizing import (
    Window,
    advise,
    money_sentence,
    percentile,
    predict,
    summed,
)

DAY = 86_400_000
GIB = 1 << 30


def window(levels, **changes):
    total = sum(levels.values())
    values = {
        "levels_ms": levels, "window_ms": 7 * DAY, "seen_ms": total, "blocks": 20_001,
        "block_size": 16, "max_model_len": 8192, "peak_blocks": 5_000, "peak_running": 50,
        "preemptions": 0, "peak_waiting": 0, "utilization": Decimal("0.90"),
        # 80 GiB × 0.05 is 4 GiB, 2,048 blocks of 2 MiB.
        "total_bytes": 80 * GIB, "block_bytes": Decimal(2 << 20),
    }  # fmt: skip
    return Window(**values | changes)


QUIET = {"20": 6 * DAY, "50": DAY}  # 10 % for six days, 25 % for one
FULL = {"100": 6 * DAY, "190": DAY}


def test_a_percentile_is_of_time_not_of_hours():
    # 99 h at 10 % and one at 90 %: exactly 99 % of the time at the lower level.
    assert percentile({"20": 99, "180": 1}, Decimal("0.99")) == Decimal("0.105")
    assert percentile({"20": 98, "180": 2}, Decimal("0.99")) == Decimal("0.905")
    assert percentile({}, Decimal("0.5")) is None
    assert percentile({"200": 5}, Decimal("0.5")) == 1


def test_hours_are_summed_before_a_percentile_is_taken():
    # Averaging the hours' own p99 (10 %, 90 %) would give 50 %.
    hours = [{"20": 3_600_000}, {"20": 3_564_000, "180": 36_000}]
    assert percentile(summed(hours), Decimal("0.99")) == Decimal("0.105")


@pytest.mark.parametrize(
    ("levels", "changes", "verdict"),
    [
        (QUIET, {}, "over-reserved"),
        ({"139": 7 * DAY}, {}, "fits"),
        ({"119": 7 * DAY}, {}, "fits"),  # 60 % is in the band
        ({"118": 7 * DAY}, {}, "over-reserved"),
        ({"169": 7 * DAY}, {}, "fits"),  # 85 % too
        ({"170": 7 * DAY}, {}, "tight"),
        (FULL, {"peak_waiting": 3}, "at risk"),
        (QUIET, {"preemptions": 1}, "at risk"),
        (QUIET, {"peak_waiting": 3}, "over-reserved"),
        (QUIET, {"window_ms": 6 * DAY}, "not enough data"),
        ({"20": 6 * DAY}, {}, "not enough data"),
        (QUIET, {"preemptions": None, "peak_waiting": None}, "over-reserved"),
    ],
)
def test_verdicts(levels, changes, verdict):
    assert advise(window(levels, **changes)).verdict == verdict


def test_a_step_of_0_05_moves_so_many_blocks():
    one = predict(window(QUIET), Decimal("0.85"), Decimal("0.25"))
    assert (one.blocks, one.change_bytes) == (20_001 - 2_048, -4 * GIB)
    assert one.p99 == Decimal("0.2785")  # 0.25 × 20,000 ÷ 17,952
    # 50 requests took 5,000 blocks: 100 a request.
    assert one.concurrency == 17_952 // 100
    assert one.longest_requests == 17_952 * 16 // 8192


def test_the_proposal_is_the_lowest_that_the_peak_and_a_longest_request_allow():
    found = advise(window(QUIET))
    # The peak of 5,000 × 1.2 needs 6,001 blocks: six steps leave 7,713, seven 5,665.
    assert found.proposal.utilization == Decimal("0.60")
    assert found.proposal.blocks == 20_001 - 6 * 2_048
    assert found.proposal.p99 <= Decimal("0.85")
    longest = advise(window(QUIET, max_model_len=300_000))
    # 300,000 tokens need 18,751 blocks: no step lower keeps them.
    assert longest.proposal is None and "longest request" in longest.no_proposal


def test_a_tight_pool_is_raised_and_a_full_card_says_what_else_helps():
    tight = {"150": 6 * DAY, "175": DAY}
    found = advise(window(tight, utilization=Decimal("0.80"), peak_blocks=15_000))
    assert found.verdict == "tight" and found.proposal.utilization == Decimal("0.85")
    none = advise(window(FULL, utilization=Decimal("0.95"), peak_blocks=20_000))
    assert none.proposal is None and "another replica" in none.no_proposal


def test_what_is_not_known_gives_no_proposal():
    found = advise(window(QUIET, total_bytes=None))
    assert found.proposal is None and "the GPU's memory" in found.no_proposal
    assert "bytes of a block" not in found.no_proposal
    by_hand = advise(window(QUIET, sized_by_hand=True))
    assert by_hand.proposal is None and "by hand" in by_hand.no_proposal


def test_the_money_sentence_says_that_nothing_is_saved_by_itself():
    text = money_sentence(freed_bytes=24 * GIB, total_bytes=80 * GIB, engines_on_card=1, gpus=1,
                          cost=Decimal("1000"), currency="USD")  # fmt: skip
    assert "saves nothing by itself" in text and "24.0 GiB" in text and "30.0 %" in text
    assert "300.00 USD" in text and "1,000.00 USD" in text
    unknown = money_sentence(freed_bytes=1, total_bytes=2, engines_on_card=2, gpus=4, cost=None,
                             currency=None)  # fmt: skip
    assert "2 engines share them" in unknown and "4 cards" in unknown and "not known" in unknown


@given(
    levels=st.dictionaries(st.integers(0, 200).map(str), st.integers(1, 10**9), min_size=1),
    shares=st.lists(st.sampled_from(["0.1", "0.5", "0.9", "0.95", "0.99"]), min_size=2),
)
def test_percentiles_rise_with_their_share(levels, shares):
    found = [percentile(levels, Decimal(share)) for share in sorted(shares)]
    assert found == sorted(found)
