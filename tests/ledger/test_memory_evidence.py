"""Logs, configurations, GPUs and right-sizing through the ledger's doors (method §8, §9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from finops.core.engine_start import GIB
from finops.core.memory import CacheRow
from finops.core.period import Period
from finops.ledger.models import CacheHour, DeviceHour, EngineStart, Series, TokenHour
from finops.ledger.operations.memory_evidence import instant_in_log
from finops.ledger.queries.facts import facts
from finops.ledger.queries.memory import memory_hours
from finops.ledger.queries.memory_fleet import CACHE_FIELDS
from finops.ledger.queries.memory_notices import memory_notices
from finops.ledger.queries.presence import begun_by
from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.paths import RECORDED, SAMPLES

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

HOUR = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T01:00:00Z")
MIB = 1 << 20
UUID = "GPU-5a0b1c2d-0000-1111-2222-333344445555"
PARTS = ("driver", "free", "other", "weights", "kv_active", "kv_unreferenced", "graphs",
         "non_torch", "unattributed")  # fmt: skip


def workload(slug: str = "chat", **options: object) -> None:
    flags = [str(x) for name, value in options.items() for x in (f"--{name}", value)]
    command("workload", "add", slug, "--model", "meta-llama/Llama-3.1-8B-Instruct", "--stack",
            "vllm", "--purpose", "inference", "--by", "Ada", *flags)  # fmt: skip
    command("rule", "add", slug, "--series", "namespace=llm", "--by", "Ada")


def closes(row: dict[str, Any]) -> bool:
    return sum(row[f"{name}_bytes"] or 0 for name in PARTS) == row["total_bytes"]


def one_card(tmp_path: Path, usage: float = 0.25) -> Path:
    fleet = Fleet()
    fleet.engine("chat-0", usage)
    fleet.gpu(UUID, 76_000, 5_080, namespace="llm", pod="chat-0")
    return fleet.write(tmp_path / "hour.om")


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


def smi_host(fleet: Fleet, uuid: str, used: int, **processes: int) -> None:
    """One GPU of a host without pods, by an exporter of nvidia-smi; figures in MiB."""
    target = {"job": "smi", "instance": "vm-1:9835", "uuid": uuid}
    for name, value in (("used", used), ("free", 81_080 - used), ("reserved", 479),
                        ("total", 81_559)):  # fmt: skip
        fleet.gauge(f"nvidia_smi_memory_{name}_bytes", value * MIB, **target)
    for number, (name, value) in enumerate(processes.items()):
        fleet.gauge("nvidia_smi_compute_app_used_memory_bytes", value * MIB,
                    **target, pid=str(900 + number), process_name=name)  # fmt: skip


def vm_engine(fleet: Fleet, port: int, tokens: int = 80_000) -> None:
    """An engine on a host without pods."""
    labels = {"job": "vllm", "instance": f"vm-1:{port}", "namespace": "llm", "engine": "0"}
    fleet.gauge("vllm:kv_cache_usage_perc", 0.1, **labels, model_name="m")
    fleet.gauge("vllm:cache_config_info", 1, **labels, block_size="16", kv_cache_size_tokens=str(tokens),
                num_gpu_blocks=str(tokens // 16))  # fmt: skip


def test_programs_that_are_no_engine_are_told_by_process(tmp_path: Path) -> None:
    """A machine with one GPU and no pods: the engine can only be on it."""
    workload()
    fleet = Fleet()
    vm_engine(fleet, 8000)
    smi_host(fleet, "aaaa", 40_000, **{"VLLM::EngineCore": 30_000, "python3": 6_000, "Xorg": 100})
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["other_bytes"] == 6_100 * MIB and row["used_bytes"] == 40_000 * MIB
    assert row["kv_reserved_bytes"] == 80_000 * 131_072 and closes(row)
    assert "other" not in row["not_measured"]
    (engine,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert (engine["gpus"], engine["other_bytes"]) == (1, row["other_bytes"])


def test_several_engines_on_one_gpu_are_added_and_others_stay_apart(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    for port in (8000, 8001):
        vm_engine(fleet, port)
    smi_host(fleet, "aaaa", 50_000, **{"/opt/venv/bin/python3": 24_000, "python3": 24_000,
                                       "./gpu_burn": 1_000})  # fmt: skip
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["kv_reserved_bytes"] == 2 * 80_000 * 131_072
    assert row["other_bytes"] == 1_000 * MIB and closes(row)
    assert any("2 engines share this GPU" in flag for flag in row["flags"])
    (whole,) = command("memory", *HOUR)["rows"]
    assert whole["total_bytes"] == 81_559 * MIB and closes(whole)  # the device counts once


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


def log_of(path: Path, stamp: str, weights: str) -> Path:
    """A start at that time with those weights; the identity is not what matters here."""
    text = gpu_fleet.log(path).read_text().replace("11-15 23:50:00", stamp)
    path.write_text(text.replace("14.99 GiB", f"{weights} GiB"))
    return path


def weights_by_engine(*period: str) -> dict[str, int | None]:
    rows = command("memory", *period, "--by", "engine")["rows"]
    return {row["key"]: row["weights_bytes"] for row in rows}


def test_each_pod_has_the_log_of_its_own_start(tmp_path: Path) -> None:
    """The successor starts at 01:50, while its forerunner still answers until 02:00; a start after
    the last reading is nobody's here."""
    workload()
    paths = []
    for number, pod in enumerate(("chat-aaaa", "chat-bbbb")):
        fleet = Fleet(start=gpu_fleet.START + 2 * number * 3600, hours=2)
        fleet.engine(pod, 0.25)
        paths.append(fleet.write(tmp_path / f"{pod}.om"))
    logs = [log_of(tmp_path / f"{n}.log", stamp, weights) for n, (stamp, weights) in enumerate((
        ("11-15 20:00:00", "12.00"), ("11-15 23:50:00", "13.00"), ("11-16 01:50:00", "14.00"),
        ("11-16 05:00:00", "15.00"),
    ))]  # fmt: skip
    ingested(*paths, *logs)
    expected = {"chat-aaaa engine 0": round(13 * GIB), "chat-bbbb engine 0": round(14 * GIB)}
    assert weights_by_engine(*HOUR[:3], "2026-11-16T04:00:00Z") == expected
    # The same in a period that begins later than the engine.
    later = ("--from", "2026-11-16T03:00:00Z", "--to", "2026-11-16T06:00:00Z")
    assert weights_by_engine(*later) == {"chat-bbbb engine 0": round(14 * GIB)}


