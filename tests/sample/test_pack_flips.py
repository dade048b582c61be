"""The pack of the sample's sealed week, with drawn figures and columns changed.

Every figure and every column is changed in the small packs of tests/evidence; these are of the size
and variety of a real week.
"""

from __future__ import annotations

import copy
import csv
import io
import random
import re
from collections import defaultdict
from typing import Any

import pytest

from finops.ledger.which import use_ledger
from finops.sample import demo
from reports.evidence.sealed import gather, sealed_files
from reports.models import Report
from reports.queries.standing import report_of, standing, statement_of
from tests.evidence.flips import (
    columns_not_found,
    figures_not_found,
    is_found,
    kind,
    leaves,
    sentences_not_found,
    with_another_number,
    with_two_swapped,
)
from tests.evidence.test_every_figure import EVIDENCE_ALONE, census, told

pytestmark = [pytest.mark.slow, pytest.mark.django_db(databases=["default", "sample"])]
SEED = 20261129
KINDS, COLUMNS = 16, 48
SIZED = {
    "busiest_at", "coverage", "engine", "inputs", "kv_blocks", "p50", "p95", "p99", "peak",
    "peak_running", "peak_waiting", "preemptions", "proposal", "setting", "steps", "verdict",
    "workload",
}  # fmt: skip
NOT_USED_HERE = {
    # Hours are billed as hours, and a charge of unknown unit lasts as long as it says.
    # No two lines are alike: test_exceptions_again looks at two that are.
    "charges": {"consumed_unit", "pricing_quantity", "pricing_unit", "tags_digest"},
    # Every reading has a mark, and no counter is without a proven birth: test_booking looks at both.
    "counters_before": {"replicas", "proven_ms"},
    # The holders are engines, whose counters say where they belong: test_every_figure looks at them.
    "gpu_holders": {"labels"},
    # What begins before the week begins with it: test_odd_hours looks at one that does not.
    "reaches": {"first", "ended"},
    # No series and no source ends in the week, and no count has two names: test_odd_hours has both.
    "series": {"preference", "last_ms", "usual_ms", "source_last_ms"},
    # A bucket read less often than the last one is left out; here each was read as often, and the
    # few rows drawn hold no last one: test_every_figure looks at all.
    "latency_hours": {"readings"},
    # Of thousands of lines none is of tax, and so many round to less than the least tolerance:
    # test_every_figure looks at an invoice of few lines.
    "invoice_lines": {"tax_lines"},
    # Every mark is of one kind.
    "readings": {"mark_kind"},
    # No step lies in the week, every label tells its setting and every pool the bytes of its tokens;
    # all engines have cards, and no pod more than its engines are spread over:
    # test_memory_tables_again looks at one that has.
    "engine_settings": {
        "gpus_told", "kind", "log_gpus", "log_setting", "log_max_model_len", "given_kv_bytes",
        "earlier_peak_running",  # the week's own, which its sentence tells too
    },
    # Each engine's log is the only one of its pool, under one name: test_logs_again looks at others.
    "engine_logs": {"started_at", "posted_at", "served_names"},
    # Engines are joined by pod, each has its cards in a table with the others of its workload, and no
    # exporter tells who holds one: test_memory_tables_again looks at hosts, sources and holders.
    "engines": {"instance"},
    "devices": {"source", "instance", "number"},
    "device_hours": {"holders"},
}  # fmt: skip


