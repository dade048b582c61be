"""Stores of many makes: what each is asked and told, against doubles of their answers by specification.

Really run: Prometheus, and VictoriaMetrics where its program is found (`victoria-metrics`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from django.contrib.auth.models import User
from django.test import Client

from finops.core.period import parse_instant
from finops.ledger.access import Access, FetchFailed
from finops.ledger.fetch import Door, Limits
from finops.ledger.models import Source
from finops.ledger.operations.collect import collect_source, collect_window
from finops.ledger.operations.planning import windows
from finops.ledger.operations.sources import SourceRefused, access_to, add_source, note_probe
from finops.ledger.probe import probe
from finops.ledger.queries.sources import health, uncollected
from finops.sources.shards import shards
from tests.ledger.collecting import AFTER, GENERATION_TOKENS, PROMPT_TOKENS, RECORDING
from tests.ledger.doors import ingested
from tests.ledger.stores import PROMETHEUS, Reply, Store, from_samples, prometheus, recorded, replay
from tests.ledger.totals import token_totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

VICTORIA = shutil.which("victoria-metrics")
QUICK = Limits(attempts=1, read_seconds=5)


@pytest.fixture
def store() -> Iterator[Store]:
    with replay() as running:
        yield running


def asked(store: Store, path: str) -> list[tuple[dict[str, list[str]], dict[str, str]]]:
    return [(form, head) for seen, form, head in store.seen if seen == path]


def test_thanos_is_asked_for_raw_whole_samples(store: Store) -> None:
    source = add_source("th", store.url, by="ada", at=AFTER, product="thanos")
    assert collect_source(source, by="ada", at=AFTER, period=RECORDING).ok

    for form, _ in asked(store, "/api/v1/query"):
        assert form["max_source_resolution"] == ["0s"]
        assert form["partial_response"] == ["false"]
        assert form["dedup"] == ["true"]
    assert token_totals(RECORDING).prompt == PROMPT_TOKENS


def test_thanos_keeps_replicas_apart_where_the_source_tells_them(store: Store) -> None:
    source = add_source(
        "th", store.url, by="ada", at=AFTER, product="thanos", replica_labels=["replica"]
    )
    collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert asked(store, "/api/v1/query")[0][0]["dedup"] == ["false"]


def test_a_partial_answer_of_thanos_is_a_failure(store: Store) -> None:
    store.warn = ["No StoreAPIs matched for this query"]
    source = add_source("th", store.url, by="ada", at=AFTER, product="thanos")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("finops.ledger.operations.collect.WARNED_PAUSE_SECONDS", 0)
        found = collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert not found.ok
    assert token_totals(RECORDING).prompt is None


def test_mimir_is_told_the_tenant(store: Store) -> None:
    source = add_source("mimir", store.url, by="ada", at=AFTER, tenant="team-a|team-b")
    collect_source(source, by="ada", at=AFTER, period=RECORDING)
    assert {head["X-Scope-OrgID"] for _, head in asked(store, "/api/v1/query")} == {"team-a|team-b"}


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"tenant": "a\nX-Evil: 1"}, "tenant"),
        ({"product": "graphite"}, "product"),
        ({"product": "amp"}, "region"),
        ({"region": "eu-west-1"}, "region"),
        ({"product": "amp", "region": "eu west"}, "region"),
    ],
)
def test_what_cannot_be_sent_is_refused(named: dict[str, str], words: str) -> None:
    with pytest.raises(SourceRefused, match=words):
        add_source("s", "http://127.0.0.1:1", by="ada", at=AFTER, **named)
    assert not Source.objects.exists()


def test_a_token_file_is_read_anew(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    monkeypatch.setenv("HEADROOM_SECRET_GMP", f"file:{token}")
    access = Access(store.url, "HEADROOM_SECRET_GMP")
    for text in ("first", "second"):
        token.write_text(text + "\n")
        with Door(access, QUICK) as door:
            door.get("/api/v1/status/buildinfo")
        assert store.seen[-1][2]["Authorization"] == f"Bearer {text}"
    token.unlink()
    with pytest.raises(FetchFailed, match="token file cannot be read"), Door(access, QUICK):
        pass


def test_an_oauth_client_asks_for_its_token(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Entra ID gives it to a client for an Azure Monitor workspace (RFC 6749 §4.4)."""
    client = {"token_url": f"{store.url}/tenant/oauth2/v2.0/token", "client_id": "c",
              "client_secret": "hush", "scope": "https://prometheus.monitor.azure.com/.default"}  # fmt: skip
    monkeypatch.setenv("HEADROOM_SECRET_AZ", json.dumps(client))
    store.replies = [Reply(b'{"access_token": "short-lived", "expires_in": 3599}')]
    with Door(Access(store.url, "HEADROOM_SECRET_AZ", product="azure"), QUICK) as door:
        door.get("/api/v1/status/buildinfo")

    path, form, head = store.seen[0]
    assert path == "/tenant/oauth2/v2.0/token"
    assert form["grant_type"] == ["client_credentials"]
    assert form["client_secret"] == ["hush"]
    assert "Authorization" not in head
    assert store.seen[-1][2]["Authorization"] == "Bearer short-lived"


