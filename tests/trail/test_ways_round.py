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
        (
            "ALTER TABLE ledger_rejectedrow RENAME COLUMN reason TO another",
            [("guarded column renamed", "ledger_rejectedrow.another")],
        ),
        (
            "ALTER VIEW ledger_rejectedrow RENAME COLUMN reason TO another",
            [("guarded column renamed", "ledger_rejectedrow.another")],
        ),
        (
            "CREATE RULE swallow AS ON INSERT TO reports_waiver DO INSTEAD NOTHING",
            [("rule on guarded rows", "reports_waiver.swallow")],
        ),
        (
            "CREATE TRIGGER swallow BEFORE INSERT ON ledger_rule FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            [("trigger on guarded rows", "ledger_rule.swallow")],
        ),
        (
            "CREATE TRIGGER two_people BEFORE INSERT ON ledger_charge FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            [("guard changed", "ledger_charge.two_people")],
        ),
        (
            "ALTER TABLE ledger_rule RENAME TO ledger_other",
            [("guard changed", "ledger_other.append_only")],
        ),
        (
            "ALTER INDEX ledger_rule_pkey RENAME TO ledger_other_pkey",
            [("guard changed", "ledger_rule.append_only")],
        ),
        (
            "ALTER TABLE ledger_rule RENAME CONSTRAINT ledger_rule_pkey TO ledger_other_pkey",
            [("guard changed", "ledger_rule.append_only")],
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


def test_columns_that_change_places_stand_in_the_trail() -> None:
    """Two names exchanged change what every row says, and rewrite none."""
    with_rows()
    run(
        "ALTER TABLE ledger_rejectedrow RENAME COLUMN reason TO third",
        "ALTER TABLE ledger_rejectedrow RENAME COLUMN value TO reason",
        "ALTER TABLE ledger_rejectedrow RENAME COLUMN third TO value",
    )
    assert set(RejectedRow.objects.values_list("value", "reason")) == {("r", "v")}
    assert acts() == [
        ("guarded column renamed", f"ledger_rejectedrow.{name}")
        for name in ("third", "reason", "value")
    ]
    assert verify() == []


def test_a_rule_that_swallows_rows_is_told_and_missed() -> None:
    assert missing_guards() == []
    run("CREATE RULE swallow AS ON INSERT TO ledger_rejectedrow DO INSTEAD NOTHING")
    run(
        'INSERT INTO ledger_rejectedrow (document_id, line, "column", value, reason) '
        f"VALUES ('{'a' * 64}', 1, 'c', 'v', 'r')"
    )
    assert RejectedRow.objects.count() == 0, "why a guarded table may have no rule"
    (problem,) = missing_guards()
    assert "the rule swallow of ledger_rejectedrow is not one of the program" in problem
    run(
        "ALTER RULE swallow ON ledger_rejectedrow RENAME TO another",
        "DROP RULE another ON ledger_rejectedrow",
    )
    assert missing_guards() == []
    assert acts() == [
        ("rule on guarded rows", "ledger_rejectedrow.swallow"),
        ("rule on guarded rows", "ledger_rejectedrow.another"),
        ("rule on guarded rows removed", "ledger_rejectedrow.another"),
    ]


def test_a_trigger_that_is_no_guard_is_told_and_missed() -> None:
    run(
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN NULL; END $$",
        "CREATE TRIGGER swallow BEFORE INSERT ON reports_waiver FOR EACH ROW "
        "EXECUTE FUNCTION swallow()",
    )
    (problem,) = missing_guards()
    assert "the trigger swallow of reports_waiver is not one of the program" in problem
    run("DROP TRIGGER swallow ON reports_waiver")
    assert missing_guards() == []
    assert acts() == [
        ("trigger on guarded rows", "reports_waiver.swallow"),
        ("trigger on guarded rows removed", "reports_waiver.swallow"),
    ]


@pytest.mark.parametrize(
    "way",
    [
        "ALTER TABLE trail_entry RENAME TO t2",
        "ALTER VIEW trail_entry RENAME COLUMN action TO another",
        "CREATE SCHEMA away; ALTER TABLE trail_entry SET SCHEMA away",
        "ALTER SCHEMA public RENAME TO away",
        "DROP TABLE trail_entry",
        "ALTER TABLE trail_entry RENAME COLUMN subject TO another",
        "ALTER TABLE trail_entry DISABLE TRIGGER ALL",
        "DROP TRIGGER append_only ON trail_entry",
        "ALTER TRIGGER append_only ON trail_entry RENAME TO another",
        "CREATE RULE swallow AS ON INSERT TO trail_entry DO INSTEAD NOTHING",
        "CREATE TRIGGER swallow BEFORE INSERT ON trail_entry FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE TABLE daughter () INHERITS (trail_entry)",
    ],
)
def test_the_trail_stays_in_its_place(way: str) -> None:
    """Without it the watchers could tell nobody; `DO` and functions give commands like others."""
    for one in (way, f"DO $do$ BEGIN {way}; END $do$"):
        refused = pytest.raises(DatabaseError, match=r"trail_entry (stays|is append)")
        with refused, transaction.atomic():
            run(one)
    assert acts() == [] and missing_guards() == []


@pytest.mark.parametrize("change", ["TYPE numeric USING 1", "SET DATA TYPE numeric"])
def test_the_trail_itself_is_never_rewritten(change: str) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run(f"ALTER TABLE trail_entry ALTER COLUMN number {change}")


def test_every_guard_is_known_to_the_database() -> None:
    """A new guard has to be told to the watchers, by a migration of the trail."""
    for table, name in sorted(expected_guards() - {("trail_entry", "append_only")}):
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
    run(watching.BACKWARD, watching.FORWARD)
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
        "ALTER TABLE others RENAME COLUMN id TO another",
        "CREATE RULE of_others AS ON INSERT TO others DO INSTEAD NOTHING",
        "DROP RULE of_others ON others",
        "ALTER TABLE ledger_another RENAME COLUMN a TO c",
        "COMMENT ON COLUMN ledger_another.c IS 'x'",
        "CREATE VIEW ledger_seen AS SELECT * FROM ledger_another; DROP VIEW ledger_seen",
        "DROP TABLE others",
    )
    assert acts() == [] and missing_guards() == []
