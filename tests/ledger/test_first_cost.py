"""From one store's URL and one invoice file to a true cost per million tokens, by commands alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.ledger.focus_files import focus_file, hours
from tests.ledger.stores import PROMETHEUS, from_samples, prometheus, replay

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

PROMPT_TOKENS, GENERATION_TOKENS = 1_494_578, 202_099
WEEK = "2026-W48"  # the recording was made on its Sunday


@pytest.fixture(scope="module")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus over the recording where it is installed, else the replay of its API."""
    folder = tmp_path_factory.mktemp("prometheus")
    if PROMETHEUS is None:
        with replay() as store:
            yield store.url
    else:
        with prometheus(folder, from_samples(folder)) as url:
            yield url


def command(*arguments: object) -> dict[str, Any]:
    out = StringIO()
    call_command(*map(str, arguments), "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_one_url_and_one_invoice_give_the_cost_per_million(store_url: str, tmp_path: Path) -> None:
    period = ("--from", "2026-11-29T14:00:00Z", "--to", "2026-11-29T16:00:00Z")
    month = {
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    }
    invoice = focus_file(
        tmp_path / "november.csv",
        hours("2026-11-29T14", "2026-11-29T15", BilledCost="3.60", EffectiveCost="3.60", **month),
        hours("2026-11-29T15", "2026-11-29T16", BilledCost="3.60", EffectiveCost="3.60", **month),
    )
    price = tmp_path / "offer.pdf"
    price.write_bytes(b"%PDF-1.4 the old supplier's price: 6.00 USD per million tokens")

    assert command("collect", "--url", store_url, *period)["ok"]
    assert command("ingest", invoice, "--by", "ada")["ok"]
    command(
        "workload",
        "add",
        "chat",
        "--model",
        "tiny-llama",
        "--stack",
        "vllm",
        "--purpose",
        "inference",
        "--by",
        "ada",
    )
    command("rule", "add", "chat", "--series", "cluster=eu-prod-1", "--by", "ada")
    command("rule", "add", "chat", "--charge", "resource=i-1", "--by", "ada")
    command(
        "baseline",
        "add",
        "chat",
        "--per-million",
        "6.00",
        "--currency",
        "USD",
        "--document",
        price,
        "--by",
        "ada",
    )
    command("close", WEEK, "--by", "ada")
    report = command("report", WEEK)
    figures = report["figures"]
    assert (report["week"], report["state"], report["sample"]) == (WEEK, "preliminary", False)
    assert (figures["prompt_tokens"], figures["generation_tokens"]) == (
        PROMPT_TOKENS,
        GENERATION_TOKENS,
    )
    cost = Decimal("7.20")
    tokens = PROMPT_TOKENS + GENERATION_TOKENS
    assert Decimal(figures["effective_cost"]) == cost
    expected = cost * 1_000_000 / tokens
    assert abs(Decimal(figures["cost_per_million_tokens"]) - expected) < Decimal("1E-20")
    assert abs(
        Decimal(figures["saving_vs_baseline"]) - (Decimal("6.00") * tokens / 1_000_000 - cost)
    ) < Decimal("1E-20")
    assert Decimal(report["tieout"]["period"]["difference"]) == 0
    assert Decimal(report["tieout"]["invoice"]["difference"]) == 0
