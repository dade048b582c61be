"""Start-up logs of all versions: our own recorded ones, and lines filled with public numbers."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.engine_start import GIB
from finops.sources import registry
from finops.sources.engine_log import read_text
from finops.sources.records import Refused
from tests.paths import RECORDED
from tests.sources import log_texts as log

LOGS = RECORDED / "logs"


def one(*texts):
    found = read_text("\n".join(texts))
    assert len(found) == 1
    return found[0]


def kinds(failure):
    return {remedy.kind: remedy.to for remedy in failure.remedies}


# -- the real logs of our own recording (vLLM 0.32.0, CPU) -----------------------------------------


@pytest.mark.parametrize(
    ("name", "tokens", "kv_bytes", "length", "times"),
    [
        ("chat-7b-0.i1", 524_288, 1 << 30, 4096, "128.00"),
        ("chat-7b-0.i3", 8_192, 16_777_216, 2048, "4.00"),
        ("chat-7b-0.i5", 1_048_576, 2 << 30, 4096, "256.00"),
        ("chat-mp-0.i1", 524_288, 1 << 30, 4096, "128.00"),
    ],
)
def test_a_recorded_start(name, tokens, kv_bytes, length, times):
    start = one((LOGS / f"{name}.log").read_text())
    worker = start.workers[0]
    assert (start.engine_version, start.model) == ("0.32.0", "tiny-llama")
    assert start.failure is None and start.max_model_len == length
    assert (worker.kv_tokens, worker.kv_bytes, worker.max_concurrency) == (tokens, kv_bytes, times)
    assert worker.kv_bytes // worker.kv_tokens == 2048  # 4 layers × 2 × 2 heads × 64 × 2 bytes
    assert worker.weights_bytes is None and worker.graphs_bytes is None


def test_a_recorded_start_that_failed():
    failure = one((LOGS / "chat-7b-0.fail1.log").read_text()).failure
    assert (failure.kind, failure.max_model_len) == ("kv-too-small", 4096)
    assert failure.needed_bytes == round(0.01 * GIB) and failure.available_bytes == 0
    assert failure.short_bytes == failure.needed_bytes
    assert kinds(failure)["lower-max-model-len"] == "1984"
    # The size was given in bytes, so that the share of memory changes nothing.
    assert "raise-kv-cache-memory" in kinds(failure) and "raise-utilization" not in kinds(failure)
    # What the model really needs: 4,096 tokens of 2,048 bytes.
    assert int(kinds(failure)["raise-kv-cache-memory"]) >= 4096 * 2048
    assert [remedy.kind for remedy in failure.wrong_remedies] == ["lower-utilization"]


def test_each_data_parallel_rank_is_an_engine_with_a_worker_of_its_own():
    engines = read_text((LOGS / "chat-dp-0.i1.log").read_text())
    assert [e.data_parallel_rank for e in engines] == [0, 1]
    assert [e.data_parallel for e in engines] == [2, 2]
    for engine in engines:
        (worker,) = engine.workers
        assert (worker.kv_tokens, worker.kv_bytes) == (524_288, 1 << 30)


# -- lines of other versions -----------------------------------------------------------------------


def test_the_best_line_of_older_v1_versions():
    start = one(
        "(EngineCore_DP0 pid=99) INFO 10-02 08:00:01 [gpu_worker.py:298] Available KV cache memory: "
        "57.48 GiB",
        "(EngineCore_DP0 pid=99) INFO 10-02 08:00:02 [kv_cache_utils.py:849] GPU KV cache size: "
        "470,880 tokens",
        "(EngineCore_DP0 pid=99) INFO 10-02 08:00:02 [kv_cache_utils.py:853] Maximum concurrency "
        "for 32,768 tokens per request: 14.37x",
        "(EngineCore_DP0 pid=99) INFO 10-02 08:00:20 [gpu_model_runner.py:2753] Graph capturing "
        "finished in 17 secs, took 0.53 GiB",
        "(EngineCore_DP0 pid=99) INFO 10-02 08:00:20 [gpu_worker.py:391] Free memory on device "
        "(78.60/79.33 GiB) on startup. Desired GPU memory utilization is (0.9, 71.39 GiB). Actual "
        "usage is 9.69 GiB for weight, 2.95 GiB for peak activation, 1.27 GiB for non-torch memory, "
        "and 0.53 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with "
        "`--kv-cache-memory=60990000000` (56.8 GiB) to fit into requested memory, or "
        "`--kv-cache-memory=68700000000` (63.98 GiB) to fully utilize gpu memory. Current kv cache "
        "memory in use is 57.48 GiB.",
    )
    worker = start.workers[0]
    assert start.utilization == "0.9" and start.max_model_len == 32_768
    assert worker.weights_bytes == round(9.69 * GIB) and worker.graphs_bytes == round(0.53 * GIB)
    assert worker.activation_peak_bytes == round(2.95 * GIB)
    assert worker.non_torch_bytes == round(1.27 * GIB)
    assert start.identity.holds and start.identity.difference_bytes == 0


def test_the_best_line_from_0_27_on():
    start = one(
        "INFO 06-01 09:00:00 [gpu_worker.py:512] Free memory on device cuda:0 (15.30/15.51 GiB) on "
        "startup. Desired GPU memory utilization is (0.92, 14.27 GiB). Actual usage is 10.47 GiB "
        "for consumed memory (weights + non-torch), 0.79 GiB for peak activation, and 0.25 GiB for "
        "CUDAGraph memory. Current kv cache memory in use is 3.01 GiB."
    )
    worker = start.workers[0]
    assert start.identity.holds and start.identity.difference_bytes == 0
    assert worker.weights_and_non_torch_bytes == round(10.47 * GIB)
    assert worker.weights_bytes is None and worker.non_torch_bytes is None
    assert worker.kv_bytes == round(3.01 * GIB)


def test_the_cache_in_bytes_is_kept_to_the_byte():
    start = one("INFO 10-02 08:00:20 [gpu_worker.py:391] Current kv cache memory in use is "
                "61718798336 bytes.")  # fmt: skip
    assert start.workers[0].kv_bytes == 61_718_798_336


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("Loading model weights took 14.2487 GB", 14.2487),
        ("Model loading took 14.2717 GB and 5.2 seconds", 14.2717),
        ("Model loading took 14.99 GiB and 5.284115 seconds", 14.99),
        ("Model loading took 14.99 GiB memory and 5.284115 seconds", 14.99),
    ],
)
def test_weights_in_all_spellings_are_gib(text, weights):
    start = one(f"INFO 03-01 10:00:00 [gpu_model_runner.py:1] {text}")
    assert start.workers[0].weights_bytes == round(weights * GIB)


def test_workers_of_tensor_and_pipeline_ranks():
    lines = [log.starting("0.11.0", True, model="'m'", tensor_parallel_size=2,
                          pipeline_parallel_size=2)]  # fmt: skip
    for stage in (0, 1):
        for rank in (0, 1):
            lines.append(
                f"\x1b[1;36m(Worker_PP{stage}_TP{rank} pid={stage}{rank})\x1b[0;0m INFO 10-02 "
                f"08:00:01 [gpu_worker.py:298] Available KV cache memory: {10 + stage}.{rank}0 GiB"
            )
    lines.append(
        "(EngineCore_DP0 pid=9) INFO 10-02 08:00:01 [kv.py:1] GPU KV cache size: 100 tokens"
    )
    start = one(*lines)
    assert [(w.rank, w.kv_bytes) for w in start.workers] == [
        (0, 10 * GIB), (1, round(10.1 * GIB)), (2, 11 * GIB), (3, round(11.1 * GIB)),
    ]  # fmt: skip
    assert [w.kv_tokens for w in start.workers] == [100, None, None, None]


def test_old_workers_and_their_driver():
    start = one(
        log.starting("0.6.5", model="'m'"),
        log.profile("15.77", "0.90", "14.20", "7.51", "0.39", "2.53", "3.76"),
        log.profile("15.77", "0.90", "14.20", "7.51", "0.37", "2.53", "3.78",
                    prefix="(VllmWorkerProcess pid=77) "),
    )  # fmt: skip
    assert [w.kv_bytes for w in start.workers] == [round(3.76 * GIB), round(3.78 * GIB)]
    assert start.utilization == "0.9" and start.identity.holds


def test_containers_and_json_around_a_line():
    inner = log.busy("59.32", "79.15", "0.9", "71.24")
    for wrapped in (
        f"2026-11-29T10:00:00.123456Z stderr F {inner}",
        json.dumps({"log": inner + "\n", "stream": "stderr"}),
    ):
        assert one(wrapped).failure.kind == "device-busy"


def test_restarts_in_one_log_are_told_apart():
    found = read_text("\n".join([
        log.starting("0.9.2", True, model="'m'", max_seq_len=8192),
        log.NO_BLOCKS,
        log.starting("0.9.2", True, model="'m'", max_seq_len=4096),
        "INFO 10-02 08:00:02 [kv_cache_utils.py:849] GPU KV cache size: 4,096 tokens",
    ]))  # fmt: skip
    assert [(e.max_model_len, e.failure is None) for e in found] == [(8192, False), (4096, True)]


def test_a_start_that_was_killed_early_keeps_its_own_settings():
    def launch(version, length, share):
        stamp = "(APIServer pid=1) INFO 10-02 08:00:01 [api_server.py:1000]"
        return [
            f"{stamp} vLLM API server version {version}",
            f"{stamp} non-default args: {{'max_model_len': {length}, 'gpu_memory_utilization': {share}}}",
            log.starting(version, True, model="'m'", max_seq_len=length),
        ]

    # The machine killed the first while it loaded; nothing more came of it.
    first, second = read_text("\n".join([
        *launch("0.19.1", 8192, "0.5"), *launch("0.20.0", 4096, "0.9"),
        "(EngineCore_DP0 pid=9) INFO 10-02 08:00:09 [kv_cache_utils.py:849] GPU KV cache size: 4,096 tokens",
    ]))  # fmt: skip
    assert (first.engine_version, first.max_model_len, first.utilization) == ("0.19.1", 8192, "0.5")
    assert not first.workers and first.failure is None
    assert (second.engine_version, second.max_model_len, second.utilization) == (
        "0.20.0",
        4096,
        "0.9",
    )
    assert second.workers[0].kv_tokens == 4096


def test_a_cause_is_named_rather_than_that_it_failed():
    start = one("ERROR 10-02 [core.py:1] EngineCore failed to start.", log.NO_BLOCKS,
                "RuntimeError: Engine core initialization failed. See root cause above.")  # fmt: skip
    assert start.failure.kind == "no-kv-space"
    only = one("ERROR 10-02 [core.py:1] EngineCore failed to start.")
    assert only.failure.kind == "unknown" and only.failure.remedies == []


def test_memory_that_ran_out_beside_the_budget():
    start = one(
        log.profile("79.33", "0.98", "77.74", "9.69", "1.27", "2.95", "63.83"),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total "
        "capacity of 79.33 GiB of which 512.00 MiB is free.",
    )
    failure = start.failure
    assert (failure.kind, failure.needed_bytes) == ("out-of-memory", 5 * GIB // 4)
    assert failure.available_bytes == GIB // 2 and failure.short_bytes == 3 * GIB // 4
    assert kinds(failure)["lower-utilization"] == "0.97"


def test_disturbed_while_measuring():
    failure = one("AssertionError: Error in memory profiling. Initial free memory 84.1 GiB, current "
                  "free memory 86.0 GiB. This happens when other processes sharing the same "
                  "container release GPU memory while vLLM is profiling.").failure  # fmt: skip
    assert failure.kind == "profiling-disturbed" and "start-again" in kinds(failure)
    before, after = round(Decimal("84.1") * GIB), round(Decimal("86.0") * GIB)
    assert (failure.free_before_bytes, failure.free_after_bytes) == (before, after)
    assert failure.short_bytes == after - before and "1.90 GiB" in failure.summary
    assert failure.as_json()["free_after_bytes"] == after


def test_older_engines_print_what_was_disturbed_in_bytes():
    failure = one("AssertionError: Error in memory profiling. Initial free memory 84893433856, "
                  "current free memory 85098954752. This happens when the GPU memory was not "
                  "properly cleaned up before initializing the vLLM instance.").failure  # fmt: skip
    assert (failure.free_before_bytes, failure.free_after_bytes) == (84_893_433_856, 85_098_954_752)
    assert failure.short_bytes == 205_520_896 and "0.19 GiB" in failure.summary


def test_what_the_message_does_not_tell_stays_unknown():
    failure = one("AssertionError: Error in memory profiling.").failure
    assert failure.short_bytes is None and failure.free_before_bytes is None


# How processes that pass lines on put their names before them, as people posted it.
PREFIXES = [
    "(VllmWorker TP{} pid=1{}) ",
    "(EngineCore_DP0 pid=9) (Worker_TP{} pid=1{}) ",
    "(EngineCore pid=9) (RayWorkerProc pid=7{}, ip=10.0.0.2) (Worker_TP{} pid=1{}) ",
    "vllm-1  | (Worker_TP{} pid=1{}) ",
    "vllm-1  | (EngineCore_DP0 pid=9) (Worker_TP{} pid=1{}) ",
    "(Worker pid=5{}) (Worker_TP{} pid=1{}) ",
    "(EngineCore_DP0 pid=9) (Worker pid=5{}) ",
    "(EngineCore pid=9) (RayWorkerWrapper pid=7{}, ip=10.0.0.2) ",
    "Nov 15 23:50:00 gpu-1 vllm[1234]: (Worker_TP{} pid=1{}) ",
    "2026-11-15T23:50:00+0000 gpu-1 vllm[1234]: (EngineCore_DP0 pid=9) (Worker pid=5{}) ",
    "<14>1 2026-11-15T23:50:00Z gpu-1 vllm 1234 - - (Worker_TP{} pid=1{}) ",
    "[pod/chat-0/vllm] (Worker_TP{} pid=1{}) ",
    "[pod/chat-0/vllm] 2026-11-15T23:50:00.123456789Z \x1b[1;36m(Worker_TP{} pid=1{})\x1b[0;0m ",
    "chat-0 vllm (Worker_TP{} pid=1{}) ",
    "chat.1.kq5w2@gpu-1    | (Worker_TP{} pid=1{}) ",
    "2026-11-15 23:50:00 (VllmWorker rank={} pid=1{}) ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_workers_are_told_apart_whoever_passes_their_lines_on(prefix):
    """Two workers of 7.51 and 7.62 GiB of weights are never one of the later figure."""
    texts = [
        prefix.replace("{}", str(rank)) + f"INFO 11-15 23:50:0{rank} [x.py:1] Model loading took "
        f"{weights} GiB memory and 5.2 seconds"
        for rank, weights in ((0, "7.51"), (1, "7.62"))
    ]
    start = one("(EngineCore_DP0 pid=9) INFO 11-15 23:49:00 [x.py:1] Initializing a V1 LLM engine "
                "(v0.11.0) with config: model='m', tensor_parallel_size=2", *texts)  # fmt: skip
    found = [worker.weights_bytes for worker in start.workers]
    assert found == [round(Decimal(size) * GIB) for size in ("7.51", "7.62")]


@pytest.mark.parametrize(
    "mark",
    [
        "[pod/chat-{}/vllm] ",
        "[pod/chat-{}/vllm] 2026-11-15T23:50:00.123456789Z ",
        "chat-{}  | ",
        "chat.{}.kq5w2@gpu-1 | ",
    ],
)
def test_logs_of_several_containers_in_one_are_not_mixed(mark):
    """Two pods print turn by turn: each keeps its own 10 and 20 GiB."""
    two = {
        name: [
            f"(EngineCore_DP0 pid=9) INFO 11-15 23:49:00 [x.py:1] Initializing a V1 LLM engine "
            f"(v0.11.0) with config: model='{name}'",
            f"(EngineCore_DP0 pid=9) INFO 11-15 23:50:00 [x.py:1] Available KV cache memory: {size} GiB",
        ]
        for name, size in (("a", "10.0"), ("b", "20.0"))
    }
    turns = zip(
        *([mark.replace("{}", name) + line for line in two[name]] for name in two), strict=True
    )
    found = read_text("\n".join(line for turn in turns for line in turn))
    assert [(e.model, e.workers[0].kv_bytes) for e in found] == [("a", 10 * GIB), ("b", 20 * GIB)]
    as_json = [
        json.dumps({"log": line, "kubernetes": {"pod_name": name}})
        for lines in zip(two["a"], two["b"], strict=True)
        for name, line in zip("ab", lines, strict=True)
    ]
    assert [e.workers[0].kv_bytes for e in read_text("\n".join(as_json))] == [10 * GIB, 20 * GIB]


def test_the_card_of_an_error_tells_by_how_much_to_lower():
    failure = one(
        log.starting("0.11.0", True, model="'m'", gpu_memory_utilization="0.95"),
        "INFO 10-02 08:00:01 [gpu_worker.py:298] Available KV cache memory: 3.01 GiB",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total "
        "capacity of 79.33 GiB of which 512.00 MiB is free.",
    ).failure
    # 0.95 − 0.75 ÷ 79.33 = 0.9405
    assert kinds(failure)["lower-utilization"] == "0.94"


def test_a_log_that_begins_after_the_start_still_tells_of_sleep():
    start = one("INFO 04-24 10:00:00 [worker.py:133] Sleep mode freed 19.51 GiB memory, 26.31 GiB "
                "memory is still in use.")  # fmt: skip
    assert "19.51" in start.notes[0] and start.workers == []


HOSTILE = st.one_of(
    st.sampled_from(["5.9.32", "...", ",,,", "nan", "inf", "-", "0", "0.00", "-0.005", "9" * 5000,
                     "1" * 16, "999999999.999999999", "٣", "1e9", ""]),
    st.decimals(-10, 10**7, allow_nan=False, allow_infinity=False, places=2).map(str),
)  # fmt: skip


@settings(deadline=None)
@given(st.data())
def test_no_number_in_a_line_makes_reading_fail(data):
    """Every form of a line with numbers that no engine prints: read or left out, never an error."""
    n = lambda: data.draw(HOSTILE)  # noqa: E731
    forms = [
        log.starting("0.11.0", model="'m'", max_seq_len=n(), gpu_memory_utilization=n()),
        log.profile(n(), n(), n(), n(), n(), n(), n()),
        log.blocks(n(), n(), n(), n()),
        f"INFO GPU KV cache size: {n()} tokens, Maximum concurrency for {n()} tokens per request: {n()}x",
        f"INFO Free memory on device ({n()}/{n()} GiB) on startup. Desired GPU memory utilization is "
        f"({n()}, {n()} GiB). Actual usage is {n()} GiB for weight, {n()} GiB for peak activation, {n()} "
        f"GiB for non-torch memory, and {n()} GiB for CUDAGraph memory. Current kv cache memory in "
        f"use is {n()} GiB.",
        log.too_long_in_tokens(n(), n()),
        log.too_long_in_bytes(n(), n(), n(), n()),
        log.busy(n(), n(), n(), n()),
        log.NO_BLOCKS,
        f"CUDA out of memory. Tried to allocate {n()} GiB. GPU 0 has a total capacity of {n()} GiB of "
        f"which {n()} MiB is free.",
        f"AssertionError: Error in memory profiling. Initial free memory {n()}, current free memory {n()}.",
    ]
    for start in read_text(
        "\n".join(data.draw(st.permutations(forms))[: data.draw(st.integers(1, 6))])
    ):
        for worker in start.workers:
            assert all(v is None or abs(v) < 1 << 62 for v in (worker.kv_bytes, worker.total_bytes))


def test_a_log_is_known_by_its_lines_and_another_text_is_not(tmp_path: Path):
    path = tmp_path / "engine.log"
    path.write_text(log.profile("15.77", "0.90", "14.20", "7.51", "0.39", "2.53", "3.76"))
    assert registry.detect(path, "engine.log") == "engine-log"
    (record,) = registry.parse(path, "engine.log").records
    assert record.engine.workers[0].kv_bytes == round(3.76 * GIB)
    for start in ("[pod/chat-0/vllm] ", "[rank0]: ", "[2026-11-29 10:00:00] "):
        path.write_text(start + log.NO_BLOCKS + "\n")
        assert registry.detect(path, "engine.log") == "engine-log"
    path.write_text("nothing here\n")
    with pytest.raises(Refused, match="no line of an engine's start"):
        list(registry.parse(path, "engine.log", "engine-log").records)


@given(st.text(max_size=300))
def test_any_text_is_read_without_failing(text):
    read_text(text)
