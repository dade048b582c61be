"""Texts that the lines of a CSV have in common hide no line that has others, wherever it stands.

What the sums come to is what the line-by-line parser reads, as in `both_ways`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.sources import bulk_chunks, bulk_usual
from finops.sources.bulk_engine import Engine, engine
from finops.sources.bulk_usual import LONGEST_BYTES, MOST_CHANGES, Usual
from tests.sources.both_ways import both_ways, written

TEXTS: Mapping[str, Sequence[str]] = {
    "InvoiceIssuerName": ["Cloud Ltd", "O'Neill's \\ Cloud", 'Cloud "2" Ltd'],
    "BillingAccountId": ["012345678901", "12345678901", "0123456789012345678901"],
    "BillingCurrency": ["USD", "EUR"],
    "BillingPeriodStart": ["2026-10-01T00:00:00Z", "2026-10-01"],
    "ChargeCategory": ["Usage", "Tax", "nonsense"],
    "ChargeClass": ["", "Correction"],
    "InvoiceId": ["INV-1", "", "é" * LONGEST_BYTES, "null"],
    "ServiceName": ["Compute", "compute", "NVIDIA things"],
}
CHANGE = st.sampled_from([(name, text) for name, texts in TEXTS.items() for text in texts])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 1200)  # some six lines


def lines_after(changes: Sequence[tuple[int, tuple[str, str]]]) -> Iterator[dict[str, str]]:
    """So many lines before each change of a text, which stays what it is then; and ten more."""
    row: dict[str, str] = {}
    for count, (name, text) in [*changes, (10, ("InvoiceId", "INV-9"))]:
        yield from ({**row, "BilledCost": f"{place}.5"} for place in range(count))
        row[name] = text


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, 25), CHANGE), max_size=14), st.sampled_from([1, 2]))
def test_texts_that_change_anywhere(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, tuple[str, str]]],
    threads: int,
) -> None:
    path = written(tmp_path_factory.mktemp("bill"), *lines_after(changes))
    both_ways(path, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", list(TEXTS))
def test_one_other_text_in_the_midst(tmp_path: Path, name: str, threads: int) -> None:
    usual, other, *_ = TEXTS[name]
    rows = [{name: other if place == 77 else usual} for place in range(150)]
    _, sums, _, _ = both_ways(written(tmp_path, *rows), threads=threads)
    assert sum(one.line_count for one in sums) >= 149


@pytest.fixture
def asked() -> Iterator[Engine]:
    with engine("lines.csv") as one:
        yield one


def learned(asked: Engine, usual: Usual, *rows: tuple[str, str]) -> Mapping[str, str]:
    """What is usual after a piece of such rows."""
    asked.execute("CREATE OR REPLACE TABLE piece (c_ServiceName VARCHAR, c_InvoiceId VARCHAR)")
    for row in rows:
        asked.execute("INSERT INTO piece VALUES (?, ?)", row)
    usual.learn("piece")
    return usual.texts


def test_what_differs_within_a_piece_is_not_usual_again(asked: Engine) -> None:
    usual = Usual(asked, ["ServiceName", "InvoiceId"])
    assert usual.texts == {}
    both = {"ServiceName": "a", "InvoiceId": "1"}
    assert learned(asked, usual, ("a", "1"), ("a", "1")) == both
    assert learned(asked, usual, ("a", "2")) == both | {"InvoiceId": "2"}
    assert learned(asked, usual, ("a", "2"), ("b", "2")) == {"InvoiceId": "2"}
    assert learned(asked, usual, ("b", "2")) == {"InvoiceId": "2"}
    assert learned(asked, usual, ("b", "2" * (LONGEST_BYTES + 1))) == {}
    assert learned(asked, usual, ("b", "2")) == {}


def test_pieces_that_go_on_changing_are_not_hoped_to_be_alike(asked: Engine) -> None:
    usual = Usual(asked, ["ServiceName", "InvoiceId"])
    for place in range(bulk_usual.MOST_CHANGES):
        assert learned(asked, usual, ("a", str(place))) == {
            "ServiceName": "a",
            "InvoiceId": str(place),
        }
    assert learned(asked, usual, ("a", str(MOST_CHANGES))) == {}
