"""The recorded fleet through the door: what Prometheus still holds, to the token (method §2).

Expected values are the recording's own truth (README and totals.json beside the samples): counters
read straight from the servers, and the `usage` that the servers returned to each request.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from finops.core.period import Period
from finops.ledger.models import TokenHour
from finops.ledger.operations.ingest import ingest
from finops.ledger.operations.readings import recheck
from finops.ledger.queries.tokens import TokenLedger

RECORDING = Path(__file__).parent.parent / "data" / "vllm-recorded"
WHOLE = Period(datetime(2026, 11, 29, 14, tzinfo=UTC), datetime(2026, 11, 29, 16, tzinfo=UTC))
AT = datetime(2026, 11, 29, 17, tzinfo=UTC)
BOOKED = {"prompt": 1_494_578, "generation": 202_099}
TRUTH = {"prompt": 1_498_173, "generation": 203_343}

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@cache
def truth() -> list[dict[str, Any]]:
    return json.loads((RECORDING / "totals.json").read_text())


def take(*paths: Path) -> list[dict[str, Any]]:
    return ingest([str(path) for path in paths], by="Ada", at=AT)


def test_books_what_prometheus_holds_and_bounds_the_truth() -> None:
    (document,) = take(RECORDING / "raw-samples-5s.json.gz")
    assert document["status"] == "posted"
    assert document["rows_rejected"] == 0
    tokens = TokenLedger(WHOLE).totals()
    assert (tokens.prompt, tokens.generation) == (BOOKED["prompt"], BOOKED["generation"])
    assert tokens.prompt_lower <= TRUTH["prompt"] <= tokens.prompt_upper
    assert tokens.generation_lower <= TRUTH["generation"] <= tokens.generation_upper
    assert not tokens.exact
    assert (tokens.restarts, tokens.hidden_resets) == (3, 1)


def test_each_life_of_each_pod_is_booked_as_last_seen() -> None:
    take(RECORDING / "raw-samples-5s.json.gz")
    by_pod = TokenLedger(WHOLE).by(lambda labels, hour: labels["pod"])
    expected: dict[str, list[int]] = {}
    for life in truth():
        last = life["last_sample_in_prometheus"].get("5s")
        if last:
            sums = expected.setdefault(life["pod"], [0, 0])
            sums[0] += int(last["prompt"])
            sums[1] += int(last["generation"])
    found = {
        pod: [tokens.prompt, tokens.generation]
        for pod, tokens in by_pod.items()
        if tokens.prompt is not None
    }
    assert found == expected


def test_hours_sum_to_the_whole_and_order_of_arrival_does_not_matter(tmp_path: Path) -> None:
    answer = json.loads(gzip.decompress((RECORDING / "raw-samples-5s.json.gz").read_bytes()))
    pieces = []
    for number, (low, high) in enumerate([(2, 3), (0, 1), (1, 2)]):
        edge = [1795962814, 1795963700, 1795964500, 1795966000]
        result = [
            {
                "metric": one["metric"],
                "values": [v for v in one["values"] if edge[low] <= v[0] < edge[high]],
            }
            for one in answer["data"]["result"]
        ]
        result = [one for one in result if one["values"]]
        path = tmp_path / f"piece-{number}.json"
        path.write_text(
            json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
        )
        pieces.append(path)
    for piece in pieces:
        take(piece)
    tokens = TokenLedger(WHOLE).totals()
    assert (tokens.prompt, tokens.generation) == (BOOKED["prompt"], BOOKED["generation"])
    hours = [
        TokenLedger(Period(start, start.replace(hour=start.hour + 1))).totals()
        for start in WHOLE.hours()
    ]
    assert sum(hour.prompt for hour in hours) == BOOKED["prompt"]
    assert sum(hour.generation for hour in hours) == BOOKED["generation"]
    series = set(TokenHour.objects.values_list("series", flat=True))
    assert recheck(sorted(series)) == []


def test_the_same_readings_again_add_nothing(tmp_path: Path) -> None:
    take(RECORDING / "raw-samples-5s.json.gz")
    rows = TokenHour.objects.count()
    again = tmp_path / "again.json"
    again.write_bytes(gzip.decompress((RECORDING / "raw-samples-5s.json.gz").read_bytes()))
    (document,) = take(again)
    assert document["status"] == "posted"  # other bytes, the same readings
    assert TokenHour.objects.count() == rows


def test_delivered_tokens_are_the_usage_of_finished_requests() -> None:
    """Where the last reading saw them: every life but the two that were cut off unseen."""
    take(RECORDING / "raw-samples-5s.json.gz")
    delivered = TokenLedger(WHOLE).by(lambda labels, hour: labels["pod"])
    expected: dict[str, int] = {}
    for life in truth():
        ok = life["ground_truth_ok"]
        expected.setdefault(life["pod"], 0)
        expected[life["pod"]] += ok["prompt_tokens"] + life["extra_prompt_from_n2"]
    for pod in ("chat-7b-1", "chat-dp-0", "chat-mp-0"):
        assert delivered[pod].delivered_prompt == expected[pod], pod
