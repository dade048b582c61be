"""What no rule reaches is proposed as a workload, with the rule that would reach it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.test import Client

from finops.ledger.operations.adopting import adopt
from finops.ledger.operations.workloads import NotAccepted
from finops.ledger.queries.allocation import assign_series
from finops.ledger.queries.discovery import proposed_workloads
from finops.ledger.queries.facts import facts
from finops.ledger.queries.tokens import TokenLedger
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


def test_delivered_tokens_of_an_engine_are_not_added_to_its_prompt(tmp_path: Path) -> None:
    one = {"job": "vllm", "instance": "a:8000", "namespace": "llm", "model_name": "m"}
    take_in(
        tmp_path,
        [
            counter("vllm:prompt_tokens_total", 600, **one),
            counter("vllm:request_prompt_tokens_sum", 500, **one),
            counter("tgi_request_input_length_sum", 7, job="tgi", instance="t:80"),
        ],
    )
    first, second = proposed_workloads(AT)
    assert (first["tokens"], first["series"]) == (booked(600), 1)
    assert (second["stack"], second["tokens"]) == ("tgi", booked(7))


def test_answers_of_a_gateway_are_not_added_to_its_prompts(tmp_path: Path) -> None:
    """One metric for both, told apart by a label."""
    at = {"job": "gateway", "instance": "g:80", "gen_ai_request_model": "m"}
    take_in(
        tmp_path,
        [
            counter("gen_ai_client_token_usage_sum", 600, gen_ai_token_type="input", **at),
            counter("gen_ai_client_token_usage_sum", 50, gen_ai_token_type="output", **at),
        ],
    )
    (proposal,) = proposed_workloads(AT)
    assert (proposal["tokens"], proposal["series"]) == (booked(600), 1)


def test_what_counts_delivered_tokens_alone_is_in_the_register_until_a_rule_reaches_it(
    tmp_path: Path,
) -> None:
    gateway = {"job": "gateway", "instance": "g:80", "gen_ai_request_model": "m"}
    take_in(
        tmp_path,
        [
            counter("tgi_request_input_length_sum", 600, job="tgi", instance="t:80"),
            counter("tgi_request_generated_tokens_sum", 60, job="tgi", instance="t:80"),
            counter("gen_ai_client_token_usage_sum", 7, gen_ai_token_type="input", **gateway),
            counter("gen_ai_client_token_usage_sum", 3, gen_ai_token_type="output", **gateway),
        ],
    )

    def told() -> list[str]:
        notices = facts(PERIOD, week="2026-W47").notices
        return [one.text or "" for one in notices if one.kind == "series-without-workload"]

    of_gateway, of_tgi = told()
    assert f"{booked(600):,} prompt and {booked(60):,} generation tokens, delivered," in of_tgi
    assert f"{booked(7):,} prompt and {booked(3):,} generation tokens, delivered," in of_gateway
    assert "gateway g:80 m (" in of_gateway
    for proposal in proposed_workloads(AT):
        adopt(proposal["matchers"], by="Ada", at=AT)
    assert told() == []


def test_a_proposal_is_made_with_one_press(tmp_path: Path) -> None:
    named = {"job": "vllm", "model_name": "m"}
    take_in(
        tmp_path,
        [
            counter("vllm:prompt_tokens_total", 600, instance="a:8000", namespace="prod", **named),
            counter("vllm:prompt_tokens_total", 200, instance="b:8000", namespace="dev", **named),
        ],
    )
    prod, dev = proposed_workloads(AT)
    assert adopt(prod["matchers"], by="Ada", at=AT).slug == "m"
    # The name is taken by another namespace's: it is added to the name.
    assert adopt(dev["matchers"], by="Ada", at=AT).slug == "m-dev"
    assert proposed_workloads(AT) == []
    by_slug = TokenLedger(PERIOD).by(assign_series())
    told = {place.target: tokens.prompt for place, tokens in by_slug.items()}
    assert told == {"m": booked(600), "m-dev": booked(200)}
    with pytest.raises(NotAccepted, match="nothing is proposed"):
        adopt(prod["matchers"], by="Ada", at=AT)


def test_one_model_on_two_stacks_is_two_workloads(tmp_path: Path) -> None:
    """A move from one stack to the other is what a saving is measured on: they may not be one."""
    named = {"namespace": "prod", "model_name": "m"}
    sglang = [
        counter("sglang:prompt_tokens_total", each, job="sglang", instance="s:80", is_streaming=how, **named)
        for each, how in ((40, "true"), (10, "false"))
    ]  # fmt: skip
    vllm = [
        counter("vllm:prompt_tokens_total", 600, job="vllm", instance="a:8000", **named),
        counter("ray_vllm_prompt_tokens_total", 7, job="ray", instance="r:80", **named),
    ]
    take_in(tmp_path, [*sglang, *vllm])

    first, second = proposed_workloads(AT)
    assert (first["stack"], first["engines"], first["tokens"]) == ("vllm", 2, booked(607))
    assert (second["stack"], second["series"], second["tokens"]) == ("sglang", 2, booked(50))
    assert (second["engines"], second["told_twice"]) == (1, 0)  # told apart by how it streams
    assert adopt(first["matchers"], by="Ada", at=AT).slug == "m"
    (left,) = proposed_workloads(AT)
    assert (left["stack"], left["tokens"]) == ("sglang", booked(50))
    assert adopt(left["matchers"], by="Ada", at=AT).slug == "m-sglang"
    told = {
        place.target: one.prompt for place, one in TokenLedger(PERIOD).by(assign_series()).items()
    }
    assert told == {"m": booked(607), "m-sglang": booked(50)}


def test_an_engine_that_two_jobs_read_is_one_engine_and_told(
    tmp_path: Path, client: Client
) -> None:
    """Its tokens count for each until a rule decides (method §2.7): the list says so."""
    named = {"namespace": "prod", "model_name": "m"}
    series = [
        counter("vllm:prompt_tokens_total", 600, job=job, instance=instance, engine=engine, **named)
        for job, instance in (("vllm", "a:8000"), ("pods", "a:8000"), ("vllm", "b:8000"))
        for engine in ("0", "1")
    ]
    take_in(tmp_path, series)
    (row,) = proposed_workloads(AT)
    assert (row["engines"], row["told_twice"], row["tokens"]) == (4, 2, booked(6 * 600))
    with patch("reports.views.workloads.timezone.now", return_value=AT):
        client.force_login(User.objects.create_superuser("Ada"))
        page = client.get("/workloads/").content.decode()
    assert '4<span class="sub">2 read twice</span>' in page
