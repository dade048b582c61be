"""Which metric plays which role, against what released engines really export."""

import re

import pytest

from finops.sources.engines import (
    NEVER_COUNTED,
    ROLES,
    bound_of,
    mark_of,
    marked_metric,
    metrics_to_collect,
    role_of,
)
from tests.sources.reading import sample


def exported(file: str) -> set[str]:
    text = sample(f"metrics/{file}.prom").read_text()
    return set(re.findall(r"^(?:# TYPE )?([a-zA-Z_:][a-zA-Z0-9_:]*)", text, re.MULTILINE))


def roles(file: str) -> dict[str, str]:
    """The best name for each role among what a file exports."""
    best: dict[str, tuple[int, str]] = {}
    for metric in exported(file):
        role = role_of(metric)
        if role and role.kind != "mark":
            best[role.name] = min(best.get(role.name, (9, "")), (role.alias_rank, metric))
    return {name: metric for name, (_, metric) in best.items()}


@pytest.mark.parametrize(
    ("file", "kv_usage", "cached"),
    [
        ("vllm-0.4.3-v0-engine", "vllm:gpu_cache_usage_perc", None),
        ("vllm-0.8.5-v0-engine", "vllm:gpu_cache_usage_perc", None),
        ("vllm-0.10.2-single", "vllm:kv_cache_usage_perc", None),
        ("vllm-0.12.0-single", "vllm:kv_cache_usage_perc", None),
        ("vllm-0.33.0-single", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens_cached_total"),
    ],
)
def test_every_version_of_vllm_has_its_roles(file: str, kv_usage: str, cached: str | None) -> None:
    found = roles(file)

    assert found["prompt"] == "vllm:prompt_tokens_total"
    assert found["generation"] == "vllm:generation_tokens_total"
    assert found["delivered_prompt"] == "vllm:request_prompt_tokens_sum"
    assert found["delivered_generation"] == "vllm:request_generation_tokens_sum"
    assert found["preemptions"] == "vllm:num_preemptions_total"
    assert found["kv_usage"] == kv_usage
    assert found.get("cached_prompt") == cached


def test_versions_with_two_names_of_one_gauge_prefer_the_new() -> None:
    assert {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"} <= exported(
        "vllm-0.10.2-single"
    )
    assert roles("vllm-0.10.2-single")["kv_usage"] == "vllm:kv_cache_usage_perc"
    assert roles("vllm-0.10.2-single")["prefix_hits"] == "vllm:prefix_cache_hits_total"


def test_sglang_has_its_roles() -> None:
    found = roles("sglang-0.5.23-single")
    assert found["prompt"] == "sglang:prompt_tokens_total"
    assert found["generation"] == "sglang:generation_tokens_total"
    assert found["cached_prompt"] == "sglang:cached_tokens_total"
    assert (found["running"], found["waiting"]) == (
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
    )
    assert found["pool_tokens"] == "sglang:max_total_num_tokens"


@pytest.mark.parametrize(
    "metric",
    [
        "vllm:tokens_total",
        "vllm:iteration_tokens_total",
        "vllm:iteration_tokens_total_sum",
        "vllm:spec_decode_num_draft_tokens_total",
        "litellm_total_tokens_metric_total",
        "prompt_tokens_total",
    ],
)
def test_what_ends_like_a_token_counter_and_is_none(metric: str) -> None:
    assert role_of(metric) is None


def test_the_steps_of_an_engine_are_counted_as_steps_and_never_as_tokens() -> None:
    bucket = "vllm:iteration_tokens_total_bucket"
    assert role_of(bucket).name == "step_tokens_bucket"
    mark = role_of("vllm:iteration_tokens_total_created")
    assert (mark.name, mark.kind) == ("created", "mark")
    assert marked_metric("vllm:iteration_tokens_total_created") == (bucket,)


def test_marks_and_what_they_mark() -> None:
    assert marked_metric("vllm:prompt_tokens_created") == ("vllm:prompt_tokens_total",)
    assert marked_metric("vllm:request_prompt_tokens_created") == (
        "vllm:request_prompt_tokens_sum",
        "vllm:request_prompt_tokens_bucket",
    )
    assert marked_metric("python_gc_created") == ()
    role = role_of("vllm:prompt_tokens_created")
    assert role is not None
    assert (role.name, role.kind, role.engine) == ("created", "mark", "vllm")


def test_each_counter_and_its_mark_point_at_each_other() -> None:
    for metric, role in ROLES.items():
        mark = mark_of(metric)
        assert (mark is not None) == (role.kind == "counter")
        assert mark is None or metric in marked_metric(mark)


def test_the_marks_that_vllm_exports_are_the_marks_looked_for() -> None:
    names = exported("vllm-0.33.0-single")
    wanted = {mark_of(metric) for metric in names & ROLES.keys()} - {None}
    assert "vllm:prompt_tokens_created" in wanted
    assert wanted <= names


def test_a_collector_asks_for_everything_that_has_a_role() -> None:
    wanted = set(metrics_to_collect())
    assert {"up", "process_start_time_seconds", "vllm:prompt_tokens_created"} <= wanted
    assert all(metric in ROLES or marked_metric(metric) for metric in wanted)


def test_names_that_say_little_alone_are_asked_for_by_a_label() -> None:
    resource = bound_of("kube_pod_container_resource_requests")
    assert resource is not None
    assert resource[0] == "resource"
    assert re.fullmatch(resource[1], "nvidia_com_gpu")
    assert not re.fullmatch(resource[1], "cpu")
    assert bound_of("prompt_tokens_created") == ("model_name", ".+")
    assert bound_of("vllm:prompt_tokens_total") is None


@pytest.mark.parametrize(
    ("metric", "labels", "role"),
    [
        ("prompt_tokens_total", {"model_name": "m"}, "prompt"),
        ("prompt_tokens_total", {"job": "shop"}, None),
        ("gen_ai_client_token_usage_sum", {"gen_ai_token_type": "input"}, "delivered_prompt"),
        ("gen_ai_client_token_usage_sum", {"gen_ai_token_type": "output"}, "delivered_generation"),
        ("gen_ai_client_token_usage_sum", {"gen_ai_token_type": "total"}, None),
        ("gen_ai_client_token_usage_sum", {"gen_ai_token_type": "cached_input"}, None),
        ("vllm:num_requests_running", {"server": "http://a"}, "re_export"),
        ("vllm:num_requests_running", {"model_name": "m", "server": "eu"}, "running"),
        ("vllm:prompt_tokens_by_source_total", {"source": "local_compute"}, None),
        (
            "vllm:prompt_tokens_by_source_total",
            {"source": "external_kv_transfer"},
            "external_prompt",
        ),
        ("kube_pod_container_resource_requests", {"resource": "cpu"}, None),
        ("kube_pod_container_resource_requests", {"resource": "nvidia_com_gpu"}, "gpu_request"),
    ],
)
def test_labels_decide_where_a_name_alone_does_not(
    metric: str, labels: dict[str, str], role: str | None
) -> None:
    found = role_of(metric, labels)
    assert (found.name if found else None) == role


SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def counted(file: str) -> dict[str, int]:
    """What a file's counters show, added up by role under the best name; of one scrape."""
    found: dict[str, dict[int, int]] = {}
    for metric, inner, value in SAMPLE.findall(sample(f"metrics/{file}.prom").read_text()):
        role = role_of(metric, dict(LABEL.findall(inner)))
        if role and role.kind == "counter" and "bucket" not in role.name:
            names = found.setdefault(role.name, {})
            names[role.alias_rank] = names.get(role.alias_rank, 0) + round(float(value))
    return {name: ranks[min(ranks)] for name, ranks in found.items()}


V0, V1 = (510_233, 201_882), (1_843_200, 402_117)


@pytest.mark.parametrize(
    ("file", "totals"),
    [
        ("vllm-0.4.3-v0-engine", V0),
        ("vllm-0.8.5-v0-engine", V0),
        ("vllm-0.10.2-single", V1),
        ("vllm-0.11.0-single", V1),
        ("vllm-0.11.0-show-hidden-metrics", V1),
        ("vllm-0.12.0-single", V1),
        ("vllm-0.20.0-single", V1),
        ("vllm-0.24.0-single", V1),
        ("vllm-0.33.0-single", V1),
        ("vllm-0.33.0-asleep-level1", V1),
        # The second engine stands at half of the first.
        ("vllm-0.33.0-dp2", (1_843_200 * 3 // 2, 402_117 + 201_055)),
        # Half streamed, half not: both series count; an odd total is halved downwards.
        ("sglang-0.5.23-single", (1_843_200, 402_116)),
    ],
)
def test_each_exposition_counts_its_totals(file: str, totals: tuple[int, int]) -> None:
    """The files' README: prompt 1,843,200, of which 614,400 cached, and generation 402,117."""
    found = counted(file)

    assert (found["prompt"], found["generation"]) == totals
    if totals == V1:
        assert found["preemptions"] == 7
        assert found["prefix_hits"] == 614_400
        assert found.get("cached_prompt", 614_400) == 614_400


def test_triton_exports_nothing_that_counts() -> None:
    assert counted("triton-tensorrtllm-readme-excerpt") == {}
    assert exported("triton-tensorrtllm-readme-excerpt") & NEVER_COUNTED.keys()


def test_every_row_says_where_it_was_read() -> None:
    for metric, role in ROLES.items():
        assert role.origin or role.layer == "target", metric


def test_ray_spells_the_same_roles() -> None:
    ray, plain = role_of("ray_vllm_prompt_tokens_total"), role_of("vllm:prompt_tokens_total")
    assert ray is not None
    assert plain is not None
    assert (ray.name, ray.kind) == (plain.name, plain.kind)
