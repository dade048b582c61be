"""Every form of a start-up line and of an error, over all versions: one row each (method §8.2).

A row names the form and the versions that print it, gives the line as they print it, and what has
to be read of it. Figures written as GiB, or as the old "GB" which is GiB, become bytes × 2^30.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from finops.core.engine_start import GIB
from tests.sources import log_texts as log
from tests.sources.test_engine_log import kinds, one

STAMP = "(EngineCore_DP0 pid=99) INFO 10-02 08:00:01 [gpu_worker.py:298] "
DEBUG = "(EngineCore_DP0 pid=99) DEBUG 10-02 08:00:20 [gpu_worker.py:391] "
REPLACE = (
    " Replace gpu_memory_utilization config with `--kv-cache-memory=60990000000` (56.8 GiB) to fit "
    "into requested memory, or `--kv-cache-memory=68700000000` (63.98 GiB) to fully utilize gpu "
    "memory."
)
BEST = (
    "Free memory on device (78.60/79.33 GiB) on startup. Desired GPU memory utilization is (0.9, "
    "71.39 GiB). Actual usage is 9.69 GiB for weight, 2.95 GiB for peak activation, 1.27 GiB for "
    f"non-torch memory, and 0.53 GiB for CUDAGraph memory.{REPLACE} Current kv cache memory in use "
    "is 57.48 GiB."
)
BEST_READ = {
    "total_bytes": "79.33", "budget_bytes": "71.39", "free_at_start_bytes": "78.60",
    "weights_bytes": "9.69", "activation_peak_bytes": "2.95", "non_torch_bytes": "1.27",
    "graphs_bytes": "0.53", "kv_bytes": "57.48",
}  # fmt: skip
NEWEST = (
    "Free memory on device cuda:0 (15.30/15.51 GiB) on startup. Desired GPU memory utilization is "
    "(0.92, 14.27 GiB). Actual usage is 10.47 GiB for consumed memory (weights + non-torch), 0.79 "
    "GiB for peak activation, and 0.25 GiB for CUDAGraph memory. Current kv cache memory in use is "
    "3.01 GiB."
)

# Form; versions; the line; figures of the worker: GiB as text, whole numbers as they are.
LINES = (
    ("blocks", "V0, V1 to 2025-02", log.blocks(127_626), {"kv_blocks": 127_626}),
    ("blocks, other devices", "V0", log.blocks(2_112, device="HPU"), {"kv_blocks": 2_112}),
    ("blocks with concurrency", "V0 from 0.6.2", log.blocks(3_852, length=40_000, times="1.54"),
     {"kv_blocks": 3_852, "max_concurrency": "1.54"}),
    ("memory profiling takes", "V0 0.6.5 to 0.10",
     log.profile("15.77", "0.90", "14.20", "7.51", "0.39", "2.53", "3.76"),
     {"total_bytes": "15.77", "budget_bytes": "14.20", "weights_bytes": "7.51",
      "non_torch_bytes": "0.39", "activation_peak_bytes": "2.53", "kv_bytes": "3.76"}),
    ("loading model weights took", "to 0.7.3", STAMP + "Loading model weights took 14.9888 GB",
     {"weights_bytes": "14.9888"}),
    ("model loading took, GB", "0.8.0 to 0.8.2",
     STAMP + "Model loading took 14.2717 GB and 5.284 seconds", {"weights_bytes": "14.2717"}),
    ("model loading took, GiB", "0.8.3 on",
     STAMP + "Model loading took 14.2717 GiB and 5.284 seconds", {"weights_bytes": "14.2717"}),
    ("model loading took, memory", "later",
     STAMP + "Model loading took 14.27 GiB memory and 5.284115 seconds", {"weights_bytes": "14.27"}),
    ("model loading took, V2 runner", "0.14 to about 0.27",
     STAMP + "Model loading took 14.27 GiB and 5.28 seconds", {"weights_bytes": "14.27"}),
    ("KV cache size, two lines", "V1 0.8 to 0.24",
     f"{STAMP}GPU KV cache size: 470,880 tokens\n{STAMP}Maximum concurrency for 32,768 tokens per "
     "request: 14.37x", {"kv_tokens": 470_880, "max_concurrency": "14.37"}),
    ("KV cache size, one line", "0.28",
     STAMP + "GPU KV cache size: 1,082,655 tokens, Maximum concurrency for 32,768 tokens per "
     "request: 33.04x", {"kv_tokens": 1_082_655, "max_concurrency": "33.04"}),
    ("KV cache size, generic device", "0.30 on",
     STAMP + "XPU KV cache size: 98,304 tokens", {"kv_tokens": 98_304}),
    ("KV cache size, device and host", "0.30 on, HiSparse",
     STAMP + "GPU + host KV cache size: 500,000 tokens", {"kv_tokens": 500_000}),
    ("available KV cache memory", "V1 0.9.1 on",
     STAMP + "Available KV cache memory: 57.48 GiB", {"kv_bytes": "57.48"}),
    ("estimated CUDA graph memory", "0.18 on",
     f"{STAMP}Estimated CUDA graph memory: 0.62 GiB total\n{STAMP}CUDA graph pool memory: 0.53 GiB "
     "(actual), 0.62 GiB (estimated), difference: 0.09 GiB (17.0%).", {"graphs_bytes": "0.53"}),
    ("graph capturing finished", "all",
     STAMP + "Graph capturing finished in 17 secs, took 0.53 GiB", {"graphs_bytes": "0.53"}),
    ("free memory on device, INFO", "0.10.2, and 0.26 on", STAMP + BEST, BEST_READ),
    ("free memory on device, DEBUG", "0.11 to 0.24", DEBUG + BEST, BEST_READ),
    ("free memory on device, consumed", "0.27 on", STAMP + NEWEST,
     {"total_bytes": "15.51", "budget_bytes": "14.27", "weights_and_non_torch_bytes": "10.47",
      "weights_bytes": None, "non_torch_bytes": None, "activation_peak_bytes": "0.79",
      "graphs_bytes": "0.25", "kv_bytes": "3.01"}),
    ("size given in bytes", "0.10.2 on",
     STAMP + "Initial free memory 78.60 GiB, reserved 20.00 GiB memory for KV Cache as specified by "
     "kv_cache_memory_bytes config and skipped memory profiling. This does not respect the "
     "gpu_memory_utilization config.", {"free_at_start_bytes": "78.60", "kv_bytes": "20.00"}),
)  # fmt: skip


@pytest.mark.parametrize(("form", "versions", "text", "expected"), LINES, ids=lambda one: one if
                         isinstance(one, str) and len(one) < 40 else "")  # fmt: skip
def test_a_line_is_read_to_its_last_figure(form, versions, text, expected):
    start = one(text)
    (worker,) = start.workers
    assert start.failure is None
    for name, value in expected.items():
        exact = round(Decimal(value) * GIB) if name.endswith("_bytes") and value else value
        assert getattr(worker, name) == exact, (form, name)


@pytest.mark.parametrize("text", [BEST, NEWEST])
def test_both_forms_of_the_best_line_close(text):
    """The graphs' estimate is part of the printed peak: it is not taken off once more."""
    found = one(STAMP + text).identity
    assert found.holds and found.difference_bytes == 0


