"""Public issue threads about counting, each with its own numbers and the value that is right.

| thread | what users saw | right |
|---|---|---|
| vllm#55634 | five aborted streams: counter +3010, histogram +0 | 3,010 processed, 0 delivered |
| vllm#56923 | n = 2, 4, 8: the prompt n times | engine n × prompt, client's usage once |
| vllm#31503 | `request_success{abort}` stays 0 | never read; aborts are processed − delivered |
| LMCache#3269, vllm#6642, #10430, #26372, vllm-ascend#6868 | a negative increment kills the engine | both lives count; a negative reading is refused |
| inference-perf#277, gateway-api-inference-extension#1905, llm-d#546, llm-d-inference-sim#304, #307, gpustack#2985 | a name gone, or two names of one figure | one of them, never both |
| prometheus#3746 | `increase()` gives fractions and too little | whole tokens, all of them |
| dcgm-exporter#512, #577 | no pod on a MIG slice | no GPU-hours by devices, said so |
| litellm#22984 | 149,936 cached tokens shown as 0 | 149,936 |
| archestra#6906 | a self-hosted model priced at 50 USD a million | no price, said so |
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from finops.core.period import Period
from finops.core.statement import statement
from finops.ledger.models import Series
from finops.ledger.queries.facts import facts
from finops.sources.engines import role_of
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import PERIOD, START, STEP, Shown, counter, level, openmetrics, take_in
from tests.ledger.small_company import _line as line
from tests.ledger.small_company import _machine as machine
from tests.ledger.small_company import csv_text
from tests.ledger.stores import PROMETHEUS, from_samples, prometheus
from tests.ledger.totals import token_totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

ENGINE = {"job": "vllm", "instance": "10.0.0.1:8000", "model_name": "qwen", "engine": "0"}


def risen(metric: str, by: int, **labels: str) -> Shown:
    """A counter at rest that rises once in the period, two hours after its start."""
    return Shown(metric, ENGINE | labels, lambda step: by if step >= 12 else 0)


def test_aborted_requests_are_processed_and_never_delivered(tmp_path: Path) -> None:
    """vllm#55634 and vllm#31503: what was aborted is the difference, not a finish reason."""
    take_in(
        tmp_path,
        [
            risen("vllm:prompt_tokens_total", 3010),
            risen("vllm:generation_tokens_total", 40),
            risen("vllm:request_prompt_tokens_sum", 0),
            risen("vllm:request_generation_tokens_sum", 0),
            risen("vllm:request_success_total", 0, finished_reason="abort"),
        ],
    )
    tokens = token_totals(PERIOD)
    assert (tokens.prompt, tokens.delivered_prompt) == (3010, 0)
    assert (tokens.generation, tokens.delivered_generation) == (40, 0)
    assert role_of("vllm:request_success_total", {"finished_reason": "abort"}) is None


@pytest.mark.parametrize(
    ("prompt", "n", "engine"),
    [(59, 2, 118), (58, 4, 232), (59, 8, 472), (312, 2, 624), (309, 4, 1236), (311, 8, 2488)],
)
def test_several_answers_count_the_prompt_once_for_each(
    tmp_path: Path, prompt: int, n: int, engine: int
) -> None:
    """vllm#56923, measured on 0.28.0. The engine's counter and the client's usage, side by side."""
    take_in(
        tmp_path,
        [
            risen("vllm:prompt_tokens_total", engine),
            risen("vllm:generation_tokens_total", 8),
            risen("vllm:request_params_n_sum", n),
            risen("vllm:request_params_n_count", 1),
        ],
    )
    record = {"time": (START + timedelta(hours=2)).isoformat(), "model": "qwen", "n": n}
    record |= {"usage": {"prompt_tokens": prompt, "completion_tokens": 8}}
    (tmp_path / "usage.jsonl").write_text(json.dumps(record) + "\n")
    ingested(tmp_path / "usage.jsonl")

    tokens = token_totals(PERIOD)
    assert (tokens.prompt, tokens.delivered_prompt) == (engine, prompt)
    notices = facts(PERIOD, week="2026-W47").notices
    told = [one.text for one in notices if one.kind == "several-choices"]
    assert any(f"1 requests asked for {n} answers" in text for text in told)
    assert any(f"{engine - prompt:,} tokens more than the records" in text for text in told)


