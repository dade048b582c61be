"""Sums of hours that a bill has left behind come before its end, and are no others for that.

What they come to is what the line-by-line parser reads, as in `both_ways`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.sources import bulk_chunks, bulk_parquet, bulk_past, bulk_store, focus_bulk
from finops.sources.bulk_table import KeptTable, SumsTable
from finops.sources.records import ChargeRecord
from finops.sources.summing import DIMENSIONS
from tests.ledger.focus_files import hours
from tests.sources.both_ways import both_ways, written

SERVICES = 3


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 1200)
    monkeypatch.setattr(bulk_store, "LEAST_PAST", 1)
    monkeypatch.setattr(bulk_store, "MOST_TABLES", 2)
    for name in ("MOST_ROWS", "LEAST_ROWS"):
        monkeypatch.setattr(bulk_parquet, name, 24)


def bill(folder: Path, order: Sequence[int], form: str) -> Path:
    """A bill with one line of each service for each hour of the order, and GPU time at its end."""
    rows = [
        hours(f"2026-10-{5 + hour // 23:02}T{hour % 23:02}", f"2026-10-{5 + hour // 23:02}T{hour % 23 + 1:02}",
              ServiceName=f"service {service}", BilledCost=f"{place}.25")
        for place, hour in enumerate(order)
        for service in range(SERVICES)
    ]  # fmt: skip
    path = written(folder, *rows, {"ChargeDescription": "8 H100 GPUs"})
    if form == "csv":
        return path
    table = folder / "lines.parquet"
    duckdb.execute(
        f"COPY (SELECT * FROM read_csv('{path}', all_varchar = true)) TO '{table}' "
        "(FORMAT parquet, ROW_GROUP_SIZE 8)"
    )
    return table


def rows_of_each(sums: Sequence[ChargeRecord]) -> Counter[tuple[object, ...]]:
    """How many rows the sum of the same dimensions stands in."""
    return Counter(
        (*(getattr(one, name) for name in DIMENSIONS), one.billed_cost == one.effective_cost)
        for one in sums
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_sums_of_a_bill_in_order_come_while_it_is_read(
    tmp_path: Path, form: str, threads: int
) -> None:
    order = [place // 4 for place in range(160)]
    path = bill(tmp_path, order, form)
    _, sums, rejections, _ = both_ways(path, threads=threads)
    assert not rejections
    assert len(sums) == 40 * SERVICES
    assert set(rows_of_each(sums).values()) == {1}
    kinds = [type(one) for one in focus_bulk.parse(path, path.name, "focus", [], threads).records]
    assert kinds.count(SumsTable) > 2
    assert kinds.index(SumsTable) < kinds.index(KeptTable)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_bill_that_comes_back_to_its_hours_has_two_rows_of_a_sum_at_most(
    tmp_path: Path, form: str, threads: int
) -> None:
    order = [place // 4 % 20 for place in range(400)]
    _, sums, _, _ = both_ways(bill(tmp_path, order, form), threads=threads)
    found = rows_of_each(sums)
    assert set(found.values()) == {1, 2}
    assert sum(one.line_count for one in sums) == 400 * SERVICES


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=120),
    st.sampled_from(["csv", "parquet"]),
    st.sampled_from([1, 2]),
)
def test_hours_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], form: str, threads: int
) -> None:
    folder = tmp_path_factory.mktemp("bill")
    _, sums, _, _ = both_ways(bill(folder, order, form), threads=threads)
    assert max(rows_of_each(sums).values()) <= 2
    assert len({one.line for one in sums}) == len(sums)


def test_of_very_many_periods_none_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_past, "MOST_OPEN", -1)
    path = bill(tmp_path, range(80), "csv")
    both_ways(path)
    kinds = [type(one) for one in focus_bulk.parse(path, path.name, "focus", [], 1).records]
    assert kinds.count(SumsTable) == 1
