"""Parquet made of a CSV: the same bytes in any process, zone, locale and hash seed, rows exact."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.ledger.queries.export_table import Table
from reports.evidence.parquet import parquet_files, telling_other_rows
from reports.evidence.sealed import csv_bytes

ROWS = [(n, f'{{"a":"x,{n}"}}', f"0.{n:028d}", 'ß\n"q"' if n % 2 else "") for n in range(5000)]
CONTENT = csv_bytes(Table("token_hours", ("series", "hour", "billed", "tag:x"), ROWS))
PROGRAM = """
import hashlib, sys, django
django.setup()
from reports.evidence.parquet import parquet_files
made = parquet_files({"ledgers/token_hours.csv": open(sys.argv[1], "rb").read()})
print(hashlib.sha256(made["ledgers/token_hours.parquet"]).hexdigest())
"""


def _same_rows(parquet: bytes, content: bytes) -> bool:
    return not [*telling_other_rows({"p": parquet, "c": content}, {"p": "c"})]


def test_the_same_bytes_in_another_process_zone_locale_and_hash_seed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(CONTENT)
    made = parquet_files({"ledgers/token_hours.csv": CONTENT})["ledgers/token_hours.parquet"]
    for zone, seed, locale in (("Pacific/Chatham", "1", "C"), ("UTC", "2", "tr_TR.UTF-8")):
        changed = {"TZ": zone, "PYTHONHASHSEED": seed, "LC_ALL": locale, "PYTHONUTF8": "1"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path)], env=os.environ | changed,
            capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert done.stdout.strip() == hashlib.sha256(made).hexdigest()


def test_another_value_is_told() -> None:
    made = parquet_files({"ledgers/token_hours.csv": CONTENT})["ledgers/token_hours.parquet"]
    assert _same_rows(made, CONTENT)
    assert not _same_rows(made, CONTENT.replace(b"4999", b"4998"))
    assert not _same_rows(made[:-9], CONTENT)


CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), CELLS, CELLS), max_size=8))
def test_any_text_comes_back_as_it_was(rows: list[tuple[int, str, str]]) -> None:
    content = csv_bytes(Table("series", ("series", "labels", "engine"), rows))
    made = parquet_files({"ledgers/series.csv": content})["ledgers/series.parquet"]
    assert _same_rows(made, content)


def test_a_bad_file_does_not_hide_the_ones_after_it() -> None:
    (made,) = parquet_files({"ledgers/token_hours.csv": CONTENT}).values()
    files = {"bad": made[:-9], "good": made, "worse": b"PAR1", "c": CONTENT}
    files["other"] = CONTENT.replace(b"4999", b"4998")
    tables = {"bad": "c", "good": "c", "worse": "c"}
    assert [*telling_other_rows(files, tables)] == ["bad", "worse"]
    assert [*telling_other_rows(files, tables | {"good": "other"})] == ["bad", "good", "worse"]