@pytest.fixture
def pack(sample: demo.Sample) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The sealed files and their statement, without the changes: their 500 draws take long and
    tests/evidence/test_changes.py looks at them."""
    with use_ledger("sample"):
        report = report_of(sample.sealed_week)
        assert report is not None
        stand = standing(report)
        files = sealed_files(stand.seal or {})
    for name in ("changes", "change_hours"):
        path = f"ledgers/{name}.csv"
        files[path] = files[path].split(b"\n")[0] + b"\n"
    return files, {**stand.statement, "changes": []}


def test_drawn_kinds_of_figures_are_computed_again(
    pack: tuple[dict[str, bytes], dict[str, Any]],
) -> None:
    files, statement = pack
    assert not is_found(files, statement)
    drawn, kinds = random.Random(SEED), defaultdict(list)
    for place in told(statement):
        kinds[kind(place)].append(place)
    assert len(kinds) > 200
    names = drawn.sample(sorted(kinds), KINDS)
    places = [drawn.choice(kinds[name]) for name in names]
    assert figures_not_found(files, statement, places) == []


def test_every_number_of_every_sentence_is_computed_again(
    pack: tuple[dict[str, bytes], dict[str, Any]],
) -> None:
    """In its place too; and no value stands in the statement that is neither computed nor words."""
    files, statement = pack
    changed, missed = sentences_not_found(files, statement, with_another_number)
    assert changed > 250 and missed == []
    swapped, missed = sentences_not_found(files, statement, with_two_swapped)
    assert swapped > 400 and missed == []
    census(statement)


def test_right_sizing_and_what_cards_show_are_computed_again(
    pack: tuple[dict[str, bytes], dict[str, Any]],
) -> None:
    """Also those places that a week without engines or cards does not have."""
    files, statement = pack
    drawn, kinds = random.Random(SEED), defaultdict(list)
    for place, value in leaves(statement):
        sized = place[0] == "rightsizing" and place[2] in SIZED
        if sized or (place[0] == "memory_hours" and "device" in place[2] and value):
            kinds[kind(place)].append(place)
    assert {name.split(".")[2] for name in kinds if "device" not in name} == SIZED - {"steps"}
    assert len(kinds["memory_hours.*.device_used.*"]) > 300
    places = [drawn.choice(kinds[name]) for name in sorted(kinds)]
    assert figures_not_found(files, statement, places) == []
    changed = copy.deepcopy(statement)
    sizing = next(row for row in changed["rightsizing"] if row["money"])
    sizing["money"] = re.sub(r"frees [0-9.]+ GiB", "frees 99.9 GiB", sizing["money"])
    assert is_found(files, changed)


def test_a_step_of_right_sizing_is_computed_again(sample: demo.Sample) -> None:
    """The week in which the sample's engineer lowered a setting."""
    with use_ledger("sample"):
        for report in Report.objects.filter(week__lt=sample.sealed_week).order_by("-week"):
            statement = statement_of(report)
            if any(row["steps"] for row in statement["rightsizing"]):
                evidence = gather(report, statement)
                break
    assert evidence is not None and evidence.unequal == ()
    files = dict(evidence.files)
    places = [p for p, _ in leaves(statement) if p[0] == "rightsizing" and p[2] == "steps"]
    assert len(places) > 20
    places = random.Random(SEED).sample(places, 5)
    assert figures_not_found(files, statement, places) == []
    (row,) = (one for one in statement["rightsizing"] if one["steps"])
    row["steps"] = []
    assert is_found(files, statement)
    missed = columns_not_found(
        files, statement_of(report), tables=["ladder_hours"], untold={},
        drawn=random.Random(SEED), rows=3,
    )  # fmt: skip
    assert missed == []


def test_drawn_columns_are_found_or_are_evidence_alone(
    pack: tuple[dict[str, bytes], dict[str, Any]],
) -> None:
    files, statement = pack
    columns = []
    for name, content in files.items():
        if name.startswith("ledgers/"):
            head, *body = csv.reader(io.StringIO(content.decode()))
            columns += [(name[8:-4], column) for column in head if body]
    assert len({table for table, _ in columns}) >= 22
    left_out = {
        (table, column)
        for untold in (EVIDENCE_ALONE, NOT_USED_HERE)
        for table, names in untold.items()
        for column in names
    }
    drawn = random.Random(SEED)
    picked = drawn.sample(sorted(set(columns) - left_out), COLUMNS)
    untold = {
        table: {column for other, column in columns if other == table}
        - {column for other, column in picked if other == table}
        for table, _ in picked
    }
    missed = columns_not_found(
        files, statement, tables=sorted(untold), untold=untold, drawn=drawn, rows=6
    )
    assert missed == []
