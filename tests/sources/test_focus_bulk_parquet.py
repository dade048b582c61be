"""FOCUS files in bulk against the parser: Parquet of any types."""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.sources import focus_bulk
from tests.ledger.focus_files import hours
from tests.sources.both_ways import (  # noqa: F401 - small chunks for every test
    COMMON,
    TIMES,
    both_ways,
    parquet,
    rule,
    small_chunks,
    written,
)


@pytest.mark.parametrize(
    "amounts",
    [
        "(i * 0.001)::DECIMAL(18,3) AS BilledCost, (i * 0.1)::DECIMAL(38,18) AS EffectiveCost, "
        "CASE WHEN i % 2 = 0 THEN i END AS ListCost",
        "i::DOUBLE / 7 AS BilledCost, i::VARCHAR AS EffectiveCost, NULL::DECIMAL(9,2) AS ListCost",
        "CASE WHEN i = 9 THEN NULL ELSE i::BIGINT END AS BilledCost, "
        "(i::DECIMAL(38,10) * 1000000000000) AS EffectiveCost",
        "(i / 3)::DECIMAL(38,24) AS BilledCost, i::HUGEINT AS EffectiveCost",
        "'1e-' || i AS BilledCost, i::FLOAT AS EffectiveCost",
        "(999999999970 + i)::DECIMAL(13,0) AS BilledCost, "
        "-(999999999970 + i)::DECIMAL(38,18) AS EffectiveCost",
        "CASE WHEN i % 2 = 0 THEN 999999999999 - i ELSE i - 1000000000001 END::BIGINT AS BilledCost, "
        "(i - 30)::TINYINT AS EffectiveCost, (99999999999.5 - i)::DECIMAL(12,1) AS ContractedCost",
        "(i // 3)::DECIMAL(9,2) AS BilledCost, (i // 2)::DECIMAL(12,5) AS EffectiveCost, "
        '(i % 2)::DECIMAL(20,6) AS ContractedCost, i AS "ALONE"',
    ],
)
def test_parquet_of_any_types(tmp_path: Path, amounts: str) -> None:
    path = parquet(tmp_path, f"SELECT {COMMON}, {TIMES}, {amounts} FROM range(60) t(i)")
    whole, sums, _, _ = both_ways(path, [rule("sub_account=s2,tag:team=chat")])
    assert whole
    assert {one.line % 10 for one in whole if one.gpu_model} <= {9}
    del sums


def test_parquet_with_texts_and_long_lines(tmp_path: Path) -> None:
    times = (
        "'2026-10-01' AS BillingPeriodStart, '2026-11-01' AS BillingPeriodEnd, "
        "'2026-10-0' || (i % 3 + 1) AS ChargePeriodStart, "
        "CASE WHEN i = 20 THEN 'soon' ELSE '2026-10-03T00:00:00Z' END AS ChargePeriodEnd"
    )
    amounts = "(i || '.5') AS BilledCost, (i || '.5') AS EffectiveCost"
    path = parquet(tmp_path, f"SELECT {COMMON}, {times}, {amounts} FROM range(40) t(i)")
    whole, sums, rejections, _ = both_ways(path)
    assert [(one.line, one.column) for one in rejections] == [(22, "ChargePeriodEnd")]
    assert all((one.charge_period_end - one.charge_period_start).days <= 1 for one in sums)
    assert any((one.charge_period_end - one.charge_period_start).days == 2 for one in whole)


def test_more_lines_than_a_limit(tmp_path: Path) -> None:
    path = written(tmp_path, *[hours("2026-10-05T10", "2026-10-05T11")] * 10, packed=True)
    assert focus_bulk.has_more_lines(path, path.name, 9)
    assert not focus_bulk.has_more_lines(path, path.name, 10)
    table = parquet(tmp_path, "SELECT i FROM range(10) t(i)")
    assert focus_bulk.has_more_lines(table, table.name, 9)
    assert not focus_bulk.has_more_lines(table, table.name, 10)
