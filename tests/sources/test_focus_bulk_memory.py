"""A document that is whole is read whatever memory the engine has: in less at once, alone, or in more.

What it comes to is what the line-by-line parser reads, as in `both_ways`.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from finops.sources import bulk_chunks, bulk_engine, bulk_parquet, bulk_store, focus, focus_bulk
from finops.sources.bulk_table import Table
from finops.sources.records import ChargeRecord, Refused, Rejection
from finops.sources.summing import is_summable
from tests.sources.both_ways import COMMON, TIMES, reached, rule, summed, written

MONEY = "(i * 0.001)::DECIMAL(18,3) AS BilledCost, (i * 0.1)::DECIMAL(38,18) AS EffectiveCost"
KINDS = "'account ' || i AS SubAccountName, repeat('x', 40) || i AS InvoiceId"
TEXTS = "repeat(md5(i::VARCHAR), 60) AS ResourceId, repeat(md5(i::VARCHAR), 30) AS SkuMeter"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 60_000)
    monkeypatch.setattr(bulk_store, "MOST_ROWS", 500)
    monkeypatch.setattr(bulk_parquet, "FEWEST_ROWS", 16)
    for name in ("MOST_ROWS", "LEAST_ROWS"):
        monkeypatch.setattr(bulk_parquet, name, 512)


@pytest.fixture
def widened(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the engine could be given more memory, each time that it was asked to."""
    found: list[bool] = []
    widen = bulk_engine.Engine.widen

    def told(engine: bulk_engine.Engine) -> bool:
        found.append(widen(engine))
        return found[-1]

    monkeypatch.setattr(bulk_engine.Engine, "widen", told)
    return found


def table(folder: Path, more: str, rows: int = 2048, group: int = 512) -> Path:
    path = folder / "lines.parquet"
    select = f"SELECT {COMMON}, {TIMES}, {MONEY}, {more} FROM range({rows}) t(i)"
    duckdb.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {group})")
    return path


def same_both_ways(path: Path, threads: int, text: str = "") -> None:
    """Every line once: whole or refused as the parser has it, or in a sum that is what lines come to."""
    rules = [rule(text)] if text else []
    lines: dict[int, ChargeRecord | Rejection] = {}
    for one in focus.parse(path, path.name, "focus").records:
        assert isinstance(one, ChargeRecord | Rejection)
        lines[one.line] = one
    sums: list[ChargeRecord] = []
    count, parsed = len(lines), focus_bulk.parse(path, path.name, "focus", rules, threads)
    for one in parsed.records:
        records = list(one.records()) if isinstance(one, Table) else [one]
        if isinstance(one, Table):
            told = "".join(one.lines({kind.key: "\n" for kind in one.kinds})).splitlines()
            assert sorted(int(line.partition("\t")[0]) for line in told) == sorted(
                record.line for record in records
            )
        for record in records:
            if isinstance(record, ChargeRecord) and record.last_line is not None:
                sums.append(record)
            else:
                assert record == lines.pop(record.line)
    loose = [one for one in lines.values() if isinstance(one, ChargeRecord)]
    assert len(loose) == len(lines) == sum(one.line_count for one in sums)
    assert all(is_summable(one) and not one.gpu_model for one in loose)
    assert not any(reached(one, rules) for one in loose)
    assert summed(sums) == summed(loose)
    assert parsed.account.rows_read == count


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("limit", ["2MB", "6MB"])
@pytest.mark.parametrize(
    ("more", "group"), [(KINDS, 512), (KINDS, 2048), (TEXTS, 512), (TEXTS, 2048)]
)
def test_a_table_is_read_with_little_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    widened: list[bool],
    threads: int,
    limit: str,
    more: str,
    group: int,
) -> None:
    monkeypatch.setattr(bulk_engine, "LIMITS", (limit, "15MB", "1GB"))
    same_both_ways(table(tmp_path, more, group=group), threads, "sub_account=s2")
    assert False not in widened
    assert widened or limit != "2MB"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("limit", ["2MB", "8MB"])
def test_a_csv_is_read_with_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, limit: str
) -> None:
    monkeypatch.setattr(bulk_engine, "LIMITS", (limit, "15MB", "1GB"))
    rows = [
        {"SubAccountId": f"account {i}", "ChargeDescription": "x" if i % 9 else "8 H100 GPUs"}
        for i in range(1200)
    ]
    same_both_ways(written(tmp_path, *rows, packed=True), threads)


def test_what_no_memory_is_enough_for_is_refused_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_engine, "LIMITS", ("1MB", "2MB"))
    path = table(tmp_path, "repeat(md5(i::VARCHAR), 900) AS SkuMeter")
    with pytest.raises(Refused, match=r"lines\.parquet: not readable.*[Mm]emory"):
        list(focus_bulk.parse(path, path.name, "focus", [], 2).records)
