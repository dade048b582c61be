"""Ways round a guard other than switching it off: each stands in the trail, and migrations do not."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from finops.ledger.models import RejectedRow
from finops.trail.guards import expected_guards, missing_guards
from finops.trail.models import Entry
from finops.trail.operations import verify
from reports.operations.watching import note_guards
from tests.trail.test_fingerprints import NOW, document, rejected

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

NO_GUARD = "FOR EACH ROW WHEN (false) EXECUTE FUNCTION ledger_append_only()"
AS_MADE = (
    "BEFORE DELETE OR UPDATE OR TRUNCATE ON ledger_charge FOR EACH STATEMENT "
    "EXECUTE FUNCTION ledger_append_only()"
)


def run(*statements: str) -> None:
    with connection.cursor() as cursor:
        for one in statements:
            cursor.execute(one)


def acts() -> list[tuple[str, str]]:
    rows = Entry.objects.exclude(action="rows fixed").order_by("number")
    return list(rows.values_list("action", "subject"))


def with_rows() -> None:
    rejected(document("a"), 3)
    run("SET CONSTRAINTS ALL IMMEDIATE")  # a table with checks still to come is not altered


@pytest.mark.parametrize(
    ("way", "told"),
    [
        (
            f"CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE ON ledger_charge {NO_GUARD}",
            [("guard changed", "ledger_charge.append_only")],
        ),
        (
            "ALTER TRIGGER append_only ON ledger_charge RENAME TO another",
            [("guard changed", "ledger_charge.append_only")],
        ),
        (
            "CREATE OR REPLACE TRIGGER charge_sources AFTER INSERT ON ledger_charge "
            "EXECUTE FUNCTION ledger_charge_sources()",
            [("guard changed", "ledger_charge.charge_sources")],
        ),
        (
            "CREATE OR REPLACE TRIGGER two_people BEFORE INSERT ON ledger_baselinedecision "
            "FOR EACH ROW WHEN (false) EXECUTE FUNCTION ledger_baseline_two_people()",
            [("guard changed", "ledger_baselinedecision.two_people")],
        ),
        (
            "ALTER TABLE ledger_charge DISABLE TRIGGER charge_sources",
            [("guard switched off", "ledger_charge.charge_sources")],
        ),
        (
            "ALTER TABLE ledger_charge ENABLE REPLICA TRIGGER append_only",
            [("guard switched off", "ledger_charge.append_only")],
        ),
        (
            "DROP ROUTINE reports_waiver_second_person() CASCADE",
            [("guard removed", "reports_waiver.second_person")],
        ),
        (
            "ALTER ROUTINE ledger_append_only() SECURITY DEFINER",
            [("function of guards changed", "ledger_append_only()")],
        ),
        (
            "ALTER FUNCTION trail_guards_of(oid[]) SET search_path = x",
            [("function of guards changed", "trail_guards_of()")],
        ),
        ("DROP TABLE reports_seal CASCADE", [("guard removed", "reports_seal.append_only")]),
        (
            "CREATE SCHEMA away; ALTER TABLE ledger_rule SET SCHEMA away",
            [("guard changed", "ledger_rule.append_only")],
        ),
        (
            "ALTER TABLE ledger_rejectedrow ALTER COLUMN reason TYPE text USING 'another'",
            [("guarded rows rewritten", "ledger_rejectedrow")],
        ),
        (
            "ALTER TABLE ledger_rejectedrow DROP COLUMN reason",
            [("guarded column removed", "ledger_rejectedrow.reason")],
        ),
        (
            "CREATE TABLE mother (reason text); "
            "ALTER TABLE ledger_rejectedrow ALTER COLUMN reason DROP NOT NULL, INHERIT mother",
            [("guard changed", "ledger_rejectedrow.append_only")],
        ),
        (
            "CREATE TABLE daughter () INHERITS (ledger_rejectedrow)",
            [("guard changed", "ledger_rejectedrow.append_only")],
        ),
    ],
)
def test_a_way_round_stands_in_the_trail(way: str, told: list[tuple[str, str]]) -> None:
    with_rows()
    run(way)
    assert acts() == told
    assert verify() == []


def test_a_parent_changes_rows_past_the_guards_of_its_children() -> None:
    """Why a guarded table may have no parent: only the triggers of the table named fire."""
    with_rows()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        RejectedRow.objects.update(reason="another")
    run(
        "CREATE TABLE mother (reason text NOT NULL)",
        "ALTER TABLE ledger_rejectedrow INHERIT mother",
        "UPDATE mother SET reason = 'another'",
        "ALTER TABLE ledger_rejectedrow NO INHERIT mother",
    )
    assert set(RejectedRow.objects.values_list("reason", flat=True)) == {"another"}
    assert acts() == [
        ("guard changed", "ledger_rejectedrow.append_only"),
        ("guard switched on again", "ledger_rejectedrow.append_only"),
    ]


def test_a_guard_put_back_is_told_once() -> None:
    guard = "ledger_charge.append_only"
    run(
        f"CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE ON ledger_charge {NO_GUARD}",
        f"CREATE OR REPLACE TRIGGER append_only {AS_MADE}",
        f"CREATE OR REPLACE TRIGGER append_only {AS_MADE}",
        "ALTER TRIGGER append_only ON ledger_charge RENAME TO another",
        "ALTER TABLE ledger_charge DISABLE TRIGGER another",
        "ALTER TABLE ledger_charge ENABLE TRIGGER another",
        "ALTER TRIGGER another ON ledger_charge RENAME TO append_only",
        "DROP TRIGGER append_only ON ledger_charge",
        f"CREATE TRIGGER append_only {AS_MADE}",
    )
    words = ["changed", "switched on again", "changed", "switched off", "changed",
             "switched on again", "removed", "switched on again"]  # fmt: skip
    assert acts() == [(f"guard {one}", guard) for one in words]
    assert missing_guards() == [] and note_guards(NOW) == []
    assert len(acts()) == len(words), "the program has nothing to add"


def test_what_the_database_told_the_program_does_not_tell_again() -> None:
    run("ALTER TRIGGER append_only ON ledger_charge RENAME TO another")
    assert note_guards(NOW) == ["ledger_charge.append_only"]
    assert acts() == [("guard changed", "ledger_charge.append_only")]


@pytest.mark.parametrize("change", ["TYPE numeric USING 1", "SET DATA TYPE numeric"])
def test_the_trail_itself_is_never_rewritten(change: str) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run(f"ALTER TABLE trail_entry ALTER COLUMN number {change}")


def test_every_guard_is_known_to_the_database() -> None:
    """A new guard has to be told to the watchers, by a migration of the trail."""
    for table, name in sorted(expected_guards()):
        with transaction.atomic():
            run(
                f"CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"RETURN NULL; END $$; "
                f"CREATE OR REPLACE TRIGGER {name} BEFORE INSERT ON {table} "
                f"EXECUTE FUNCTION nothing()"
            )
            assert acts() == [("guard changed", f"{table}.{name}")]
            transaction.set_rollback(True)
        with transaction.atomic():
            run(f"ALTER TABLE {table} ENABLE TRIGGER {name}")
            assert acts() == [], f"{table}.{name} is as the watchers expect it"
            transaction.set_rollback(True)


def test_what_migrations_do_leaves_no_noise() -> None:
    assert acts() == [], "nor did all those that made this database"
    watching = import_module("finops.trail.migrations.0005_watch_all_ways")
    run(watching.BACKWARD, watching.STILL + watching.GUARDS + watching.WATCHERS)
    run(
        "CREATE TABLE ledger_another (id bigint PRIMARY KEY, a integer, b integer)",
        "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_another "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only()",
        "ALTER TABLE ledger_another ALTER COLUMN a TYPE text USING a::text, DROP COLUMN b",
        "CREATE INDEX another ON ledger_another (a)",
        "CREATE FUNCTION of_others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN END $$",
        "CREATE TABLE others (id integer); INSERT INTO others VALUES (1)",
        "CREATE TRIGGER of_others BEFORE INSERT ON others EXECUTE FUNCTION of_others()",
        "ALTER TABLE others ALTER COLUMN id TYPE text USING 'x'",
        "DROP TABLE others",
    )
    assert acts() == [] and missing_guards() == []
