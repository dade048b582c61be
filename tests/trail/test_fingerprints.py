"""Rows that were fixed in the trail show every later change, whatever column it is in."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from finops.ledger.models import Document, RejectedRow, Workload
from finops.trail import fingerprints
from finops.trail.fingerprints import changed_rows, fix_rows, fixed_tables
from finops.trail.guards import FUNCTIONS, digest_of, missing_guards
from finops.trail.models import Entry
from finops.trail.operations import verify
from tests.ledger.doors import command
from tests.trail.test_chain import triggers_off

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def document(letter: str) -> Document:
    return Document.objects.create(
        sha256=letter * 64, name=letter, size_bytes=1, format="focus", received_at=NOW, origin="x",
        received_by="Ada",
    )  # fmt: skip


def rejected(one: Document, count: int) -> None:
    RejectedRow.objects.bulk_create(
        RejectedRow(document=one, line=line, column="c", value="v", reason="r")
        for line in range(count)
    )


def test_functions_of_guards_are_those_of_the_migrations() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname, prosrc FROM pg_proc WHERE proname = ANY(%s)", [[*FUNCTIONS]]
        )
        found = {name: digest_of(source) for name, source in cursor.fetchall()}
    assert found == FUNCTIONS
    assert missing_guards() == []


def test_a_true_ledger_stays_as_it_was_fixed() -> None:
    one = document("a")
    rejected(one, 3)
    first = fix_rows(by="Ada", at=NOW)
    assert first is not None and first.action == "rows fixed"
    assert set(first.detail["tables"]) == {"ledger_document", "ledger_rejectedrow"}
    assert fix_rows(by="Ada", at=NOW) is None, "nothing is new"
    rejected(document("b"), 2)
    second = fix_rows(by="Ada", at=NOW)
    assert second is not None
    (new,) = second.detail["tables"]["ledger_rejectedrow"]["ranges"]
    assert new[2] == 2, "only what is new since the last time"
    assert list(changed_rows()) == [] and verify() == []


def test_long_tables_have_a_digest_for_each_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "ROWS_A_DIGEST", 4)
    monkeypatch.setattr(fingerprints, "KEYS_A_DIGEST", 2)
    for letter in "abcde":
        rejected(document(letter), 2)
    entry = fix_rows(by="Ada", at=NOW)
    assert entry is not None
    tables = entry.detail["tables"]
    assert [one[2] for one in tables["ledger_rejectedrow"]["ranges"]] == [4, 4, 2]
    assert [len(one) - 1 for one in tables["ledger_document"]["groups"]] == [2, 2, 1]
    last = RejectedRow.objects.order_by("-pk")[0]
    with triggers_off():
        RejectedRow.objects.filter(pk=last.pk).update(reason="another")
        Document.objects.filter(pk="e" * 64).update(received_by="Eve")
    changed, documents = sorted(changed_rows(), reverse=True)
    assert f"a row from {last.pk - 1} to {last.pk} is not as fixed on 2026-11-29" in changed
    assert "ledger_document: a row of eeeeeeeeeeee…" in documents


def test_rows_taken_out_or_slipped_in() -> None:
    one = document("a")
    rejected(one, 5)
    fix_rows(by="Ada", at=NOW)
    middle = RejectedRow.objects.order_by("pk")[2].pk
    with triggers_off():
        RejectedRow.objects.filter(pk=middle).delete()
    assert "5 rows from" in " ".join(changed_rows()) and "are now 4" in " ".join(changed_rows())
    rejected(document("b"), 1)
    with triggers_off():
        RejectedRow.objects.filter(document_id="b" * 64).update(id=middle)
        RejectedRow.objects.filter(document_id="b" * 64).delete()
        Document.objects.filter(pk="b" * 64).delete()
        RejectedRow.objects.all().delete()
        Document.objects.filter(pk="a" * 64).delete()
    assert any("the row aaaaaaaaaaaa… is gone" in one for one in changed_rows())


def test_settings_that_people_change_stay_out_and_a_workload_does_not() -> None:
    tables = {one.table: one.columns for one in fixed_tables()}
    assert "trail_entry" not in tables, "the trail has its chain"
    assert "active" not in tables["ledger_source"] and "name" in tables["ledger_source"]
    Workload.objects.create(slug="w", model="m", stack="vllm", created_at=NOW, created_by="Ada")
    fix_rows(by="Ada", at=NOW)
    Workload.objects.update(team="another")
    assert any("ledger_workload" in one for one in changed_rows())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE ON ledger_charge "
            "FOR EACH ROW WHEN (false) EXECUTE FUNCTION ledger_append_only()",
            "the trigger append_only of ledger_charge",
        ),
        (
            "CREATE OR REPLACE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN RETURN NULL; END $$",
            "the function ledger_append_only",
        ),
        ("DROP EVENT TRIGGER trail_guards_switched", "the event trigger trail_guards_switched"),
        ("ALTER EVENT TRIGGER trail_guards_dropped DISABLE", "trail_guards_dropped"),
        ("DROP FUNCTION reports_two_people() CASCADE", "two_people of reports_reportevent"),
        (
            "DROP EVENT TRIGGER trail_guards_switched; CREATE EVENT TRIGGER trail_guards_switched "
            "ON ddl_command_end WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION trail_watch_switch(); "
            "ALTER EVENT TRIGGER trail_guards_switched ENABLE ALWAYS",
            "the event trigger trail_guards_switched",
        ),
        ("ALTER FUNCTION trail_guard_entry SECURITY INVOKER", "the function trail_guard_entry"),
        ("ALTER FUNCTION trail_watch_drop SET search_path = x", "the function trail_watch_drop"),
        ("ALTER FUNCTION ledger_append_only SET role = 'x'", "the function ledger_append_only"),
        ("ALTER ROUTINE ledger_append_only SECURITY DEFINER", "the function ledger_append_only"),
        (
            "CREATE TABLE mother (); ALTER TABLE ledger_charge INHERIT mother",
            "the trigger append_only of ledger_charge",
        ),
    ],
)
def test_a_guard_that_is_not_as_it_was_made_is_said(change: str, told: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(change)
    assert told in " ".join(missing_guards())


def test_event_triggers_switched_off_are_said() -> None:
    with connection.cursor() as cursor:
        if connection.pg_version < 170_000:  # type: ignore[attr-defined]
            pytest.skip("PostgreSQL has this switch from 17 on")
        cursor.execute("SET LOCAL event_triggers = off")
    assert missing_guards() == ["event triggers do not fire: event_triggers is off"]


def test_the_database_tells_of_functions_written_anew_and_of_guards_lost_with_them() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN RETURN NULL; END $$"
        )
        cursor.execute("DROP FUNCTION reports_two_people() CASCADE")
        cursor.execute("CREATE FUNCTION of_others() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    acts = Entry.objects.order_by("number").values_list("action", "subject")
    assert list(acts) == [
        ("function of guards changed", "ledger_append_only()"),
        ("guard removed", "reports_reportevent.two_people"),
    ]
    assert verify() == []


def test_by_hand_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    rejected(document("a"), 3)
    assert command("trail", "--fix-rows", "--by", "Ada")["entries"] == 1
    (entry,) = command("trail")["newest"]
    assert entry["actor"] == "Ada" and "ledger_document" in entry["detail"]["tables"]
    assert command("trail", "--fix-rows", "--by", "Ada")["entries"] == 1, "nothing is new"
    call_command("trail")
    shown = capsys.readouterr().out
    assert "rows: 4" in shown and "ranges" not in shown, "people are told how many"
    with pytest.raises(CommandError, match="needs --by"):
        call_command("trail", "--fix-rows")
