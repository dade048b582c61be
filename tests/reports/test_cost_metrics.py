"""`/metrics/cost`: closed without its token, and what a Prometheus reads there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client, override_settings

from finops.ledger.models import Document
from finops.ledger.which import use_ledger

from .example import FIGURES, workload
from .helpers import make_report, seal_report

TOKEN = "a-token-for-tests-0123456789abcdef"
PROMTOOL = shutil.which("promtool")
SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][\w:]*)\{(?P<labels>(?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (?P<value>-?\d+(?:\.\d+)?)'
)
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\["\\n])*)"')

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def scraped(client: Client, **headers: str) -> Any:
    with override_settings(METRICS_TOKEN=TOKEN):
        return client.get("/metrics/cost", headers={"authorization": f"Bearer {TOKEN}", **headers})


def read(content: bytes) -> dict[str, list[tuple[dict[str, str], Decimal]]]:
    """The samples by name; fails on a line that is not of the format."""
    lines = content.decode("utf-8").split("\n")
    assert lines[-2:] == ["# EOF", ""]
    found: dict[str, list[tuple[dict[str, str], Decimal]]] = {}
    told: set[str] = set()
    for line in lines[:-2]:
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ .+|TYPE \w+ gauge)", line), line
            told.add(line.split(" ")[2])
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert match["name"] in told
        labels = dict(LABEL.findall(match["labels"]))
        found.setdefault(match["name"], []).append((labels, Decimal(match["value"])))
    return found


def test_without_a_token_set_there_is_no_such_page(client: Client) -> None:
    answer = client.get("/metrics/cost", headers={"authorization": "Bearer "})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer ü"]
)  # fmt: skip
@override_settings(METRICS_TOKEN=TOKEN)
def test_without_the_right_token_nothing_is_told(client: Client, given: str) -> None:
    make_report()
    answer = client.get("/metrics/cost", headers={"authorization": given})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert b"llm_" not in answer.content


def test_signing_in_is_no_token(client_of: Callable[..., Client]) -> None:
    with override_settings(METRICS_TOKEN=TOKEN):
        assert client_of("admin").get("/metrics/cost").status_code == 401


def test_unit_costs_carry_opencost_names_and_the_exact_decimals(
    client: Client, own_ledger: Document
) -> None:
    report = make_report()
    seal_report(report)
    found = read(scraped(client).content)
    at = {"model_name": "Llama-3.1-70B-Instruct", "namespace": "serving", "cluster": "fra-1",
          "workload": "chat-70b", "workload_type": "inference", "currency": "USD", "sample": "false"}  # fmt: skip
    prices = found["llm_cost_per_million_tokens"]
    assert ({"cost_basis": "allocation", **at}, Decimal("1.832914006")) in prices
    assert ({"cost_basis": "usage", **at}, Decimal("1.2911")) in prices
    by_phase = {
        labels["phase"]: value
        for labels, value in prices
        if labels["workload"] == "chat-70b" and "phase" in labels
    }
    assert by_phase == {
        "prompt": Decimal("1.10331"),
        "cached_prompt": Decimal("0.110331"),
        "generation": Decimal("4.41324"),
    }
    (hourly,) = [v for lb, v in found["llm_total_hourly_cost"] if lb["workload"] == "chat-70b"]
    assert abs(hourly * 168 - Decimal("17626.401288")) < Decimal("1e-20")  # a week has 168 hours
    (info,) = found["headroom_report_info"]
    assert info[0]["state"] == "final" and info[0]["week"] == "2026-W47"
    assert info[0]["digest"] == report.seal.digest


def test_the_unknown_has_no_sample_and_is_never_0(client: Client, own_ledger: Document) -> None:
    make_report()
    found = read(scraped(client).content)
    of_the_idle = [lb for lb, _ in found["llm_cost_per_million_tokens"] if lb["workload"] == "pilot-13b"]  # fmt: skip
    assert of_the_idle == []
    whole = {name for name in found if name.startswith("llm_")}
    make_report("2026-W48", memory=[], figures=dict.fromkeys(FIGURES))
    empty = read(scraped(client).content)
    assert whole <= set(empty)  # the workloads are as they were
    assert {name for name in empty if name.startswith("headroom_")} == {
        "headroom_report_info",
        "headroom_week_cost_per_million_tokens",  # of the week before
        "headroom_week_effective_cost",
        "headroom_cost_reach_timestamp_seconds",
        "headroom_tokens_reach_timestamp_seconds",
    }


def test_a_week_that_cost_does_not_reach_the_end_of_has_no_hourly_cost(
    client: Client, own_ledger: Document
) -> None:
    reaches = {"cost": "2026-11-20T00:00:00Z", "tokens": None, "common_start": None,
               "common_end": None, "complete": False}  # fmt: skip
    make_report(reaches=reaches)
    found = read(scraped(client).content)
    assert "llm_total_hourly_cost" not in found
    assert "headroom_tokens_reach_timestamp_seconds" not in found
    # 2026-11-20T00:00:00Z is 20,777 days after the epoch.
    assert found["headroom_cost_reach_timestamp_seconds"][0][1] == 20_777 * 86_400


def test_weeks_stand_side_by_side(client: Client, own_ledger: Document) -> None:
    make_report("2026-W46", figures=FIGURES | {"cost_per_million_tokens": "2.0554"})
    make_report("2026-W47")
    found = read(scraped(client).content)
    prices = {lb["week"]: value for lb, value in found["headroom_week_cost_per_million_tokens"]}
    assert prices == {"2026-W46": Decimal("2.0554"), "2026-W47": Decimal("1.832914006")}
    assert [lb["week"] for lb, _ in found["headroom_report_info"]] == ["2026-W47"]


def test_memory_is_told_by_engine_in_bytes(client: Client, own_ledger: Document) -> None:
    row = {"workload": "chat-70b", "engine": "pod-0:8000 0", "reserved_bytes": 61740154880,
           "active_bytes_mean": "12884901888.25"}  # fmt: skip
    make_report(memory=[row, row | {"engine": "pod-1:8000 0", "reserved_bytes": None}])
    found = read(scraped(client).content)
    assert [(lb["target"], v) for lb, v in found["headroom_kv_reserved_bytes"]] == [
        ("pod-0:8000 0", Decimal(61740154880))
    ]
    assert len(found["headroom_kv_active_bytes"]) == 2


def test_the_sample_is_labelled_until_there_are_own_documents(client: Client) -> None:
    with use_ledger("sample"):
        make_report()
    found = read(scraped(client).content)
    assert {lb["sample"] for samples in found.values() for lb, _ in samples} == {"true"}


def test_an_own_ledger_without_reports_tells_nothing_of_the_sample(
    client: Client, own_ledger: Document
) -> None:
    with use_ledger("sample"):
        make_report()
    assert scraped(client).content == b"# EOF\n"


def test_names_with_quotes_and_lines_stay_one_label(client: Client, own_ledger: Document) -> None:
    hostile = 'm"} 1\nfake_metric{a="\\'
    make_report(workloads=[workload("chat-70b", hostile)])
    found = read(scraped(client).content)
    assert "fake_metric" not in found
    (model,) = {lb["model_name"] for lb, _ in found["llm_cost_per_million_tokens"]}
    assert json.loads(f'"{model}"') == hostile  # the escapes are JSON's too


def test_the_format_is_the_one_that_was_asked_for(client: Client, own_ledger: Document) -> None:
    make_report()
    newer = scraped(client, accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert newer["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert scraped(client)["Content-Type"].startswith("text/plain; version=0.0.4")
    assert client.post("/metrics/cost").status_code == 405


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_say(client: Client, own_ledger: Document) -> None:
    make_report()
    found = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=scraped(client).content, capture_output=True
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