def test_an_oauth_client_that_is_refused_keeps_its_secret(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = dict.fromkeys(("client_id", "scope"), "x")
    client |= {"client_secret": "hush", "token_url": f"{store.url}/token"}
    monkeypatch.setenv("HEADROOM_SECRET_AZ", json.dumps(client))
    store.replies = [Reply(b'{"error": "invalid_client hush"}', 401)]
    with pytest.raises(FetchFailed, match="no access token") as failed:
        Door(Access(store.url, "HEADROOM_SECRET_AZ"), QUICK).__enter__()
    assert "hush" not in str(failed.value)


def test_amazon_requests_carry_a_signature(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature computed again by the published algorithm (AWS Signature Version 4)."""
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    source = add_source("amp", store.url, by="ada", at=AFTER, product="amp", region="eu-west-1")
    assert collect_source(source, by="ada", at=AFTER, period=RECORDING).ok

    _, head = asked(store, "/api/v1/query")[0]
    body = next(raw for raw in store.bodies if b"query=" in raw)
    assert head["Authorization"].endswith(signature(head, body))


def signature(head: dict[str, str], body: bytes) -> str:
    lower = {name.lower(): value for name, value in head.items()}
    scope, signed = re.search(r"Credential=[^/]+/(\S+), SignedHeaders=([^,]+)",
                              head["Authorization"]).groups()  # type: ignore[union-attr]  # fmt: skip
    named = "".join(f"{name}:{lower[name]}\n" for name in signed.split(";"))
    canonical = "\n".join(
        ["POST", "/api/v1/query", "", named, signed, hashlib.sha256(body).hexdigest()]
    )
    text = "\n".join(["AWS4-HMAC-SHA256", lower["x-amz-date"], scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])  # fmt: skip
    key = b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    for piece in scope.split("/"):
        key = hmac.new(key, piece.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def test_without_botocore_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "botocore.auth", None)
    with pytest.raises(FetchFailed, match="package botocore"):
        Door(Access("http://127.0.0.1:1", product="amp", region="eu-west-1")).__enter__()


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here")
def test_prometheus_says_what_it_is(tmp_path: Path) -> None:
    storage = from_samples(tmp_path, recorded()[:1])
    with prometheus(tmp_path, storage) as url, Door(Access(url), QUICK) as door:
        told = probe(door, AFTER)
    assert (told["product"], told["retention"]) == ("prometheus", "10y")
    assert re.match(r"\d+\.\d+", told["version"])
    assert abs(told["clock_skew_seconds"]) <= 2
    assert told["hints"] == []


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here")
def test_an_engine_whose_gauges_give_no_total_is_told(tmp_path: Path, client: Client) -> None:
    """Triton's tokens of one iteration are never asked for: the look at the store says that they are there."""
    metric = {"__name__": "nv_trt_llm_v1_metrics", "job": "triton", "instance": "t:8002"}
    rows = [{"metric": metric, "values": [[AFTER.timestamp() - 60, "12"]]}]
    with prometheus(tmp_path, from_samples(tmp_path, rows)) as url, Door(Access(url)) as door:
        (hint,) = probe(door, AFTER)["hints"]
        assert (
            hint.startswith("it holds nv_trt_llm_v1_metrics: ") and "no total can be made" in hint
        )
        assert probe(door, AFTER - timedelta(days=2))["hints"] == []
        client.force_login(User.objects.create_superuser("Ada"))
        with patch("reports.views.sources.timezone.now", return_value=AFTER):
            page = client.post("/sources/test/", {"name": "triton", "url": url}).content.decode()
    assert "no series of an engine" in page and "It holds nv_trt_llm_v1_metrics: " in page


def test_a_source_keeps_what_its_store_said(store: Store) -> None:
    source = add_source("prom", store.url, by="ada", at=AFTER)
    collect_source(source, by="ada", at=AFTER)
    (row,) = health(AFTER)
    assert row["store"]["version"] == "replay"
    before = len(asked(store, "/api/v1/status/buildinfo"))
    source = Source.objects.get()
    collect_source(source, by="ada", at=AFTER + timedelta(hours=1))
    assert len(asked(store, "/api/v1/status/buildinfo")) == before  # once a day


@pytest.fixture(scope="module")
def victoria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if VICTORIA is None:
        pytest.skip("no victoria-metrics here")
    folder = tmp_path_factory.mktemp("victoria")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [VICTORIA, f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}",
         "-retentionPeriod=100y", "-maxLabelsPerTimeseries=60", "-search.latencyOffset=0s"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _fill(url)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _fill(url: str) -> None:
    for _ in range(100):
        try:
            urlopen(url + "/health", timeout=1)
            break
        except OSError:
            time.sleep(0.1)
    lines = "\n".join(json.dumps(_line(row)) for row in recorded())
    urlopen(Request(url + "/api/v1/import", lines.encode()))
    urlopen(url + "/internal/force_flush")
    time.sleep(1)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric": row["metric"],
        "values": [float(value) for _, value in row["values"]],
        "timestamps": [round(at * 1000) for at, _ in row["values"]],
    }


def test_victoria_metrics_gives_the_recording_to_the_token(victoria: str) -> None:
    source = add_source("vm", victoria, by="ada", at=AFTER)
    assert collect_source(source, by="ada", at=AFTER, period=RECORDING).ok

    tokens = token_totals(RECORDING)
    assert (tokens.prompt, tokens.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)
    source.refresh_from_db()
    assert source.probe["product"] == "victoriametrics"
    assert "maxLabelsPerTimeseries" in source.probe["hints"][0]


def test_victoria_metrics_gives_the_recording_in_shards(victoria: str) -> None:
    """Asked by queries that name the instances of each part."""
    source = add_source("vm", victoria, by="ada", at=AFTER)
    note_probe(source, at=AFTER)
    with Door(access_to(source)) as door:
        for window in windows(RECORDING):
            for shard in shards(3):
                collect_window(source, window, door=door, by="ada", at=AFTER, shard=shard)
    tokens = token_totals(RECORDING)
    assert (tokens.prompt, tokens.generation) == (PROMPT_TOKENS, GENERATION_TOKENS)
    assert uncollected(source, RECORDING) == []


def test_an_export_of_victoria_metrics_can_be_ingested(victoria: str, tmp_path: Path) -> None:
    names = '{__name__=~"vllm:.*tokens_(total|created)|up|process_start_time_seconds"}'
    with urlopen(f"{victoria}/api/v1/export?{urlencode({'match[]': names})}") as answer:
        (tmp_path / "export.jsonl").write_bytes(answer.read())
    (document,) = ingested(tmp_path / "export.jsonl")
    assert document["status"] == "posted", document
    assert token_totals(RECORDING).prompt == PROMPT_TOKENS
    assert parse_instant("2026-11-29T14:00:00Z") == RECORDING.start
