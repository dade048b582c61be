"""A made-up FOCUS 1.2 month of any length, 45 columns and 1 % GPU lines, as CSV.gz and as Parquet.

    .venv/bin/python benchmarks/focus_lines.py 1000000 /tmp/folder

Every value follows from the line's number, so that two runs write the same lines. Made by DuckDB in
seconds for a million lines; imported by `invoices_bulk.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import duckdb

SERVICES: Final = 20
SUB_ACCOUNTS: Final = 12
GPU_EVERY: Final = 100

# A line's own digits: service, sub account, hour and amounts follow from its number.
_BASE: Final = """
    SELECT i,
        (hash(i) % {services})::INT AS service,
        (hash(i + 1) % {accounts})::INT AS account,
        (i % {lines} * 744 // {lines})::INT AS hour,
        i % {gpu_every} = 7 AS gpu,
        (hash(i + 2) % 1000000000000)::BIGINT AS cents,
        (hash(i + 3) % 4)::INT AS region,
        hash(i + 4) AS resource
    FROM range({first}, {first} + {lines}) t(i)
"""

# (name, type in Parquet, expression)
_MONEY: Final = "DECIMAL(28,12)"
COLUMNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("AvailabilityZone", "VARCHAR", "['us-east-1a','us-east-1b','eu-west-1a','eu-west-1c'][region+1]"),
    ("BilledCost", _MONEY, "cents / 1000000000000.0::DECIMAL(38,12)"),
    ("BillingAccountId", "VARCHAR", "'900000000001'"),
    ("BillingAccountName", "VARCHAR", "'Example Ltd'"),
    ("BillingAccountType", "VARCHAR", "'Organization'"),
    ("BillingCurrency", "VARCHAR", "'USD'"),
    ("BillingPeriodEnd", "TIMESTAMP", "TIMESTAMP '2026-11-01 00:00:00'"),
    ("BillingPeriodStart", "TIMESTAMP", "TIMESTAMP '2026-10-01 00:00:00'"),
    ("ChargeCategory", "VARCHAR", "'Usage'"),
    ("ChargeClass", "VARCHAR", "NULL"),
    ("ChargeDescription", "VARCHAR",
     "CASE WHEN gpu THEN '$98.32 per On Demand Linux p5.48xlarge Instance Hour' "
     "ELSE '$0.0' || (service + 10)::VARCHAR || ' per unit of service ' || service::VARCHAR END"),
    ("ChargeFrequency", "VARCHAR", "'Usage-Based'"),
    ("ChargePeriodEnd", "TIMESTAMP", "TIMESTAMP '2026-10-01 01:00:00' + to_hours(hour)"),
    ("ChargePeriodStart", "TIMESTAMP", "TIMESTAMP '2026-10-01 00:00:00' + to_hours(hour)"),
    ("CommitmentDiscountCategory", "VARCHAR", "NULL"),
    ("CommitmentDiscountId", "VARCHAR", "NULL"),
    ("CommitmentDiscountName", "VARCHAR", "NULL"),
    ("CommitmentDiscountStatus", "VARCHAR", "NULL"),
    ("CommitmentDiscountType", "VARCHAR", "NULL"),
    ("ConsumedQuantity", "DECIMAL(20,6)", "(cents % 1000003) / 1000000.0::DECIMAL(20,6)"),
    ("ConsumedUnit", "VARCHAR", "CASE WHEN gpu THEN 'Hours' ELSE 'Units' END"),
    ("ContractedCost", _MONEY, "cents / 1000000000000.0::DECIMAL(38,12)"),
    ("ContractedUnitPrice", "DECIMAL(20,6)", "0.25"),
    ("EffectiveCost", _MONEY, "cents / 1000000000000.0::DECIMAL(38,12)"),
    ("InvoiceId", "VARCHAR", "'INV-2026-10'"),
    ("InvoiceIssuerName", "VARCHAR", "'AWS'"),
    ("ListCost", _MONEY, "(cents + cents // 4) / 1000000000000.0::DECIMAL(38,12)"),
    ("ListUnitPrice", "DECIMAL(20,6)", "0.31"),
    ("PricingCategory", "VARCHAR", "'Standard'"),
    ("PricingCurrency", "VARCHAR", "'USD'"),
    ("PricingQuantity", "DECIMAL(20,6)", "(cents % 1000003) / 1000000.0::DECIMAL(20,6)"),
    ("PricingUnit", "VARCHAR", "CASE WHEN gpu THEN 'Hours' ELSE 'Units' END"),
    ("ProviderName", "VARCHAR", "'AWS'"),
    ("PublisherName", "VARCHAR", "'AWS'"),
    ("RegionId", "VARCHAR", "['us-east-1','us-east-1','eu-west-1','eu-west-1'][region+1]"),
    ("ResourceId", "VARCHAR", "'arn:aws:service' || service::VARCHAR || ':r-' || format('{{:x}}', resource)"),
    ("ResourceType", "VARCHAR", "'Resource of service ' || service::VARCHAR"),
    ("ServiceCategory", "VARCHAR", "['Compute','Storage','Networking','Databases'][service % 4 + 1]"),
    ("ServiceName", "VARCHAR", "CASE WHEN gpu THEN 'Elastic Compute' ELSE 'Service ' || service::VARCHAR END"),
    ("SkuId", "VARCHAR", "'SKU' || (1000 + service * 7 + region)::VARCHAR"),
    ("SkuMeter", "VARCHAR", "'Meter ' || service::VARCHAR"),
    ("SkuPriceId", "VARCHAR", "'SKU' || (1000 + service * 7 + region)::VARCHAR || '.JRTCKXETXF'"),
    ("SubAccountId", "VARCHAR", "(100000000000 + account)::VARCHAR"),
    ("SubAccountName", "VARCHAR", "'team-' || account::VARCHAR"),
    ("Tags", "VARCHAR", "'{{\"team\":\"t' || account::VARCHAR || '\",\"env\":\"prod\"}}'"),
)  # fmt: skip


def query(lines: int, *, as_text: bool, part: int = 0) -> str:
    """The lines as a SELECT; `as_text` writes instants as FOCUS CSV files do.

    Each `part` has lines of its own.
    """
    base = _BASE.format(
        lines=lines,
        first=part * lines,
        services=SERVICES,
        accounts=SUB_ACCOUNTS,
        gpu_every=GPU_EVERY,
    )
    chosen = []
    for name, kind, expression in COLUMNS:
        value = f"CAST({expression.format()} AS {kind})"
        if as_text and kind == "TIMESTAMP":
            value = f"strftime({value}, '%Y-%m-%dT%H:%M:%SZ')"
        chosen.append(f'{value} AS "{name}"')
    return f"SELECT {', '.join(chosen)} FROM ({base})"


def write(lines: int, folder: Path) -> tuple[Path, Path]:
    """Writes `N.csv.gz` and `N.parquet` into a folder, unless they are there; their paths."""
    packed, parquet = folder / f"{lines}.csv.gz", folder / f"{lines}.parquet"
    with duckdb.connect(":memory:", config={"memory_limit": "2GB"}) as connection:
        if not packed.exists():
            part = packed.with_name(f".{packed.name}")
            connection.execute(
                f"COPY ({query(lines, as_text=True)}) TO '{part}' "
                "(FORMAT csv, HEADER, COMPRESSION gzip)"
            )
            part.rename(packed)
        if not parquet.exists():
            part = parquet.with_name(f".{parquet.name}")
            connection.execute(
                f"COPY ({query(lines, as_text=False)}) TO '{part}' "
                "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880)"
            )
            part.rename(parquet)
    return packed, parquet


def write_part(lines: int, part: int, folder: Path) -> Path:
    """Writes one part of a month as CSV.gz; its path."""
    path = folder / f"{lines}-part-{part}.csv.gz"
    with duckdb.connect(":memory:", config={"memory_limit": "2GB"}) as connection:
        made = query(lines, as_text=True, part=part)
        connection.execute(f"COPY ({made}) TO '{path}' (FORMAT csv, HEADER, COMPRESSION gzip)")
    return path


if __name__ == "__main__":
    for path in write(int(sys.argv[1]), Path(sys.argv[2])):
        print(path, path.stat().st_size)
