"""FOCUS files in bulk against the parser: spellings of CSV, uneven rows, what cannot be read."""

from __future__ import annotations

import gzip
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.sources import bulk_chunks, bulk_csv, focus, focus_bulk
from finops.sources.records import ChargeRecord, Refused, Rejection
from tests.ledger.focus_files import focus_text
from tests.sources.both_ways import (  # noqa: F401 - small chunks for every test
    both_ways,
    small_chunks,
    told,
    written,
)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_quoted_line_feed_across_chunks(tmp_path: Path, threads: int) -> None:
    note = "a text\nof several\n" + "lines, " * 400
    rows = [{"ResourceId": f"i-{i}", "ChargeDescription": note if i == 3 else "x"}
            for i in range(9)]  # fmt: skip
    path = written(tmp_path, *rows)
    _, sums, _, _ = both_ways(path, threads=threads)
    assert sum(one.line_count for one in sums) < 9


@pytest.mark.parametrize("cells", [-1, 0, 1, 2])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize("cell", ["", '""', '"b"', '"a" '])
def test_rows_of_another_length_are_rejected_both_ways(
    tmp_path: Path, cells: int, end: str, place: int, cell: str
) -> None:
    """At any place of a document, and whatever stands in the cells too many."""
    header, *lines = focus_text({"ResourceId": f"i-{i}"} for i in range(6)).splitlines()
    lines[place] = ",".join([*lines[place].split(",")[: len(header.split(","))], *[cell] * cells])
    if cells < 0:
        lines[place] = lines[place].rpartition(",")[0]
    text = (end or "\n").join((header, *lines)) + end
    path = tmp_path / "lines.csv"
    path.write_bytes(text.encode())
    try:
        list(focus.parse(path, path.name, "focus").records)
    except Refused:
        with pytest.raises(Refused):
            list(focus_bulk.parse(path, path.name, "focus", [], 1).records)
    else:
        _, _, rejections, _ = both_ways(path)
        assert len(rejections) == bool(cells)


@pytest.mark.parametrize("cells", [-1, 1])
def test_one_uneven_row_at_any_place_of_what_the_engine_holds_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    """At the edges of its buffers too, where it gives fewer rows and no error."""
    monkeypatch.setattr(bulk_csv, "LONGEST_LINE", 1000)  # a buffer holds 16 of those
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 1 << 20)
    header, *lines = focus_text({"ResourceId": f"i-{i}"} for i in range(200)).splitlines()
    edges = [n * 16_000 // (len(lines[50]) + 1) for n in (1, 2)]
    assert edges[1] + 2 < len(lines)
    path = tmp_path / "lines.csv"
    for place in (0, 1, *(edge + by for edge in edges for by in range(-2, 3)), 198, 199):
        uneven = f"{lines[place]}," if cells > 0 else lines[place].rpartition(",")[0]
        path.write_text("\n".join((header, *lines[:place], uneven, *lines[place + 1 :], "")))
        records = list(told(focus_bulk.parse(path, path.name, "focus", [], 1).records))
        (rejected,) = (one for one in records if isinstance(one, Rejection))
        assert rejected.line == place + 2
        charges = [one for one in records if isinstance(one, ChargeRecord)]
        assert sum(one.line_count for one in charges) == len(lines) - 1


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace("Compute", ' "Compute'),
        lambda text: text.replace("Compute", 'Com"pute'),
        lambda text: text.replace("i-4", "i-4,more"),
        lambda text: text.replace("i-4", '"i-4\ri-5"'),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace("10:00:00Z", "34:00:00Z").replace("11:00:00Z", "35:00:00Z"),
        lambda text: text.replace("2026-10-05T1", "10/5/2026 1").replace(":00:00Z", ":00"),
    ],
)
def test_spellings_of_csv(tmp_path: Path, change: object) -> None:
    text = focus_text({"ResourceId": f"i-{i}"} for i in range(30))
    path = tmp_path / "lines.csv"
    path.write_bytes(change(text).encode())  # type: ignore[operator]
    both_ways(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda text: text.encode() + b'"unclosed', "not readable as CSV"),
        (lambda text: text.replace("i-20", "i\0-20").encode(), "line 22 holds a NUL byte"),
        (lambda text: text.replace("i-20", "i-é").encode("latin-1"), "line 22, byte"),
        (lambda text: text.replace("i-20", '"i"-20').encode(), "line 22: not readable as CSV"),
        (lambda text: gzip.compress(text.encode() * 50)[:-300], "cut off"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_same_words(
    tmp_path: Path, content: object, reason: str
) -> None:
    path = tmp_path / "lines.csv"
    path.write_bytes(content(focus_text({"ResourceId": f"i-{i}"} for i in range(30))))  # type: ignore[operator]
    said = []
    for parsed in (
        focus.parse(path, path.name, "focus"),
        focus_bulk.parse(path, path.name, "focus", [], 1),
        focus_bulk.parse(path, path.name, "focus", [], 3),
    ):
        with pytest.raises(Refused) as refused:
            list(parsed.records)
        said.append(str(refused.value))
    assert reason in said[0]
    assert said == said[:1] * 3


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.text(alphabet="ab\", \t\r\n;\\'", max_size=14), min_size=1, max_size=6),
    st.sampled_from([1, 2]),
)
def test_whatever_stands_between_the_commas(texts: list[str], threads: int) -> None:
    """Unquoted, as a broken exporter writes: refused in the same words, or read alike."""
    whole = focus_text([{"ServiceName": "HERE"}] * len(texts))
    for text in texts:
        whole = whole.replace("HERE", text, 1)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "lines.csv"
        path.write_bytes(whole.encode())
        said: dict[str, object] = defaultdict()
        try:
            list(focus.parse(path, path.name, "focus").records)
        except Refused as refused:
            said["slow"] = str(refused)
            with pytest.raises(Refused) as other:
                list(focus_bulk.parse(path, path.name, "focus", [], threads).records)
            assert str(other.value) == said["slow"]
            return
        both_ways(path, threads=threads)
