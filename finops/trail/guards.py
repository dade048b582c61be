"""The guards that keep rows from being rewritten: which there must be, and which are not as made.

A guard is a trigger and the function it calls. Both are compared with what the migrations made:
the trigger's whole definition (one with `WHEN (false)` guards nothing), the function by the SHA-256
of its source, its settings and whose rights it has. A guarded table has no parent and no child: a
parent's triggers fire in place of its children's. It has no rule and no other trigger: either could
swallow what is written. The event triggers that tell of a guard switched
off are guards as well, where the owner of the tables is a superuser (nobody else may have them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.db import connections, router

from finops.trail.models import Entry

GUARDED_APPS = ("ledger", "reports", "trail")
SETTINGS = frozenset(
    {"ledger_source", "ledger_workload", "ledger_sharedkey", "ledger_target", "ledger_series"}
)
"""Tables of what is only a setting, or is only ever looked up."""

BEFORE_INSERT = {
    ("reports_reportevent", "two_people"): "reports_two_people",
    ("ledger_baselinedecision", "two_people"): "ledger_baseline_two_people",
    ("reports_waiver", "second_person"): "reports_waiver_second_person",
}
"""Guards of two people, and the function of each."""

SOURCES = ("ledger_charge", "charge_sources")
"""The guard that stands for two foreign keys: a charge's snapshot and document are there."""

FUNCTIONS = {
    "ledger_append_only": "ea32fbe79171b0c0e735bf74b89b57b5ce03156d245465ed754f3e8a814d4c73",
    "ledger_baseline_two_people": "9327c21707f336910481317ac6d2800d4a1e1b8a6b3826163f4c0e97bb6c1c49",
    "ledger_charge_sources": "d4fe5619ff7ffb18a4d1d0124f76883f03e68b30b8df8678d7ce51120a2d2531",
    "reports_append_only": "ea32fbe79171b0c0e735bf74b89b57b5ce03156d245465ed754f3e8a814d4c73",
    "reports_two_people": "b7e6f17518a2bb4594794127af4093e015e209b7feb378239a37de63b3dea287",
    "reports_waiver_second_person": "334afdbd7fa5719587b5e9a3da34d4ba93c6e6dfb47a0571ff2060927cf308db",
    "trail_append_only": "1e789eb97689acfd82fd602e25365e9296a30f3b39b2462fed12a0424de9ca5a",
    "trail_guard_entry": "17280c3a76cea46c9b133ef396735fbfb763783f40527da66d6a33080a750efb",
    "trail_guard_named": "61f12a81ca2082ade902e3994672dba17a6e62417d8b2b463aaeb65b07710296",
    "trail_guards_of": "a92b7ebda866989990366bc13b31a51115e6871a3a2f25ba99ed5dedf41531f8",
    "trail_must_stand": "eacc8205b0dfe5906212726dd8413954860a5c32c980b551b1f8166735f547cb",
    "trail_watch_drop": "7c66b9c64e317b3e59377c5228b0d6f2cee8389a54e7800004b3569e52c1140d",
    "trail_watch_rewrite": "3d06e3855ff2d7d074b5c1478e29532ded9aff798a524779885c5aa2772de287",
    "trail_watch_switch": "64dafb0b57853d0f46ee5ff0f19e05f35319c76586ee307431c38816ab702f1a",
}
"""SHA-256 of each function's source, as the migrations write it (blanks at its ends apart)."""

WATCHERS = frozenset(
    {"trail_guard_entry", "trail_watch_drop", "trail_watch_rewrite", "trail_watch_switch"}
)
"""Functions that write to the trail with the rights of its owner, whoever gives the command."""

TELLERS = frozenset({"trail_guard_named", "trail_guards_of", "trail_must_stand"})
"""Functions that tell the watchers of guards."""

FIXED_PATH = "search_path=public, pg_temp"
"""The setting of each watcher and teller."""

EVENT_TRIGGERS = {
    "trail_guards_dropped": ("sql_drop", "trail_watch_drop", None),
    "trail_guards_switched": ("ddl_command_end", "trail_watch_switch", None),
    "trail_rows_rewritten": ("table_rewrite", "trail_watch_rewrite", None),
}
"""Event, function and commands of each; None: it fires whatever the command."""

_TRIGGERS = """
SELECT relation.relname, one.tgname, one.tgenabled IN ('O', 'A') AND NOT EXISTS (
  SELECT FROM pg_inherits WHERE relation.oid IN (inhrelid, inhparent)
), pg_get_triggerdef(one.oid)
FROM pg_trigger one JOIN pg_class relation ON relation.oid = one.tgrelid
WHERE NOT one.tgisinternal AND relation.relnamespace = current_schema()::regnamespace
"""
_RULES = """
SELECT relation.relname, rule.rulename
FROM pg_rewrite rule JOIN pg_class relation ON relation.oid = rule.ev_class
WHERE relation.relnamespace = current_schema()::regnamespace AND relation.relname = ANY(%s)
"""
_FUNCTIONS = """
SELECT proname, prosrc, prosecdef, array_to_string(proconfig, '; ') FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace AND proname = ANY(%s)
"""
_EVENT_TRIGGERS = """
SELECT evtname, evtevent, evtfoid::regproc::text, evttags FROM pg_event_trigger WHERE evtenabled = 'A'
"""
_SUPERUSER = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"


