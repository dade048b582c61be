"""Bad invoices through the door: a sentence that names the place, and nothing half imported (§3.1)."""

from __future__ import annotations

import gzip
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from django.conf import settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from finops.ledger.models import Charge, Delivery, Document, RejectedRow, Snapshot
from finops.sources import registry
from finops.sources.records import Refused
from tests.ledger.doors import command
from tests.ledger.focus_files import ROW, focus_file, focus_text
from tests.sources.reading import as_csv

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
TEXT = focus_text([{"ResourceId": f"i-{n}", "BilledCost": f"{n}.25"} for n in range(400)])
PACKED = gzip.compress(TEXT.encode(), mtime=0)
MEMORY_BYTES = 256 * 1024 * 1024


def stored() -> list[Path]:
    return sorted(one for one in (settings.DATA / "documents").rglob("*") if one.is_file())


def header_with(more: str) -> bytes:
    header, rest = TEXT.split("\n", 1)
    return f"{header}{more}\n{rest}".encode()


def line_with(number: int, new: bytes) -> bytes:
    lines = TEXT.encode().splitlines(keepends=True)
    lines[number - 1] = new
    return b"".join(lines)


ROW_TEXT = TEXT.splitlines()[2]
BAD: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "empty": ("a.csv", lambda: b"", "the file is empty"),
    "empty-gz": ("a.csv.gz", lambda: gzip.compress(b""), "the file is empty"),
    "cut-gz": ("a.csv.gz", lambda: PACKED[: len(PACKED) * 2 // 3], "is cut off"),
    "cut-trailer": ("a.csv.gz", lambda: PACKED[:-3], "is cut off"),
    "false-gz-size": (
        "a.csv.gz",
        lambda: PACKED[:-4] + struct.pack("<L", len(TEXT) + 7),
        "is damaged",
    ),
    "false-gz-sum": ("a.csv.gz", lambda: PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], "is damaged"),
    "junk-after-gz": ("a.csv.gz", lambda: PACKED + b"junk junk junk", "is damaged"),
    "cut-second-member": ("a.csv.gz", lambda: PACKED + PACKED[:40], "is cut off"),
    "gz-bomb": (
        "a.csv.gz",
        lambda: gzip.compress(TEXT.encode() + (b" " * (1 << 19) + b"\n") * 100, 9),
        "times its size",
    ),
    "gz-in-gz": ("a.csv.gz", lambda: gzip.compress(PACKED), "known format"),
    "ten-million-columns": ("a.csv", lambda: header_with("," * 10_000_000), "10000025 columns"),
    "ten-million-fields": (
        "a.csv",
        lambda: line_with(3, b"," * 10_000_000 + b"\n"),
        "line 3: 10000001 columns",
    ),
    "ten-million-columns-of-nothing": ("a.csv", lambda: b"," * 10_000_000, "over 16384 columns"),
    "endless-line": ("a.csv", lambda: line_with(3, b"x" * (17 << 20) + b"\n"), "line 3 is longer"),
    "endless-field": (
        "a.csv",
        lambda: line_with(3, b'"' + (b"x" * 1000 + b"\n") * 3000 + b'"\n'),
        "line 3: not readable as CSV",
    ),
    "unclosed-quote": (
        "a.csv",
        lambda: line_with(3, b'"' + ROW_TEXT.encode() + b"\n"),
        "line 3: not readable as CSV",
    ),
    "nul": ("a.csv", lambda: line_with(3, b"1.00\0,1\n"), "line 3 holds a NUL byte (byte 5)"),
    "latin-1": (
        "a.csv",
        lambda: line_with(3, ROW_TEXT.replace("instance", "G\xe4ste").encode("latin-1") + b"\n"),
        "0xe4 is not UTF-8",
    ),
    "utf-16-inside": ("a.csv", lambda: TEXT.encode() + "1.00,1.00\n".encode("utf-16"), "line 402"),
    "utf-16": ("a.csv", lambda: TEXT.encode("utf-16"), "UTF-16"),
    "column-twice": (
        "a.csv",
        lambda: header_with(",BilledCost"),
        "BilledCost stands more than once",
    ),
    "column-twice-in-other-capitals": (
        "a.csv",
        lambda: header_with(",billed_cost"),
        "more than once",
    ),
    "no-parquet": (
        "a.parquet",
        lambda: b"PAR1" + b"ChargePeriodStart BilledCost" * 9 + b"PAR1",
        "Parquet",
    ),
    "parquet-footer-lies": (
        "a.parquet",
        lambda: (
            b"PAR1" + b"ChargePeriodStart BilledCost" * 9 + struct.pack("<L", 0x7FFFFFFF) + b"PAR1"
        ),
        "Parquet",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_by_its_place_and_leaves_nothing(tmp_path: Path, case: str) -> None:
    name, make, said = BAD[case]
    path = tmp_path / name
    path.write_bytes(make())
    before = stored()
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = command("ingest", path, "--by", "Ada")
    more_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib) * 1024
    (document,) = answer["documents"]
    assert (document["status"], answer["ok"]) == ("rejected", False)
    reason = document["rejections"][0]["reason"]
    assert said in reason
    assert name in reason
    for rows in (Document, Charge, Snapshot, Delivery, RejectedRow):
        assert not rows.objects.exists()
    assert stored() == before
    assert more_bytes < MEMORY_BYTES


def test_a_header_alone_is_a_delivery_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT.split("\n", 1)[0] + "\n")
    (document,) = command("ingest", path, "--by", "Ada")["documents"]
    assert (document["status"], document["rows_read"], document["charges"]) == ("posted", 0, 0)
    assert not Snapshot.objects.exists()


