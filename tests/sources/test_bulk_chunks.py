"""A chunk's passes over its bytes against the same looked at one by one."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.sources import bulk_chunks
from finops.sources.bulk_chunks import Chunk

BYTES = st.lists(st.sampled_from([b"a", b'"', b" ", b"\t", b"\n", b",", b"\r\n"])).map(b"".join)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "_BLOCK_BYTES", 5)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BYTES, st.integers(1, 10**9), st.data())
def test_lines_and_quotes_of_a_chunk(content: bytes, first: int, data: st.DataObject) -> None:
    chunk = Chunk(first, content)
    lines = re.findall(rb"[^\n]*\n|[^\n]+$", content)
    assert chunk.line_feeds == content.count(b"\n")
    assert chunk.lines == len(lines) or not content
    assert chunk.has_blanks_by_quotes() == bool(re.search(rb'"[ \t]|[ \t]"', content))
    numbers = sorted(data.draw(st.sets(st.sampled_from(range(len(lines))))) if lines else ())
    assert list(chunk.picked([first + n for n in numbers])) == [lines[n] for n in numbers]