def test_cached_tokens_of_several_answers_are_a_part_of_the_prompt(tmp_path: Path) -> None:
    """vllm#56923: 472 prompt tokens, of which 136 were computed and 336 hit the cache."""
    take_in(
        tmp_path,
        [risen("vllm:prompt_tokens_total", 472), risen("vllm:prefix_cache_hits_total", 336)],
    )
    tokens = token_totals(PERIOD)
    assert (tokens.prompt, tokens.cached_prompt) == (472, 336)
    assert tokens.prompt - tokens.cached_prompt == 136


def test_an_engine_that_a_negative_increment_killed_counts_in_both_lives(tmp_path: Path) -> None:
    """LMCache#3269: prompt 17050, cached 768, external 8448: the local part is −7680."""
    born = {-6: START - 7 * STEP, 12: START + 12 * STEP - timedelta(minutes=1)}

    def shown(step: int) -> float:
        return 17050 if step < 12 else 768

    def mark(step: int) -> float:
        return born[-6 if step < 12 else 12].timestamp()

    up = {"job": "vllm", "instance": "10.0.0.1:8000"}
    whole = Shown("vllm:prompt_tokens_total", ENGINE, shown)
    document = take_in(
        tmp_path,
        [
            Shown("up", {"job": "vllm", "instance": "other:8000"}, lambda step: 1),
            whole,
            Shown("process_start_time_seconds", up, mark),
            level("vllm:prefix_cache_hits_total", -7680, **ENGINE),
        ],
    )
    life = Period(START, START + timedelta(hours=6))
    tokens = token_totals(life)
    assert (tokens.prompt, tokens.restarts) == (768, 1)
    assert tokens.cached_prompt is None
    rejections = document["rejections"]
    assert isinstance(rejections, list)
    assert all(row["value"].startswith("-7680.0 at ") for row in rejections)
    assert len(rejections) == 46  # every one of them is named


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits_total", "cached_prompt"),
        ("vllm:prefix_cache_hits_total", "vllm:prompt_tokens_cached_total", "cached_prompt"),
    ],
)
def test_two_names_of_one_figure_are_one_figure(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    """Versions between a rename and a removal export both, with equal values; simulators of the
    engine as well (llm-d-inference-sim#304, #307)."""
    take_in(
        tmp_path,
        [risen("vllm:prompt_tokens_total", 1000), risen(old, 614), risen(new, 614)],
    )
    assert getattr(token_totals(PERIOD), told) == 614


def test_a_name_that_is_gone_leaves_the_count_as_it_is(tmp_path: Path) -> None:
    """llm-d#546, gpustack#2985, inference-perf#277, gateway-api-inference-extension#1905: from 0.12
    on `gpu_cache_usage_perc` is absent. An engine that is updated in the middle of the period counts
    in both of its lives, and its use of the cache goes on under the new name."""
    old = list(range(-6, 18))

    def before(metric: str, value: float) -> Shown:
        return Shown(metric, ENGINE, lambda step: value * min(step + 6, 24) / 24 // 1)

    (tmp_path / "a").mkdir()
    series = [
        before("vllm:prompt_tokens_total", 2400),
        level("vllm:gpu_cache_usage_perc", 0.5, **ENGINE),
    ]
    (tmp_path / "a" / "old.om").write_text(openmetrics(series, old))
    up = {"job": "vllm", "instance": "10.0.0.1:8000"}
    later = [
        Shown("vllm:prompt_tokens_total", ENGINE, lambda step: 50 * (step - 18)),
        level("vllm:kv_cache_usage_perc", 0.5, **ENGINE),
        Shown("up", up, lambda step: 1),
    ]
    (tmp_path / "a" / "new.om").write_text(openmetrics(later, range(18, 40)))
    ingested(tmp_path / "a")
    # 600 stand before the period; 100 a step to 2,300 at step 17; then 0 and 50 a step to step 35.
    assert token_totals(PERIOD).prompt == 2300 - 500 + 50 * 17
    known = Series.objects.filter(role="kv_usage").values_list("metric", flat=True)
    assert set(known) == {"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"}
    assert [role.name for name in known if (role := role_of(name))] == ["kv_usage", "kv_usage"]


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here")
def test_tokens_are_whole_where_increase_is_not(tmp_path: Path) -> None:
    """prometheus#3746: 480 readings of a counter that ever rises faster, n³ ÷ 7 at the nth."""
    start = int(START.timestamp())
    values = [[start + 15 * n + 7, str(n**3 // 7)] for n in range(480)]
    series = [{"metric": {"__name__": "vllm:prompt_tokens_total", **ENGINE}, "values": values}]
    with prometheus(tmp_path, from_samples(tmp_path, series)) as url:
        query = urlencode({"query": "increase(vllm:prompt_tokens_total[1h])", "time": start + 7200})
        with urlopen(f"{url}/api/v1/query?{query}") as answer:
            (row,) = json.load(answer)["data"]["result"]
        command("collect", "--url", url, "--from", "2026-11-16T00:00:00Z",
                "--to", "2026-11-16T02:00:00Z", "--by", "Ada")  # fmt: skip
    hours = [Period(START + timedelta(hours=n), START + timedelta(hours=n + 1)) for n in (0, 1)]
    assert [token_totals(hour).prompt for hour in hours] == [239**3 // 7, 479**3 // 7 - 239**3 // 7]
    # What the store says of the second hour has a fraction, and is not what was counted in it.
    assert float(row["value"][1]) % 1 != 0


def test_a_slice_without_its_pod_gives_no_gpu_hours(tmp_path: Path) -> None:
    """dcgm-exporter#512, #577: the labels of the pod are missing on MIG instances."""
    dcgm = {"job": "dcgm", "instance": "n1:9400", "Hostname": "n1", "UUID": "GPU-1", "gpu": "0",
            "GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": "7"}  # fmt: skip
    take_in(
        tmp_path,
        [
            counter("vllm:prompt_tokens_total", 10, **ENGINE),
            level("DCGM_FI_DEV_FB_USED", 9, **dcgm),
        ],
    )
    command("workload", "add", "qwen", "--model", "qwen", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "qwen", "--series", "model_name=qwen", "--by", "Ada")
    (row,) = statement(facts(PERIOD, week="2026-W47"))["workloads"]
    assert row["figures"]["gpu_hours"] is None
    assert row["reasons"]["gpu_hours"]


def test_cached_tokens_of_a_gateway_s_record_are_kept(tmp_path: Path) -> None:
    """litellm#22984: prompt 150,383, cached 149,936, output 304; the gateway showed 0 cached."""
    usage = {"prompt_tokens": 150_383, "completion_tokens": 304,
             "prompt_tokens_details": {"cached_tokens": 149_936}}  # fmt: skip
    record = {"created": START.timestamp() + 60, "model": "vllm/qwen", "usage": usage}
    (tmp_path / "usage.jsonl").write_text(json.dumps(record) + "\n")
    ingested(tmp_path / "usage.jsonl")
    tokens = token_totals(PERIOD)
    assert (tokens.delivered_prompt, tokens.delivered_generation) == (150_383, 304)
    assert tokens.delivered_cached_prompt == 149_936


def test_a_model_of_one_s_own_is_given_no_price(tmp_path: Path) -> None:
    """archestra#6906: what no charge reaches has no cost, and no price from anybody's list."""
    take_in(tmp_path, [counter("vllm:prompt_tokens_total", 600, **ENGINE),
                       counter("vllm:generation_tokens_total", 60, **ENGINE)])  # fmt: skip
    (tmp_path / "i.csv").write_text(csv_text([line(1, "9.00", "9.00", **machine("i-other"))]))
    ingested(tmp_path / "i.csv")
    command("workload", "add", "qwen", "--model", "qwen", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "qwen", "--series", "model_name=qwen", "--by", "Ada")
    value = statement(facts(PERIOD, week="2026-W47"))
    (row,) = value["workloads"]
    assert row["figures"]["cost_per_million_tokens"] is None
    assert row["reasons"]["cost_per_million_tokens"]
    assert "tokens-without-cost" in {one["kind"] for one in value["exceptions"]}
