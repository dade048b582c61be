"""Start-up logs, configurations and what a reader must know of memory (method §8.2, §8.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from finops.core.engine_start import GIB
from finops.core.memory import CacheRow
from finops.core.period import Period
from finops.ledger.models import CacheHour, EngineStart, Series, TokenHour
from finops.ledger.operations.memory_evidence import instant_in_log
from finops.ledger.queries.facts import facts
from finops.ledger.queries.memory_fleet import CACHE_FIELDS
from finops.ledger.queries.memory_notices import memory_notices
from finops.ledger.queries.presence import begun_by
from tests.ledger import gpu_fleet
from tests.ledger.doors import command, ingested
from tests.ledger.gpu_fleet import Fleet
from tests.ledger.memory_tables import HOUR, one_card, workload
from tests.paths import RECORDED

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


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
