"""What no rule reaches is proposed as a workload, with the rule that would reach it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from finops.ledger.queries.discovery import proposed_workloads
from tests.ledger.doors import command
from tests.ledger.fleet import PERIOD, booked, counter, take_in

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

AT = PERIOD.end + timedelta(hours=1)


def test_the_proposal_made_real_reaches_what_it_was_made_of(tmp_path: Path) -> None:
    one = {"job": "vllm", "namespace": "llm", "model_name": "meta-llama/Llama-3.1-8B"}
    take_in(
        tmp_path,
        [
            counter("vllm:prompt_tokens_total", 600, instance="a:8000", **one),
            counter("vllm:prompt_tokens_total", 200, instance="b:8000", **one),
            counter("litellm_input_tokens_metric_total", 9, job="gw", instance="g", model="old"),
        ],
    )
    first, second = proposed_workloads(AT)

    assert (first["slug"], first["stack"], first["series"]) == ("llama-3-1-8b", "vllm", 2)
    assert first["matchers"] == 'model_name="meta-llama/Llama-3.1-8B",namespace="llm"'
    assert first["tokens"] == booked(800)
    assert (second["slug"], second["stack"]) == ("old", "litellm")
    command("workload", "add", first["slug"], "--model", "m", "--stack", "vllm", "--by", "Ada")
    command("rule", "add", first["slug"], "--series", first["matchers"], "--by", "Ada")
    assert proposed_workloads(AT) == [second]
    assert proposed_workloads(AT + timedelta(days=30)) == []