# A line that tells no figure of the table, and what is noted of it instead.
NOTED = (
    ("sleep mode freed", "0.7 on",
     STAMP + "Sleep mode freed 19.51 GiB memory, 26.31 GiB memory is still in use.", "26.31"),
    ("size given in bytes", "0.10.2 on",
     STAMP + "Initial free memory 78.60 GiB, reserved 57.48 GiB memory for KV Cache as specified by "
     "kv_cache_memory_bytes config and skipped memory profiling.",
     "gpu_memory_utilization had no effect"),
    ("free memory grew by", "0.33, ROCm",
     STAMP + "Free memory grew by 1.20 GiB during profiling", "not valid"),
)  # fmt: skip


@pytest.mark.parametrize(("form", "versions", "text", "word"), NOTED)
def test_a_line_without_a_figure_of_the_table_is_noted(form, versions, text, word):
    start = one(STAMP + BEST, text)
    assert any(word in note for note in start.notes), (form, start.notes)
    assert start.workers[0].kv_bytes == round(57.48 * GIB)


def test_a_longest_request_that_was_shrunk_to_fit():  # --max-model-len auto, 0.14 on
    start = one(
        STAMP + "Auto-fit max_model_len: reduced from 131072 to 43,328 to fit in available GPU "
        "memory (10.00 GiB available for KV cache)",
        STAMP + "GPU KV cache size: 43,328 tokens",
    )
    assert start.max_model_len == 43_328 and start.failure is None


