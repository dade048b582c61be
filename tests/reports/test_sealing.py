"""The rules of method §11: two people, tie-outs closed, every exception decided, a chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from django.db import DatabaseError, transaction
from django.test import Client

from finops.trail import operations as trail
from finops.trail.models import Entry
from reports.models import Annotation, Report, ReportEvent, Seal
from reports.operations import sealing
from reports.operations.notes import annotate
from reports.operations.refused import NotAllowed
from reports.queries.notes import current_annotations, versions
from reports.queries.standing import report_of, standing
from reports.queries.verifying import verify_seals

from .example import statement
from .helpers import NOW, html_of, make_report, seal_report, sign_waivers

pytestmark = pytest.mark.django_db


def test_the_preparer_cannot_approve_by_operation_or_by_row() -> None:
    report = make_report(by="Ada Okafor")
    with pytest.raises(NotAllowed, match="two people"):
        sealing.approve(report, by="Ada Okafor", at=NOW)
    with pytest.raises(DatabaseError, match="two people"), transaction.atomic():
        ReportEvent.objects.create(report=report, kind="approved", by="Ada Okafor", at=NOW)


@pytest.mark.django_db(databases=["default", "sample"])
@pytest.mark.usefixtures("own_ledger")
def test_an_act_that_is_sent_twice_was_done_once(client_of: Callable[..., Client]) -> None:
    """A double click, or two browsers of one person; another word is another act."""
    report = make_report()
    ben = client_of("finance", name="Ben")
    for kind in ("review", "review", "approve", "approve"):
        answer = ben.post(f"/reports/{report.week}/1/{kind}/", {"comment": "Read."}, follow=True)
        assert answer.status_code == 200 and "was" in html_of(answer)
    kinds = [event.kind for event in ReportEvent.objects.filter(report=report).order_by("id")]
    assert kinds == ["closed", "reviewed", "approved"]
    assert Entry.objects.filter(action="report approved").count() == 1
    ben.post(f"/reports/{report.week}/1/return/", {"comment": "Wrong month."})
    ben.post(f"/reports/{report.week}/1/approve/", {"comment": "Read."})
    assert ReportEvent.objects.filter(report=report, kind="approved").count() == 2


def test_what_the_schedule_closed_needs_two_people_all_the_same() -> None:
    """`schedule` is nobody: with one approver a single person would stand behind the report."""
    report = make_report(by="schedule", exceptions=[])
    sign_waivers(report, by="Ben")
    sealing.review(report, by="Ben", at=NOW)
    sealing.approve(report, by="ben ", at=NOW)
    with pytest.raises(NotAllowed, match="no person"):
        sealing.seal(report, by="Ben", at=NOW)
    sealing.review(report, by="Ada", at=NOW)
    sealing.send_back(report, by="Ben", at=NOW, comment="not yet")
    sealing.approve(report, by="Ben", at=NOW)
    with pytest.raises(NotAllowed, match="no person"):
        sealing.seal(report, by="Ada", at=NOW)
    sealing.review(report, by="Ada", at=NOW)
    sealing.seal(report, by="Ben", at=NOW)
    assert standing(report).state == "final"


def test_sealing_without_approval_is_refused_by_the_schema_too() -> None:
    report = make_report()
    with pytest.raises(DatabaseError, match="approved"), transaction.atomic():
        ReportEvent.objects.create(report=report, kind="sealed", by="X", at=NOW)
    sealing.approve(report, by="Benedikt Sommer", at=NOW)
    sealing.send_back(report, by="Benedikt Sommer", at=NOW, comment="wrong month")
    with pytest.raises(DatabaseError, match="approved"), transaction.atomic():
        ReportEvent.objects.create(report=report, kind="sealed", by="X", at=NOW)


def test_everything_that_stands_against_a_seal_is_said() -> None:
    open_tieout = statement()["tieout"]
    open_tieout["period"]["difference"] = "0.01"
    open_tieout["invoice"][0] |= {"within": False, "difference": "12.00"}
    reaches = statement()["reaches"] | {"complete": False}
    report = make_report(tieout=open_tieout, reaches=reaches)
    with pytest.raises(NotAllowed) as refused:
        sealing.seal(report, by="Benedikt Sommer", at=NOW)
    text = str(refused.value)
    for part in ("approved", "open by 0.01", "INV-2026-10-001", "12.00", "reach", "2 exceptions"):
        assert part in text
    assert not Seal.objects.exists()


def test_a_sealed_report_is_its_bytes_and_is_chained() -> None:
    first = make_report("2026-W46")
    seal_report(first)
    second = make_report("2026-W47")
    seal_report(second)
    one, two = Seal.objects.order_by("number")
    content = bytes(two.record)
    assert hashlib.sha256(content).hexdigest() == two.digest
    record = json.loads(content)
    assert record["previous_digest"] == one.digest == two.previous_digest
    assert record["statement"] == statement("2026-W47")
    assert record["prepared_by"] == "Ada Okafor" and record["approved_by"] == "Benedikt Sommer"
    assert {d["text"] for d in record["dispositions"].values()} == {"Known and accepted."}
    assert standing(second).state == "final"
    assert verify_seals() == []
    actions = list(Entry.objects.order_by("number").values_list("action", flat=True))
    assert actions.count("report sealed") == 2


def test_rows_are_fixed_when_nothing_blocks_and_before_the_head_is_printed() -> None:
    report = make_report()
    with pytest.raises(NotAllowed):
        sealing.seal(report, by="Benedikt Sommer", at=NOW)
    assert not Entry.objects.filter(action="rows fixed").exists(), "a refused seal fixes nothing"
    seal_report(report)
    fixed = Entry.objects.get(action="rows fixed")
    head = json.loads(bytes(Seal.objects.get().record))["trail"]
    assert "reports_report" in fixed.detail["tables"] and fixed.number <= head["entries"]


def test_a_sealed_report_takes_no_more_acts() -> None:
    report = make_report()
    seal_report(report)
    for act in (
        lambda: sealing.seal(report, by="Benedikt Sommer", at=NOW),
        lambda: sealing.approve(report, by="Benedikt Sommer", at=NOW),
        lambda: sealing.dispose(report.week, "1f0c2a9d77aa", text="x", by="B", at=NOW),
    ):
        with pytest.raises(NotAllowed, match="sealed"):
            act()


def test_a_restatement_supersedes_and_both_stay() -> None:
    first = make_report(revision=1)
    seal_report(first)
    second = make_report(revision=2, headline="A million tokens cost 1.84 USD.")
    assert report_of("2026-W47") == first
    seal_report(second)
    assert standing(Report.objects.get(pk=first.pk)).state == "superseded"
    assert standing(second).state == "final"
    assert report_of("2026-W47") == second
    assert standing(first).statement["headline"] == statement()["headline"]
    assert verify_seals() == []


def test_a_tail_cut_off_the_trail_after_the_seal_is_missed_by_the_acts() -> None:
    """The chain is whole without its newest entries, and no seal names them yet."""
    from django.db import connection

    seal_report(make_report("2026-W46"))
    sealing.approve(make_report("2026-W47"), by="Benedikt Sommer", at=NOW)
    assert verify_seals() == []
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "DELETE FROM trail_entry WHERE number = (SELECT max(number) FROM trail_entry)"
        )
        assert cursor.rowcount == 1
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
    assert trail.verify() == []
    (found,) = verify_seals()
    assert "2026-W47 revision 1" in found and "approved by Benedikt Sommer" in found


TABLES = ["report", "reportevent", "seal", "annotation", "disposition", "upload", "uploadoutcome"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("verb", ["update", "delete", "truncate"])
def test_the_database_refuses_to_change_what_was_said(table: str, verb: str) -> None:
    from django.db import connection

    name = f"reports_{table}"
    key = "number" if table == "seal" else "id"
    statements = {
        "update": f"UPDATE {name} SET {key} = {key}",
        "delete": f"DELETE FROM {name}",
        "truncate": f"TRUNCATE {name} CASCADE",
    }
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statements[verb])


def test_an_edited_annotation_is_a_new_row_that_replaces_the_old_one() -> None:
    first = annotate(instant=NOW, text="utilization 0.90", author="Ada", at=NOW)
    second = annotate(instant=NOW, text="utilization 0.92", author="Ben", at=NOW, replaces=first)
    assert current_annotations() == [second]
    assert versions(second) == [first]
    with pytest.raises(NotAllowed, match="edited"):
        annotate(instant=NOW, text="again", author="Cy", at=NOW, replaces=first)
    assert Annotation.objects.count() == 2


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "ftp://x.example/", "http://", "https://a b", "//x", "file:///x"]
)
def test_links_of_annotations_are_http_only(url: str) -> None:
    with pytest.raises(NotAllowed, match="http"):
        annotate(instant=NOW, text="x", author="Ada", at=NOW, url=url)
    if url not in ("http://", "https://a b"):
        with pytest.raises(DatabaseError), transaction.atomic():
            Annotation.objects.create(at=NOW, text="x", author="A", written_at=NOW, url=url)


def test_tampering_with_the_stored_bytes_is_found() -> None:
    report = make_report()
    seal_report(report)
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE reports_seal DISABLE TRIGGER append_only")
        cursor.execute("UPDATE reports_seal SET record = record || ' '::bytea")
        cursor.execute("ALTER TABLE reports_seal ENABLE TRIGGER append_only")
    assert any("digest" in problem for problem in verify_seals())