def test_a_pod_that_starts_again_has_the_log_of_its_last_start(tmp_path: Path) -> None:
    workload()
    paths = []
    for number in range(2):
        fleet = Fleet(start=gpu_fleet.START + 2 * number * 3600, hours=2)
        fleet.engine("chat-0", 0.25)  # its counters begin at 0 again
        paths.append(fleet.write(tmp_path / f"{number}.om"))
    logs = [log_of(tmp_path / f"{n}.log", stamp, weights) for n, (stamp, weights) in enumerate((
        ("11-15 23:50:00", "13.00"), ("11-16 01:58:00", "14.00"), ("11-16 03:00:00", "15.00"),
    ))]  # fmt: skip
    ingested(*paths, *logs)
    found = weights_by_engine(*HOUR[:3], "2026-11-16T04:00:00Z")
    assert found == {"chat-0 engine 0": round(14 * GIB)}


def test_a_log_is_of_the_engines_that_show_its_name_on_the_page_and_in_the_report(
    tmp_path: Path,
) -> None:
    """People call the workload's model otherwise than the engine does."""
    command("workload", "add", "chat", "--model", "our llama", "--stack", "vllm", "--purpose",
            "inference", "--by", "Ada")  # fmt: skip
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    ingested(one_card(tmp_path), gpu_fleet.log(tmp_path / "engine.log"))
    (row,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert row["weights_bytes"] == round(14.99 * GIB)
    # 53.65 GiB for 439,536 tokens: 131,072 bytes each, the only round number that fits.
    assert row["kv_reserved_bytes"] == 439_536 * 131_072
    week = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
    (told,) = facts(week, week="2026-W47").workloads
    assert told.memory[0].figures.reserved_bytes == 439_536 * 131_072


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


def test_which_gpu_of_several_an_engine_has_is_not_guessed(tmp_path: Path) -> None:
    workload()
    fleet = Fleet()
    for port in (8000, 8001):
        vm_engine(fleet, port)
    smi_host(fleet, "aaaa", 50_000, python3=24_000)
    smi_host(fleet, "bbbb", 20_000, **{"./gpu_burn": 1_000})
    ingested(fleet.write(tmp_path / "h.om"), gpu_fleet.config(tmp_path / "config.json"))
    rows = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert [row["other_bytes"] for row in rows] == [None, 1_000 * MIB]
    assert all(row["kv_reserved_bytes"] is None and closes(row) for row in rows)
    engines = command("memory", *HOUR, "--by", "engine")["rows"]
    assert all(any("no GPU metrics" in flag for flag in one["flags"]) for one in engines)


def test_hosts_of_one_name_in_two_sources_are_two_hosts(tmp_path: Path) -> None:
    workload()
    for source, uuid, tokens in (("east", "aaaa", 80_000), ("west", "bbbb", 96_000)):
        fleet = Fleet()
        vm_engine(fleet, 8000, tokens)
        smi_host(fleet, uuid, 40_000)
        path = fleet.write(tmp_path / f"{source}.om")
        command("ingest", path, "--source", source, "--by", "Ada")
    ingested(gpu_fleet.config(tmp_path / "config.json"))
    rows = command("memory", *HOUR, "--by", "gpu")["rows"]
    held = {row["key"]: row["kv_reserved_bytes"] for row in rows}
    assert held == {"aaaa": 80_000 * 131_072, "bbbb": 96_000 * 131_072}


def test_an_engine_is_not_on_the_gpu_of_another_source_s_host_of_that_name(tmp_path: Path) -> None:
    workload()
    for source in ("east", "west"):
        fleet = Fleet()
        vm_engine(fleet, 8000)
        if source == "east":
            smi_host(fleet, "aaaa", 40_000)
        command("ingest", fleet.write(tmp_path / f"{source}.om"), "--source", source, "--by", "Ada")
    engines = command("memory", *HOUR, "--by", "engine")["rows"]
    assert sorted(any("no GPU metrics" in flag for flag in one["flags"]) for one in engines) == [
        False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("host", ["vm-1", "localhost", "127.0.0.1", "[::1]"])
def test_a_host_told_by_one_source_and_its_gpu_by_another_is_one_host(
    tmp_path: Path, host: str
) -> None:
    """Unless it is what every machine calls itself."""
    workload()
    engines, gpus = Fleet(), Fleet()
    vm_engine(engines, 8000)
    smi_host(gpus, "aaaa", 40_000)
    for one in (engines, gpus):
        one.families = {
            name: [line.replace("vm-1", host) for line in lines]
            for name, lines in one.families.items()
        }
    for source, fleet in (("engines", engines), ("gpus", gpus)):
        command("ingest", fleet.write(tmp_path / f"{source}.om"), "--source", source, "--by", "Ada")
    (engine,) = command("memory", *HOUR, "--by", "engine")["rows"]
    assert any("no GPU metrics" in flag for flag in engine["flags"]) is (host != "vm-1")


def test_what_arrives_later_does_not_move_when_an_engine_was_started(tmp_path: Path) -> None:
    """A sealed week's logs are chosen by what was known then (method §11)."""
    period = Period(*(datetime(2026, 11, day, tzinfo=UTC) for day in (16, 23)))
    ingested(one_card(tmp_path))
    row = TokenHour.objects.filter(series__role="prompt").get()
    at, values = timezone.now(), {f.attname: getattr(row, f.attname) for f in row._meta.fields}

    def begun() -> dict[int, datetime]:
        series = {one.pk: one for one in Series.objects.filter(role="kv_usage")}
        hours = {pk: CacheHour.objects.filter(series=pk, hour=period.start)[:1] for pk in series}
        rows = {
            pk: [CacheRow(*(getattr(one, name) for name in CACHE_FIELDS)) for one in mine]
            for pk, mine in hours.items()
        }
        return begun_by(rows, series, period, at)

    first = begun()
    assert list(first.values()) == [period.start]
    early = Fleet(start=gpu_fleet.START - 24 * 3600)
    early.engine("chat-0", 0.25)
    ingested(early.write(tmp_path / "early.om"))
    assert CacheHour.objects.filter(hour__lt=period.start).exists()
    later = at + timedelta(days=1)
    for revision, restarts, posted_at in ((8, 1, later), (9, 0, later)):
        again = {"id": None, "revision": revision, "restarts": restarts, "posted_at": posted_at}
        TokenHour.objects.create(**values | again)
    assert begun() == first
    at = later + timedelta(days=1)  # corrected to no restart: the earlier day's reading counts
    assert list(begun().values()) == [period.start - timedelta(days=1)]


@pytest.mark.parametrize("engines", [1, 2])
def test_a_host_s_gpus_are_an_engine_s_only_when_no_other_is_there(
    tmp_path: Path, engines: int
) -> None:
    """One engine's log tells of both GPUs; the other engine of the host has no log at all."""
    workload()
    fleet = Fleet()
    for number in range(engines):
        vm_engine(fleet, 8000 + number, 80_000 + 16_000 * number)
    smi_host(fleet, "aaaa", 40_000)
    smi_host(fleet, "bbbb", 40_000)
    log = gpu_fleet.log(tmp_path / "engine.log", tokens=80_000)
    log.write_text(log.read_text().replace("tensor_parallel_size=1", "tensor_parallel_size=2"))
    ingested(fleet.write(tmp_path / "h.om"), log)
    rows = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert [len(row["engines"]) for row in rows] == ([1, 1] if engines == 1 else [0, 0])


def test_where_nobody_tells_who_holds_a_gpu_the_start_bounds_it(tmp_path: Path) -> None:
    workload()
    ingested(one_card(tmp_path), gpu_fleet.config(tmp_path / "config.json"),
             gpu_fleet.log(tmp_path / "engine.log"))  # fmt: skip
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["other_bytes"] is None
    # 79.15 − 78.60 GiB
    assert any("held 0.55 GiB at most" in flag for flag in row["flags"]), row["flags"]


def kinds() -> set[str]:
    period = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC))
    return {notice.kind for notice in memory_notices(period)}


