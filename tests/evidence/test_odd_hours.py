"""Hours that a person doubts first, through the door: their tokens again from the pack's readings;
and counters and sources that are there for a part of the week."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from tests.evidence.conftest import closed_week
from tests.evidence.flips import columns_not_found
from tests.evidence.test_every_figure import EVIDENCE_ALONE
from tests.ledger import small_company
from tests.ledger.doors import ingested
from tests.reports.test_closing import command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def two_behind_one_address(folder: Path) -> None:
    """Two processes take turns; the younger one restarts; before them a reading without a mark; at
    one instant two values, of which the higher counts."""
    start = int(small_company.START.timestamp()) + 2 * 3600
    old, young = start - 400_000, start - 200
    turns = [(None, 500), (old, 1000), (young, 40), (old, 1300), (young, 90), (start + 2500, 7),
             (old, 1310), (start + 2500, 60)]  # fmt: skip
    counters, marks = [], []
    labels = 'instance="z",job="vllm",model_name="mistral",engine="0"'
    for number, (born, value) in enumerate(turns):
        at = start + 600 * number
        counters.append(f"vllm:prompt_tokens_total{{{labels}}} {value} {at}")
        if born is not None:
            marks.append(f'process_start_time_seconds{{instance="z",job="vllm"}} {born} {at}')
    lines = ["# TYPE vllm:prompt_tokens counter", *counters,
             "# TYPE process_start_time_seconds gauge", *marks, "# EOF", ""]  # fmt: skip
    (folder / "turns.om").write_text("\n".join(lines))
    assert ingested(folder / "turns.om")[0]["status"] == "posted"
    again = ["# TYPE vllm:prompt_tokens counter",
             f"vllm:prompt_tokens_total{{{labels}}} 1290 {start + 1800}", "# EOF", ""]  # fmt: skip
    (folder / "again.om").write_text("\n".join(again))
    assert ingested(folder / "again.om")[0]["status"] == "posted"


def a_source_of_some_hours(folder: Path) -> None:
    """Another source tells of engine `y` for four hours of Tuesday, and of its cache's hits under
    two names that differ; the newer name counts."""
    start = int(small_company.START.timestamp()) + 26 * 3600
    labels = 'instance="y",job="vllm",model_name="qwen",engine="0"'
    lines = []
    for name, step in (("prompt_tokens", 60), ("generation_tokens", 6),
                       ("prefix_cache_hits", 20), ("gpu_prefix_cache_hits", 21)):  # fmt: skip
        lines.append(f"# TYPE vllm:{name} counter")
        for number in range(25):
            at = start + 600 * number
            lines.append(f"vllm:{name}_total{{{labels}}} {100 + step * number} {at}")
    path = folder / "second.om"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    answer = command("ingest", path, "--source", "second", "--by", "Ada")
    assert answer["documents"][0]["status"] == "posted"
    command("workload", "add", "qwen", "--model", "qwen", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "qwen", "--series", "model_name=qwen", "--by", "Ada")
    command("rule", "add", "qwen", "--charge", "service=Support", "--by", "Ada")


def test_alternations_openings_and_restarts_are_booked_again(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    two_behind_one_address(tmp_path)
    files, statement = closed_week()
    hours = list(csv.DictReader(io.StringIO(files["ledgers/token_hours.csv"].decode())))
    sums = {name: sum(int(row[name]) for row in hours)
            for name in ("alternations", "openings", "restarts")}  # fmt: skip
    assert sums["alternations"] >= 4 and sums["openings"] >= 1 and sums["restarts"] >= 1
    assert columns_not_found(
        files, statement, tables=("readings", "counters_before"),
        untold={"readings": {"document"}, "counters_before": {"fall_ms", "last_ms", "proven_ms", "replicas"}},
        drawn=random.Random(7), rows=30,
    ) == []  # fmt: skip


def test_how_long_a_counter_and_a_source_were_there_is_computed_again(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    whole_week(tmp_path)
    two_behind_one_address(tmp_path)
    a_source_of_some_hours(tmp_path)
    files, statement = closed_week()
    spans = {row["name"]: row for row in csv.DictReader(
        io.StringIO(files["ledgers/reaches.csv"].decode())) if row["kind"] == "source"}  # fmt: skip
    assert spans["second"]["ended"] == "1" and spans["second"]["first"] == "2026-11-17T02:00:00Z"
    assert statement["reaches"]["complete"]
    ended = [row for row in csv.DictReader(io.StringIO(files["ledgers/series.csv"].decode()))
             if row["end_dark_ms"]]  # fmt: skip
    assert {row["source"] for row in ended} == {"files"} and len(ended) >= 3
    assert columns_not_found(
        files, statement, tables=("series", "reaches"), untold=EVIDENCE_ALONE,
        drawn=random.Random(7), rows=30,
    ) == []  # fmt: skip


def ingest_counters(path: Path, counters: list[str], marks: list[str]) -> None:
    lines = ["# TYPE vllm:prompt_tokens counter", *counters,
             "# TYPE process_start_time_seconds gauge", *marks, "# EOF", ""]  # fmt: skip
    path.write_text("\n".join(lines))
    assert ingested(path)[0]["status"] == "posted"


def over_the_edges(folder: Path) -> None:
    """Three more engines of llama. `u` is born on Sunday at 23:55 and first read on Monday at 00:40;
    `v` is read until the week's last Sunday at 23:20, born again at 23:50 and read at 00:40; `w` is
    born that Sunday at 23:30 and first read at 00:40."""
    start = int(small_company.START.timestamp())
    end, ten = start + 7 * 86_400, 600
    lives = [
        ("u", start - 300, [(start + 2400 + ten * n, 4800 + 600 * n) for n in range(9)]),
        ("v", end - 7800, [(end - 7200 + ten * n, 600 + 600 * n) for n in range(9)]),
        ("v", end - 600, [(end + 2400 + ten * n, 900 + 600 * n) for n in range(3)]),
        ("w", end - 1800, [(end + 2400 + ten * n, 700 + 600 * n) for n in range(3)]),
    ]
    counters, marks = [], []
    for instance, born, readings in lives:
        labels = f'instance="{instance}",job="vllm"'
        for at, value in readings:
            counters.append(f'vllm:prompt_tokens_total{{{labels},model_name="llama"}} {value} {at}')
            marks.append(f"process_start_time_seconds{{{labels}}} {born} {at}")
    ingest_counters(folder / "edges.om", counters, marks)


def test_what_nobody_read_over_an_edge_of_the_week_is_computed_again(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    whole_week(tmp_path)
    before = closed_week()[1]["figures"]
    over_the_edges(tmp_path)
    files, statement = closed_week()
    figures = statement["figures"]
    assert figures["prompt_tokens"] == before["prompt_tokens"] + 9600 + 5400
    # What `u` showed first, 4,800, may be of the week before; what `v` and `w` show first in the week
    # after, 900 and 700, and what `v` may have counted in the half hour to its end, of this one. The end
    # of `u` at 02:00 is dark for ten minutes.
    assert figures["tokens_lower"] == before["tokens_lower"] + 4800 + 5400
    assert figures["tokens_upper"] == before["tokens_upper"] + 9600 + 600 + 5400 + 900 + 700 + 1800
    assert not figures["exact"]
    (said,) = (one for one in statement["exceptions"] if one["kind"] == "edges-unread")
    assert said["subject"] == "llama" and "3 times an engine was not read" in said["text"]
    assert columns_not_found(
        files, statement, tables=("late_births", "lost_before"), untold=EVIDENCE_ALONE,
        drawn=random.Random(7), rows=30,
    ) == []  # fmt: skip


def under_other_labels(folder: Path) -> None:
    """Engine `x` of Tuesday: after two hours its series gets another label, and its counter goes on."""
    start = int(small_company.START.timestamp()) + 26 * 3600
    counters, marks = [], []
    for number in range(25):
        zone, at = ("a" if number < 12 else "b"), start + 600 * number
        labels = f'instance="x",job="vllm",zone="{zone}"'
        counters.append(f'vllm:prompt_tokens_total{{{labels},model_name="mistral",engine="0"}} '
                        f"{100 + 70 * number} {at}")  # fmt: skip
        marks.append(f"process_start_time_seconds{{{labels}}} {start - 60} {at}")
    ingest_counters(folder / "zones.om", counters, marks)


def test_a_counter_under_other_labels_is_booked_again_from_where_it_stood(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    whole_week(tmp_path)
    under_other_labels(tmp_path)
    files, statement = closed_week()
    series = {row["series"]: row for row in csv.DictReader(
        io.StringIO(files["ledgers/series.csv"].decode()))}  # fmt: skip
    mine = [number for number, row in series.items() if '"x"' in row["labels"]]
    befores = [row for row in csv.DictReader(
        io.StringIO(files["ledgers/counters_before.csv"].decode())) if row["series"] in mine]  # fmt: skip
    # Of the first series nothing stood before; the second begins where the first one had shown 870.
    assert sorted("870" in row["counters"] for row in befores) == [False, True]
    hours = csv.DictReader(io.StringIO(files["ledgers/token_hours.csv"].decode()))
    booked = sum(int(row["tokens"]) for row in hours if row["series"] in mine)
    assert booked == 100 + 70 * 24
    assert columns_not_found(
        files, statement, tables=("counters_before",),
        untold={"counters_before": {"fall_ms", "last_ms", "proven_ms", "replicas"}},
        drawn=random.Random(7), rows=30,
    ) == []  # fmt: skip
