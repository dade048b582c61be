"""A chunk's passes over its bytes against the same looked at one by one."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.sources import bulk_chunks
from finops.sources.bulk_chunks import Chunk, Chunks

BYTES = st.lists(st.sampled_from([b"a", b'"', b" ", b"\t", b"\n", b",", b"\r\n"])).map(b"".join)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "_BLOCK_BYTES", 5)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(BYTES, st.integers(1, 10**9), st.data())
def test_lines_and_quotes_of_a_chunk(content: bytes, first: int, data: st.DataObject) -> None:
    chunk = Chunk(first, content)
    lines = re.findall(rb"[^\n]*\n|[^\n]+$", content)
    assert chunk.line_feeds == content.count(b"\n")
    assert chunk.lines == len(lines) or not content
    assert chunk.has_blanks_by_quotes() == bool(re.search(rb'"[ \t]|[ \t]"', content))
    numbers = sorted(data.draw(st.sets(st.sampled_from(range(len(lines))))) if lines else ())
    assert list(chunk.picked([first + n for n in numbers])) == [lines[n] for n in numbers]


LINES = st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\n\n", b"long " * 9])).map(b"".join)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(LINES, st.sampled_from([2, 7, 30]), st.lists(st.booleans(), min_size=1))
def test_chunks_are_the_document_whether_or_not_they_are_given_back(
    monkeypatch: pytest.MonkeyPatch, content: bytes, size: int, given_back: list[bool]
) -> None:
    """What a chunk holds stays as it is until it is given back, though others stand where some stood."""
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.csv"
        path.write_bytes(b"header\n" + content)
        chunks = Chunks(path, path.name)
        held: list[tuple[Chunk, bytes]] = []
        found: list[bytes] = []
        for number, chunk in enumerate(chunks):
            found.append(bytes(chunk.content))
            assert chunk.first_line == 2 + b"".join(found[:-1]).count(b"\n")
            if given_back[number % len(given_back)]:
                chunks.give_back(chunk)
            else:
                held.append((chunk, found[-1]))
        chunks.close()
    assert b"".join(found) == content
    assert all(one.endswith(b"\n") for one in found[:-1])
    assert all(chunk.content == told for chunk, told in held)
