"""The memory table of GPUs, engines and workloads, through the door (method §8.5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from finops.core.engine_start import GIB
from finops.core.period import Period
from finops.ledger.models import DeviceHour
from finops.ledger.queries.memory_by_hour import memory_hours
from finops.ledger.queries.memory_notices import memory_notices
from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.ledger.memory_tables import HOUR, MIB, PARTS, UUID, closes, one_card, workload
from tests.paths import SAMPLES

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def test_a_card_with_everything_known_closes_to_the_byte(tmp_path: Path) -> None:
    workload()
    for document in ingested(one_card(tmp_path), gpu_fleet.config(tmp_path / "config.json"),
                             gpu_fleet.log(tmp_path / "engine.log")):  # fmt: skip
        assert document["status"] == "posted", document
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["key"] == UUID.removeprefix("GPU-")
    assert row["total_bytes"] == 81_559 * MIB  # as nvidia-smi tells of an H100
    assert row["driver_bytes"] == 479 * MIB and row["free_bytes"] == 5_080 * MIB
    assert row["used_bytes"] == 76_000 * MIB
    assert row["kv_reserved_bytes"] == 439_536 * 131_072  # 53.654 GiB
    # A quarter of 27,470 blocks is 6,867.5, a whole number of blocks: 6,868.
    assert row["kv_active_bytes"] == 6_868 * 16 * 131_072
    assert row["kv_active_bytes"] + row["kv_unreferenced_bytes"] == row["kv_reserved_bytes"]
    assert row["weights_bytes"] == round(14.99 * GIB)
    assert row["graphs_bytes"] == round(0.45 * GIB)
    assert row["non_torch_bytes"] == round(0.90 * GIB)
    assert row["activation_peak_bytes"] == round(3.28 * GIB)  # beside the table, not in it
    assert closes(row) and row["not_measured"] == ["other"]
    (engine,) = row["engines"]
    assert (engine["reserved_tokens"], engine["peak_running"]) == (439_536, 4)
    assert engine["contiguous_slots"] == (439_536 - 16) // 8192
    assert "model configuration" in engine["kv_bytes_from"]
    for by in ("engine", "workload"):
        (same,) = command("memory", *HOUR, "--by", by)["rows"]
        assert all(same[f"{name}_bytes"] == row[f"{name}_bytes"] for name in (*PARTS, "total"))
    (whole,) = command("memory", *HOUR)["rows"]
    assert whole["key"] == "fleet" and closes(whole)


def test_an_hour_in_which_an_engine_came_back_with_a_smaller_pool(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    for blocks, first, last in ((27_471, 0, 30), (10_001, 30, 60)):
        part = Fleet(start=gpu_fleet.START + first * 60)
        part.times = part.times[: last - first]
        part.engine("chat-0", 0.5, blocks=blocks)
        for metric, lines in part.families.items():
            fleet.families.setdefault(metric, []).extend(lines)
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    # Half an hour each: 27,471 and 10,001 blocks are 18,736 in the mean; half of them less the one
    # null block, 13,735 and 5,000, are 9,367.5. A block is 16 tokens of 131,072 bytes.
    assert row["kv_reserved_bytes"] == 18_736 * 16 * 131_072
    assert row["kv_active_bytes"] == 18_735 * 8 * 131_072
    assert row["kv_unreferenced_bytes"] == row["kv_reserved_bytes"] - row["kv_active_bytes"]
    (engine,) = row["engines"]
    assert engine["reserved_tokens"] == 160_016  # what it came back with
    assert (engine["reserved_tokens_mean"], engine["active_tokens_mean"]) == (299_776, 149_880)
    start = datetime(2026, 11, 16, tzinfo=UTC)
    (hour,) = memory_hours(Period(start, start + timedelta(hours=1)))
    assert hour["kv_unreferenced_bytes"] == row["kv_unreferenced_bytes"]


def test_what_is_not_measured_is_null_and_in_the_remainder(tmp_path: Path) -> None:
    workload()
    ingested(one_card(tmp_path))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    for name in ("weights", "graphs", "non_torch", "kv_active", "kv_reserved"):
        assert row[f"{name}_bytes"] is None
    assert closes(row) and row["unattributed_bytes"] == 76_000 * MIB
    assert any("start-up log" in flag for flag in row["flags"])


def test_an_engine_without_gpu_metrics_has_no_device_total(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    fleet.engine("chat-0", 0.5)
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert row["total_bytes"] is None and row["unattributed_bytes"] is None
    assert row["kv_reserved_bytes"] == 439_536 * 131_072
    assert any("no GPU metrics" in flag for flag in row["flags"])


def test_two_gpus_of_one_engine_are_added_and_a_device_series_is_not_a_third(
    tmp_path: Path,
) -> None:
    workload()
    fleet = Fleet()
    fleet.engine("chat-0", 0.5)
    for index in ("0", "1"):
        fleet.gpu(f"GPU-{index}", 70_000, 11_080, index=index, namespace="llm", pod="chat-0")
        fleet.gpu(f"GPU-{index}", 70_500, 10_580, index=index)  # kept beside the pods' own
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    digest = command("evidence", "list")["evidence"][0]["document"]
    command("evidence", "link", digest[:16], "chat", "--tp", 2, "--by", "Ada")
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert row["gpus"] == 2 and row["total_bytes"] == 2 * 81_559 * MIB
    assert row["used_bytes"] == 2 * 70_500 * MIB
    assert row["kv_reserved_bytes"] == 2 * 439_536 * 65_536
    assert closes(row)


def test_data_parallel_engines_of_a_pod_have_gpus_of_their_own(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    for number in ("0", "1"):  # the front-end prints the blocks of both on each
        fleet.engine("chat-0", 0.5, engine=number, num_gpu_blocks="10000",
                     kv_cache_size_tokens="80000")  # fmt: skip
        fleet.gpu(f"GPU-{number}", 30_000, 51_080, index=number, namespace="llm", pod="chat-0")
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    rows = command("memory", *HOUR, "--by", "engine")["rows"]
    assert [(row["gpus"], row["kv_reserved_bytes"]) for row in rows] == [(1, 80_000 * 131_072)] * 2
    (whole,) = command("memory", *HOUR)["rows"]
    assert whole["kv_reserved_bytes"] == 2 * 80_000 * 131_072 and closes(whole)


def test_tenants_of_a_time_sliced_gpu_are_flagged_and_it_counts_once(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    for pod in ("chat-0", "chat-1"):
        fleet.engine(pod, 0.1, blocks=5000)
        fleet.gpu(UUID, 40_000, 41_080, namespace="llm", pod=pod)
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["total_bytes"] == 81_559 * MIB and closes(row)
    assert any("time-slicing" in flag for flag in row["flags"])
    assert row["kv_reserved_bytes"] == 2 * 5000 * 16 * 131_072
    assert DeviceHour.objects.count() == 1


def test_programs_that_are_no_engine_are_told_by_pod(tmp_path: Path) -> None:
    """A time-sliced GPU by an exporter that tells its pods apart beside the device's own series."""
    workload()
    fleet = Fleet()
    fleet.engine("chat-0", 0.1, blocks=5000)
    for used, pod in ((40_000, {}), (24_000, {"namespace": "llm", "pod": "chat-0"}),
                      (15_000, {"namespace": "ml", "pod": "notebook-0"})):  # fmt: skip
        fleet.gpu(UUID, used, 41_080, **pod)
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["used_bytes"] == 40_000 * MIB and row["other_bytes"] == 15_000 * MIB
    assert row["total_bytes"] == 81_559 * MIB and closes(row)
    assert any("time-slicing" in flag for flag in row["flags"])
    period = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC))
    (notice,) = [n for n in memory_notices(period) if n.kind == "gpu-shared"]
    assert "told by the exporter, pod by pod" in notice.text