def guarded_tables() -> list[str]:
    """The tables whose rows nobody may change."""
    tables = {
        model._meta.db_table
        for app in GUARDED_APPS
        for model in apps.get_app_config(app).get_models()
    }
    return sorted(tables - SETTINGS)


def expected_guards() -> set[tuple[str, str]]:
    """Table and trigger of every guard."""
    return {(table, "append_only") for table in guarded_tables()} | {*BEFORE_INSERT, SOURCES}


def guards_off() -> list[tuple[str, str]]:
    """Table and trigger of each guard that is gone, switched off, or not as it was made."""
    found = {
        (table, name): _plain(definition) for table, name, on, definition in _rows(_TRIGGERS) if on
    }
    return sorted(one for one in expected_guards() if found.get(one) != _definition(*one))


def strange_triggers() -> list[tuple[str, str]]:
    """Table and trigger of each trigger on a guarded table that is none of its guards."""
    tables = set(guarded_tables())
    found = {(table, name) for table, name, _, _ in _rows(_TRIGGERS) if table in tables}
    return sorted(found - expected_guards())


def rules() -> list[tuple[str, str]]:
    """Table and rule of each rule on a guarded table; the migrations make none."""
    return sorted((table, name) for table, name in _rows(_RULES, [guarded_tables()]))


def changed_functions() -> list[str]:
    """Functions of guards that are gone or have another source, setting or right than as made."""
    found: dict[str, set[tuple[str, bool, str | None]]] = {}
    for name, source, by_owner, settings in _rows(_FUNCTIONS, [sorted(FUNCTIONS)]):
        found.setdefault(name, set()).add((digest_of(source), by_owner, settings))
    return sorted(name for name in FUNCTIONS if found.get(name) != {_made(name)})


def missing_guards() -> list[str]:
    """One sentence for each guard that is not there as it was made; none when all are."""
    problems = [
        f"the trigger {name} of {table} is switched off, gone or not as it was made: its rows "
        "could be changed"
        for table, name in guards_off()
    ]
    problems += [
        f"the {kind} {name} of {table} is not one of the program: it could swallow rows or change "
        "them as they are written"
        for kind, found in (("rule", rules()), ("trigger", strange_triggers()))
        for table, name in found
    ]
    problems += [
        f"the function {name} of the guards is gone or not as it was made: rows could be changed"
        for name in changed_functions()
    ]
    problems += [
        f"the event trigger {name} is gone or not as it was made: a guard could be switched off "
        "without an entry of the trail"
        for name in _silent_watchers()
    ]
    if _rows("SHOW session_replication_role")[0][0] == "replica":
        problems.append("triggers do not fire: session_replication_role is replica")
    if _rows("SELECT current_setting('event_triggers', true)")[0][0] == "off":
        problems.append("event triggers do not fire: event_triggers is off")
    return problems


def _made(name: str) -> tuple[str, bool, str | None]:
    has_path = name in WATCHERS | TELLERS
    return FUNCTIONS[name], name in WATCHERS, FIXED_PATH if has_path else None


def digest_of(source: str) -> str:
    """The SHA-256 of a function's source."""
    return hashlib.sha256(source.strip().encode()).hexdigest()


def _silent_watchers() -> list[str]:
    if not _rows(_SUPERUSER)[0][0]:
        return []
    found = {
        name: (event, function, tags) for name, event, function, tags in _rows(_EVENT_TRIGGERS)
    }
    return sorted(name for name, made in EVENT_TRIGGERS.items() if found.get(name) != made)


def _definition(table: str, name: str) -> str:
    """A guard as PostgreSQL tells it."""
    if function := BEFORE_INSERT.get((table, name)):
        return f"CREATE TRIGGER {name} BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()"
    if (table, name) == SOURCES:
        return (
            f"CREATE TRIGGER {name} AFTER INSERT ON {table} REFERENCING NEW TABLE AS added "
            "FOR EACH STATEMENT EXECUTE FUNCTION ledger_charge_sources()"
        )
    app = table.partition("_")[0]
    return (
        f"CREATE TRIGGER {name} BEFORE DELETE OR UPDATE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {app}_append_only()"
    )


def _plain(definition: str) -> str:
    return definition.replace("public.", "")


def _rows(statement: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections[router.db_for_read(Entry)].cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
