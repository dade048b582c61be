"""FastChat's logs hold no counts: with a tokenizer they are counted anew and labelled so (§6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from finops.sources import fastchat, registry
from finops.sources.records import Refused, Rejection, UsageRecord

ANSWERED = {
    "tstamp": 1764403205.5,
    "type": "chat",
    "model": "vicuna-7b",
    "gen_params": {"temperature": 0.7},
    "start": 1764403200.0,
    "finish": 1764403205.25,
    "state": {
        "template_name": "vicuna_v1.1",
        "system_message": "be brief",
        "roles": ["USER", "ASSISTANT"],
        "messages": [["USER", "one two three"], ["ASSISTANT", "four"], ["USER", "five"],
                     ["ASSISTANT", "six seven"]],
        "offset": 0,
        "conv_id": "c0ffee",
    },
    "ip": "203.0.113.9",
}  # fmt: skip
VOTE = {"tstamp": 1764403300.0, "type": "upvote", "model": "vicuna-7b", "state": {}}


def log(folder: Path, *lines: object) -> Path:
    path = folder / "2026-11-29-conv.json"
    path.write_text("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines))
    return path


def words(folder: Path) -> Path:
    """A tokenizer whose tokens are words, so that counts can be made by hand."""
    model = pytest.importorskip("tokenizers.models")
    tokenizers = pytest.importorskip("tokenizers")
    before = pytest.importorskip("tokenizers.pre_tokenizers")
    made = tokenizers.Tokenizer(model.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = before.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_a_log_is_recognised_and_refused_without_a_tokenizer(tmp_path: Path) -> None:
    path = log(tmp_path, ANSWERED)
    assert registry.detect(path, path.name) == "fastchat"
    with pytest.raises(Refused, match="--as fastchat:"):
        registry.parse(path, path.name)


def test_question_and_answer_are_counted_anew(tmp_path: Path) -> None:
    path = log(tmp_path, ANSWERED, VOTE)
    parsed = fastchat.parse_with(path, path.name, "fastchat:x", words(tmp_path))
    (record,) = list(parsed.records)

    assert isinstance(record, UsageRecord)
    # be brief | one two three | four | five, then six seven
    assert (record.prompt_tokens, record.generation_tokens) == (7, 2)
    assert (record.quality, record.cached_tokens) == ("re-tokenised", None)
    assert (record.model, record.at.isoformat()) == (
        "vicuna-7b",
        "2025-11-29T08:00:05.250000+00:00",
    )
    assert (parsed.account.rows_read, parsed.account.rows_in_parent) == (2, 1)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"finish": "yesterday"}, "finish"),
        ({"finish": 1e300}, "finish"),
        ({"model": None}, "model"),
        ({"state": None}, "state"),
        ({"state": {"messages": [["USER", "hi"]]}}, "state.messages"),
        ({"state": {"messages": [["USER", 7], ["ASSISTANT", "x"]]}}, "state.messages"),
        ({"state": {"messages": [["U", "x"], ["A", "x"]], "offset": 9}}, "state.offset"),
    ],
)
def test_lines_that_tell_nothing_are_rejected(
    tmp_path: Path, change: dict[str, object], column: str
) -> None:
    path = log(tmp_path, ANSWERED | change, "{")
    parsed = fastchat.parse_with(path, path.name, "fastchat:x", words(tmp_path))
    first, second = list(parsed.records)

    assert isinstance(first, Rejection)
    assert (first.line, first.column) == (1, column)
    assert isinstance(second, Rejection)
    assert "JSON" in second.reason


def test_a_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "no.json").write_text("[]")
    path = log(tmp_path, ANSWERED)
    with pytest.raises(Refused, match="tokenizer file cannot be read"):
        list(fastchat.parse_with(path, path.name, "fastchat:x", tmp_path / "no.json").records)
