"""`kv` and `explain-log` as their users meet them: one JSON document, no database."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.paths import RECORDED


def command(*arguments: object) -> dict[str, Any]:
    out = StringIO()
    call_command(*map(str, arguments), "--json", stdout=out)
    return json.loads(out.getvalue())


def config(path: Path, **more: object) -> Path:
    # Qwen3-Coder-30B-A3B as published; a public error text says 24.0 GiB for 262,144 tokens.
    path.write_text(json.dumps({
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
        "intermediate_size": 5472, "head_dim": 128, "moe_intermediate_size": 768,
        "num_experts": 128, "torch_dtype": "bfloat16", "num_attention_heads": 32,
        "num_hidden_layers": 48, "num_key_value_heads": 4, "vocab_size": 151936,
        "max_position_embeddings": 262144, "tie_word_embeddings": False,
    } | more))  # fmt: skip
    return path


def test_kv(tmp_path: Path) -> None:
    path = config(tmp_path / "config.json")
    answer = command("kv", path)
    assert answer["attention"] == "gqa"
    assert answer["bytes_per_token_per_gpu"] == 98_304
    assert answer["bytes_for_max_model_len_per_gpu"] == 24 * 2**30
    assert answer["weights_bytes_per_gpu"] == 2 * 30_532_122_624
    halved = command("kv", path, "--tp", 2, "--kv-dtype", "fp8", "--max-model-len", 1024)
    assert halved["bytes_per_token_per_gpu"] == 98_304 // 4
    assert halved["bytes_for_max_model_len_per_gpu"] == 98_304 // 4 * 1024


@pytest.mark.parametrize(("text", "says"), [("{", "line 1"), ("{}", "num_hidden_layers")])
def test_kv_names_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    answer = command("kv", path)
    assert not answer["ok"] and says in answer["error"]


def test_kv_refuses_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="tp must be"):
        command("kv", config(tmp_path / "config.json"), "--tp", 0)
    with pytest.raises(CommandError, match="no such file"):
        command("kv", tmp_path / "nothing.json")


def test_explain_log_gives_every_key_of_the_contract() -> None:
    (engine,) = command("explain-log", RECORDED / "logs" / "chat-7b-0.fail1.log")["engines"]
    assert {"engine_version", "model", "max_model_len", "utilization", "workers", "identity",
            "failure"} <= engine.keys()  # fmt: skip
    assert engine["utilization"] is None and engine["identity"] is None
    (worker,) = engine["workers"]
    assert {"rank", "total_bytes", "budget_bytes", "weights_bytes", "non_torch_bytes",
            "activation_peak_bytes", "graphs_bytes", "kv_bytes", "kv_blocks", "block_size",
            "kv_tokens", "max_concurrency"} <= worker.keys()  # fmt: skip
    failure = engine["failure"]
    assert {"kind", "needed_bytes", "available_bytes", "short_bytes", "max_model_len", "kv_tokens",
            "remedies"} <= failure.keys()  # fmt: skip
    assert all(remedy.keys() == {"kind", "to", "why"} for remedy in failure["remedies"])
    # Nothing is there: half of what is needed in 8 bits is still too much.
    assert failure["not_enough_alone"] == ["quantize-kv"]


def test_a_log_that_was_rotated_under_its_engine(tmp_path: Path) -> None:
    whole = (RECORDED / "logs" / "chat-7b-0.i1.log").read_bytes()
    place = whole.index(b"KV cache size") + 3
    path = tmp_path / "engine.log"
    path.write_bytes(b"\0" * 4096 + whole[:place] + b"\0" + whole[place:])
    (engine,) = command("explain-log", path)["engines"]
    # The recording's own figures: 1 GiB in 524,288 tokens.
    assert (engine["workers"][0]["kv_bytes"], engine["workers"][0]["kv_tokens"]) == (
        1 << 30,
        524_288,
    )


def test_explain_log_for_people() -> None:
    out = StringIO()
    call_command("explain-log", str(RECORDED / "logs" / "chat-7b-0.fail1.log"), stdout=out)
    text = out.getvalue()
    assert "It did not start" in text and "lower-max-model-len → 1984" in text
    assert "Does not help: lower-utilization" in text


def test_explain_log_says_when_it_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing of the kind\n")
    answer = command("explain-log", path)
    assert "no line of an engine's start" in answer["error"]
