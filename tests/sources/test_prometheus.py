"""Saved answers of Prometheus and exports of VictoriaMetrics: samples out, stepped values refused."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from finops.sources.records import Refused
from tests.paths import RECORDED
from tests.sources.reading import read

UP = {"__name__": "up", "job": "vllm", "instance": "10.0.0.1:8000"}
PROMPT = {"__name__": "vllm:prompt_tokens_total", "instance": "10.0.0.1:8000"}
VALUES = [[1795962822.604, "10"], [1795962827.607, "12"], [1795962832.6, "1.8432e+06"]]


def answer(*series: dict[str, Any], kind: str = "matrix", **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": list(series)}, **more}


def saved(tmp_path: Path, *documents: Any) -> Path:
    path = tmp_path / "answer.json"
    path.write_text("\n".join(json.dumps(document) for document in documents))
    return path


def test_an_answer_gives_its_samples(tmp_path: Path) -> None:
    got = read(saved(tmp_path, answer({"metric": PROMPT, "values": VALUES})))

    (one,) = got.series
    assert one.metric == "vllm:prompt_tokens_total"
    assert one.labels == (("instance", "10.0.0.1:8000"),)
    assert list(one.times_ms) == [1795962822604, 1795962827607, 1795962832600]
    assert list(one.values) == [10, 12, 1843200]
    assert (got.account.rows_read, got.account.incomplete) == (3, False)


def test_the_recording_holds_its_19968_samples() -> None:
    got = read(RECORDED / "raw-samples-5s.json.gz")
    assert (len(got.series), got.account.rows_read, got.rejections) == (330, 19_968, [])


@pytest.mark.parametrize("shape", ["list", "lines", "result", "data", "indented", "gzip"])
def test_answers_in_every_wrapping(tmp_path: Path, shape: str) -> None:
    one, two = {"metric": UP, "values": VALUES}, {"metric": PROMPT, "values": VALUES}
    path = tmp_path / "answer.json"
    text = {
        "list": json.dumps([answer(one), answer(two)]),
        "lines": json.dumps(answer(one)) + "\n\n" + json.dumps(answer(two)) + "\n",
        "result": json.dumps([one, two]),
        "data": json.dumps(answer(one, two)["data"]),
        "indented": json.dumps(answer(one, two), indent=2),
        "gzip": json.dumps(answer(one, two)),
    }[shape]
    path.write_bytes(gzip.compress(text.encode()) if shape == "gzip" else text.encode())
    assert [one.metric for one in read(path).series] == ["up", "vllm:prompt_tokens_total"]


def test_an_export_of_victoriametrics(tmp_path: Path) -> None:
    lines = [
        {"metric": UP, "values": [1, 0], "timestamps": [1795962822604, 1795962827607]},
        {"metric": PROMPT, "values": [9007199254740992, None], "timestamps": [1795962822604, 2]},
    ]
    got = read(saved(tmp_path, *lines))

    assert list(got.series[0].times_ms) == [1795962822604, 1795962827607]
    assert list(got.series[0].values) == [1, 0]
    assert list(got.series[1].times_ms) == [2, 1795962822604]
    assert math.isnan(got.series[1].values[0])
    assert got.series[1].values[1] == 2**53


def test_instant_values_are_one_sample_each(tmp_path: Path) -> None:
    got = read(saved(tmp_path, answer({"metric": UP, "value": [1795962822, "1"]}, kind="vector")))
    assert (list(got.series[0].times_ms), list(got.series[0].values)) == ([1795962822000], [1])


def test_values_that_are_no_numbers_stay_for_the_ledger_to_name(tmp_path: Path) -> None:
    values = [[1, "NaN"], [2, "+Inf"], [3, "-Inf"]]
    (one,) = read(saved(tmp_path, answer({"metric": UP, "values": values}))).series
    assert math.isnan(one.values[0])
    assert list(one.values[1:]) == [math.inf, -math.inf]


@pytest.mark.parametrize("more", [{"warnings": ["partial response"]}, {"isPartial": True}])
def test_a_warning_leaves_the_fetch_incomplete(tmp_path: Path, more: dict[str, Any]) -> None:
    got = read(saved(tmp_path, answer({"metric": UP, "values": VALUES}, **more)))
    assert got.account.incomplete
    assert len(got.account.warnings) == 1


def test_an_info_is_kept_and_leaves_it_complete(tmp_path: Path) -> None:
    got = read(
        saved(tmp_path, answer({"metric": UP, "values": VALUES}, infos=["metric might not"]))
    )
    assert (got.account.incomplete, got.account.warnings) == (False, ["info: metric might not"])


def stepped(
    *targets: str, step: int = 15, count: int = 4, offset_ms: int = 0
) -> list[dict[str, Any]]:
    return [
        {
            "metric": UP | {"instance": target},
            "values": [
                [1795962800 + i * step + order * offset_ms / 1000, "1"] for i in range(count)
            ],
        }
        for order, target in enumerate(targets)
    ]


def test_stepped_values_are_refused_and_why(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"query_range.*2 targets.*15\.0 s apart.*range selector"):
        read(saved(tmp_path, answer(*stepped("a:8000", "b:8000"))))


def test_stepped_values_of_a_target_that_came_later_are_refused(tmp_path: Path) -> None:
    early, late = stepped("a:8000", "b:8000", count=9)
    late["values"] = late["values"][4:]
    with pytest.raises(Refused, match="query_range"):
        read(saved(tmp_path, answer(early, late)))


@pytest.mark.parametrize(
    "series",
    [
        stepped("a:8000"),
        stepped("a:8000", "a:8000"),
        stepped("a:8000", "b:8000", offset_ms=37),
        stepped("a:8000", "b:8000", count=2),
    ],
)
def test_what_cannot_be_told_from_samples_is_taken(tmp_path: Path, series: list[Any]) -> None:
    assert len(read(saved(tmp_path, answer(*series))).series) == len(series)


@pytest.mark.parametrize(
    "sample", [["x", "1"], [1, 2], [1], "x", [1, "1_0"], [1, "one"], [True, "1"], [1e300, "1"]]
)
def test_a_bad_sample_is_rejected_and_the_others_stay(tmp_path: Path, sample: Any) -> None:
    got = read(saved(tmp_path, answer({"metric": UP, "values": [[1, "5"], sample, [3, "7"]]})))

    assert (got.account.rows_read, list(got.series[0].values)) == (3, [5, 7])
    (rejection,) = got.rejections
    assert (rejection.line, rejection.column) == (1, "up")


def test_a_series_without_a_name_is_no_sample(tmp_path: Path) -> None:
    got = read(saved(tmp_path, answer({"metric": {"pod": "a"}, "values": VALUES})))
    assert (got.series, len(got.rejections)) == ([], 1)
    assert "answer of a function" in got.rejections[0].reason


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, "bad_data: parse"),
        (answer(kind="scalar"), "holds no samples"),
        ({"status": "success", "data": {"resultType": "matrix", "result": 5}}, "holds no samples"),
        ([[1, 2, 3]], "must be a JSON object"),
    ],
)
def test_answers_without_samples_are_refused(tmp_path: Path, document: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        read(saved(tmp_path, document), "prometheus-json")


def test_broken_json_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text('{"status":"success",\n "data":{"resultType":"matrix","result":[}}')
    with pytest.raises(Refused, match="line 2, column"):
        read(path)


def test_an_empty_answer_is_read(tmp_path: Path) -> None:
    got = read(saved(tmp_path, answer()))
    assert (got.series, got.account.rows_read) == ([], 0)
