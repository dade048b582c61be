"""The table of docs/method.md on the recorded fleet, against the ledger itself (method §2.10)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from finops.core.period import Period
from finops.ledger.operations.ingest import ingest
from tests.house.examples import METHOD, ROOT
from tests.ledger.totals import token_totals

RECORDING = ROOT / "tests" / "data" / "vllm-recorded" / "raw-samples-5s.json.gz"

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def row(name: str) -> tuple[int, int]:
    """Prompt and generation tokens of a row of the table."""
    number = r"\**([\d,]+)\**"
    found = re.search(
        rf"^\| \**{re.escape(name)}\** \| {number} \| {number} \|$",
        METHOD.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert found, name
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def test_the_page_states_what_the_ledger_books_and_bounds() -> None:
    at = datetime(2026, 11, 29, 17, tzinfo=UTC)
    ingest([str(RECORDING)], by="Ada", at=at)
    whole = Period(at.replace(hour=14), at.replace(hour=16))
    tokens = token_totals(whole)
    assert row("booked by the ledger") == (tokens.prompt, tokens.generation)
    assert row("ledger, lower bound") == (tokens.prompt_lower, tokens.generation_lower)
    assert row("ledger, upper bound") == (tokens.prompt_upper, tokens.generation_upper)
    truth = row("truth")
    assert tokens.prompt_lower <= truth[0] <= tokens.prompt_upper
    assert tokens.generation_lower <= truth[1] <= tokens.generation_upper
