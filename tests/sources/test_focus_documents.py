"""FOCUS documents that go wrong as files, not by their rows: gzip, bytes that are no text, Parquet."""

import gzip
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from finops.sources.records import Refused
from tests.sources.reading import as_csv, read
from tests.sources.test_focus import GOOD, changed, write

# Files that go wrong ------------------------------------------------------------------------


def test_header_alone_is_a_file_of_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "header.csv"
    path.write_text(as_csv([GOOD]).splitlines()[0])
    got = read(path)
    assert (got.account.rows_read, got.charges, got.rejections) == (0, [], [])


def test_byte_order_marks_before_header_and_first_row(tmp_path: Path) -> None:
    header, row = as_csv([GOOD]).splitlines()
    path = tmp_path / "marks.csv"
    path.write_bytes(f"\ufeff\ufeff{header}\r\n\ufeff{row}\r\n".encode())
    assert read(path).charges == read(write(tmp_path, GOOD)).charges


def test_gzip_of_two_members_is_one_file(tmp_path: Path) -> None:
    lines = as_csv([GOOD, GOOD]).encode().splitlines(keepends=True)
    path = tmp_path / "focus.csv.gz"
    path.write_bytes(gzip.compress(lines[0] + lines[1]) + gzip.compress(lines[2]))
    assert len(read(path).charges) == 2


def test_a_cut_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    packed = gzip.compress(as_csv([changed(Tags=f'{{"n": "{i}"}}') for i in range(3000)]).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(Refused, match="cut off"):
        read(path, "focus")


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finops.sources.files.BOMB_FLOOR_BYTES", 1 << 20)
    monkeypatch.setattr("finops.sources.files.BOMB_RATIO", 50)
    path = tmp_path / "bomb.csv.gz"
    row = as_csv([GOOD]).splitlines(keepends=True)
    path.write_bytes(gzip.compress((row[0] + row[1] * 10_000).encode(), 9))
    with pytest.raises(Refused, match="times its size"):
        read(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest", "zip archive"),
        ("BilledCost".encode("utf-16"), "UTF-16"),
        (b"BZh91AY", "bzip2"),
        (b"a.csv".ljust(257, b"\0") + b"ustar", "tar archive"),
        (b"hello,world\n1,2\n", "no.* known format"),
        (b"PAR1 and then nothing like Parquet, ChargePeriodStart BilledCost", "Parquet"),
    ],
)
def test_what_is_no_document_is_refused_with_a_hint(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "document"
    path.write_bytes(content)
    with pytest.raises(Refused, match=reason):
        read(path)


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        ('""search""', '""se\udcffrch""', "line 3, byte [0-9]+: 0xff is not UTF-8"),
        ('""search""', "\0", "line 3 holds a NUL byte"),
        ('{""team"": ""search""}"', "no end of this cell", "line 3: not readable as CSV"),
    ],
)
def test_bytes_that_are_no_text_are_refused_by_line(
    tmp_path: Path, good: str, bad: str, reason: str
) -> None:
    lines = as_csv([GOOD, GOOD, GOOD]).splitlines(keepends=True)
    lines[2] = lines[2].replace(good, bad)
    path = tmp_path / "bad.csv"
    path.write_bytes("".join(lines).encode("utf-8", "surrogateescape"))
    with pytest.raises(Refused, match=reason):
        read(path)


def test_an_endless_field_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, changed(Tags="x" * 2_000_000))
    with pytest.raises(Refused, match="line 2: not readable as CSV"):
        read(path)


# Parquet ------------------------------------------------------------------------------------


def as_parquet(path: Path, select: str) -> Path:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


def test_parquet_gives_the_same_charges_as_csv(tmp_path: Path) -> None:
    source = write(tmp_path, GOOD, changed(BilledCost="1.81E-8"), changed(BilledCost="NaN"))
    select = f"SELECT * FROM read_csv('{source}', all_varchar = true)"
    got, expected = read(as_parquet(tmp_path / "focus.parquet", select)), read(source)

    assert got.charges == expected.charges
    assert got.rejections == expected.rejections
    assert got.account.missing_columns == expected.account.missing_columns


def test_parquet_types_come_exactly(tmp_path: Path) -> None:
    cells = ", ".join(
        f"'{cell}' AS {column}" for column, cell in GOOD.items() if column not in TYPED
    )
    typed = ", ".join(f"{value} AS {column}" for column, value in TYPED.items())
    (charge,) = read(as_parquet(tmp_path / "t[y]*.parquet", f"SELECT {cells}, {typed}")).charges

    assert charge.billed_cost == Decimal("0.1")
    assert charge.effective_cost == Decimal("12345678901234567890.123456789")
    assert charge.charge_period_start == datetime(2026, 5, 2, 8, tzinfo=UTC)
    assert charge.charge_period_end == datetime(2026, 5, 2, 11, tzinfo=UTC)
    assert charge.tags == {"team": "search", "quoted": 'a"b'}
    assert charge.list_cost is None


TYPED = {
    "BilledCost": "0.1::DOUBLE",
    "EffectiveCost": "12345678901234567890.123456789::DECIMAL(38,9)",
    "ListCost": "NULL::DOUBLE",
    "ChargePeriodStart": "TIMESTAMPTZ '2026-05-02 10:00:00+02'",
    "ChargePeriodEnd": "TIMESTAMP '2026-05-02 11:00:00'",
    "Tags": """MAP {'team': 'search', 'quoted': 'a"b'}""",
}


def test_a_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = as_parquet(tmp_path / "focus.parquet", "SELECT 1 AS BilledCost, 2 AS ChargePeriodStart")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"\xff" * 40 + content[-8:])
    with pytest.raises(Refused, match="Parquet"):
        read(path, "focus")


def test_parquet_of_other_columns_is_refused(tmp_path: Path) -> None:
    path = as_parquet(tmp_path / "other.parquet", "SELECT 1 AS a")
    with pytest.raises(Refused, match="not the columns of FOCUS"):
        read(path, "focus")
