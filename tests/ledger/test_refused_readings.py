"""Readings of a store that cannot be kept: as many are told as there are, wherever they are told."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from finops.core.period import Period, parse_instant
from finops.ledger.models import Document
from finops.ledger.queries.facts import facts
from tests.ledger.doors import command
from tests.ledger.stores import replay

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

HOUR = parse_instant("2026-11-29T14:00:00Z")
ENGINE = {"job": "vllm", "instance": "a:8000", "model_name": "m"}


def series(metric: str, *values: str, **labels: str) -> dict[str, Any]:
    first = HOUR.timestamp()
    samples = [[first + 15 * number, value] for number, value in enumerate(values)]
    return {"metric": {"__name__": metric, **ENGINE, **labels}, "values": samples}


def test_a_series_refused_whole_counts_with_each_of_its_readings(client: Client) -> None:
    """Four readings under a label that no table holds, and one of the others' that is no count."""
    rows = [
        series("vllm:prompt_tokens_total", "1", "2", "3", "4", pod="a\0b"),
        series("vllm:generation_tokens_total", "1", "-2", "3", "4"),
    ]
    with replay(rows) as store:
        asked = ("--from", "2026-11-29T14:00:00Z", "--to", "2026-11-29T15:00:00Z")
        (row,) = command("collect", "--url", store.url, *asked)["sources"]
    assert (row["readings"], row["readings_refused"]) == (8, 5)
    document = Document.objects.get()
    assert (document.rows_read, document.readings, document.rows_rejected) == (8, 3, 5)

    period = Period(HOUR, parse_instant("2026-11-29T15:00:00Z"))
    told = {one.kind: one.text for one in facts(period, week="2026-W48").notices}
    assert "5 of 8 rows could not be taken" in told["rejected-rows"]
    # Of the prompt counter nothing could be kept: its tokens are not known, which is not 0.
    assert ": 3 generation tokens" in told["series-without-workload"]
    auditor = User.objects.create_user("Ines")
    auditor.groups.add(Group.objects.get_or_create(name="auditor")[0])
    client.force_login(auditor)
    page = client.get(f"{reverse('source-hours', args=[row['name']])}?at=2026-11-29T14:00:00Z")
    assert "5 refused" in page.content.decode()
    assert command("check-ledger")["ok"] is True
