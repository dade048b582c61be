"""Every engine and gateway of the table through the door: what counts, and what is said of it (§2).

A row: what its exporter shows, the tokens that are booked, and the words that the exceptions must
hold where the engine counts otherwise than the method says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from finops.core.facts import Notice
from finops.core.register import exceptions
from finops.ledger.queries.facts import facts
from finops.sources.engines import ROLES
from tests.ledger.doors import command
from tests.ledger.fleet import PERIOD, Shown, booked, counter, level, take_in
from tests.ledger.totals import token_totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

AT = {"job": "engines", "instance": "10.0.0.1:8000"}
MODEL = AT | {"model_name": "m"}
V1 = MODEL | {"engine": "0"}


@dataclass(frozen=True)
class Case:
    """What is shown, and what it must come to; None for what nothing tells."""

    name: str
    shown: Sequence[Shown]
    prompt: int | None = None
    generation: int | None = None
    cached: int | None = None
    delivered: tuple[int, int] | None = None
    words: str | None = None


CASES = [
    Case("vLLM V0, no engine label", [
        counter("vllm:prompt_tokens_total", 50, **MODEL),
        counter("vllm:generation_tokens_total", 5, **MODEL),
        counter("vllm:tokens_total", 55, **MODEL),  # both together: never counted
        counter("vllm:num_preemptions_total", 0, **MODEL),
    ], 50, 5),
    Case("vLLM V1, two data-parallel engines behind one address", [
        *(counter("vllm:prompt_tokens_total", 50, **V1 | {"engine": n}) for n in "01"),
        *(counter("vllm:generation_tokens_total", 5, **V1 | {"engine": n}) for n in "01"),
        counter("vllm:iteration_tokens_total_sum", 110, **V1),
    ], 100, 10),
    Case("vLLM by source: a part of the prompt, never added", [
        counter("vllm:prompt_tokens_total", 50, **V1),
        counter("vllm:prompt_tokens_by_source_total", 20, source="local_compute", **V1),
        counter("vllm:prompt_tokens_by_source_total", 30, source="local_cache_hit", **V1),
        counter("vllm:prompt_tokens_cached_total", 30, **V1),
        counter("vllm:prefix_cache_hits_total", 31, **V1),
    ], 50, None, 30),
    Case("vLLM, old name of prefix-cache hits alone", [
        counter("vllm:prompt_tokens_total", 50, **V1),
        counter("vllm:gpu_prefix_cache_hits_total", 30, **V1),
    ], 50, None, 30, words="may count blocks, not tokens"),
    Case("vLLM with preemptions, cached tokens from prefix-cache hits", [
        counter("vllm:prompt_tokens_total", 50, **V1),
        counter("vllm:prefix_cache_hits_total", 30, **V1),
        counter("vllm:num_preemptions_total", 1, **V1),
    ], 50, None, 30, words="before 0.11.1 again after a preemption"),
    Case("vLLM, several API servers: one exposition for all, no marks", [
        counter("vllm:prompt_tokens_total", 50, **V1),
        counter("vllm:generation_tokens_total", 5, **V1),
        level("vllm:kv_cache_usage_perc", 0.653, pid="1", **V1),
        *(level("vllm:kv_cache_usage_perc", 0, pid=str(n), **V1) for n in range(2, 9)),
    ], 50, 5),
    Case("vLLM, Rust front end: no configuration, no sleep state, same counters", [
        counter("vllm:prompt_tokens_total", 50, **V1),
        counter("vllm:generation_tokens_total", 5, **V1),
        counter("vllm:request_prompt_tokens_sum", 40, **V1),
        counter("vllm:request_generation_tokens_sum", 4, **V1),
    ], 50, 5, delivered=(40, 4)),
    Case("vLLM through Ray: two workers of one node", [
        *(counter("ray_vllm_prompt_tokens_total", 50, WorkerId=w, ReplicaId=w, **V1) for w in "ab"),
        *(counter("ray_vllm_generation_tokens_total", 5, WorkerId=w, ReplicaId=w, **V1)
          for w in "ab"),
    ], 100, 10),
    Case("SGLang", [
        *(counter("sglang:prompt_tokens_total", 50, is_streaming=s, **MODEL)
          for s in ("true", "false")),
        counter("sglang:generation_tokens_total", 5, is_streaming="true", **MODEL),
        counter("sglang:cached_tokens_total", 30, cache_source="device", **MODEL),
        counter("sglang:realtime_tokens_total", 99, mode="decode", **MODEL),
    ], 100, 5, 30, words="counts a request's tokens when it finishes"),
    Case("TGI", [
        counter("tgi_request_input_length_sum", 50, **AT),
        counter("tgi_request_generated_tokens_sum", 5, **AT),
    ], delivered=(50, 5), words="succeeded only"),
    Case("TensorRT-LLM", [
        counter("trtllm_prompt_tokens_total", 50, **MODEL),
        counter("trtllm_generation_tokens_total", 5, **MODEL),
        counter("trtllm_prompt_cached_tokens_total", 30, **MODEL),
    ], 50, 5, 30, words="newer versions only"),
    Case("LMDeploy", [
        counter("lmdeploy:prompt_tokens_total", 50, **MODEL),
        counter("lmdeploy:generation_tokens_total", 5, **MODEL),
    ], 50, 5),
    Case("llama.cpp", [
        counter("llamacpp:prompt_tokens_total", 50, **AT),
        counter("llamacpp:tokens_predicted_total", 5, **AT),
    ], 50, 5, words="leaves prompt tokens that it had cached out"),
    Case("NIM", [
        counter("prompt_tokens_total", 50, **MODEL),
        counter("generation_tokens_total", 5, **MODEL),
    ], 50, 5, words="names without a prefix"),
    Case("a shop's own prompt_tokens_total is no engine's", [
        counter("prompt_tokens_total", 50, job="shop", instance="s:1"),
        counter("vllm:prompt_tokens_total", 7, **V1),
    ], 7),
    Case("Dynamo's front end", [
        counter("dynamo_frontend_input_sequence_tokens_sum", 50, model="m", **AT),
        counter("dynamo_frontend_output_sequence_tokens_sum", 5, model="m", **AT),
    ], delivered=(50, 5), words="counted by the front end"),
    Case("LiteLLM", [
        counter("litellm_input_tokens_metric_total", 50, model="m", **AT),
        counter("litellm_output_tokens_metric_total", 5, model="m", **AT),
        counter("litellm_total_tokens_metric_total", 55, model="m", **AT),
        counter("litellm_spend_metric_total", 1, model="m", **AT),
    ], delivered=(50, 5), words="streams without usage are left out"),
    Case("Envoy AI Gateway", [
        counter("gen_ai_client_token_usage_sum", each, gen_ai_token_type=kind, **AT)
        for kind, each in {"input": 50, "output": 5, "total": 55, "cached_input": 30}.items()
    ], delivered=(50, 5), words="streams without usage are left out"),
    Case("OpenTelemetry's name with its unit", [
        counter("gen_ai_client_token_usage_token_sum", each, gen_ai_token_type=kind, **AT)
        for kind, each in {"input": 50, "completion": 5}.items()
    ], delivered=(50, 5)),
]  # fmt: skip


def notices(kind: str) -> list[Notice]:
    return [one for one in facts(PERIOD, week="2026-W47").notices if one.kind == kind]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_engine_s_tokens_and_what_is_said_of_them(tmp_path: Path, case: Case) -> None:
    take_in(tmp_path, case.shown)
    tokens = token_totals(PERIOD)

    def times(each: int | None) -> int | None:
        return None if each is None else booked(each)

    assert (tokens.prompt, tokens.generation) == (times(case.prompt), times(case.generation))
    assert tokens.cached_prompt == times(case.cached)
    delivered = (tokens.delivered_prompt, tokens.delivered_generation)
    assert delivered == tuple(map(times, case.delivered or (None, None)))
    told = [one.text or "" for one in notices("engine-caveat")]
    if case.words is None:
        assert not [text for text in told if "streams" not in text]
    else:
        assert any(case.words in text for text in told), told


def test_every_engine_of_the_table_has_a_case() -> None:
    shown = {
        ROLES[one.metric].engine for case in CASES for one in case.shown if one.metric in ROLES
    }
    counting = {
        role.engine for role in ROLES.values() if role.kind == "counter" and role.layer != "router"
    }
    assert counting - shown == set()


def test_recomputed_prompts_of_old_engines_are_told(tmp_path: Path) -> None:
    """vLLM V0 counts a prompt again when a preempted request is recomputed."""
    take_in(tmp_path, [counter("vllm:prompt_tokens_total", 50, **MODEL),
                       counter("vllm:generation_tokens_total", 5, **MODEL),
                       counter("vllm:num_preemptions_total", 2, **MODEL)])  # fmt: skip
    command("workload", "add", "m", "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "m", "--series", "model_name=m", "--by", "Ada")
    lines = exceptions(facts(PERIOD, week="2026-W47"))
    (line,) = [one for one in lines if one["kind"] == "preempted-prompts-counted-twice"]
    assert f"{booked(2)} preemptions" in (line["text"] or "")
