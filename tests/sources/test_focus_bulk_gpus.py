"""GPU time in FOCUS files read in bulk: seen by the sieve where the parser sees it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from finops.sources import bulk_sieve, focus
from finops.sources.bulk_kept import QUANTITIES
from finops.sources.gpu_shapes import catalogue, gpu_of
from finops.sources.records import ChargeRecord
from tests.sources.both_ways import (  # noqa: F401 - the same files in the same small chunks
    COMMON,
    TIMES,
    both_ways,
    small_chunks,
    written,
)


def test_every_shape_of_the_catalogue_is_seen_by_the_sieve(tmp_path: Path) -> None:
    rows = [
        {"ChargeDescription": f"hours of {shape.instance_type} machines"} for shape in catalogue()
    ]
    whole, _, _, _ = both_ways(written(tmp_path, *rows))
    seen = {one.instance_type for one in whole}
    assert {shape.instance_type for shape in catalogue()} >= seen
    assert len(whole) == len(focus_lines_with_gpu(rows))
    assert bulk_sieve.looks_like_gpu({"ChargeDescription": "x"}) != bulk_sieve.NONE


GPU_NAMES = ["1x GH200", "RTX 3090 pod", "gpu_1x_gh200", "NG8ads V620 v1", "8xH100", "8xA100 80GB node",
    "gd-8xh100ib-i128", "gd-8xl40s-i128", "A3Ultra Instance Core running", "A4X Instance Ram", "H100SXM",
    "G4 Instance Core", "A9 Instance Ram", "u-p6e-gb200x72", "u-p9-zz9x9", "Radeon Pro V520", "RTX_A5000",
    "2X L4 NVIDIA", "m5.large", "L4 load balancer", "10x P4 support", "vGPU"]  # fmt: skip


@pytest.mark.parametrize(
    "column", ["ChargeDescription", "SkuId", "ServiceSubcategory", "ServiceName", "ResourceName"]
)
@pytest.mark.parametrize("unit", ["Hours", "GPU-Hours"])
def test_gpus_told_by_any_column_are_seen_both_ways(tmp_path: Path, column: str, unit: str) -> None:
    rows = [{column: name, "PricingUnit": unit} for name in GPU_NAMES]
    parsed = focus.parse(written(tmp_path, *rows), "a.csv", "focus")
    line_by_line = [one for one in parsed.records if isinstance(one, ChargeRecord)]
    whole, _, _, _ = both_ways(written(tmp_path, *rows))
    seen = [one for one in line_by_line if one.gpu_model]
    assert {one.line for one in seen} <= {one.line for one in whole}
    assert len(seen) == len(rows) - (3 if unit == "Hours" else 0)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"ResourceName": "gpu-v100-node-1",
          "ChargeDescription": "N1 Predefined Instance Core running in Americas"}, (None, None)),
        ({"ResourceName": "8xh100-login", "ChargeDescription": "E2 Instance Core"}, (None, None)),
        ({"ResourceName": "aks-gpu-a100-prod", "ChargeDescription": "Standard Uptime SLA"},
         ("unrecognised", None)),
        ({"ResourceName": "8xh100-logs", "ChargeDescription": "Data Analyzed", "PricingUnit": "GB"},
         ("unrecognised", None)),
        ({"ResourceName": "l40s-pool", "PricingUnit": "GPU-Hours"}, ("L40S", 1)),
        ({"ServiceName": "Amazon Elastic MapReduce", "x_UsageType": "USE1-BoxUsage:p4d.24xlarge"},
         (None, None)),
        ({"x_UsageType": "USE1-EMR-BoxUsage:p4d.24xlarge"}, (None, None)),
        ({"x_UsageType": "USE1-BoxUsage:p4d.24xlarge"}, ("A100", 8)),
    ],
)  # fmt: skip
def test_lines_beside_machines_count_no_gpus_either_way(
    tmp_path: Path, cells: dict[str, str], told: tuple[str | None, int | None]
) -> None:
    path = written(tmp_path, *[cells] * 3)
    records = [one for one in focus.parse(path, "a.csv", "focus").records
               if isinstance(one, ChargeRecord)]  # fmt: skip
    assert {(one.gpu_model, one.gpu_count) for one in records} == {told}
    whole, _, _, _ = both_ways(path)
    lines = {one.line for one in records}
    assert {one.line for one in whole} == (set() if told[0] is None else lines)


def test_texts_searched_together_are_seen_as_each_alone() -> None:
    """The line feed between two texts is no letter, and no shape begins in one and ends in another."""
    words = ["GPU", "H100", "x H100", "H100 x", "p5.48xlarge", "p5", ".48xlarge", "NC24", "B88206",
             "a2", "Instance Core", "Instance", "g4dn", "", "100 hours", "AH100"]  # fmt: skip
    names = ("ResourceType", "ChargeDescription", "SkuId", "SkuPriceId")
    texts = {name: f"nullif(c{place}, '')" for place, name in enumerate(names)}
    values = "".join(
        f", ({', '.join(map(bulk_sieve.quoted, (one, other, one, other)))})"
        for one in words
        for other in words
    )
    each, together = (bulk_sieve.looks_like_gpu(texts, together=way) for way in (False, True))
    rows = duckdb.sql(
        f"SELECT coalesce({each}, FALSE), coalesce({together}, FALSE), c0, c1 "
        f"FROM (VALUES {values[2:]}) t(c0, c1, c2, c3)"
    ).fetchall()
    assert len(rows) == len(words) ** 2
    assert [row[2:] for row in rows if row[0] and not row[1]] == []
    machines = {("a2", "Instance Core"), ("g4dn", "Instance Core")}
    more = machines | {(last, first) for first, last in machines}
    assert {row[2:] for row in rows if row[1] and not row[0]} == more


def focus_lines_with_gpu(rows: list[dict[str, str]]) -> list[str]:
    """The texts in which the parser's own catalogue sees GPU time."""
    return [row["ChargeDescription"] for row in rows
            if gpu_of(None, None, [None, row["ChargeDescription"]])]  # fmt: skip


@pytest.mark.parametrize(
    "quantity",
    [
        "(i * 0.25)::DECIMAL(20,6)",
        "-(i * 0.25)::DECIMAL(38,10)",
        "CASE WHEN i % 3 > 0 THEN i END::BIGINT",
        "(i / 64)::DECIMAL(38,30)",  # more decimals than are copied as they stand
        "(i * 1000000000000)::DECIMAL(38,2)",  # more digits
        "i::DOUBLE / 7",
        "i::HUGEINT",
        "CASE WHEN i % 3 = 0 THEN 'none' WHEN i % 3 = 1 THEN 'NULL' ELSE '1e3' END",
    ],
)
def test_quantities_of_gpu_time_of_any_type(tmp_path: Path, quantity: str) -> None:
    """Of a table's lines all cells are compared, as texts and as records."""
    columns = ", ".join(f"{quantity} AS {name}" for name in QUANTITIES.values())
    path = tmp_path / "lines.parquet"
    money = "(i * 0.5)::DECIMAL(12,3) AS BilledCost, (i * 0.1)::DECIMAL(38,18) AS EffectiveCost"
    select = f"SELECT {COMMON}, {TIMES}, {money}, {columns} FROM range(60) t(i)"
    duckdb.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    whole, _, _, _ = both_ways(path)
    assert [one.line % 10 for one in whole] == [9] * 6