def test_what_a_reader_must_know_of_memory(tmp_path: Path) -> None:
    workload()
    assert kinds() == set()
    ingested(one_card(tmp_path), gpu_fleet.config(tmp_path / "config.json"))
    assert kinds() == set()
    # 72.82 − 14.99 − 3.28 − 0.90 is 53.65, not 53.05.
    ingested(gpu_fleet.log(tmp_path / "engine.log", kv="53.05"))
    # Nor is it what the configuration gives for the log's tokens.
    assert kinds() == {"log-does-not-add-up", "kv-bytes-differ"}
    fleet = Fleet()
    fleet.engine("small-0", 0.1)
    for pod in ("small-0", "other-0"):
        fleet.gpu("GPU-small", 20_000, 4_000, index="1", namespace="llm", pod=pod)
    ingested(fleet.write(tmp_path / "more.om"))
    # A cache of 53.65 GiB does not fit on that card: the configuration or the log is not its own.
    assert kinds() == {
        "log-does-not-add-up", "kv-bytes-differ", "gpu-shared", "memory-over-total",
    }  # fmt: skip


def test_a_configuration_that_is_not_the_engine_s_own_is_told(tmp_path: Path) -> None:
    """The log prints 53.65 GiB for 439,536 tokens, 131,072 bytes each; with half the KV heads the
    configuration gives 65,536."""
    workload()
    log = gpu_fleet.log(tmp_path / "engine.log")
    ingested(one_card(tmp_path), gpu_fleet.config(tmp_path / "config.json"), log)
    told = [one["agreement"] for one in command("evidence", "list")["evidence"]]
    (agreed,) = [one for one in told if one]
    assert (agreed["agrees"], agreed["bytes_per_token"]) == (True, 131_072)
    assert agreed["log_bytes"] == round(53.65 * GIB) and kinds() == set()
    half = gpu_fleet.config(tmp_path / "half.json", num_key_value_heads=4)
    ingested(half)
    (found,) = [
        one["agreement"] for one in command("evidence", "list")["evidence"] if one["agreement"]
    ]
    assert (found["agrees"], found["config_bytes"]) == (False, 439_536 * 65_536)
    assert kinds() == {"kv-bytes-differ"}
    alone = command("kv", tmp_path / "config.json", "--log", log)["agreement"]
    assert [one["agrees"] for one in alone] == [True] and "agree" in alone[0]["says"]


