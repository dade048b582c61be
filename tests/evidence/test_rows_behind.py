"""From memory, right-sizing, service levels and training to kept rows, readings and documents."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from finops.core.canonical import canonical_bytes
from finops.ledger.operations import documents
from reports.evidence.sealed import gather
from reports.queries.standing import report_of, statement_of
from tests.evidence.conftest import Sealed
from tests.ledger import gpu_fleet, small_company
from tests.ledger.doors import command, ingested
from tests.reports.conftest import *  # noqa: F403 - the same people
from tests.reports.test_closing import WEEK

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
WHERE = {"week": WEEK, "revision": 1}


def linked(client: Client) -> list[str]:
    """The links of the report to rows that no charge is."""
    text = client.get(reverse("report-revision", kwargs=WHERE)).content.decode()
    return sorted(set(map(html.unescape, re.findall(r'href="(/reports/[^"]+/rows/[^"]*)"', text))))


def test_an_engine_s_cache_leads_to_its_hours_and_on_to_readings_and_documents(
    tmp_path: Path, client_of: Callable[..., Client]
) -> None:
    """27,471 blocks of 16 tokens, half of the 27,470 that requests can have in use (§8.4)."""
    add = ("workload", "add", "chat", "--model", "meta-llama/Llama-3.1-8B-Instruct")
    command(*add, "--stack", "vllm", "--purpose", "inference", "--by", "Ada")
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    fleet = gpu_fleet.Fleet(hours=2)
    fleet.engine("chat-0", 0.5)
    fleet.gpu("GPU-a", 74_000, 7_000, exported_namespace="llm", exported_pod="chat-0")
    ingested(gpu_fleet.config(tmp_path / "config.json"), fleet.write(tmp_path / "h.om"))
    command("close", WEEK, "--by", "Ada")
    client = client_of("auditor")
    links = linked(client)
    assert [one for one in links if "/rows/memory/" in one]
    assert [one for one in links if "/rows/rightsizing/" in one]
    for link in links:
        text = client.get(link).content.decode()
        cells = [
            re.findall(r">([^<>]*)</td>", row)
            for row in re.findall(r"<tr><th scope=\"row\"><a.*?</tr>", text, re.S)
        ]
        assert len(cells) == 2, link
        for row in cells:
            plain = [re.sub(r"[\s,\u2009\u202f\xa0]", "", cell) for cell in row]
            assert plain[:4] == ["27471", "16", "439536", "13735"], link
            assert plain[7] == "0.92"
        hours = re.findall(r'href="(/reports/[^"]+/gauges/[^"]+)"', text)
        assert len(hours) == 2
        readings = client.get(hours[0]).content.decode()
        assert readings.count('<td class="num">0.5</td>') == 60
        (digest,) = set(re.findall(r"/imports/documents/([0-9a-f]{64})/", readings))
        assert documents.stored(digest).exists()
    rows = reverse("report-rows", kwargs=WHERE | {"kind": "memory"})
    for wrong in ({}, {"workload": "chat"}, {"workload": "chat", "engine": "other"}):
        assert client.get(rows, wrong).status_code == 404
    assert client.get(rows.replace("memory", "nonsense")).status_code == 404
    assert client.get(hours[0].replace("T00", "T09").replace("T01", "T09")).status_code == 404


def test_levels_and_training_lead_to_their_rows(
    sealed: Sealed, client_of: Callable[..., Client]
) -> None:
    client = client_of("auditor")
    links = linked(client)
    report = report_of(WEEK)
    assert report
    levels = {one["workload"] for one in statement_of(report)["service_levels"]}
    assert levels
    assert {f"/reports/{WEEK}/1/rows/service-level/?workload={slug}" for slug in levels} <= set(
        links
    )
    for link in links:
        answer = client.get(link)
        assert answer.status_code == 200, link
        assert "<tbody><tr>" in answer.content.decode(), link
    training = client.get(f"/reports/{WEEK}/1/rows/training/").content.decode()
    assert re.search(r"/imports/documents/[0-9a-f]{64}/.*?line \d+", training)
    assert "0.70 USD" in training  # the support line that a rule gives to `tune`


def test_the_memory_table_of_the_report_closes_by_hand(
    tmp_path: Path, client_of: Callable[..., Client]
) -> None:
    """74,000 MiB used, 7,000 free and 479 of the driver are a card of 81,479; the cache is 439,536
    tokens of 131,072 bytes, half of 27,470 of its blocks in use; without a log the rest of what is
    used is the remainder."""
    add = ("workload", "add", "chat", "--model", "meta-llama/Llama-3.1-8B-Instruct")
    command(*add, "--stack", "vllm", "--purpose", "inference", "--by", "Ada")
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    fleet = gpu_fleet.Fleet(hours=2)
    fleet.engine("chat-0", 0.5)
    fleet.gpu("GPU-a", 74_000, 7_000, exported_namespace="llm", exported_pod="chat-0")
    ingested(gpu_fleet.config(tmp_path / "config.json"), fleet.write(tmp_path / "h.om"))
    invoice = tmp_path / "invoice.csv"
    rows = small_company.charges()
    end = {"ChargePeriodStart": "2026-11-16T07:00:00Z", "ChargePeriodEnd": "2026-11-23T00:00:00Z"}
    rows.append(rows[-1] | end | {"ChargeCategory": "Usage", "ResourceId": "i-b"})
    invoice.write_text(small_company.csv_text(rows))
    ingested(invoice)
    command("rule", "add", "chat", "--charge", "ResourceId=i-b", "--by", "Ada")
    command("close", WEEK, "--by", "Ada")
    report = report_of(WEEK)
    assert report
    statement = statement_of(report)
    (chat, every) = statement["memory_tables"]
    mib, reserved, active = 2**20, 439_536 * 131_072, 13_735 * 16 * 131_072
    assert chat["total_bytes"] == 81_479 * mib and chat["used_bytes"] == 74_000 * mib
    assert (chat["free_bytes"], chat["driver_bytes"]) == (7_000 * mib, 479 * mib)
    assert (chat["kv_active_bytes"], chat["kv_unreferenced_bytes"]) == (active, reserved - active)
    assert chat["weights_bytes"] is None
    assert chat["unattributed_bytes"] == 74_000 * mib - reserved
    cost = Decimal(statement["workloads"][0]["figures"]["period_effective_cost"])
    headroom = cost * (reserved - active) / (81_479 * mib)
    assert Decimal(chat["headroom_cost"]) == round(headroom, 4) > 0
    assert every["workload"] is None and every["headroom_cost"] is None
    assert every["total_bytes"] == chat["total_bytes"]
    page = client_of("auditor").get(reverse("report-revision", kwargs=WHERE)).content.decode()
    assert "each row adds up to its device total" in page
    found = gather(report, statement)
    assert found and not found.unequal
    tampered = json.loads(canonical_bytes(statement))
    tampered["memory_tables"][0]["headroom_cost"] = "0.0001"
    tampered["memory_tables"][0]["unattributed_bytes"] += 1
    tampered["memory_tables"][0]["weights_bytes"] = 1
    unequal = gather(report, tampered)
    assert unequal and len(unequal.unequal) == 3


def test_the_page_of_hours_shows_each_hour_and_draws_it(
    tmp_path: Path, client_of: Callable[..., Client]
) -> None:
    """A quarter, then three quarters of 27,470 blocks of 2 MiB: 13.4 and 40.2 GiB."""
    fleet = gpu_fleet.Fleet(hours=2)
    fleet.engine("chat-0", lambda n: 0.25 if n < 60 else 0.75)
    fleet.gpu("GPU-a", 74_000, 7_000, exported_namespace="llm", exported_pod="chat-0")
    add = ("workload", "add", "chat", "--model", "meta-llama/Llama-3.1-8B-Instruct")
    command(*add, "--stack", "vllm", "--purpose", "inference", "--by", "Ada")
    command("rule", "add", "chat", "--series", "namespace=llm", "--by", "Ada")
    ingested(gpu_fleet.config(tmp_path / "config.json"), fleet.write(tmp_path / "h.om"))
    client = client_of("engineer")
    happened = {"workload": "chat", "kind": "config", "at": "2026-11-16T01:30"}
    client.post(reverse("annotations"), happened | {"text": "blocks < before"})
    assert (
        f"{reverse('memory-hours')}?week={WEEK}" in client.get(reverse("memory")).content.decode()
    )
    for given in ({"week": WEEK}, {"week": WEEK, "workload": "chat"}):
        text = client.get(reverse("memory-hours"), given).content.decode()
        rows = re.findall(r"<tr><th scope=\"row\" class=\"nowrap\">.*?</tr>", text)
        cells = [re.findall(r'<td class="num">([\d.+-]+|n/a)', row) for row in rows]
        assert [row[2] for row in cells] == ["13.4", "40.2"]
        assert {row[0] for row in cells} == {"79.6"}  # 81,479 MiB
        assert "kv active: 13.4" in text and '<svg class="chart memory-hours"' in text
        assert "nvidia-smi shows: 72.3" in text  # 74,000 MiB
        assert text.count('<path class="line"') == 1 and text.count('stroke-dasharray="3 2"') == 1
        assert "chat: blocks &lt; before" in text
    wrong = {"week": WEEK, "workload": "other"}
    assert client.get(reverse("memory-hours"), wrong).status_code == 404
    assert client.get(reverse("memory-hours"), {"week": "x"}).status_code == 404
