"""What broke under hostile hands at the pages, each held by a test of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.test import Client

from finops.ledger.models import Document, Rule, Workload
from finops.ledger.operations.workloads import NotAccepted, add_workload
from finops.ledger.which import use_ledger
from reports.models import Annotation, Report
from reports.operations import sealing
from reports.operations.closing import close_week, week_asked
from reports.operations.notes import annotate
from reports.operations.refused import NoSuchWeek, NotAllowed
from tests.ledger import small_company

from .helpers import NOW, make_report

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]


@pytest.mark.parametrize("url", ["http://[::1", "http://[x]/", "https://]", "javascript:alert(1)"])
def test_a_link_that_is_none_is_refused(url: str, admin: Client) -> None:
    data = {"at": "2026-11-20T10:00", "text": "x", "kind": "other", "url": url}
    answer = admin.post("/annotations/", data)
    assert answer.status_code == 200
    assert "must begin with http" in answer.content.decode()
    assert not Annotation.objects.exists()


@pytest.mark.parametrize("year", ["0001", "9999"])
def test_the_edges_of_the_calendar_do_not_stay_on_a_page(
    year: str, admin: Client, settings: object
) -> None:
    day = f"{year}-01-01" if year == "0001" else f"{year}-12-31"
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        settings.ORGANISATION_ZONE = ZoneInfo(zone)  # type: ignore[attr-defined]
        given = {"text": "x", "kind": "other"}
        assert admin.post("/annotations/", given | {"at": f"{day}T12:00"}).status_code == 200
        rule = {"subject": "charge", "matchers": "service=x", "target": "out-of-scope",
                "order": "1", "keep": "1", "valid_from": day}  # fmt: skip
        answer = admin.post("/rules/preview/", rule)
        assert "2000 to 2200" in answer.content.decode()
        measured = {"kind": "measured", "workload": "x", "legacy": "x", "start": day, "end": day}
        assert admin.post("/baselines/", measured).status_code == 200
    assert not Annotation.objects.exists() and not Rule.objects.exists()
    with pytest.raises(NotAllowed, match="years"):
        annotate(instant=datetime(int(year), 6, 1, tzinfo=UTC), text="x", author="Ada", at=NOW)


@pytest.mark.parametrize(
    "week", ["0001-W01", "0000-W01", "9999-W52", "2026-W99", "2027-W53", "٢٠٢٦-W47", "x" * 5000]
)
def test_a_week_that_is_none_is_told(week: str, admin: Client) -> None:
    with pytest.raises(NoSuchWeek):
        week_asked(week, NOW)
    assert admin.post("/reports/close/", {"week": week})["Location"] == "/reports/"
    assert not Report.objects.exists()


def test_a_week_that_is_none_is_not_restated(admin: Client) -> None:
    for week in ("0001-W01", "2026-W99", "2020-W01"):
        answer = admin.post(f"/reports/{week}/restate/", {"reason": "x"})
        assert answer["Location"] == "/reports/", week
    assert admin.get("/reports/٢٠٢٦-W47/").status_code == 404


def test_a_week_before_all_data_is_not_closed(tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="no data yet"):
        close_week("1970-W01", by="Ada", at=NOW)
    small_company.found(tmp_path)
    with pytest.raises(NotAllowed, match="before the first data"):
        close_week("1970-W01", by="Ada", at=NOW)
    assert not Report.objects.exists()


def test_other_capitals_make_nobody_a_second_person() -> None:
    report = make_report(by="Ada Okafor")
    for name in ("ada okafor", " Ada  Okafor ", "ADA OKAFOR"):
        with pytest.raises(NotAllowed, match="two people"):
            sealing.approve(report, by=name, at=NOW)
        with pytest.raises(NotAllowed, match="second person"):
            sealing.waive(report, "provisional-month", "2026-11", text="x", by=name, at=NOW)
    sealing.approve(report, by="Benedikt Sommer", at=NOW)


def test_a_host_that_no_name_server_takes_is_refused_in_words(admin: Client) -> None:
    for host in ("a" * 64, ".".join(["a" * 60] * 5)):
        answer = admin.post("/sources/test/", {"name": "x", "url": f"http://{host}"})
        assert answer.status_code == 200
        assert "names no host" in answer.content.decode()


def test_what_was_typed_as_a_secret_is_not_shown_again(admin: Client) -> None:
    for path in ("/sources/", "/sources/test/"):
        given = {"name": "x", "url": "http://u:s3cr3t-one@h", "secret": "s3cr3t-two"}
        answer = admin.post(path, given)
        assert answer.status_code == 200
        assert "s3cr3t" not in answer.content.decode(), path


def test_no_workload_hides_the_page_that_adds_workloads(admin: Client) -> None:
    with pytest.raises(NotAccepted):
        add_workload("add", model="m", stack="vllm", purpose="inference", by="Ada", at=NOW)


def test_the_administrators_role_is_not_given_away_by_mistake(
    admin: Client, person: Callable[..., User]
) -> None:
    me = User.objects.get(username="Mira Lindqvist")
    for data in ({"active": "1", "roles": ["auditor"]}, {"active": "1"}, {"roles": ["admin"]}):
        admin.post(f"/people/{me.pk}/", data, follow=True)
        me.refresh_from_db()
        assert me.is_active and [group.name for group in me.groups.all()] == ["admin"]
    other = person("Ben", "admin")
    admin.post(f"/people/{other.pk}/", {"active": "1", "roles": ["auditor"]})
    assert [group.name for group in other.groups.all()] == ["auditor"]


def test_a_person_who_is_stopped_is_out_at_once(
    admin: Client, client_of: Callable[..., Client]
) -> None:
    other = client_of("finance", name="Ben")
    assert other.get("/reports/").status_code == 200
    admin.post(f"/people/{User.objects.get(username='Ben').pk}/", {"roles": ["finance"]})
    assert other.get("/reports/").status_code == 302


def test_the_own_ledger_shows_nothing_of_the_sample_and_the_sample_says_what_it_is(
    client_of: Callable[..., Client], own_ledger: Document
) -> None:
    texts = {"model": "m", "stack": "vllm", "purpose": "inference", "by": "Ada", "at": NOW}
    with use_ledger("sample"):
        add_workload("only-sample", **texts)  # type: ignore[arg-type]
        annotate(instant=NOW, text="only in the sample", author="Ada", at=NOW)
        make_report("2026-W40")
        theirs = Annotation.objects.get().pk
    add_workload("only-own", **texts)  # type: ignore[arg-type]
    client = client_of("admin")
    for path in ("/", "/reports/", "/workloads/", "/annotations/", "/rules/", "/imports/"):
        text = client.get(path).content.decode()
        assert "Sample organisation" not in text and "only-sample" not in text, path
        assert "only in the sample" not in text and "2026-W40" not in text, path
    assert client.get("/workloads/only-sample/").status_code == 404
    assert client.get("/reports/2026-W40/").status_code == 404
    assert client.get(f"/annotations/{theirs}/").status_code == 404
    assert client.post("/reports/2026-W40/1/review/").status_code == 404


def test_setting_up_inside_the_sample_is_told(person: Callable[..., User]) -> None:
    with use_ledger("default"):
        from django.db import connection

        with connection.cursor() as cursor:  # no document of one's own
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("DELETE FROM ledger_document")
            cursor.execute("SET LOCAL session_replication_role = DEFAULT")
    client = Client()
    client.force_login(person("Eve", "engineer"))
    given = {"slug": "mine", "model": "m", "stack": "vllm", "purpose": "inference"}
    answer = client.post("/workloads/add/", given, follow=True)
    assert "went into the sample organisation" in answer.content.decode()
    assert not Workload.objects.using("default").exists()


def test_the_calendars_first_and_last_hours_of_a_source_are_not_found(admin: Client) -> None:
    from finops.ledger.models import Source

    Source.objects.create(name="files", kind="files", created_at=NOW, created_by="Ada")
    assert admin.get("/sources/files/hours/?at=2026-11-20T10:00:00Z").status_code == 200
    for at in ("0001-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:00:00Z"):
        assert admin.get("/sources/files/hours/", {"at": at}).status_code == 404
