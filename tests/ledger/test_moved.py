"""An engine that is read under another address (method §2.4): every expected figure by hand.

An engine counts ten tokens a minute. It is replaced at 1:00; at 1:30 somebody changes how the scrape writes
its address. Its process lives on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.ledger.queries.facts import facts
from tests.ledger.doors import command
from tests.ledger.fleet import PERIOD
from tests.ledger.test_going_on import CHANGED, ENDS, engine, ingest

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

OLD, NEW = "10.0.0.1:8000", "chat-0:8000"
REPLACED = 60


def told() -> list[str]:
    found = facts(PERIOD, week="2026-W47").notices
    return [one.text for one in found if one.kind == "labels-changed"]


def booked() -> int:
    """The prompt tokens of the workload that has the engine."""
    (row,) = [one for one in facts(PERIOD, week="2026-W47").workloads if one.slug == "llama"]
    assert row.tokens is not None
    return row.tokens.prompt or 0


def moves(folder: Path, *, reads_on: int = CHANGED, born: int = REPLACED) -> None:
    """`reads_on`: until when the old address is read. `born`: the process behind the new one."""
    ingest(
        folder,
        "x.om",
        engine(range(REPLACED), instance=OLD),
        engine(range(REPLACED, reads_on), born=REPLACED, begins=REPLACED, instance=OLD),
        engine(range(CHANGED, ENDS), born=born, begins=born, instance=NEW),
    )
    command("workload", "add", "llama", "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", "llama", "--series", "model_name=llama", "--order", "9", "--by", "Ada")


@pytest.mark.parametrize("reads_on", [CHANGED, CHANGED + 2])
def test_what_stands_under_both_addresses_is_told_and_a_rule_decides(
    tmp_path: Path, reads_on: int
) -> None:
    """The second replica of a pair may read the old address for two scrapes more."""
    moves(tmp_path, reads_on=reads_on)
    # Minute 59 shows 580 of the first process; of the second the last minute under the old address
    # shows what the new one books again: minute 179 shows 1,190.
    again = 10 * (reads_on - 1 - REPLACED)
    assert booked() == 580 + again + 1190
    (said,) = told()
    assert f"up to {again:,} of vllm:prompt_tokens_total" in said
    assert f"put {OLD} (job vllm) out of scope" in said
    assert "from 2026-11-16T01:00:00Z on" in said

    decided = ("rule", "add", "out-of-scope", "--series", f"instance={OLD}", "--order", "1")
    command(*decided, "--from", "2026-11-16T01:00:00Z", "--by", "Ada")
    assert booked() == 580 + 1190
    assert told() == []


@pytest.mark.parametrize("born", [REPLACED + 1, CHANGED - 1])
def test_another_process_behind_another_address_is_another(tmp_path: Path, born: int) -> None:
    moves(tmp_path, born=born)
    assert told() == []


def test_an_engine_that_is_read_at_both_addresses_all_along_is_not_said_to_have_moved(
    tmp_path: Path,
) -> None:
    """Two engines may start at one instant."""
    moves(tmp_path, reads_on=ENDS)
    assert told() == []