RAISE = "Try increasing `gpu_memory_utilization` "
CONSERVE = " See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
CPU_TOO = "(this flag also controls CPU memory reservation on the CPU backend, despite its name) "
NEEDED = {"needed_bytes": "24.0", "available_bytes": "20.5", "max_model_len": 262_144}
# Kind; form; versions; the message; what is read of it; a remedy; advice that is named as wrong.
ERRORS = (
    ("no-kv-space", "no blocks", "0.1 on", log.NO_BLOCKS, {}, "raise-utilization",
     "lower-utilization"),
    ("no-kv-space", "no blocks, with an address", "0.13 on", log.NO_BLOCKS + CONSERVE, {},
     "raise-utilization", "lower-utilization"),
    ("no-kv-space", "no blocks, CPU", "0.24 on",
     "ValueError: No available memory for the cache blocks. " + RAISE + CPU_TOO
     + "when initializing the engine." + CONSERVE, {}, "raise-utilization", "lower-utilization"),
    ("kv-too-small", "longest request in tokens", "V0", log.too_long_in_tokens(131_072, 50_944),
     {"max_model_len": 131_072, "kv_tokens": 50_944}, "lower-max-model-len", "lower-utilization"),
    ("kv-too-small", "longest request in bytes", "V1 to 0.23",
     log.too_long_in_bytes(262_144, "24.0", "20.5", 223_904), NEEDED
     | {"estimated_max_model_len": 223_904}, "lower-max-model-len", "lower-utilization"),
    ("kv-too-small", "longest request, estimate lost", "0.8.4 to 0.8.5",
     log.too_long_in_bytes(262_144, "24.0", "20.5"), NEEDED | {"estimated_max_model_len": None},
     "lower-max-model-len", "lower-utilization"),
    ("kv-too-small", "longest request, spelling mended", "0.24 on",
     log.too_long_in_bytes(262_144, "24.0", "20.5", 223_904, word="model's"),
     NEEDED | {"estimated_max_model_len": 223_904}, "lower-max-model-len", "lower-utilization"),
    ("kv-too-small", "longest request, brackets mended and CPU", "0.24 on",
     "ValueError: To serve at least one request with the model's max seq len (262144), 24.0 GiB KV "
     "cache is needed, which is larger than the available KV cache memory (20.5 GiB). Based on the "
     "available memory, the estimated maximum model length is 223904. " + RAISE + CPU_TOO
     + "or decreasing `max_model_len` when initializing the engine." + CONSERVE,
     NEEDED | {"estimated_max_model_len": 223_904}, "lower-max-model-len", "lower-utilization"),
    ("device-busy", "others hold the device", "0.9.1 on",
     log.busy("59.32", "79.15", "0.9", "71.24"),
     {"available_bytes": "59.32", "needed_bytes": "71.24", "total_bytes": "79.15",
      "utilization": "0.9"}, "lower-utilization", "raise-utilization"),
    ("device-busy", "others hold the device, by name", "later",
     log.busy("59.32", "79.15", "0.9", "71.24", device=" cuda:1"),
     {"available_bytes": "59.32", "needed_bytes": "71.24", "total_bytes": "79.15"},
     "free-device", "raise-utilization"),
    ("profiling-disturbed", "error in memory profiling", "all",
     "AssertionError: Error in memory profiling. Initial free memory 84.1 GiB, current free memory "
     "86.0 GiB. This happens when other processes sharing the same container release GPU memory "
     "while vLLM is profiling.", {}, "start-again", "raise-utilization"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "form", "versions", "text", "expected", "helps", "wrong"), ERRORS,
    ids=[row[1] for row in ERRORS],
)  # fmt: skip
def test_an_error_says_what_was_short_and_what_helps(
    kind, form, versions, text, expected, helps, wrong
):
    failure = one(text).failure
    assert failure.kind == kind, form
    for name, value in expected.items():
        exact = round(Decimal(value) * GIB) if name.endswith("_bytes") else value
        assert getattr(failure, name) == exact, (form, name)
    if {"needed_bytes", "available_bytes"} <= expected.keys():
        short = Decimal(expected["needed_bytes"]) - Decimal(expected["available_bytes"])
        assert abs(failure.short_bytes - short * GIB) <= 1
    assert helps in kinds(failure)
    named = [remedy.kind for remedy in failure.wrong_remedies]
    assert wrong in named
    assert failure.summary and failure.text