def test_a_gpu_that_only_other_pods_hold_is_theirs(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.gpu(UUID, 30_000, 51_080, namespace="ml", pod="train-0")
    ingested(fleet.write(tmp_path / "h.om"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["other_bytes"] == 30_000 * MIB and row["unattributed_bytes"] == 0 and closes(row)


def test_a_workload_called_fleet_has_its_own_gpus_alone(tmp_path: Path) -> None:
    workload("fleet")
    fleet = Fleet()
    fleet.engine("chat-0", 0.25)
    fleet.gpu(UUID, 76_000, 5_080, namespace="llm", pod="chat-0")
    fleet.gpu("GPU-of-others", 30_000, 51_080, index="1", namespace="ml", pod="train-0")
    ingested(fleet.write(tmp_path / "h.om"))
    (row,) = command("memory", *HOUR, "--by", "workload")["rows"]
    assert (row["key"], row["gpus"], row["used_bytes"]) == ("fleet", 1, 76_000 * MIB)
    (whole,) = command("memory", *HOUR)["rows"]
    assert (whole["key"], whole["gpus"], whole["used_bytes"]) == ("fleet", 2, 106_000 * MIB)


def test_pods_that_follow_each_other_on_a_card_are_one_at_a_time(tmp_path: Path) -> None:
    """Two hours of one pod, then two of its successor: the card is never full twice.

    27,471 blocks × 16 × 131,072 bytes are 53.65 GiB at any time, 107.3 GiB at none.
    """
    workload()
    paths = []
    for number, pod in enumerate(("chat-aaaa", "chat-bbbb")):
        fleet = Fleet(start=gpu_fleet.START + 2 * number * 3600, hours=2)
        fleet.engine(pod, 0.25 + number / 2)
        fleet.gpu(UUID, 76_000, 5_080, namespace="llm", pod=pod)
        paths.append(fleet.write(tmp_path / f"{pod}.om"))
    ingested(*paths, gpu_fleet.config(tmp_path / "config.json"))
    four = (*HOUR[:3], "2026-11-16T04:00:00Z")
    (card,) = command("memory", *four, "--by", "gpu")["rows"]
    pool = 27_471 * 16 * 131_072
    assert card["kv_reserved_bytes"] == pool and card["total_bytes"] == 81_559 * MIB
    # Of 27,470 blocks a quarter is 6,867.5 and three quarters 20,602.5: whole blocks are 6,868 and
    # 20,602, two hours of each.
    assert card["kv_active_bytes"] == (6_868 + 20_602) // 2 * 16 * 131_072
    assert card["unattributed_bytes"] == 76_000 * MIB - pool and closes(card)
    assert not any("share" in flag for flag in card["flags"])
    assert (len(card["engines"]), card["gpus"]) == (2, 1)
    for row in (
        *command("memory", *four)["rows"],
        *command("memory", *four, "--by", "workload")["rows"],
    ):
        assert (row["gpus"], row["kv_reserved_bytes"], row["total_bytes"]) == (
            1, pool, 81_559 * MIB)  # fmt: skip
        assert closes(row)
    for row in command("memory", *four, "--by", "engine")["rows"]:
        assert row["kv_reserved_bytes"] == pool and closes(row)
    period = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 16, 4, tzinfo=UTC))
    assert [notice.kind for notice in memory_notices(period)] == []
    assert {one["kv_reserved_bytes"] for one in memory_hours(period, "chat")} == {pool}


def test_without_gpu_metrics_lives_of_one_engine_are_one_gpu(tmp_path: Path) -> None:
    workload()
    paths = []
    for number, pod in enumerate(("chat-aaaa", "chat-bbbb")):
        fleet = Fleet(start=gpu_fleet.START + 3 * number * 1200, hours=1)
        fleet.times = fleet.times[: 60 if number else 58]
        fleet.engine(pod, 0.5)
        paths.append(fleet.write(tmp_path / f"{pod}.om"))
    ingested(*paths, gpu_fleet.config(tmp_path / "config.json"),
             gpu_fleet.log(tmp_path / "engine.log"))  # fmt: skip
    two = (*HOUR[:3], "2026-11-16T02:00:00Z")
    (row,) = command("memory", *two, "--by", "workload")["rows"]
    assert (row["gpus"], row["kv_reserved_bytes"]) == (1, 27_471 * 16 * 131_072)
    assert row["weights_bytes"] == round(14.99 * GIB)
    seen = [(one["first_seen"], one["last_seen"]) for one in row["engines"]]
    assert seen == [("2026-11-16T00:00:00Z", "2026-11-16T00:58:00Z"),
                    ("2026-11-16T01:00:00Z", "2026-11-16T02:00:00Z")]  # fmt: skip


def test_a_mig_slice_without_framebuffer_metrics_degrades_visibly(tmp_path: Path) -> None:
    """dcgm-exporter#380, #512: of a MIG instance FB_FREE and FB_RESERVED are not there."""
    workload()
    fleet = Fleet()
    fleet.engine("chat-0", 0.1, blocks=2000)
    fleet.gpu(UUID, 9_000, None, None, GPU_I_PROFILE="1g.10gb", GPU_I_ID="7", namespace="llm",
              pod="chat-0")  # fmt: skip
    ingested(fleet.write(tmp_path / "h.om"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["key"].endswith("/7") and row["total_bytes"] is None
    assert {"total", "driver", "free"} <= set(row["not_measured"])
    assert any("MIG" in flag for flag in row["flags"])


def test_the_driver_s_reserve_is_neither_used_nor_free(tmp_path: Path) -> None:
    # An idle V100-16GB: USED alone says 0 %, with RESERVED it does not.
    fleet = Fleet()
    fleet.gpu(UUID, 0, 15_850, 310)
    ingested(fleet.write(tmp_path / "h.om"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert (row["used_bytes"], row["driver_bytes"]) == (0, 310 * MIB)
    assert row["total_bytes"] == 16_160 * MIB and row["unattributed_bytes"] == 0


@pytest.mark.skipif(not (SAMPLES / "metrics").is_dir(), reason="needs the exposition samples")
def test_a_real_h100_as_its_exporter_told(tmp_path: Path) -> None:
    (source,) = (SAMPLES / "metrics").glob("nvidia_gpu_exporter*h100-80gb*load.metrics")
    at = gpu_fleet.START
    lines = [
        f"{line} {at + n * 15}"
        for line in source.read_text().splitlines()
        if line.startswith(("nvidia_smi_memory_", "nvidia_smi_compute_app_used"))
        for n in range(240)
    ]
    path = tmp_path / "real.om"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    ingested(path)
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["total_bytes"] == 85_520_809_984
    assert row["free_bytes"] == 64_238_911_488 and row["driver_bytes"] == 502_267_904
    # Three programs, none of them an engine, as the exporter's own lines add up.
    assert row["other_bytes"] == 2_690_646_016 + 1_616_904_192 + 16_452_157_440
    # The exporter's parts exceed its total by 1 MiB: the remainder shows it.
    assert row["unattributed_bytes"] == 20_780_679_168 - MIB - row["other_bytes"] and closes(row)


@pytest.mark.skipif(not (SAMPLES / "metrics").is_dir(), reason="needs the exposition samples")
def test_sglang_tells_its_memory_itself(tmp_path: Path) -> None:
    command("workload", "add", "s", "--model", "m", "--stack", "sglang", "--purpose", "inference",
            "--by", "Ada")  # fmt: skip
    command("rule", "add", "s", "--series", "engine_type=unified", "--by", "Ada")
    text = (SAMPLES / "metrics" / "sglang-0.5.23-single.prom").read_text()
    at = gpu_fleet.START
    names = ("sglang:token_usage", "sglang:full_token_usage", "sglang:max_total_num_tokens",
             "sglang:weight_memory", "sglang:kv_cache_memory", "sglang:graph_memory",
             "sglang:num_running_reqs")  # fmt: skip
    lines = [
        f"{line} {at + n * 15}"
        for line in text.splitlines()
        if line.startswith(names)
        for n in range(240)
    ]
    path = tmp_path / "sglang.om"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    ingested(path)
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert row["weights_bytes"] == round(15.02 * GIB)
    assert row["graphs_bytes"] == round(0.61 * GIB)
    assert row["kv_reserved_bytes"] == round(53.04 * GIB)
    (engine,) = row["engines"]
    # The sample's own account: 434,521 = used 120,034 + evictable 80,211 + free 234,276.
    assert (engine["reserved_tokens"], engine["active_tokens_mean"]) == (434_521, 120_034)
    assert row["kv_active_bytes"] == round(row["kv_reserved_bytes"] * 120_034 / 434_521)
    assert engine["kv_bytes_from"] == "the engine's own gauges"


def test_data_parallel_ranks_of_sglang_are_engines_and_tensor_ranks_are_not(tmp_path: Path) -> None:
    command("workload", "add", "s", "--model", "m", "--stack", "sglang", "--purpose", "inference",
            "--by", "Ada")  # fmt: skip
    command("rule", "add", "s", "--series", "job=sglang", "--by", "Ada")
    fleet = Fleet()
    target = {"job": "sglang", "instance": "10.0.0.2:30000", "pod": "s-0", "model_name": "m"}
    fleet.gauge("sglang:prompt_tokens_total", lambda n: 100 * n, **target)
    for dp, usage in (("0", 0.25), ("1", 0.75)):
        for tp in ("0", "1"):
            rank = target | {"dp_rank": dp, "tp_rank": tp, "pp_rank": "0"}
            fleet.gauge("sglang:full_token_usage", usage, **rank)
            fleet.gauge("sglang:num_running_reqs", 3 if dp == "0" else 9, **rank)
            fleet.gauge("sglang:max_total_num_tokens", 100_000, **rank)
    ingested(fleet.write(tmp_path / "sglang.om"))
    (row,) = command("memory", *HOUR, "--by", "workload")["rows"]
    told = {one["engine"]: one for one in row["engines"]}
    # Two caches of 100,000 tokens: what two tensor ranks say of one of them is said once.
    assert sorted(told) == ["s-0 engine 0", "s-0 engine 1"]
    assert [told[name]["active_tokens_mean"] for name in sorted(told)] == [25_000, 75_000]
    assert [told[name]["peak_running"] for name in sorted(told)] == [3, 9]
    assert {one["reserved_tokens"] for one in told.values()} == {100_000}
    assert sum(one["stale_seconds"] for one in told.values()) == 0


def test_posting_again_changes_nothing_and_late_readings_correct(tmp_path: Path) -> None:
    ingested(one_card(tmp_path))
    assert DeviceHour.objects.count() == 1
    fleet = Fleet(start=gpu_fleet.START + 30)
    fleet.gpu(UUID, 77_000, 4_080, namespace="llm", pod="chat-0")
    ingested(fleet.write(tmp_path / "late.om"))
    row = DeviceHour.objects.order_by("-revision").first()
    assert row is not None and row.revision == 2
    assert row.peak_used_bytes == 77_000 * MIB


def test_hours_and_the_busiest_of_them(tmp_path: Path) -> None:
    workload()
    fleet = Fleet(hours=3)
    fleet.engine("chat-0", lambda n: 0.5 if 60 <= n < 120 else 0.1)
    fleet.gpu(UUID, 76_000, 5_080, namespace="llm", pod="chat-0")
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    period = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 16, 3, tzinfo=UTC))
    active = [hour["kv_active_bytes"] for hour in memory_hours(period, "chat")]
    a_block = 16 * 131_072
    assert active == [2_747 * a_block, 13_735 * a_block, 2_747 * a_block]
    assert all(closes(hour) for hour in memory_hours(period, "chat"))
    (row,) = command("memory", "--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T03:00:00Z",
                     "--by", "workload")["rows"]  # fmt: skip
    assert row["busiest_hour"]["hour"] == "2026-11-16T01:00:00Z"
    assert row["busiest_hour"]["kv_active_bytes"] == active[1] and closes(row["busiest_hour"])
