"""Guidance on an engine's other settings, and whether the load seen stands for more (method §9)."""

from __future__ import annotations

from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.guidance import guidance
from finops.core.guidance_seen import NEEDS, WORDS, Seen
from finops.core.lengths import Between, Histogram, histogram, together
from finops.core.representative import Load, judged, sentence

GIB = 1 << 30
# The recorded engine under load: 100 requests, 1,905 steps (tests/data/vllm-recorded).
PROMPTS = histogram({"20.0": 0, "50.0": 5, "100.0": 16, "200.0": 37, "500.0": 67, "1000.0": 82,
                     "2000.0": 93, "+Inf": 100})  # fmt: skip
ANSWERS = histogram({"10.0": 0, "20.0": 22, "50.0": 37, "100.0": 68, "200.0": 100, "+Inf": 100})
STEPS = histogram({"1.0": 262, "8.0": 1768, "256.0": 1870, "2048.0": 1896, "4096.0": 1905,
                   "8192.0": 1905, "+Inf": 1905})  # fmt: skip


def seen(**changes):
    values = {
        "verdict": "over-reserved", "p99": Decimal("0.25"), "peak_running": 50, "peak_waiting": 0,
        "preemptions": 0, "held_at_once": 200, "max_num_seqs": 256, "max_num_batched_tokens": 8192,
        "max_model_len": 32_768, "steps": STEPS,
        "prompts": histogram({"2000": 90, "5000": 100, "+Inf": 100}), "answers": ANSWERS,
        "tensor_parallel": 4, "total_bytes": 80 * GIB, "budget_bytes": 72 * GIB,
        "free_at_start_bytes": 79 * GIB, "activation_peak_bytes": 4 * GIB,
        "non_torch_bytes": 3 * GIB // 2, "alone_non_torch_bytes": GIB // 2, "kv_dtype": "auto",
        "pool_tokens": 320_000, "prefix_caching": True, "prefix_queries": 1_000_000,
        "prefix_hits": 420_000, "log": "start-up log 0123456789ab",
    }  # fmt: skip
    return Seen(**values | changes)


def told(knob, **changes):
    (found,) = [one for one in guidance(seen(**changes)) if one.knob == knob]
    return found


def test_a_histogram_answers_with_the_edges_of_a_bucket():
    assert PROMPTS.count == 100
    assert PROMPTS.quantile(Decimal("0.5")) == Between(200, 500)  # 37 up to 200, 67 up to 500
    assert PROMPTS.quantile(Decimal("0.93")) == Between(1000, 2000)
    assert PROMPTS.quantile(Decimal("0.94")) == Between(2000, None)
    assert PROMPTS.longest == Between(2000, None)
    assert ANSWERS.longest == Between(100, 200)  # the open bucket holds none
    assert Between(2000, None).words() == "over 2,000 tokens"
    assert Between(100, 200).words() == "101 to 200 tokens"
    assert histogram({}).longest is None and histogram({"+Inf": 0}).quantile(Decimal(1)) is None


lengths = st.lists(st.integers(1, 9000), min_size=1, max_size=60)
EDGES = [1, 2, 5, 10, 100, 1000, 2000, 5000]


@given(lengths, st.sampled_from(["0.01", "0.5", "0.9", "0.99", "1"]))
def test_the_true_quantile_lies_between_the_edges(values, share):
    cumulative = {str(edge): sum(v <= edge for v in values) for edge in EDGES}
    one = histogram(cumulative | {"+Inf": len(values)})
    true = sorted(values)[max(1, ceil(Decimal(share) * len(values))) - 1]
    found = one.quantile(Decimal(share))
    assert found.over < true and (found.most is None or true <= found.most)
    surely, perhaps = one.over(1500)
    assert surely <= sum(v > 1500 for v in values) <= perhaps
    assert together([one, one]).count == 2 * len(values)


def test_without_a_week_or_a_load_nothing_is_judged():
    for changes in ({"verdict": "not enough data"}, {"peak_running": 0}, {"peak_running": None}):
        rows = {one.knob: one for one in guidance(seen(**changes))}
        assert set(rows) == set(WORDS)
        for knob in ("--max-num-seqs", "--max-num-batched-tokens", "--kv-cache-dtype",
                     "--max-model-len"):  # fmt: skip
            assert rows[knob].verdict == NEEDS and rows[knob].needs
            assert rows[knob].says.startswith("Not enough evidence: need ")


@pytest.mark.parametrize("changes", [{"max_num_seqs": None}, {"max_num_batched_tokens": None},
                                     {"steps": Histogram()}, {"prompts": Histogram()},
                                     {"free_at_start_bytes": None}, {"tensor_parallel": None},
                                     {"non_torch_bytes": None}, {"kv_dtype": None},
                                     {"prefix_caching": None}, {"prefix_hits": None},
                                     {"max_model_len": None}])  # fmt: skip
def test_each_missing_piece_is_named(changes):
    needs = [one for one in guidance(seen(**changes)) if one.verdict == NEEDS]
    assert len(needs) == 1 and needs[0].needs


