"""Switching off a trigger that guards rows stands in the trail, as an entry of the chain."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from finops.trail.guards import missing_guards
from finops.trail.models import Entry
from finops.trail.operations import verify
from reports.operations.watching import note_guards
from tests.reports.helpers import NOW

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def run(*statements: str) -> None:
    with connection.cursor() as cursor:
        for one in statements:
            cursor.execute(one)


def acts() -> list[tuple[str, str]]:
    rows = Entry.objects.filter(action__startswith="guard").order_by("number")
    return list(rows.values_list("action", "subject"))


def test_a_trigger_switched_off_on_or_dropped_stands_in_the_trail() -> None:
    run("ALTER TABLE reports_seal DISABLE TRIGGER append_only")
    assert acts() == [("guard switched off", "reports_seal.append_only")]
    run("ALTER TABLE reports_seal ENABLE TRIGGER ALL")
    assert acts()[-1] == ("guard switched on again", "reports_seal.append_only")
    run(
        "ALTER TABLE ledger_charge DISABLE TRIGGER ALL",
        "ALTER TABLE ledger_charge ENABLE TRIGGER ALL",
    )
    assert [subject for _, subject in acts()[2:]] == [
        "ledger_charge.append_only",
        "ledger_charge.charge_sources",
    ] * 2
    run("DROP TRIGGER append_only ON ledger_document")
    assert acts()[-1] == ("guard removed", "ledger_document.append_only")
    entry = Entry.objects.latest("number")
    assert entry.actor.startswith("database user ") and entry.detail == {"command": "DROP TRIGGER"}
    assert verify() == [], "the database writes entries of the same chain"


def test_switching_off_the_trails_own_guard_is_refused() -> None:
    """Told only, the entry that tells could be taken out again while the guard is off."""
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run("ALTER TABLE trail_entry DISABLE TRIGGER append_only")
    assert acts() == [] and missing_guards() == []


def test_other_changes_of_tables_write_nothing() -> None:
    run("ALTER TABLE ledger_document SET (fillfactor = 90)")
    assert acts() == []


def test_where_the_database_does_not_tell_the_program_looks() -> None:
    run("DROP EVENT TRIGGER trail_guards_switched")
    assert note_guards(NOW) == []
    run("ALTER TABLE reports_waiver DISABLE TRIGGER second_person")
    assert acts() == []
    assert note_guards(NOW) == ["reports_waiver.second_person"]
    assert note_guards(NOW) == ["reports_waiver.second_person"], "still off, told once"
    assert acts() == [("guard found switched off", "reports_waiver.second_person")]
    run("ALTER TABLE reports_waiver ENABLE TRIGGER second_person")
    assert note_guards(NOW) == []
    assert acts()[-1] == ("guard found switched on again", "reports_waiver.second_person")
    assert verify() == []


@pytest.mark.parametrize(
    "table", ["reports_seal", "reports_report", "reports_reportevent", "trail_entry"]
)
@pytest.mark.parametrize(
    "verb", ["UPDATE {0} SET ctid = ctid", "DELETE FROM {0}", "TRUNCATE {0} CASCADE"]
)
def test_sealed_rows_refuse_changes_for_the_owner_too(table: str, verb: str) -> None:
    """The tests run as the owner of the tables, a superuser."""
    statement = verb.format(table).replace("SET ctid = ctid", "SET id = id")
    if table == "trail_entry" or table == "reports_seal":
        statement = statement.replace("SET id = id", "SET number = number")
    with pytest.raises(DatabaseError, match=r"append-only|refused"), transaction.atomic():
        run(statement)