def test_a_replica_unlike_its_equals_is_told(tmp_path: Path) -> None:
    """vllm#55169: one start in many measures grossly wrong."""
    workload()
    fleet = Fleet()
    for number, blocks in enumerate((27_471, 27_468, 13_000)):
        fleet.engine(f"chat-{number}", 0.1, blocks=blocks, kv_cache_max_concurrency="")
    ingested(fleet.write(tmp_path / "h.om"))
    period = Period(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC))
    (notice,) = memory_notices(period)
    assert (notice.kind, notice.subject) == ("replica-stands-out", "chat-2 engine 0")
    # 13,000 × 16 tokens against 27,468 × 16: 52.67 % less.
    assert "208\u202f000 tokens, 52.7 % less" in notice.text and "439\u202f488" in notice.text


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


# -- the recording's own logs ----------------------------------------------------------------------


def test_recorded_logs_tell_the_bytes_of_a_token() -> None:
    command("workload", "add", "chat", "--model", "tiny-llama", "--stack", "vllm", "--purpose",
            "inference", "--by", "Ada")  # fmt: skip
    command("rule", "add", "chat", "--series", "namespace=llm-prod", "--by", "Ada")
    logs = [RECORDED / "logs" / f"chat-7b-0.{life}.log" for life in ("i3", "i5", "fail1")]
    documents = ingested(RECORDED / "raw-samples-5s.json.gz", *logs)
    assert [d["format"] for d in documents[1:]] == ["engine-log"] * 3
    assert all(d["status"] == "posted" and not d["rows_rejected"] for d in documents)
    assert EngineStart.objects.filter(has_failed=True).count() == 1
    rows = command("memory", "--from", "2026-11-29T14:00:00Z", "--to", "2026-11-29T16:00:00Z",
                   "--by", "engine")["rows"]  # fmt: skip
    by_tokens = {row["engines"][0]["reserved_tokens"]: row for row in rows}
    small = by_tokens[8_192]
    assert small["kv_reserved_bytes"] == 8_192 * 2_048
    assert by_tokens[1_048_576]["kv_reserved_bytes"] == 2 << 30
    assert by_tokens[524_288]["kv_reserved_bytes"] == 1 << 30
    assert all(row["engines"][0]["log"] for row in (small, by_tokens[1_048_576]))
    assert command("check-ledger")["ok"]


