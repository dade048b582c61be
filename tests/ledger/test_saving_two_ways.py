"""One saving from the recording's usage records and one from its counters, told apart to the token.

Both count the same requests. The counters know more (aborted and cut-off requests, the prompt once
for each choice) and less (requests that finished after a life's last reading). Each difference is
computed here from the requests themselves, not by the product.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from finops.core.baseline import Terms, compare
from finops.core.period import Period
from finops.core.unit_cost import Counted
from finops.ledger.operations.ingest import ingest
from finops.ledger.queries.tokens import TokenLedger

RECORDING = Path(__file__).parent.parent / "data" / "vllm-recorded"
PERIOD = Period(datetime(2026, 11, 29, 14, tzinfo=UTC), datetime(2026, 11, 29, 16, tzinfo=UTC))
AT = datetime(2026, 11, 29, 17, tzinfo=UTC)
PRICE, COST = Decimal("3.20"), Decimal("1.75")

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@dataclass
class Requests:
    """The requests of the recording, added up independently."""

    prompt_once: int = 0
    prompt_each_choice: int = 0
    generation: int = 0
    unseen_prompt: int = 0
    unseen_generation: int = 0


def requests() -> Requests:
    lives = json.loads((RECORDING / "totals.json").read_text())
    last_reading = {
        life["incarnation"]: life["last_sample_in_prometheus"]["5s"]["at"]
        for life in lives
        if life["last_sample_in_prometheus"].get("5s")
    }
    total = Requests()
    with gzip.open(RECORDING / "ground_truth.jsonl.gz", "rt") as lines:
        for line in lines:
            request = json.loads(line)
            if request["outcome"] != "ok":
                continue
            prompt = request["usage"]["prompt_tokens"]
            generation = request["usage"]["completion_tokens"]
            total.prompt_once += prompt
            total.prompt_each_choice += prompt * request["n"]
            total.generation += generation
            if request["ts_end"][:19] > last_reading[request["incarnation"]][:19]:
                total.unseen_prompt += prompt * request["n"]
                total.unseen_generation += generation
    return total


def take(name: str, source: str) -> None:
    (document,) = ingest([str(RECORDING / name)], by="Ada", at=AT, source=source)
    assert document["status"] == "posted"


def saving(counted: Counted, basis: str) -> Decimal:
    terms = Terms("chat", "declared", basis, "measured", "USD", AT, "Ada", declared_price=PRICE)
    result = compare(terms, counted, COST, "USD")
    assert result.saving is not None
    return result.saving


def test_the_two_savings_differ_by_tokens_that_have_names() -> None:
    take("ground_truth.jsonl.gz", "gateway")
    take("raw-samples-5s.json.gz", "prometheus")
    groups = TokenLedger(PERIOD).by(lambda labels, hour: labels["source"])
    records, counters = groups["gateway"], groups["prometheus"]
    known = requests()

    # Usage records hold exactly the finished requests, the prompt once each.
    assert records.delivered_prompt == known.prompt_once
    assert records.delivered_generation == known.generation
    assert records.prompt is None

    # The engine's own delivered counters: the same, the prompt once a choice, less what finished
    # after the last reading of its life.
    assert counters.delivered_prompt == known.prompt_each_choice - known.unseen_prompt
    assert counters.delivered_generation == known.generation - known.unseen_generation

    # Processed less delivered is what aborted and cut-off requests took.
    unfinished_prompt = counters.prompt - counters.delivered_prompt
    unfinished_generation = counters.generation - counters.delivered_generation
    choices = known.prompt_each_choice - known.prompt_once
    difference = (
        (unfinished_prompt + unfinished_generation)
        + choices
        - (known.unseen_prompt + known.unseen_generation)
    )
    processed = counters.prompt + counters.generation
    recorded = records.delivered_prompt + records.delivered_generation
    assert processed - recorded == difference
    assert (choices, known.unseen_prompt, known.unseen_generation) == (5_991, 3_303, 853)

    by_counters = saving(Counted(counters.prompt, counters.generation), "processed")
    by_records = saving(
        Counted(records.delivered_prompt, records.delivered_generation), "delivered"
    )
    assert by_counters - by_records == PRICE * difference / 1_000_000


def test_one_workload_with_both_is_not_compared_on_the_delivered_basis() -> None:
    """Both in one group would count the same requests twice: said, never silently used."""
    take("ground_truth.jsonl.gz", "gateway")
    take("raw-samples-5s.json.gz", "prometheus")
    together = TokenLedger(PERIOD).by(lambda labels, hour: "chat")["chat"]
    apart = TokenLedger(PERIOD).by(lambda labels, hour: labels["source"])

    assert together.delivered_twice
    assert not any(tokens.delivered_twice for tokens in apart.values())
