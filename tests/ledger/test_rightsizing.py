"""Right-sizing and its ladder, through the door (method §9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.ledger.memory_tables import HOUR, workload

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def test_a_week_of_little_use_is_over_reserved_with_a_proposal(tmp_path: Path) -> None:
    workload()
    fleet = Fleet(hours=7 * 24, step=300)
    # 10 % of the time at 40 %, else at 20 %; never more.
    fleet.engine("chat-0", lambda n: 0.4 if n % 10 == 0 else 0.2)
    ingested(fleet.write(tmp_path / "week.om"), gpu_fleet.config(tmp_path / "config.json"),
             gpu_fleet.log(tmp_path / "engine.log"))  # fmt: skip
    (row,) = command("rightsize", "--setting", "0.87")["engines"]
    assert row["verdict"] == "over-reserved", row["why"]
    assert row["coverage"] == "1.0000" and row["setting"] == "0.92"
    assert (row["p50"], row["p95"], row["p99"]) == ("0.2050", "0.4050", "0.4050")
    # A step of 0.05 of 79.15 GiB is 3.9575 GiB: 2,026.24 blocks of 2 MiB.
    assert row["what_if"]["kv_blocks"] == 27_471 - 2_027
    # Those are 3.96 GiB of 79.15: what they would save stands beside what was tried.
    assert "saves nothing by itself. It frees 4.0 GiB, 5.0 % of" in row["what_if"]["money"]
    # The peak, 10,988 blocks, × 1.2 leaves 13,187: seven steps lower keep 13,287.
    assert row["proposal"]["utilization"] == "0.57"
    assert row["proposal"]["kv_blocks"] == 27_471 - 14_184
    assert "saves nothing by itself" in row["money"]


def test_a_change_within_the_window_is_compared_with_its_prediction(tmp_path: Path) -> None:
    workload()
    before = Fleet(hours=48, step=300)
    before.engine("chat-0", 0.2)
    after = Fleet(start=gpu_fleet.START + 48 * 3600, hours=48, step=300)
    after.engine("chat-0", 0.4, blocks=13_736, gpu_memory_utilization="0.60")
    ingested(before.write(tmp_path / "a.om"), after.write(tmp_path / "b.om"))
    (row,) = command("rightsize")["engines"]
    assert row["verdict"] == "not enough data"
    change = row["after_change"]
    assert change["from"] == {"setting": "0.92", "kv_blocks": 27_471}
    assert change["to"] == {"setting": "0.60", "kv_blocks": 13_736}
    assert (change["predicted_p99"], change["observed_p99"]) == ("0.4100", "0.4050")


def test_guidance_comes_from_the_log_and_the_histograms(tmp_path: Path) -> None:
    workload()
    fleet = Fleet(hours=7 * 24, step=300)
    fleet.engine("chat-0", lambda n: 0.4 if n % 10 == 0 else 0.2, enable_prefix_caching="True")
    pairs = {"request_prompt_tokens": {"1000": 8, "2000": 10, "5000": 10, "+Inf": 10},
             "request_generation_tokens": {"200": 9, "500": 10, "+Inf": 10},
             "iteration_tokens_total": {"512": 90, "2048": 100, "4096": 100, "+Inf": 100}}  # fmt: skip
    for name, at_most in pairs.items():
        fleet.histogram(f"vllm:{name}", at_most, "chat-0")
    target = {"job": "vllm", "instance": "chat-0:8000", "namespace": "llm", "pod": "chat-0",
              "engine": "0", "model_name": "meta-llama/Llama-3.1-8B-Instruct"}  # fmt: skip
    fleet.gauge("vllm:prefix_cache_queries_total", lambda n: 1000 * n, **target)
    fleet.gauge("vllm:prefix_cache_hits_total", lambda n: 250 * n, **target)
    ingested(fleet.write(tmp_path / "week.om"), gpu_fleet.config(tmp_path / "config.json"),
             gpu_fleet.log(tmp_path / "engine.log", first=gpu_fleet.ARGUMENTS))  # fmt: skip
    (row,) = command("rightsize")["engines"]
    told = {one["knob"]: one for one in row["guidance"]}
    # 2,016 readings five minutes apart, ten requests and a hundred steps between two.
    assert told["--max-model-len"]["numbers"]["requests"] == 20_150
    assert told["--max-model-len"]["numbers"]["longest_prompt"] == [1000, 2000]
    assert told["--max-model-len"]["numbers"]["longest_answer"] == [200, 500]
    assert told["--max-model-len"]["numbers"]["enough"] == 2500
    assert told["--max-num-batched-tokens"]["numbers"]["steps"] == 201_500
    assert told["--max-num-batched-tokens"]["numbers"]["largest_step"] == [512, 2048]
    # Of 3.28 GiB three quarters: 8,192 allowed, 2,048 seen.
    assert "2.46 GiB of it" in told["--max-num-batched-tokens"]["says"]
    assert told["--max-num-seqs"]["numbers"]["max_num_seqs"] == 64
    assert told["--max-num-seqs"]["verdict"] == "could be lower"  # 4 × 1.2, to 8 of 64
    assert told["--enable-prefix-caching"]["numbers"]["hit_share"] == "0.2500"
    assert told["memory taken before sizing"]["numbers"]["highest_setting"] == "0.99"
    load = row["load"]
    assert (load["hours_of_week"], load["busy_hours_of_week"], load["requests"]) == (
        168,
        168,
        20_150,
    )
    assert load["verdict"] == "partly representative" and load["p95_prompt"] == [1000, 2000]
    # Steps of an engine are never tokens.
    totals = command("totals", "--from", "2026-11-16T00:00:00Z", "--to", "2026-11-23T00:00:00Z")
    assert totals["tokens"]["prompt"] == 1000 * 2015


def test_the_ladder_follows_steps_over_weeks_and_replaced_pods(tmp_path: Path) -> None:
    workload()
    week = 7 * 24 * 3600
    before = Fleet(start=gpu_fleet.START - week, hours=168, step=600)
    before.engine("chat-0", 0.2, blocks=29_498, gpu_memory_utilization="0.97", running=9)
    after = Fleet(hours=168, step=600)
    after.engine("chat-1", 0.22, running=8)
    ingested(before.write(tmp_path / "a.om"), after.write(tmp_path / "b.om"),
             gpu_fleet.config(tmp_path / "config.json"), gpu_fleet.log(tmp_path / "engine.log"))  # fmt: skip
    (row,) = command("rightsize")["engines"]
    found = row["ladder"]
    assert [one["setting"] for one in found["rungs"]] == ["0.97", "0.92"]
    (step,) = found["steps"]
    assert step["at"] == "2026-11-16T00:00:00Z"
    # 0.05 of 79.15 GiB is 2,026.24 blocks of 2 MiB; 20.5 % of 29,497 blocks.
    assert step["predicted"]["kv_blocks"] == 29_498 - 2_027
    assert step["predicted"]["p99"] == "0.2201"  # 0.205 × 29,497 ÷ 27,470
    assert (step["to"]["p99"], step["result"]) == ("0.2250", "came true")
    assert found["next_step"]["utilization"] == "0.87"
    assert "restart with gpu_memory_utilization 0.97" in found["rollback"]
    assert (
        row["load"]["earlier_peak_running"] == 9 and row["load"]["verdict"] != "not representative"
    )


def test_what_was_pushed_out_before_a_change_does_not_count_against_it(tmp_path: Path) -> None:
    """The setting is raised at half past the hour, for requests that were pushed out before it."""
    workload()
    week, half = 7 * 24 * 3600, 1800
    before = Fleet(start=gpu_fleet.START - week + half, hours=168, step=600)
    before.engine("chat-0", 0.9, blocks=25_444, gpu_memory_utilization="0.87")
    after = Fleet(start=gpu_fleet.START + half, hours=168, step=600)
    after.engine("chat-0", 0.5)
    # Five in the last ten minutes before the change.
    pushed = before.families["vllm:num_preemptions_total"]
    name, _, at = pushed[-1].rsplit(" ", 2)
    pushed[-1] = f"{name} 5 {at}"
    ingested(before.write(tmp_path / "a.om"), after.write(tmp_path / "b.om"),
             gpu_fleet.config(tmp_path / "config.json"), gpu_fleet.log(tmp_path / "engine.log"))  # fmt: skip
    (row,) = command("rightsize")["engines"]
    lower, higher = row["ladder"]["rungs"]
    assert (lower["setting"], higher["setting"]) == ("0.87", "0.92")
    assert higher["from"] == "2026-11-16T00:00:00Z" and higher["preemptions"] == 0
    # Of 27,470 blocks a half, and not nine tenths of the 25,443 before.
    assert higher["peak_blocks"] == 13_735


def test_without_readings_there_is_nothing_to_advise() -> None:
    assert command("rightsize")["engines"] == []
    assert command("memory", *HOUR)["rows"] == []
