"""A source of files: how far, when last and how whole, by the readings themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from finops.ledger.queries.sources import health
from tests.ledger.doors import ingested

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def readings(path: Path, hours: list[int]) -> Path:
    lines = ["# TYPE vllm:prompt_tokens counter"]
    for hour in hours:
        for minute in (0, 10, 50):
            moment = int(datetime(2026, 11, 20, hour, minute, tzinfo=UTC).timestamp())
            labels = 'instance="a",job="vllm",model_name="m",engine="0"'
            lines.append(f"vllm:prompt_tokens_total{{{labels}}} {hour * 60 + minute} {moment}")
    path.write_text("\n".join([*lines, "# EOF", ""]))
    return path


def test_a_source_without_fetches_is_told_by_its_readings(tmp_path: Path) -> None:
    ingested(readings(tmp_path / "a.om", [0, 1, 3]))
    (row,) = health(datetime(2026, 11, 20, 4, 50, tzinfo=UTC))
    assert (row["name"], row["state"]) == ("files", "files")
    assert row["reaches"] == "2026-11-20T03:50:00Z"
    assert row["lag_seconds"] == 3600
    assert row["coverage"] == "0.7500"  # hours 0, 1 and 3 of 0 to 4
    assert row["last_success"] is not None
