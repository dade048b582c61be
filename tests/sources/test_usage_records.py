"""Usage as gateways log it: the recorded fleet's truth, three vendors' spellings, bad lines."""

import csv
import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.paths import RECORDED
from tests.sources.reading import read

GOOD = {
    "id": "r1",
    "timestamp": "2026-11-29T14:34:49.164Z",
    "model": "chat-7b",
    "usage": {"prompt_tokens": 217, "completion_tokens": 16},
}


def lines(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "usage.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_the_recorded_truth_adds_up_to_its_totals() -> None:
    got = read(RECORDED / "ground_truth.jsonl.gz")
    lives = json.loads((RECORDED / "totals.json").read_text())
    truth = [life["ground_truth_ok"] for life in lives]

    assert sum(one.prompt_tokens for one in got.usage) == sum(t["prompt_tokens"] for t in truth)
    assert sum(one.generation_tokens for one in got.usage) == sum(
        t["completion_tokens"] for t in truth
    )
    assert sum(one.cached_tokens or 0 for one in got.usage) == sum(
        t["cached_tokens"] for t in truth
    )
    extra = sum(one.prompt_tokens * (one.choices - 1) for one in got.usage)
    assert extra == sum(life["extra_prompt_from_n2"] for life in lives)


def test_every_recorded_line_is_a_record_or_a_rejection() -> None:
    with gzip.open(RECORDED / "ground_truth.jsonl.gz", "rt") as stream:
        raw = [json.loads(line) for line in stream]
    got = read(RECORDED / "ground_truth.jsonl.gz")

    assert got.account.rows_read == len(raw) == len(got.usage) + len(got.rejections)
    reasons = [one.reason for one in got.rejections]
    assert reasons.count("no usage") == sum(row["usage"] is None for row in raw)
    assert reasons.count("usage is not final") == sum(
        row["usage"] is not None and not row["usage_is_final"] for row in raw
    )


def test_a_record_holds_what_was_logged(tmp_path: Path) -> None:
    row = GOOD | {
        "n": 2,
        "quality": "re-tokenized",
        "pod": "chat-7b-0",
        "team": "search",
        "api_key": "sk-secret",
        "client_ip": "10.1.1.1",
        "prompt": "tell me",
        "usage": {
            "prompt_tokens": 217,
            "completion_tokens": 32,
            "prompt_tokens_details": {"cached_tokens": 128},
        },
    }
    (one,) = read(lines(tmp_path, row)).usage

    assert one.at == datetime(2026, 11, 29, 14, 34, 49, 164000, tzinfo=UTC)
    assert (one.line, one.model, one.request) == (1, "chat-7b", "r1")
    assert (one.prompt_tokens, one.cached_tokens, one.generation_tokens) == (217, 128, 32)
    assert (one.choices, one.quality) == (2, "re-tokenised")
    assert one.labels == (("pod", "chat-7b-0"), ("team", "search"))
    assert "sk-secret" not in repr(one)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # A prompt with its cached part inside (OpenAI; litellm#22984).
        (
            {"prompt_tokens": 150383, "completion_tokens": 304, "cached_tokens": 149936},
            (150383, 149936, 304),
        ),
        (
            {"input_tokens": 50, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 20}},
            (50, 20, 5),
        ),
        # Cache reads and writes outside the input (Bedrock; tensorzero#5688, total 7906).
        (
            {
                "inputTokens": 18,
                "outputTokens": 0,
                "cacheReadInputTokens": 7502,
                "cacheWriteInputTokens": 386,
            },
            (7906, 7502, 0),
        ),
        (
            {"input_tokens": 10, "output_tokens": 7, "cache_creation_input_tokens": 5},
            (15, 0, 7),
        ),
        # Not told is not zero.
        ({"prompt_tokens": 9, "completion_tokens": 1}, (9, None, 1)),
        # An embedding generates nothing.
        ({"prompt_tokens": 9, "total_tokens": 9}, (9, None, 0)),
        ({"prompt_tokens": "9", "completion_tokens": 1.0}, (9, None, 1)),
    ],
)
def test_the_spellings_of_usage(tmp_path: Path, usage: Any, expected: tuple[Any, ...]) -> None:
    (one,) = read(lines(tmp_path, GOOD | {"usage": usage})).usage
    assert (one.prompt_tokens, one.cached_tokens, one.generation_tokens) == expected


@pytest.mark.parametrize(
    "time",
    [
        {"created": 1795962889},
        {"ts": "2026-11-29T14:34:49Z"},
        {"ts_end": "2026-11-29T15:34:49+01:00", "timestamp": "2020-01-01T00:00:00Z"},
        {"time": "1795962889000"},
        {"timestamp": "2026-11-29 14:34:49 UTC"},
        {"timestamp": 1795962889.0},
    ],
)
def test_the_spellings_of_time(tmp_path: Path, time: dict[str, Any]) -> None:
    row = {key: value for key, value in GOOD.items() if key != "timestamp"} | time
    (one,) = read(lines(tmp_path, row)).usage
    assert one.at == datetime(2026, 11, 29, 14, 34, 49, tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"usage": None}, "usage"),
        ({"usage": {}}, "usage"),
        ({"usage_is_final": False}, "usage_is_final"),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 1}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": 1.5, "completion_tokens": 1}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": "NaN", "completion_tokens": 1}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": True, "completion_tokens": 1}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": 1, "completion_tokens": 2**60}}, "completion_tokens"),
        ({"usage": {"prompt_tokens": "1_0", "completion_tokens": 1}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": "1e400", "completion_tokens": 1}}, "prompt_tokens"),
        ({"usage": {"prompt_tokens": 1}}, "generation_tokens"),
        (
            {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": 2}},
            "cached_tokens",
        ),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timestamp": None}, "timestamp"),
        ({"timestamp": 1e300}, "timestamp"),
        ({"timestamp": [1]}, "timestamp"),
        ({"model": None}, "base_model_name"),
        ({"n": 0}, "n"),
        ({"quality": "guessed"}, "quality"),
    ],
)
def test_a_bad_line_is_rejected_and_the_others_stay(
    tmp_path: Path, change: dict[str, Any], column: str
) -> None:
    got = read(lines(tmp_path, GOOD, GOOD | change, GOOD))

    assert (got.account.rows_read, len(got.usage)) == (3, 2)
    (rejection,) = got.rejections
    assert (rejection.line, rejection.column) == (2, column)


def test_lines_that_are_no_json_are_rejected(tmp_path: Path) -> None:
    path = lines(tmp_path, GOOD)
    path.write_text(path.read_text() + '\n{"cut": \n[1]\n')
    assert [one.line for one in read(path).rejections] == [2, 3]


def test_csv_with_flat_columns(tmp_path: Path) -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["timestamp", "model", "usage.prompt_tokens", "usage.completion_tokens", "app"])
    rows.writerow(["2026-11-29T14:34:49Z", "m", "10", "5", "bot"])
    rows.writerow(["2026-11-29T14:34:49Z", "m", "NULL", "5", "bot"])
    rows.writerow(["2026-11-29T14:34:49Z", "m"])
    path = tmp_path / "usage.csv"
    path.write_text(text.getvalue())
    got = read(path)

    (one,) = got.usage
    assert (one.line, one.prompt_tokens, one.generation_tokens) == (2, 10, 5)
    assert one.labels == (("app", "bot"),)
    assert [rejection.line for rejection in got.rejections] == [3, 4]
