"""Hours that a person doubts first, through the door: their tokens again from the pack's readings."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from reports.evidence.sealed import gather
from reports.queries.standing import report_of, statement_of
from tests.evidence.flips import columns_not_found
from tests.ledger import small_company
from tests.ledger.doors import ingested
from tests.reports.test_closing import WEEK, command

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


def test_alternations_openings_and_restarts_are_booked_again(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    two_behind_one_address(tmp_path)
    command("close", WEEK, "--by", "Ada")
    report = report_of(WEEK)
    assert report is not None
    statement = statement_of(report)
    evidence = gather(report, statement)
    assert evidence is not None and evidence.unequal == ()
    files = dict(evidence.files)
    hours = list(csv.DictReader(io.StringIO(files["ledgers/token_hours.csv"].decode())))
    sums = {name: sum(int(row[name]) for row in hours)
            for name in ("alternations", "openings", "restarts")}  # fmt: skip
    assert sums["alternations"] >= 4 and sums["openings"] >= 1 and sums["restarts"] >= 1
    assert columns_not_found(
        files, statement, tables=("readings", "counters_before"),
        untold={"readings": {"document"}, "counters_before": {"fall_ms", "last_ms", "proven_ms", "replicas"}},
        drawn=random.Random(7), rows=30,
    ) == []  # fmt: skip