def test_members_of_a_gzip_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    half = len(TEXT) // 2
    path.write_bytes(gzip.compress(TEXT[:half].encode()) + gzip.compress(TEXT[half:].encode()))
    (document,) = command("ingest", path, "--by", "Ada")["documents"]
    assert (document["status"], document["charges"]) == ("posted", 400)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("BilledCost", "NaN"),
        ("BilledCost", "sNaN"),
        ("BilledCost", "-Infinity"),
        ("BilledCost", "1e400"),
        ("BilledCost", "1e-400"),
        ("EffectiveCost", "1,000.00"),
        ("EffectiveCost", "$4"),
        ("BilledCost", ""),
        ("BilledCost", "\u0661\u0662"),
        ("BillingCurrency", ""),
        ("BillingCurrency", "Dollars"),
        ("ChargePeriodStart", "05.10.2026 10:00"),
        ("ChargePeriodStart", "2026-13-05T10:00:00Z"),
        ("ChargePeriodStart", "2026-02-30"),
        ("ChargePeriodStart", "1759658400"),
        ("ChargePeriodEnd", "2026-10-05T09:00:00Z"),
        ("BillingPeriodStart", ""),
        ("BillingAccountId", ""),
        ("ChargeCategory", "Gift"),
    ],
)
def test_a_bad_cell_is_a_kept_rejection_and_the_others_count(
    tmp_path: Path, column: str, value: str
) -> None:
    path = focus_file(tmp_path / "a.csv", {}, {column: value, "ResourceId": "i-2"}, {})
    answer = command("ingest", path, "--by", "Ada")
    (document,) = answer["documents"]
    assert (document["status"], answer["ok"]) == ("posted", False)
    assert (document["rows_read"], document["charges"], document["rows_rejected"]) == (3, 2, 1)
    (rejection,) = document["rejections"]
    assert (rejection["line"], rejection["column"], rejection["value"]) == (3, column, value)
    kept = RejectedRow.objects.get()
    assert (kept.line, kept.column, kept.value) == (3, column, value)
    assert command("check-ledger")["ok"] is True


# Parquet ----------------------------------------------------------------------------------------


def parquet(path: Path, columns: dict[str, str]) -> Path:
    """A file of one row; names and values are written as they are."""
    selected = ", ".join(
        f"'{value.replace(chr(39), chr(39) * 2)}' AS \"{name.replace(chr(34), chr(34) * 2)}\""
        for name, value in columns.items()
    )
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {selected}) TO '{path}' (FORMAT parquet)")
    return path


def test_names_of_columns_are_names_and_nothing_else(tmp_path: Path) -> None:
    hostile = {
        'x") FROM range(1); --': "1",
        "'); ATTACH '/etc/passwd' AS p; --": "2",
        "read_text('/etc/passwd')": "3",
        "line\nbreak": "4",
    }
    path = parquet(tmp_path / "a.parquet", ROW | hostile)
    (document,) = command("ingest", path, "--by", "Ada")["documents"]
    assert (document["status"], document["charges"]) == ("posted", 1)
    assert set(hostile) <= set(document["unknown_columns"])
    assert document["totals"]["USD"]["billed"] == "1.00"


def test_a_name_of_a_parquet_file_is_no_pattern_and_no_query(tmp_path: Path) -> None:
    for name in ("a*.parquet", "b?.parquet", "c[1].parquet", "d'e.parquet", "f;g.parquet"):
        path = parquet(tmp_path / "plain.parquet", ROW | {"ResourceId": name})
        path = path.rename(tmp_path / name)
        (document,) = command("ingest", path, "--by", "Ada")["documents"]
        assert (document["status"], document["charges"]) == ("posted", 1), name


def _sound_parquet(folder: Path) -> bytes:
    return parquet(folder / "sound.parquet", ROW).read_bytes()


@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=9
    )
)
def test_metadata_that_lies_is_refused_or_read_and_never_breaks(
    tmp_path: Path, spoiled: list[tuple[float, int]]
) -> None:
    content = bytearray(_sound_parquet(tmp_path))
    (length,) = struct.unpack("<L", content[-8:-4])
    start = len(content) - 8 - length
    for where, value in spoiled:  # the footer and its length
        content[start + int(where * (length + 4))] = value
    path = tmp_path / "spoiled.parquet"
    path.write_bytes(content)
    try:
        parsed = registry.parse(path, path.name, "focus")
        rows = sum(1 for _ in parsed.records)
    except Refused as refused:
        assert path.name in str(refused)
    else:
        assert rows == parsed.account.rows_read


def test_a_file_of_another_kind_with_a_known_ending_is_named(tmp_path: Path) -> None:
    path = tmp_path / "invoice.csv"
    path.write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + b"1 0 obj\n" * 50)
    (document,) = command("ingest", path, "--by", "Ada")["documents"]
    assert document["status"] == "rejected"
    assert "invoice.csv: " in document["rejections"][0]["reason"]


def test_a_currency_that_no_column_names_is_no_currency(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(as_csv([{k: v for k, v in ROW.items() if k != "BillingCurrency"}]))
    (document,) = command("ingest", path, "--by", "Ada")["documents"]
    assert document["totals"]["XXX"]["billed"] == "1.00"
    assert "BillingCurrency" in document["missing_columns"]
