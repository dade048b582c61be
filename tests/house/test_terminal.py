"""What a person meets at the terminal: a wrong name, and the account that `ingest` gives."""

import json
from pathlib import Path

import pytest

from finops.ledger import ingest_text
from tests.house.product import manage


@pytest.mark.parametrize("words", [["ingst", "--json"], ["ingst"]])
def test_an_unknown_command_could_not_run(tmp_path: Path, words: list[str]) -> None:
    ended = manage(tmp_path, *words, DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert ended.returncode == 2
    assert "There is no command 'ingst'. Did you mean ingest?" in ended.stderr
    assert "Traceback" not in ended.stderr
    if "--json" in words:
        assert json.loads(ended.stdout)["ok"] is False
    else:
        assert ended.stdout == ""


def test_an_account_says_what_came_in_and_what_did_not() -> None:
    text = ingest_text.render([
        {
            "path": "/in/october.csv", "format": "focus", "version": "1.2", "status": "posted",
            "rows_read": 1200, "charges": 1199, "rows_rejected": 1,
            "rejections": [
                {"line": 17, "column": "BilledCost", "value": "1e400", "reason": "too large"}
            ],
            "totals": {"USD": {"billed": "12345.670", "effective": "11.1", "list": None}},
            "snapshots": [{"issuer": "AWS", "billing_account": "0123", "billing_period": "2026-10",
                           "current": True}],
            "warnings": [], "unknown_columns": ["Id"], "missing_columns": [],
        },
    ])  # fmt: skip
    assert text.splitlines() == [
        "✓ october.csv: posted (focus 1.2)",
        "    1,200 lines read: 1,199 charges, 1 line rejected",
        "    All lines: USD billed 12,345.670, effective 11.1",
        "    Delivery: AWS · 0123 · 2026-10, current",
        "    Unknown columns: Id",
        "    Rejected: line 17 column BilledCost '1e400': too large",
    ]
