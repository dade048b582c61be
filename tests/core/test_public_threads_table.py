"""Every thread of the public record is a test with its numbers, or said to be missing.

One row a thread (or group of threads): its number in our list of facts, the thread, and the test
that holds its numbers. A thread whose cause nobody established has a test of what we say of it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

CACHE, LOGS = (
    "tests/core/test_public_cache_threads.py",
    "tests/sources/test_public_memory_threads.py",
)
AUDITOR, EVIDENCE = "tests/core/test_auditor.py", "tests/ledger/test_memory_evidence.py"
COUNTING = "tests/ledger/test_counting_threads.py"
RESERVATION = "test_what_nvidia_smi_shows_of_the_threads_cards_is_the_reservation"
KILLED, GONE = (
    "test_an_engine_that_a_negative_increment_killed_counts_in_both_lives",
    "test_a_name_that_is_gone_leaves_the_count_as_it_is",
)
ROWS = (
    (1, "vllm#55634", COUNTING, "test_aborted_requests_are_processed_and_never_delivered"),
    (2, "vllm#56923", COUNTING, "test_several_answers_count_the_prompt_once_for_each"),
    (4, "vllm#31503", COUNTING, "test_aborted_requests_are_processed_and_never_delivered"),
    (36, "LMCache#3269", COUNTING, KILLED),
    (37, "vllm#6642", COUNTING, KILLED),
    (37, "#10430", COUNTING, KILLED),
    (37, "#26372", COUNTING, KILLED),
    (37, "vllm-ascend#6868", COUNTING, KILLED),
    (38, "inference-perf#277", COUNTING, GONE),
    (38, "gateway-api-inference-extension#1905", COUNTING, GONE),
    (38, "llm-d#546", COUNTING, GONE),
    (38, "llm-d-inference-sim#304", COUNTING, "test_two_names_of_one_figure_are_one_figure"),
    (38, "#307", COUNTING, "test_two_names_of_one_figure_are_one_figure"),
    (38, "gpustack#2985", COUNTING, GONE),
    (43, "prometheus#3746", COUNTING, "test_tokens_are_whole_where_increase_is_not"),
    (45, "litellm#22984", COUNTING, "test_cached_tokens_of_a_gateway_s_record_are_kept"),
    (46, "archestra#6906", COUNTING, "test_a_model_of_one_s_own_is_given_no_price"),
    (5, "vllm#22545", CACHE, "test_gauges_that_froze_when_all_requests_were_aborted"),
    (6, "vllm#29928", CACHE, "test_gauges_that_froze_when_all_requests_were_aborted"),
    (8, "vllm#20302", CACHE, "test_both_names_of_one_use_count_once"),
    (9, "vllm#27073", CACHE, "test_a_cache_that_filled_for_hours_under_load_is_real_and_at_risk"),
    (11, "vllm#51163", CACHE, "test_the_block_size_of_a_hybrid_model_is_not_its_pool_s"),
    (12, "vllm#42966", CACHE, "test_the_block_size_of_a_hybrid_model_is_not_its_pool_s"),
    (14, "vllm#13596", LOGS, "test_blocks_concurrency_and_tokens_of_either_format"),
    (15, "vllm#11251", LOGS, "test_a_block_of_an_8b_llama_on_two_gpus_is_one_mebibyte"),
    (16, "vllm#11743", LOGS, "test_identities_of_public_logs_hold"),
    (17, "vllm#17117", LOGS, "test_what_sleep_leaves_in_use_is_of_the_whole_device"),
    (20, "vllm#2418", LOGS, "test_a_longest_request_that_does_not_fit_in_tokens"),
    (21, "OpenRLHF#336", LOGS, "test_a_longest_request_that_does_not_fit_in_tokens"),
    (22, "QwenLM/Qwen3#295", LOGS, "test_a_longest_request_that_does_not_fit_in_tokens"),
    (23, "vllm#5976", LOGS, "test_a_longest_request_that_does_not_fit_in_tokens"),
    (23, "DeepSeek-V2#83", LOGS, "test_a_longest_request_that_does_not_fit_in_tokens"),
    (23, "vllm#11391", LOGS, "test_a_longest_request_that_does_not_fit_in_tokens"),
    (23, "vllm#14452", LOGS, "test_a_longest_request_that_does_not_fit_in_tokens"),
    (25, "vllm#17431", LOGS, "test_no_room_for_blocks"),
    (26, "vllm#2248", LOGS, "test_no_room_for_blocks"),
    (27, "vllm#10439", LOGS, "test_no_room_for_blocks"),
    (28, "Qwen3#12", LOGS, "test_a_card_that_is_too_small_is_not_cured_by_its_share"),
    (30, "kvcached#29", LOGS, "test_a_gpu_that_others_use"),
    (33, "vllm#19023", LOGS, "test_the_setting_is_what_the_engine_says_not_what_a_script_says"),
    (34, "vllm#5305", LOGS, "test_the_profiled_peak_is_budgeted_and_not_held"),
    (35, "vllm#1512", AUDITOR, RESERVATION),
    (35, "vllm#736", AUDITOR, RESERVATION),
    (35, "vllm#15204", AUDITOR, RESERVATION),
    (35, "vllm#7768", AUDITOR, RESERVATION),
    (35, "vllm#10357", AUDITOR, RESERVATION),
    (35, "vllm#10357", AUDITOR, "test_a_program_that_reserves_nothing_shows_the_weights_alone"),
    (39, "sglang#22726", CACHE, "test_usage_may_be_low_while_the_memory_is_taken"),
    (40, "dcgm-exporter#83", AUDITOR, "test_one_definition_where_tools_disagree"),
)  # fmt: skip
# Its number, the thread, and where it stands: several tests, or an error text told by none here.
ELSEWHERE = (
    (32, "vllm#40256", LOGS),
    (42, "#512", COUNTING),
    (42, "#577", COUNTING),
    (42, "dcgm-exporter#380", "tests/ledger/test_memory_table.py"),
    (48, "vllm#55169", LOGS),
    (48, "vllm#55169", EVIDENCE),
)


def source_of(path: str) -> str:
    return (REPOSITORY / Path(path)).read_text("utf-8")


@pytest.mark.parametrize(("number", "thread", "path", "name"), ROWS)
def test_a_thread_has_its_test(number: int, thread: str, path: str, name: str) -> None:
    tree = ast.parse(source_of(path))
    tests = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    assert name in tests
    assert thread in source_of(path)


@pytest.mark.parametrize(("number", "thread", "path"), ELSEWHERE)
def test_a_thread_is_named_where_it_is_tested(number: int, thread: str, path: str) -> None:
    assert thread in source_of(path)


def test_no_row_is_left_out() -> None:
    rows = {1, 2, 4, 5, 6, 8, 9, 11, 12, 14, 15, 16, 17, 20, 21, 22, 23, 25, 26, 27, 28, 30, 32, 33,
            34, 35, 36, 37, 38, 39, 40, 42, 43, 45, 46, 48}  # fmt: skip
    assert {row[0] for row in (*ROWS, *ELSEWHERE)} == rows
