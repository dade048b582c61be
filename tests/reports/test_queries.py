"""Pages ask the database as many questions however many weeks and workloads there are."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from finops.ledger.models import Source, Workload
from reports.models import Annotation
from reports.queries import kept

from .example import statement, workload
from .helpers import make_report

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_ledger")]
NOW = datetime(2026, 11, 23, tzinfo=UTC)
MOST = 40
PAGES = (
    ("overview", {}),
    ("reports", {}),
    ("report", {"week": "2026-W47"}),
    ("compare", {}),
    ("exceptions", {}),
    ("workloads", {}),
    ("workload", {"slug": "chat-70b"}),
    ("workload-hours", {"slug": "service-0"}),
    ("annotations", {}),
    ("imports", {}),
    ("invoices", {}),
    ("rules", {}),
    ("baselines", {}),
    ("prices", {}),
    ("catalogue", {}),
    ("style", {}),
    ("reports-csv", {}),
)


def _fill(weeks: range, workloads: range) -> None:
    rows = [*statement()["workloads"], *(workload(f"service-{n}", "model") for n in workloads)]
    for number in weeks:
        make_report(f"2026-W{number}", workloads=rows)
    for number in workloads:
        Workload.objects.create(
            slug=f"service-{number}", model="m", stack="vllm", created_at=NOW, created_by="ada"
        )
        Annotation.objects.create(at=NOW, text=f"note {number}", author="ada", written_at=NOW)


def _count(client: Client, name: str, kwargs: dict[str, str], *, forget: bool) -> int:
    if forget:  # as a process that has just started
        for store in (kept.statements, kept.articles, kept.contexts, kept.panels, kept._rows):
            store._values.clear()
    with CaptureQueriesContext(connection) as asked:
        assert client.get(reverse(name, kwargs=kwargs)).status_code == 200, name
    return len(asked)


@pytest.mark.parametrize("forget", [True, False])
def test_queries_do_not_grow_with_weeks_or_workloads(admin: Client, forget: bool) -> None:
    _fill(range(44, 48), range(3))
    few = {name: _count(admin, name, kwargs, forget=forget) for name, kwargs in PAGES}
    few = {name: _count(admin, name, kwargs, forget=forget) for name, kwargs in PAGES}
    _fill(range(20, 44), range(3, 60))
    many = {name: _count(admin, name, kwargs, forget=forget) for name, kwargs in PAGES}
    many = {name: _count(admin, name, kwargs, forget=forget) for name, kwargs in PAGES}
    assert many == few
    assert max(many.values()) <= MOST, many


def test_the_map_of_hours_asks_as_much_for_many_sources(admin: Client) -> None:
    from finops.core.period import week_of
    from finops.ledger.queries.source_hours import source_hours

    period = week_of("2026-W47", ZoneInfo("UTC"))
    counts = []
    for known in (1, 30):
        for number in range(known):
            Source.objects.get_or_create(
                name=f"s{known}-{number}",
                defaults={"url": "http://127.0.0.1:9", "created_at": NOW},
            )
        with CaptureQueriesContext(connection) as asked:
            source_hours(period)
        counts.append(len(asked))
    assert counts == [5, 5]


def test_the_memory_page_looks_for_the_edges_of_its_gauges_once(admin: Client) -> None:
    with CaptureQueriesContext(connection) as asked:
        assert admin.get(reverse("memory")).status_code == 200
    edges = [one["sql"] for one in asked if "MIN(" in one["sql"] and "MAX(" in one["sql"]]
    assert [sum(f'FROM "ledger_{table}"' in sql for sql in edges)
            for table in ("cachehour", "devicehour")] == [1, 1]  # fmt: skip


def test_what_is_kept_of_a_report_is_never_another_ones(admin: Client) -> None:
    make_report("2026-W46", headline="The week before.")
    make_report("2026-W47", headline="The week itself.")
    for week, said in (("2026-W46", "The week before."), ("2026-W47", "The week itself.")) * 2:
        assert said in admin.get(reverse("report", kwargs={"week": week})).content.decode()
    make_report("2026-W47", revision=2, headline="Closed again.")
    page = admin.get(reverse("report-revision", kwargs={"week": "2026-W47", "revision": 2}))
    assert "Closed again." in page.content.decode()
    ids = [e["id"] for e in statement()["exceptions"]]
    admin.post(reverse("dispose"), {"week": "2026-W47", "exception": ids, "text": "Now decided."})
    page = admin.get(reverse("report-revision", kwargs={"week": "2026-W47", "revision": 2}))
    assert "Now decided." in page.content.decode()


def test_a_long_list_comes_in_pages_and_keeps_its_filters(admin: Client) -> None:
    for number in range(10, 40):
        make_report(f"2026-W{number}")
    first = admin.get(reverse("reports")).content.decode()
    assert "2026-W39" in first and 'href="/reports/2026-W13/"' not in first
    assert "Page 1 of 2" in first and "Older weeks" in first
    second = admin.get(reverse("reports"), {"page": "2", "state": "preliminary"}).content.decode()
    assert 'href="/reports/2026-W10/"' in second and "state=preliminary" in second
    assert 'href="/reports/2026-W39/"' not in second