def test_requests_at_once():
    low = told("--max-num-seqs")
    # 50 × 1.2 = 60, to the next eight: 64 of 256.
    assert (
        low.verdict == "could be lower" and "64 would hold" in low.says and "4.00 GiB" in low.says
    )
    pushed = told("--max-num-seqs", preemptions=7, held_at_once=40, verdict="at risk",
                  peak_running=44)  # fmt: skip
    assert pushed.verdict == "could be lower" and "7 requests" in pushed.says
    assert "40 they wait" in pushed.says
    waits = told("--max-num-seqs", max_num_seqs=50, peak_waiting=9)
    assert waits.verdict == "could be higher" and "not memory" in waits.says
    # A full cache is no reason to let more in.
    full = told("--max-num-seqs", max_num_seqs=50, peak_waiting=9, verdict="tight")
    assert full.verdict == "keep"
    assert told("--max-num-seqs", max_num_seqs=100).verdict == "keep"
    assert "start-up log 0123456789ab" in low.sources


def test_tokens_of_a_step():
    low = told("--max-num-batched-tokens")
    # The largest step is in 2,049 to 4,096; of 8,192 half, so at most 2 of 4 GiB.
    assert low.verdict == "could be lower" and "2,049 to 4,096" in low.says
    assert "2.00 GiB of it would go to the cache: at most that" in low.says
    assert low.numbers["largest_step"] == [2048, 4096] and low.numbers["p99_step"] == [256, 2048]
    used = told("--max-num-batched-tokens", max_num_batched_tokens=2048)
    assert used.verdict == "keep"
    unknown = told("--max-num-batched-tokens", activation_peak_bytes=None)
    assert unknown.verdict == "could be lower" and "GiB" not in unknown.says


def test_communication_and_what_is_taken_before_sizing():
    several = told("tensor-parallel buffers")
    assert "1.50 GiB" in several.says and "1.00 GiB are communication" in several.says
    assert "not told apart" in told("tensor-parallel buffers", alone_non_torch_bytes=None).says
    assert "One GPU" in told("tensor-parallel buffers", tensor_parallel=1).says
    before = told("memory taken before sizing")
    # 79 of 80 GiB free: 0.9875, so 0.98 starts and 0.99 does not.
    assert before.numbers["highest_setting"] == "0.98" and "1.00 GiB of 80.00 GiB" in before.says
    busy = told("memory taken before sizing", free_at_start_bytes=60 * GIB)
    assert busy.verdict == "could be lower" and "12.00 GiB more" in busy.says


def test_bits_of_the_cache_and_reuse_of_prompts():
    assert told("--kv-cache-dtype").verdict == "keep"
    trial = told("--kv-cache-dtype", verdict="tight", p99=Decimal("0.93"))
    assert trial.verdict == "worth a trial" and "640,000 tokens" in trial.says
    assert trial.numbers["p99_in_8_bits"] == "0.4650"
    assert "already" in told("--kv-cache-dtype", kv_dtype="fp8_e4m3", verdict="tight").says
    reuse = told("--enable-prefix-caching")
    assert "42.0 %" in reuse.says and "smaller cache keeps fewer" in reuse.says
    assert told("--enable-prefix-caching", prefix_caching=False).verdict == "worth a trial"
    assert "brings little" in told("--enable-prefix-caching", prefix_hits=9_999).says


def test_the_longest_request_against_the_lengths_seen():
    low = told("--max-model-len")
    # The longest prompt has at most 5,000 tokens, the longest answer at most 200.
    assert low.verdict == "could be lower" and low.numbers["enough"] == 5_200
    assert "frees no memory by itself" in low.says
    assert told("--max-model-len", max_model_len=8192).verdict == "keep"
    assert told("--max-model-len", prompts=PROMPTS).verdict == "keep"  # the longest is not bounded


def load(**changes):
    many = histogram({"1000": 500, "2000": 2000, "+Inf": 2000})
    values = {"hours": range(168), "busy_hours": range(120), "peak_running": 50, "prompts": many,
              "earlier_peak_running": 52, "earlier_days": 28}  # fmt: skip
    return Load(**values | changes)


def test_a_load_that_stands_for_more_and_one_that_does_not():
    assert judged(load()) == ("representative", ())
    assert "up to 50 at once (up to 52 in the 28 days before)" in sentence(load())
    quiet = load(peak_running=41)
    assert judged(quiet)[0] == "not representative" and "52 in the 28 days" in sentence(quiet)
    assert judged(load(peak_running=42))[0] == "representative"  # 80 % of 52 is 41.6
    assert judged(load(hours=range(159)))[0] == "not representative"
    assert judged(load(busy_hours=()))[0] == "not representative"
    assert judged(load(earlier_peak_running=None))[0] == "partly representative"
    assert judged(load(prompts=Histogram()))[0] == "partly representative"
    assert load().as_json()["p95_prompt"] == [1000, 2000]
