"""What people open on a Monday: panels by role, coverage by the hour, prices, lists as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse

from finops.core.period import Period
from finops.ledger.models import Document, Fetch, Source
from finops.ledger.queries.source_hours import source_hours
from reports import figures
from reports.heat import heat_map, runs
from reports.models import Annotation

from .helpers import make_report

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_ledger")]
START = datetime(2026, 11, 16, tzinfo=UTC)
HOUR = timedelta(hours=1)


def _fetch(source: Source, start: datetime, end: datetime, document: Document | None) -> None:
    Fetch.objects.create(
        source=source,
        window_start=start,
        window_end=end,
        at=end,
        complete=document is not None,
        document=document,
        readings=7 if document else 0,
        warnings=[] if document else ["a store was down"],
    )


def test_each_role_finds_its_own_panels(client_of: Callable[..., Client]) -> None:
    make_report()
    seen = {
        role: client_of(role).get(reverse("overview")).content.decode()
        for role in ("finance", "engineer", "auditor")
    }
    for title, role in (
        ("Waits for approval", "finance"),
        ("Invoices to look at", "finance"),
        ("Sources and series", "engineer"),
        ("KV cache in use", "engineer"),
        ("Sealed reports", "auditor"),
    ):
        assert [r for r, page in seen.items() if f">{title}</h2>" in page] == [role], title
    # 59,331 of 188,352 tokens are 31.5 %; the engine preempted twelve times.
    assert "31.5\u202f% of what is reserved, 12 preemptions" in seen["engineer"]


def test_hours_are_whole_only_where_complete_answers_cover_them(own_ledger: Document) -> None:
    source = Source.objects.create(
        name="prod", url="http://127.0.0.1:9", kind="prometheus", created_at=START
    )
    _fetch(source, START, START + HOUR, own_ledger)
    _fetch(source, START + HOUR, START + 2 * HOUR, None)
    # The third hour by two halves; of the fourth only a part.
    _fetch(source, START + 2 * HOUR, START + 2.5 * HOUR, own_ledger)
    _fetch(source, START + 2.5 * HOUR, START + 3.25 * HOUR, own_ledger)
    found = source_hours(Period(START, START + 5 * HOUR))
    assert found == {"prod": ["whole", "part", "whole", "part", "unread"]}


def test_the_map_links_what_was_not_read_whole(admin: Client, own_ledger: Document) -> None:
    assert list(runs(["a", "a", "b", "a"])) == [("a", 0, 2), ("b", 2, 1), ("a", 3, 1)]
    values = ["whole", "part", "whole", "unread", "whole", "unread"]
    period = Period(START, START + 6 * HOUR)
    drawn = heat_map(period, {"<b>": values}, "UTC", lambda name, at: f"/{at:%H}")
    # Hours still to come are no gap; the name is escaped.
    assert drawn.count("<a ") == 2 and 'href="/01"' in drawn and 'href="/03"' in drawn
    assert "<b>" not in drawn
    source = Source.objects.create(
        name="prod", url="http://127.0.0.1:9", kind="prometheus", created_at=START
    )
    _fetch(source, START, START + HOUR, None)
    page = admin.get(reverse("source-hours", args=["prod"]), {"at": "2026-11-16T00:30:00Z"})
    text = page.content.decode()
    assert "a store was down" in text and "incomplete" in text
    assert admin.get(reverse("source-hours", args=["prod"]), {"at": "x"}).status_code == 404
    assert admin.get(reverse("source-hours", args=["none"])).status_code == 404
    assert "Coverage by the hour" in admin.get(reverse("sources")).content.decode()


def test_an_annotation_begins_at_the_point_that_was_chosen(admin: Client) -> None:
    make_report()
    page = admin.get(reverse("workload", args=["chat-70b"])).content.decode()
    link = "/annotations/?at=2026-11-18T00:00:00Z&amp;workload=chat-70b#h-new"
    assert link in page
    form = admin.get(reverse("annotations"), {"at": "2026-11-18T07:00:00Z", "workload": "chat-70b"})
    assert 'value="2026-11-18T07:00"' in form.content.decode()
    Annotation.objects.create(
        at=START + 30 * HOUR,
        workload="chat-70b",
        text="Later found",
        author="Ada",
        written_at=START,
    )
    page = admin.get(reverse("workload", args=["chat-70b"])).content.decode()
    assert "Annotation 1 at Tue 17 Nov 2026, 06:00 UTC" in page


def test_lists_come_as_csv_with_exact_figures(admin: Client) -> None:
    make_report("2026-W46")
    make_report("2026-W47")
    rows = list(
        csv.DictReader(
            admin.get(reverse("reports-csv"), {"year": "2026"}).content.decode().splitlines()
        )
    )
    assert [row["week"] for row in rows] == ["2026-W47", "2026-W46"]
    assert rows[0]["cost_per_million_tokens"] == "1.832914006"
    assert admin.get(reverse("reports-csv"), {"state": "final"}).content.count(b"\n") == 1
    both = admin.get(reverse("compare-csv"), {"left": "2026-W46", "right": "2026-W47"})
    lines = list(csv.DictReader(both.content.decode().splitlines()))
    cost = next(
        r for r in lines if r["workload"] == "organisation" and r["figure"] == "effective_cost"
    )
    assert cost["2026-W46"] == cost["2026-W47"] == "17626.401288"
    assert admin.get(reverse("compare-csv"), {"left": "2020-W01"}).status_code == 404


def test_prices_and_components_are_there_for_everybody(client_of: Callable[..., Client]) -> None:
    for role in ("finance", "engineer", "auditor"):
        client = client_of(role)
        assert "No rate card yet." in client.get(reverse("prices")).content.decode()
        page = client.get(reverse("style")).content.decode()
        assert page.count('class="chart') == 5 and "This field is required." in page
    assert client_of().get(reverse("style")).status_code == 403


def test_a_lag_is_told_in_the_largest_unit_that_fits() -> None:
    assert figures.lag(59) == "0\u202fmin"
    assert figures.lag(7_500) == "2\u202fh 05\u202fmin"
    assert figures.lag(90_000) == "1\u202fd 1\u202fh"
    assert figures.lag(None) == "n/a"
