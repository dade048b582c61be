"""Steps with their annotations, and which guidance a report prints (method §9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from reports.ladder_words import guidance_rows, ladder_rows, report_guidance
from reports.models import Annotation

AT = datetime(2026, 11, 16, tzinfo=UTC)


def rung(setting: str, p99: str, enough: bool = True) -> dict[str, Any]:
    return {"setting": setting, "p99": p99, "enough": enough, "preemptions": 0}


def engine(**changes: Any) -> dict[str, Any]:
    step = {
        "at": "2026-11-16T00:00:00Z", "from": rung("0.92", "0.2050"), "to": rung("0.87", "0.2250"),
        "predicted": {"kv_blocks": 27_471, "p99": "0.2201"}, "result": "came true",
    }  # fmt: skip
    ladder = {
        "steps": [step],
        "next_step": {"utilization": "0.82", "kv_blocks": 25_445, "p99": "1.2"},
    }
    return {"engine": "chat-0", "workload": "chat", "setting": "0.87", "ladder": ladder} | changes


def note(hours: int = 0, **changes: Any) -> Annotation:
    values = {
        "at": AT + timedelta(hours=hours),
        "workload": "chat",
        "kind": "config",
        "text": "Lowered.",
    }
    return Annotation(**values | changes)


def test_a_step_is_told_by_the_annotations_near_it_of_its_workload() -> None:
    near, late = note(3), note(30)
    other, deploy = note(workload="code"), note(kind="deploy")
    (told,) = ladder_rows(engine(), [near, late, other, deploy])["climbed"]
    assert told["notes"] == [near] and not told["is_effect_noted"]
    assert told["text"] == (
        "gpu_memory_utilization 0.92 → 0.87 on chat-0. Predicted: 27,471 KV blocks, p99 use "
        "22.0\u202f%. Observed: p99 use 22.5\u202f%, none pushed out."
    )
    (done,) = ladder_rows(engine(), [note(text="Observed: p99 use 22.5 %.")])["climbed"]
    assert done["is_effect_noted"]


def test_the_next_step_is_noted_with_its_prediction() -> None:
    said = ladder_rows(engine(), [])["next_note"]
    assert said.startswith(
        "gpu_memory_utilization 0.87 → 0.82 on chat-0. Predicted: 25,445 KV blocks"
    )
    assert "over 100 %" in said
    assert ladder_rows(engine(ladder={"steps": [], "next_step": None}), [])["next_note"] == ""


def said(verdict: str, knob: str = "--max-model-len") -> dict[str, Any]:
    text = "Not enough evidence: need a log." if verdict == "not enough evidence" else "It is so."
    return {"knob": knob, "verdict": verdict, "says": text, "sources": []}


def test_a_report_prints_the_workloads_that_need_it_most_and_counts_the_others() -> None:
    rows = [
        {"workload": f"w{n:02}", "verdict": "fits", "guidance": [said("keep")]} for n in range(9)
    ]
    rows += [{"workload": "z", "verdict": "at risk",
              "guidance": [said("keep"), said("not enough evidence", "--max-num-seqs")]},
             {"workload": "z", "verdict": "at risk", "guidance": None}]  # fmt: skip
    found = report_guidance(rows)
    assert [one["workload"] for one in found["sizing_blocks"]] == [
        "z",
        *(f"w{n:02}" for n in range(7)),
    ]
    assert found["sizing_left"] == 2
    first = found["sizing_blocks"][0]
    assert [one["title"] for one in first["rows"]] == ["Longest request"]
    assert first["missing"] == ["requests at once"]


def test_the_verdict_is_not_said_twice() -> None:
    (row,) = guidance_rows([said("not enough evidence")])
    assert row["text"] == "Need a log."
