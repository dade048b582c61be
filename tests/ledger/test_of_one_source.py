"""Who asks about one series, or one hour of one source, reads nothing of any other source.

Counted in rows: what each query's plan took from the ledger's large tables when it was carried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from finops.ledger.models import Series, Source
from finops.ledger.queries.explain import bounds, explain
from finops.ledger.queries.source_hours import engines_of
from tests.ledger.fleet import START, Shown, openmetrics
from tests.ledger.test_fleet_pages import HOUR, disturbed
from tests.ledger.test_nodes import ENGINE

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

LARGE = {"ledger_tokenhour", "ledger_readingblock"}
AT = START + 2 * HOUR


def others(folder: Path, count: int) -> None:
    """A fleet that another source tells of."""
    shown = []
    for number in range(count):
        labels = ENGINE | {"instance": f"10.1.0.{number}:8000"}
        shown.append(Shown("up", {"job": "vllm", "instance": labels["instance"]}, lambda _: 1))
        for metric in ("vllm:prompt_tokens_total", "vllm:generation_tokens_total"):
            shown.append(Shown(metric, labels, lambda step: 1000 + step))
    (folder / "others.om").write_text(openmetrics(shown))
    call_command("ingest", str(folder / "others.om"), "--source", "elsewhere")


def rows_taken(asked: CaptureQueriesContext) -> int:
    """The rows that the queries, carried out again, take from the large tables."""
    total = 0
    with connection.cursor() as cursor:
        for one in asked.captured_queries:
            if one["sql"].lstrip().upper().startswith(("SELECT", "WITH")):
                cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {one['sql']}")
                (plan,) = cursor.fetchone()
                plan = orjson.loads(plan) if isinstance(plan, str) else plan
                total += sum(
                    round(node["Actual Rows"] * node["Actual Loops"])
                    for node in nodes_of(plan[0]["Plan"])
                    if node.get("Relation Name") in LARGE
                )
    return total


def nodes_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", ()):
        yield from nodes_of(inner)


def asked_of(series: Series) -> dict[str, int]:
    found = {}
    for name, ask in (
        ("explain", lambda: (explain(series, AT), bounds(series, AT))),
        ("hour", lambda: engines_of(Source.objects.get(pk=series.target.source_id).name, AT)),
    ):
        with CaptureQueriesContext(connection) as asked:
            assert ask()
        found[name] = rows_taken(asked)
    return found


def test_one_series_and_one_hour_ask_for_their_source_alone(tmp_path: Path) -> None:
    disturbed(tmp_path)
    series = Series.objects.get(metric="vllm:prompt_tokens_total")
    before = asked_of(series)
    others(tmp_path, 20)
    assert Series.objects.exclude(target__source=series.target.source_id).count() == 60
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # so that the plans are those of a large ledger
    after = asked_of(series)
    assert after == {name: min(rows, before[name]) for name, rows in after.items()}
