"""The pack of the sample's sealed week, with forty kinds of figures and each column changed."""

from __future__ import annotations

import csv
import io
import random
from collections import defaultdict
from typing import Any

import pytest

from finops.ledger.which import use_ledger
from finops.sample import demo
from reports.evidence.sealed import sealed_files
from reports.queries.standing import report_of, standing
from tests.evidence.flips import columns_not_found, figures_not_found, is_found, kind
from tests.evidence.test_every_figure import EVIDENCE_ALONE, told

pytestmark = [pytest.mark.slow, pytest.mark.django_db(databases=["default", "sample"])]
SEED = 20261129
KINDS = 40
NOT_USED_HERE = {
    # Hours are billed as hours, and a charge of unknown unit lasts as long as it says.
    "charges": {"consumed_unit", "pricing_quantity", "pricing_unit"},
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
    # Every mark is of one kind.
    "readings": {"mark_kind"},
}


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


def test_forty_kinds_of_figures_are_computed_again(
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


def test_each_column_of_each_table_is_found_or_is_evidence_alone(
    pack: tuple[dict[str, bytes], dict[str, Any]],
) -> None:
    files, statement = pack
    tables = [
        name[8:-4]
        for name, content in files.items()
        if name.startswith("ledgers/") and len(list(csv.reader(io.StringIO(content.decode())))) > 1
    ]
    assert len(tables) >= 22
    untold = {
        table: EVIDENCE_ALONE.get(table, set()) | NOT_USED_HERE.get(table, set())
        for table in tables
    }
    missed = columns_not_found(
        files, statement, tables=tables, untold=untold, drawn=random.Random(SEED), rows=6
    )
    assert missed == []
