"""Memory figures of public threads, each with the thread's own numbers.

The texts are the engines' lines of those versions with the numbers that people posted; a comment
names the thread. GiB become bytes by × 2^30.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from finops.core.engine_start import GIB, default_utilization
from finops.sources.engine_log import read_text
from tests.sources import log_texts as log


def one(*texts):
    found = read_text("\n".join(texts))
    assert len(found) == 1
    return found[0]


def kinds(failure):
    return {remedy.kind: remedy.to for remedy in failure.remedies}


def wrong(failure):
    return {remedy.kind for remedy in failure.wrong_remedies}


# total, share, budget, weights, non-torch, peak, KV; difference in hundredths of a GiB
IDENTITIES = [
    ("vllm#11251", "15.77", "0.90", "14.20", "7.51", "0.39", "2.53", "3.76", 1),
    ("vllm#11743", "79.33", "0.90", "71.39", "9.69", "1.27", "2.95", "57.48", 0),
    ("vllm#17117", "79.14", "0.25", "19.78", "8.64", "0.15", "0.25", "10.74", 0),
]


@pytest.mark.parametrize(
    ("thread", "total", "share", "budget", "weights", "non_torch", "peak", "kv", "hundredths"),
    IDENTITIES,
)
def test_identities_of_public_logs_hold(
    thread, total, share, budget, weights, non_torch, peak, kv, hundredths
):
    start = one(log.profile(total, share, budget, weights, non_torch, peak, kv))
    worker = start.workers[0]
    assert start.identity.holds
    assert start.identity.difference_bytes == round(Decimal(hundredths) * GIB / 100)
    assert worker.kv_bytes == round(Decimal(kv) * GIB)
    assert worker.total_bytes == round(Decimal(total) * GIB)
    assert Decimal(start.utilization) == Decimal(share)


def test_a_figure_that_does_not_add_up_is_told():
    start = one(log.profile("79.33", "0.90", "71.39", "9.69", "1.27", "2.95", "58.48"))
    assert not start.identity.holds and start.identity.difference_bytes == -GIB
    assert any("do not add up" in note for note in start.notes)


def test_rounding_allows_half_a_unit_for_each_printed_figure():
    # Five figures of two decimals: 0.025 GiB. 71.39 − 9.69 − 1.27 − 2.95 = 57.48.
    assert one(log.profile("79.33", "0.9", "71.39", "9.69", "1.27", "2.95", "57.50")).identity.holds
    off = one(log.profile("79.33", "0.9", "71.39", "9.69", "1.27", "2.95", "57.51"))
    assert not off.identity.holds


def test_blocks_concurrency_and_tokens_of_either_format():  # vllm#13596
    old = one(log.starting("0.7.3", model="'m'"), log.blocks(127626, 2048, 2048, "997.08", "cuda"))
    worker = old.workers[0]
    assert (worker.kv_blocks, worker.block_size, worker.kv_tokens) == (127_626, 16, 2_042_016)
    assert (worker.max_concurrency, old.max_model_len) == ("997.08", 2048)
    new = one(
        "INFO 02-21 09:00:00 kv_cache_utils.py:522] GPU KV cache size: 2,042,016 tokens",
        "INFO 02-21 09:00:00 kv_cache_utils.py:524] Maximum concurrency for 2,048 tokens per "
        "request: 997.08x",
    )
    assert new.workers[0].kv_tokens == 2_042_016 and new.max_model_len == 2048
    joined = one("INFO 07-01 09:00:00 [kv_cache_utils.py:1] GPU KV cache size: 2,042,016 tokens, "
                 "Maximum concurrency for 2,048 tokens per request: 997.08x")  # fmt: skip
    assert joined.workers[0].max_concurrency == "997.08" and joined.max_model_len == 2048


def test_a_block_of_an_8b_llama_on_two_gpus_is_one_mebibyte():  # vllm#11251
    start = one(
        log.profile("15.77", "0.90", "14.20", "7.51", "0.39", "2.53", "3.76"),
        log.blocks(3852, 4096, 40000, "1.54"),
    )
    worker = start.workers[0]
    assert worker.block_size == 16 and worker.kv_tokens == 3852 * 16
    a_block = Decimal(worker.kv_bytes) / worker.kv_blocks
    assert abs(a_block - 2**20) < 2**20 * Decimal("0.002")
    assert abs(a_block / 16 - 65_536) < 200


def test_what_sleep_leaves_in_use_is_of_the_whole_device():  # vllm#17117
    start = one(
        log.profile("79.14", "0.25", "19.78", "8.64", "0.15", "0.25", "10.74"),
        "INFO 04-24 10:00:00 [worker.py:133] Sleep mode freed 19.51 GiB memory, 26.31 GiB memory is "
        "still in use.",
    )
    (note,) = start.notes
    assert "19.51" in note and "26.31" in note and "all processes" in note


@pytest.mark.parametrize(
    ("thread", "length", "tokens", "blocks"),
    [
        ("vllm#2418", 4096, 3664, 229),
        ("OpenRLHF#336", 8192, 6048, 378),
        ("QwenLM/Qwen3#295", 32768, 7344, 459),
        ("vllm#5976", 131072, 50944, 3184),
        ("DeepSeek-V2#83", 163840, 13360, 835),
        ("vllm#11391", 56000, 43328, 2708),
        ("vllm#14452", 60000, 58384, 3649),
    ],
)
def test_a_longest_request_that_does_not_fit_in_tokens(thread, length, tokens, blocks):
    start = one(log.too_long_in_tokens(length, tokens))
    failure = start.failure
    assert (failure.kind, failure.max_model_len, failure.kv_tokens) == (
        "kv-too-small", length, tokens,
    )  # fmt: skip
    assert kinds(failure)["lower-max-model-len"] == str(tokens)
    assert failure.needed_bytes is None and failure.short_bytes is None
    assert f"{length - tokens:,} short" in failure.summary
    assert wrong(failure) == {"lower-utilization"}
    assert tokens == blocks * 16
    told = one(log.blocks(blocks), log.too_long_in_tokens(length, tokens)).workers[0]
    assert (told.kv_blocks, told.block_size, told.kv_tokens) == (blocks, 16, tokens)


def test_bytes_follow_where_the_cache_is_printed_too():
    failure = one(
        log.profile("23.65", "0.90", "21.28", "12.55", "0.10", "1.40", "7.23"),
        log.too_long_in_tokens(32768, 7344),
    ).failure
    available = round(Decimal("7.23") * GIB)
    assert failure.available_bytes == available
    assert failure.needed_bytes == -(-available * 32768 // 7344)
    assert failure.short_bytes == failure.needed_bytes - available
    assert kinds(failure)["raise-utilization"] is None  # 25 GiB more do not exist on a 24 GiB card
    # Nor do 16.13 GiB fit into 7.23. What suffices comes first.
    assert failure.as_json()["not_enough_alone"] == ["raise-utilization", "quantize-kv"]
    assert [one.suffices for one in failure.remedies] == [True, True, False, False]
    # 32.26 GiB needed: on 8 GPUs 4.03 each.
    assert int(kinds(failure)["more-gpus"]) in (2, 4, 8)


@pytest.mark.parametrize("word", ["models's", "model's"])
def test_a_longest_request_that_does_not_fit_in_bytes(word):  # vllm#34076: 24.0 GiB needed
    failure = one(
        log.starting("0.12.0", True, model="'Qwen/Qwen3-Coder-30B-A3B-Instruct'"),
        "INFO 02-07 10:00:00 [gpu_worker.py:1] Free memory on device (93.10/94.50 GiB) on startup. "
        "Desired GPU memory utilization is (0.9, 85.05 GiB). Actual usage is 56.93 GiB for weight, "
        "4.62 GiB for peak activation, 0.50 GiB for non-torch memory, and 0.0 GiB for CUDAGraph "
        "memory. Current kv cache memory in use is 23.0 GiB.",
        log.too_long_in_bytes(262144, "24.0", "23.0", 251216, word),
    ).failure
    assert failure.needed_bytes == 24 * GIB and failure.available_bytes == 23 * GIB
    assert failure.short_bytes == GIB
    helps = kinds(failure)
    assert helps["lower-max-model-len"] == "251216"
    # (85.05 + 1) ÷ 94.50 = 0.9106: the lowest hundredth at which it fits is 0.92.
    assert helps["raise-utilization"] == "0.92"
    assert (helps["quantize-kv"], helps["more-gpus"]) == ("fp8", "2")
    assert wrong(failure) == {"lower-utilization"}


def test_without_an_estimate_the_longest_length_follows_from_the_bytes():
    failure = one(log.too_long_in_bytes(262144, "24.0", "12.0")).failure
    longest = int(kinds(failure)["lower-max-model-len"])
    # A token takes 98,304 bytes: 12 GiB hold 131,072; what rounding may hide is left out.
    assert longest % 16 == 0 and 131_072 - 128 <= longest <= 131_072


@pytest.mark.parametrize(
    ("thread", "version", "shared"),
    [
        ("vllm#17431", "0.8.5", True),  # V1 to 0.9.0 charges other processes' memory
        ("vllm#2248", "0.2.6", True),  # two models with 0.4 each on one A100: the second fails
        ("vllm#10439", "0.6.4", False),
    ],
)
def test_no_room_for_blocks(thread, version, shared):
    failure = one(log.starting(version, model="'m'"), log.NO_BLOCKS).failure
    assert failure.kind == "no-kv-space"
    helps = kinds(failure)
    assert "raise-utilization" in helps and "more-gpus" in helps
    assert ("free-device" in helps) is shared
    # Often advised in such threads, and backwards.
    assert wrong(failure) == {"lower-utilization"} and "lower-utilization" not in helps


def test_the_share_that_is_too_small_and_the_one_that_fits():  # vllm#10439: 0.03 to 0.4 all fail
    # An invented card of 24 GiB with a 0.5B model: 0.93 + 0.09 + 8.9 GiB are taken before the cache.
    lines = ("23.65", "0.40", "9.46", "0.93", "0.09", "8.90", "-0.46")
    failure = one(log.profile(*lines), log.NO_BLOCKS).failure
    assert failure.short_bytes == round(Decimal("0.93") * GIB) + round(
        Decimal("0.09") * GIB
    ) + round(Decimal("8.90") * GIB) - round(Decimal("9.46") * GIB)
    # 9.92 ÷ 23.65 = 0.4195: the first hundredth that leaves a block.
    assert kinds(failure)["raise-utilization"] == "0.42"


def test_a_card_that_is_too_small_is_not_cured_by_its_share():  # Qwen3#12: 14B in 16 bits on 32 GB
    failure = one(
        log.profile("31.74", "0.95", "30.15", "27.60", "0.12", "4.50", "-2.07"), log.NO_BLOCKS
    ).failure
    helps = kinds(failure)
    assert helps["raise-utilization"] is None
    assert helps["more-gpus"] == "2" and "quantize-weights" in helps
    assert "lower-max-num-batched-tokens" in helps


@pytest.mark.parametrize("device", ["", " cuda:0"])
def test_a_gpu_that_others_use(device):  # kvcached#29: free 59.32 of 79.15, 71.24 wanted
    failure = one(log.busy("59.32", "79.15", "0.9", "71.24", device)).failure
    assert failure.kind == "device-busy"
    assert failure.needed_bytes == round(Decimal("71.24") * GIB)
    assert failure.available_bytes == round(Decimal("59.32") * GIB)
    assert failure.short_bytes == failure.needed_bytes - failure.available_bytes
    helps = kinds(failure)
    assert helps["free-device"] == str(failure.short_bytes)
    # 59.32 ÷ 79.15 = 0.7495: here lowering is the cure.
    assert helps["lower-utilization"] == "0.74"
    assert wrong(failure) == {"raise-utilization"}


def test_the_setting_is_what_the_engine_says_not_what_a_script_says():  # vllm#19023
    start = one(
        "INFO 06-02 10:00:00 [api_server.py:1] non-default args: {'model': 'm', "
        "'num_gpu_blocks_override': 4096, 'gpu_memory_utilization': 0.5}",
        log.profile("95.00", "0.80", "76.00", "15.00", "0.50", "1.50", "59.00"),
    )
    assert start.utilization == "0.8" and start.num_gpu_blocks_override == 4096
    assert any("not sized by memory" in note for note in start.notes)


def test_the_profiled_peak_is_budgeted_and_not_held():  # vllm#5305: A100-80 at 0.95, 76 expected, 55 seen
    start = one(log.profile("79.33", "0.95", "75.36", "14.00", "0.60", "21.00", "39.76"))
    worker = start.workers[0]
    held = worker.weights_bytes + worker.non_torch_bytes + worker.kv_bytes
    assert start.identity.holds
    assert abs(worker.budget_bytes - held - worker.activation_peak_bytes) <= 3  # rounded each
    assert 54 * GIB < held < 56 * GIB


def test_two_replicas_that_differ_grossly_are_seen_side_by_side():  # vllm#40256, vllm#55169
    awake, asleep = (
        one(
            f"(EngineCore_DP0 pid=1) INFO 04-20 10:00:00 [w.py:1] Available KV cache memory: {x} GiB"
        )
        for x in ("3.17", "5.16")
    )
    assert asleep.workers[0].kv_bytes - awake.workers[0].kv_bytes == 2_136_746_230
    grew = one("WARNING 11-01 [w.py:1] Free memory grew by 1.2 GiB during profiling",
               "INFO 11-01 [w.py:2] Available KV cache memory: 5.16 GiB")  # fmt: skip
    assert any("not valid" in note for note in grew.notes)


def test_tokens_of_a_hybrid_model_are_not_its_pool():  # vllm#40691
    start = one("INFO 04-23 10:00:00 [kv_cache_utils.py:1] GPU KV cache size: 290,864 tokens",
                "INFO 04-23 10:00:00 [kv_cache_utils.py:2] Maximum concurrency for 32,768 tokens per "
                "request: 33.04x")  # fmt: skip
    worker = start.workers[0]
    assert worker.kv_tokens == 290_864
    assert any("several kinds of layers" in note for note in start.notes)


@pytest.mark.parametrize(
    ("version", "share"),
    [("0.19.1", "0.9"), ("0.20.0", "0.92"), ("0.6.5", "0.9"), ("0.33.0", "0.92"), (None, None)],
)
def test_the_default_share_by_version(version, share):
    assert default_utilization(version) == (None if share is None else Decimal(share))
