"""A refused file tells line, column and value as fields, from where the error is found (§3.1)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from finops.sources.records import Refused
from tests.ledger.doors import command
from tests.ledger.focus_files import focus_text

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
TEXT = focus_text([{"ResourceId": f"i-{n}"} for n in range(3)])
HEADER, *ROWS = TEXT.splitlines()
PLACES: list[tuple[str, bytes, tuple[int | None, str | None, str]]] = [
    ("two.csv", f"{HEADER},BilledCost\n{ROWS[0]},1\n".encode(), (1, "BilledCost", "")),
    ("odd line 7: the column Tags stands.csv", b"\x00" + TEXT.encode(), (1, None, "")),
    ("nul.csv", TEXT.replace("i-1", "i\x00").encode(), (3, None, "")),
    ("latin.csv", TEXT.replace("i-2", "i-\xe9").encode("latin-1"), (4, None, "0xe9")),
    ("answer.json", b'{"status": "success",\n "data": }', (2, None, "")),
    ("rates.csv", b"Day,USD,CHF,GBP\n2026-10-01,1,1,1\n", (1, "Date", "Day")),
    ("live.om", b"# TYPE a counter\na_total 5\n# EOF\n", (2, None, "")),
    ("config.json", b'{"architectures": ["X"],\n "model_type" 3}', (2, None, "")),
]  # fmt: skip
FORMATS = {"rates.csv": "fx-ecb", "live.om": "openmetrics", "config.json": "model-config",
           "answer.json": "prometheus-json"}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "place"), PLACES, ids=[one[0] for one in PLACES])
def test_line_column_and_value_of_a_refused_file(
    tmp_path: Path, name: str, content: bytes, place: tuple[Any, ...]
) -> None:
    (tmp_path / name).write_bytes(content)
    forced = ("--as", FORMATS[name]) if name in FORMATS else ()
    answer = command("ingest", tmp_path / name, "--by", "Ada", *forced)
    (document,) = answer["documents"]
    assert document["status"] == "rejected"
    (told,) = document["rejections"]
    assert (told["line"], told["column"], told["value"]) == place, told["reason"]
    assert name in told["reason"]


def test_files_of_the_same_bytes_each_keep_the_place(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(PLACES[0][1])
    documents = command("ingest", tmp_path, "--by", "Ada")["documents"]
    told = [one["rejections"][0] for one in documents]
    assert [(one["line"], one["column"]) for one in told] == [(1, "BilledCost")] * 2
    assert all(name in one["reason"] for name, one in zip(("a.csv", "b.csv"), told, strict=True))


def test_a_place_survives_the_way_between_processes() -> None:
    there = pickle.loads(pickle.dumps(Refused("x", line=3, column="Tags", value="v" * 900)))
    assert (str(there), there.line, there.column, len(there.value)) == ("x", 3, "Tags", 200)
    assert (there.said("y").line, str(there.said("y"))) == (3, "y")
