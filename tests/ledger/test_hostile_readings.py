"""Files of readings and usage that no honest exporter writes: named, bounded, nothing lost."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from finops.ledger.models import CacheHour, Document, ReadingBlock, Series, TokenHour, UsageHour
from finops.ledger.operations.ingest import ingest
from tests.ledger.doors import command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
T = 1_795_962_000
AT = datetime(2026, 11, 29, 17, tzinfo=UTC)
COUNTER = "vllm:prompt_tokens_total"


def series(*pairs: tuple[float, str], metric: str = COUNTER, **labels: str) -> dict[str, Any]:
    named = {"__name__": metric, "job": "vllm", "instance": "a:8000", "engine": "0"}
    return {"metric": named | labels, "values": [list(pair) for pair in pairs]}


def answer(*found: dict[str, Any], **more: Any) -> str:
    data = {"resultType": "matrix", "result": list(found)}
    return json.dumps({"status": "success", "data": data} | more)


def taken(folder: Path, text: str, name: str = "a.json") -> dict[str, Any]:
    path = folder / name
    path.write_text(text)
    (document,) = ingest([str(path)], by="Ada", at=AT)
    return document


def test_pieces_of_one_hour_in_one_document_all_count(tmp_path: Path) -> None:
    first = answer(series((T, "100"), (T + 15, "200")))
    second = answer(series((T + 15, "200"), (T + 30, "300")))
    document = taken(tmp_path, first + "\n" + second + "\n")
    assert (document["readings"], ReadingBlock.objects.count()) == (4, 2)
    (row,) = TokenHour.objects.all()
    assert (row.tokens, row.readings) == (200, 3)  # 100 is an unplaced opening
    assert command("check-ledger")["ok"] is True


@pytest.mark.parametrize(
    ("metric", "value", "reason"),
    [
        (COUNTER, "NaN", "not a number of tokens"),
        (COUNTER, "1e400", "not a number of tokens"),
        (COUNTER, "-5", "a negative number"),
        (COUNTER, "100.5", "not a whole number"),
        (COUNTER, "9007199254740994", "beyond 2^53"),
        ("up", "Infinity", "not a number a gauge can show"),
        ("process_start_time_seconds", "1e300", "not a time"),
        ("vllm:prompt_tokens_created", "-1", "not a time"),
        ("vllm:kv_cache_usage_perc", "1e400", "not a number a gauge can show"),
        ("vllm:num_requests_running", "1e300", "not a number a gauge can show"),
    ],
)
def test_what_is_no_reading_is_named_and_the_others_count(
    tmp_path: Path, metric: str, value: str, reason: str
) -> None:
    good = series((T, "100"), (T + 15, "150"))
    document = taken(tmp_path, answer(good, series((T + 20, value), metric=metric, x="y")))
    assert (document["status"], document["readings"], document["rows_rejected"]) == ("posted", 2, 1)
    assert document["rejections"][0]["column"] == metric
    assert reason in document["rejections"][0]["reason"]
    assert TokenHour.objects.get().tokens == 50


@pytest.mark.parametrize("at", [-86_400, 0, 946_684_799, 7_258_118_400, 253_402_300_799])
def test_an_instant_off_the_calendar_is_named(tmp_path: Path, at: int) -> None:
    document = taken(tmp_path, answer(series((T, "100"), (at, "100"))))
    assert (document["readings"], document["rows_rejected"]) == (1, 1)
    assert "2000 to 2199" in document["rejections"][0]["reason"]


def test_of_two_values_at_one_instant_the_higher_counts_in_any_order(tmp_path: Path) -> None:
    document = taken(tmp_path, answer(series((T, "10"), (T + 15, "40"), (T + 15, "30"))))
    assert document["rejections"][0]["value"].startswith("30.0 at ")
    taken(tmp_path, answer(series((T + 15, "35"), (T + 30, "50"))), "b.json")
    row = TokenHour.objects.order_by("-revision").first()
    assert row is not None
    assert (row.tokens, row.readings, row.restarts) == (40, 3, 0)
    assert command("check-ledger")["ok"] is True


@pytest.mark.parametrize(
    ("labels", "column"),
    [
        ({"model_name": "a\0b"}, "model_name"),
        ({"instance": "a\0b"}, "instance"),
        ({"instance": "x" * 100_000}, "instance"),
        ({"prometheus_replica": "é" * 5000}, "prometheus_replica"),
    ],
)
def test_labels_that_no_table_holds_are_named(
    tmp_path: Path, labels: dict[str, str], column: str
) -> None:
    document = taken(tmp_path, answer(series((T, "1"), (T + 15, "2"), **labels)))
    assert (document["readings"], document["rows_rejected"]) == (0, 2)
    assert document["rejections"][0]["column"] == column
    assert Series.objects.count() == 0


def test_odd_labels_that_are_text_are_kept(tmp_path: Path) -> None:
    odd = 'a"b\n\\c\u2028é🦊' + "x" * 1000
    assert taken(tmp_path, answer(series((T, "1"), instance=odd)))["readings"] == 1
    assert Series.objects.get().labels["instance"] == odd


def test_two_readings_decades_apart_do_not_make_rows_of_every_hour(tmp_path: Path) -> None:
    far = series((10**9, "0.5"), (4 * 10**9, "0.5"), metric="vllm:kv_cache_usage_perc")
    assert taken(tmp_path, answer(far))["readings"] == 2
    assert CacheHour.objects.count() <= 4


@pytest.mark.parametrize("line", ["a" + " " * 200_000 + "#x", "a 1" + " " * 200_000 + "x"])
def test_a_line_of_blanks_is_read_once(tmp_path: Path, line: str) -> None:
    started = time.monotonic()
    document = taken(tmp_path, f"# TYPE a counter\n{line}\n# EOF\n", "a.txt")
    assert (document["rows_rejected"], document["rejections"][0]["line"]) == (1, 2)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>",
        '{"status":"success","data":{"resultType":"matrix","result":' + "[" * 50_000,
        answer(series((T, "1")))[:-9],
        json.dumps({"status": "error", "errorType": "bad_data", "error": "x"}),
    ],
)
def test_what_is_no_answer_is_refused_and_leaves_nothing(tmp_path: Path, text: str) -> None:
    document = taken(tmp_path, text)
    assert document["status"] == "rejected"
    assert "a.json" in document["rejections"][0]["reason"]
    assert (Document.objects.count(), ReadingBlock.objects.count()) == (0, 0)


def usage(**changes: Any) -> str:
    tokens = {"prompt_tokens": 1, "completion_tokens": 2}
    return json.dumps({"timestamp": T, "model": "m", "usage": tokens} | changes) + "\n"


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"usage": {"prompt_tokens": True, "completion_tokens": 2}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": 10**30, "completion_tokens": 2}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": 1, "completion_tokens": "x"}}, "generation_tokens"),
        ({"n": 2**53}, "n"),
        ({"n": 1000, "usage": {"prompt_tokens": 2**53, "completion_tokens": 2}}, "n"),
        ({"model": "a\0b"}, "model"),
        ({"team": "a\0b"}, "team"),
    ],
)
def test_usage_that_cannot_be_is_named_by_line(
    tmp_path: Path, changes: dict[str, Any], column: str
) -> None:
    document = taken(tmp_path, usage() + usage(**changes), "u.jsonl")
    assert (document["status"], document["records"], document["rows_rejected"]) == ("posted", 1, 1)
    rejection = document["rejections"][0]
    assert rejection["line"] == 2
    assert rejection["column"] in (column, "completion_tokens")
    assert UsageHour.objects.get().prompt_tokens == 1


def test_a_sum_beyond_the_table_is_refused_whole(tmp_path: Path) -> None:
    huge = usage(usage={"prompt_tokens": 2**53, "completion_tokens": 2})
    document = taken(tmp_path, huge * 1100, "u.jsonl")
    assert (document["status"], Document.objects.count()) == ("rejected", 0)


def test_a_usage_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    header = "timestamp,model,prompt_tokens,prompt_tokens,completion_tokens\n"
    document = taken(tmp_path, f"{header}{T},m,1,9,2\n", "u.csv")
    assert "prompt_tokens stands twice" in document["rejections"][0]["reason"]


def test_pipes_loops_and_odd_names_in_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "self.json").symlink_to("self.json")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "new\nline.json").write_text(answer(series((T, "1"))))
    Path(os.fsdecode(bytes(tmp_path) + b"/bad\xff.json")).write_text(answer(series((T, "2"))))
    documents = command("ingest", tmp_path, "--by", "Ada")["documents"]
    said = {os.path.basename(one["path"]): one["status"] for one in documents}
    assert said == {
        "bad\udcff.json": "posted",
        "new\nline.json": "posted",
        "pipe.json": "rejected",
        "self.json": "rejected",
    }


@pytest.mark.parametrize("arguments", [[""], ["x" * 5000], ["nowhere", "--source", "a b"]])
def test_what_cannot_be_asked_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError) as refused:
        command("ingest", *arguments)
    assert refused.value.returncode == 2
    assert "Unexpected" not in str(refused.value)