def test_a_log_of_another_start_is_not_used(tmp_path: Path) -> None:
    workload()
    ingested(one_card(tmp_path), gpu_fleet.log(tmp_path / "engine.log", tokens=300_000))
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["weights_bytes"] is None and row["engines"][0]["log"] is None


def test_a_link_decides_and_is_refused_when_it_names_nothing(tmp_path: Path) -> None:
    workload()
    path = gpu_fleet.config(tmp_path / "config.json", _name_or_path="/models/llama")
    ingested(one_card(tmp_path), path, "--workload", "chat")
    (row,) = command("memory", *HOUR, "--by", "gpu")["rows"]
    assert row["kv_reserved_bytes"] == 439_536 * 131_072
    (told,) = command("evidence", "list")["evidence"]
    assert (told["kind"], told["workload"]) == ("model-config", "chat")


def test_logs_without_a_year_are_of_the_last_such_day() -> None:
    at = datetime(2026, 1, 3, tzinfo=UTC)
    assert instant_in_log("12-31 23:59:58", at) == datetime(2025, 12, 31, 23, 59, 58, tzinfo=UTC)
    assert instant_in_log("01-02 10:00:00", at) == datetime(2026, 1, 2, 10, tzinfo=UTC)
    assert instant_in_log("2024-12-20T03:14:11.5Z", at) == datetime(
        2024, 12, 20, 3, 14, 11, tzinfo=UTC
    )
    assert instant_in_log("02-30 10:00:00", at) is None and instant_in_log(None, at) is None


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


# -- right-sizing ----------------------------------------------------------------------------------


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


def test_without_readings_there_is_nothing_to_advise() -> None:
    assert command("rightsize")["engines"] == []
    assert command("memory", *HOUR)["rows"] == []
