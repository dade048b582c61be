"""Nothing is counted twice silently: every way of facts and issue threads, with its numbers (§2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.core.facts import Notice
from finops.core.register import exceptions
from finops.ledger.queries.facts import facts
from finops.ledger.queries.tokens import TokenLedger
from tests.ledger.doors import command
from tests.ledger.fleet import PERIOD, Shown, booked, counter, level, take_in
from tests.ledger.totals import token_totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

ENGINE = {"job": "vllm", "instance": "10.0.0.1:8000", "model_name": "llama", "engine": "0"}


def notices(kind: str) -> list[Notice]:
    return [one for one in facts(PERIOD, week="2026-W47").notices if one.kind == kind]


def vllm(prompt: int, generation: int, **labels: str) -> list[Shown]:
    named = ENGINE | labels
    return [
        counter("vllm:prompt_tokens_total", prompt, **named),
        counter("vllm:generation_tokens_total", generation, **named),
    ]


def test_two_jobs_on_one_target_are_told_and_a_rule_decides(tmp_path: Path) -> None:
    take_in(tmp_path, [*vllm(600, 60), *vllm(600, 60, job="pods")])

    (told,) = notices("duplicate-series")
    assert told.text.count(f"{booked(600):,}") == 2
    command("workload", "add", "llama", "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "out-of-scope", "--series", "job=pods", "--order", "1", "--by", "Ada")
    command("rule", "add", "llama", "--series", "model_name=llama", "--order", "2", "--by", "Ada")
    (row,) = [w for w in facts(PERIOD, week="2026-W47").workloads if w.slug == "llama"]
    assert row.tokens is not None
    assert row.tokens.prompt == booked(600)
    assert notices("duplicate-series") == []


@pytest.mark.parametrize(
    ("series", "kind", "rule"),
    [
        ((*vllm(600, 60), *vllm(600, 60, job="pods")), "duplicate-series", "job=pods"),
        (
            (*vllm(600, 60, scraper="a"), *vllm(600, 60, scraper="b")),
            "replicas-suspected",
            "scraper=b",
        ),
    ],
)
def test_what_was_decided_is_told_no_more(
    tmp_path: Path, series: tuple[Shown, ...], kind: str, rule: str
) -> None:
    """Half of the period decided is not all of it: a rule that begins later leaves the earlier hours."""
    take_in(tmp_path, series)
    assert len(notices(kind)) == 1
    decided = ("rule", "add", "out-of-scope", "--series", rule, "--by", "Ada")
    number = command(*decided, "--from", "2026-11-16T03:00:00Z")["rule"]["number"]
    assert len(notices(kind)) == 1
    command("rule", "retire", number, "--by", "Ada")
    command(*decided)
    assert notices(kind) == []


@pytest.mark.parametrize(
    ("metric", "labels"),
    [
        ("tgi_request_input_length_sum", {}),
        ("dynamo_frontend_input_sequence_tokens_sum", {"model": "m"}),
        ("litellm_input_tokens_metric_total", {"model": "m", "team": "search"}),
        ("gen_ai_client_token_usage_sum", {"gen_ai_token_type": "input"}),
    ],
)
def test_two_jobs_on_what_counts_delivered_tokens_alone_are_told(
    tmp_path: Path, metric: str, labels: dict[str, str]
) -> None:
    """Engines and gateways without a counter of processed prompts are doubled just as silently."""
    at = {"instance": "10.0.0.9:80"} | labels
    take_in(tmp_path, [counter(metric, 600, job=job, **at) for job in ("serving", "pods")])

    (told,) = notices("duplicate-series")
    assert told.text.count(f"{booked(600):,}") == 2
    assert "job pods" in told.text


def test_keys_of_a_gateway_are_no_replicas_but_two_readers_of_an_engine_are(
    tmp_path: Path,
) -> None:
    gateway = {"job": "litellm", "instance": "10.0.0.8:4000", "model": "m"}
    engine = {"job": "tgi", "instance": "10.0.0.9:80"}
    take_in(
        tmp_path,
        [
            *(counter("litellm_input_tokens_metric_total", 7, team=t, **gateway) for t in "ab"),
            *(counter("tgi_request_input_length_sum", 600, scraper=s, **engine) for s in "ab"),
        ],
    )
    (told,) = notices("replicas-suspected")
    assert "--replica-label scraper" in told.text
    assert told.text.count(f"{booked(600):,}") == 2


def test_a_replica_label_that_nobody_declared_is_suspected(tmp_path: Path) -> None:
    take_in(tmp_path, [*vllm(600, 60, scraper="a"), *vllm(600, 60, scraper="b")])

    (told,) = notices("replicas-suspected")
    assert "scraper=a" in told.text
    assert "--replica-label scraper" in told.text
    assert f"{booked(600):,}" in told.text


def test_series_that_one_engine_splits_are_no_replicas_and_one_engine(tmp_path: Path) -> None:
    labels = {"job": "sglang", "instance": "10.0.0.2:30000", "model_name": "qwen"}
    take_in(
        tmp_path,
        [
            counter("sglang:prompt_tokens_total", 100, is_streaming="true", **labels),
            counter("sglang:prompt_tokens_total", 50, is_streaming="false", **labels),
            counter("sglang:generation_tokens_total", 10, is_streaming="true", **labels),
            counter("sglang:cached_tokens_total", 7, cache_source="device", **labels),
            counter("sglang:cached_tokens_total", 3, cache_source="host", **labels),
        ],
    )
    tokens = token_totals(PERIOD)

    assert (tokens.prompt, tokens.generation) == (booked(150), booked(10))
    assert tokens.cached_prompt == booked(10)
    assert tokens.readings == 36  # of one engine, however many counters it has
    assert not notices("replicas-suspected")
    (told,) = notices("engine-caveat")
    assert "when it finishes" in told.text


def test_a_router_that_repeats_its_engines_is_left_out(tmp_path: Path) -> None:
    router = {"job": "router", "instance": "router:8001", "server": "http://10.0.0.1:8000"}
    take_in(
        tmp_path,
        [
            *vllm(600, 60),
            level("vllm:gpu_prefix_cache_hits_total", 12345, **router),
            level("vllm:num_requests_running", 4, **router),
            counter("vllm:input_tokens_total", 600, model="llama", **router),
        ],
    )

    assert token_totals(PERIOD).prompt == booked(600)
    (told,) = notices("router-re-exports")
    assert "vllm:gpu_prefix_cache_hits_total" in told.text
    assert "vllm:input_tokens_total" in told.text


def test_prompts_count_in_the_prefill_role_and_answers_in_the_decode_role(tmp_path: Path) -> None:
    prefill = vllm(600, 1, instance="p:8000", role="prefill")
    decode = vllm(600, 60, instance="d:8000", role="decode")
    take_in(tmp_path, [*prefill, *decode])

    tokens = token_totals(PERIOD)
    assert (tokens.prompt, tokens.generation) == (booked(600), booked(60))
    (told,) = notices("prefill-and-decode")
    assert f"{booked(600):,} prompt tokens of decode engines" in told.text
    assert f"{booked(1):,} generation tokens of prefill engines" in told.text


def test_a_decode_role_is_known_by_its_transfers_and_a_rule_decides(tmp_path: Path) -> None:
    moved = counter("vllm:prompt_tokens_by_source_total", 599, source="external_kv_transfer",
                    **ENGINE, )  # fmt: skip
    local = counter("vllm:prompt_tokens_by_source_total", 1, source="local_compute", **ENGINE)
    take_in(tmp_path, [*vllm(600, 60), moved, local, *vllm(600, 1, instance="10.0.0.9:8000")])

    (told,) = notices("prefill-and-decode-undecided")
    assert f"{booked(599):,} of its {booked(600):,}" in told.text
    command("workload", "add", "llama", "--model", "m", "--stack", "vllm", "--by", "Ada")
    matchers = '__name__="vllm:prompt_tokens_total",instance="10.0.0.1:8000"'
    command("rule", "add", "out-of-scope", "--series", matchers, "--order", "1", "--by", "Ada")
    command("rule", "add", "llama", "--series", "model_name=llama", "--order", "2", "--by", "Ada")
    (row,) = [w for w in facts(PERIOD, week="2026-W47").workloads if w.slug == "llama"]
    assert row.tokens is not None
    assert (row.tokens.prompt, row.tokens.generation) == (booked(600), booked(61))
    assert notices("prefill-and-decode-undecided") == []


def test_several_answers_to_a_request_are_told(tmp_path: Path) -> None:
    asked = [counter("vllm:request_params_n_sum", 8, **ENGINE),
             counter("vllm:request_params_n_count", 1, **ENGINE)]  # fmt: skip
    take_in(tmp_path, [*vllm(472, 60), *asked])

    (told,) = notices("several-choices")
    assert f"{booked(1)} requests asked for {booked(8)} answers" in told.text


def test_a_front_end_and_its_engines_are_not_added_silently(tmp_path: Path) -> None:
    front = {"job": "dynamo", "instance": "front:8000", "model": "llama"}
    take_in(
        tmp_path,
        [
            *vllm(600, 60),
            counter("vllm:request_prompt_tokens_sum", 500, **ENGINE),
            counter("vllm:request_generation_tokens_sum", 50, **ENGINE),
            counter("dynamo_frontend_input_sequence_tokens_sum", 500, **front),
            counter("dynamo_frontend_output_sequence_tokens_sum", 50, **front),
        ],
    )
    command("workload", "add", "llama", "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "llama", "--series", 'instance=~".*"', "--by", "Ada")
    lines = exceptions(facts(PERIOD, week="2026-W47"))
    (line,) = [one for one in lines if one["kind"] == "delivered-counted-twice"]
    assert line["text"] is not None
    assert line["text"].count(f"{booked(550):,}") == 2
    command("rule", "add", "out-of-scope", "--series", "job=dynamo", "--order", "1", "--by", "Ada")
    (row,) = [w for w in facts(PERIOD, week="2026-W47").workloads if w.slug == "llama"]
    assert row.tokens is not None
    assert row.tokens.delivered_prompt == booked(500)
    assert not row.tokens.delivered_twice


def test_token_types_of_a_gateway_are_never_added(tmp_path: Path) -> None:
    gateway = {"job": "envoy", "instance": "gw:1064", "gen_ai_request_model": "llama"}
    kinds = {"input": 500, "output": 50, "total": 550, "cached_input": 400}
    take_in(
        tmp_path,
        [
            counter("gen_ai_client_token_usage_sum", each, gen_ai_token_type=kind, **gateway)
            for kind, each in kinds.items()
        ],
    )
    tokens = token_totals(PERIOD)

    assert (tokens.delivered_prompt, tokens.delivered_generation) == (booked(500), booked(50))
    assert (tokens.prompt, tokens.generation) == (None, None)


def test_a_gateway_of_another_workload_counts_by_itself(tmp_path: Path) -> None:
    labels = {"job": "litellm", "instance": "gw:4000", "model": "legacy"}
    take_in(
        tmp_path,
        [
            *vllm(600, 60),
            counter("litellm_input_tokens_metric_total", 40, **labels),
            counter("litellm_output_tokens_metric_total", 4, **labels),
            counter("litellm_total_tokens_metric_total", 44, **labels),
        ],
    )
    ledger = TokenLedger(PERIOD)
    by_job = ledger.by(lambda labels, _: labels["job"])

    assert by_job["litellm"].delivered_prompt == booked(40)
    assert by_job["litellm"].delivered_generation == booked(4)
    assert by_job["vllm"].delivered_prompt is None


def test_gauges_of_one_iteration_are_refused_by_name(tmp_path: Path) -> None:
    labels = {"job": "triton", "instance": "t:8002", "v1_specific_metric": "total_context_tokens"}
    document = take_in(tmp_path, [*vllm(600, 60), level("nv_trt_llm_v1_metrics", 5, **labels)])

    assert document["status"] == "posted"
    rejections = document["rejections"]
    assert isinstance(rejections, list)
    assert rejections[0]["column"] == "nv_trt_llm_v1_metrics"
    assert "one iteration" in rejections[0]["reason"]
    assert token_totals(PERIOD).prompt == booked(600)
