"""The triggers that keep tables from being rewritten: are they all there and switched on (§11)."""

from __future__ import annotations

from django.apps import apps
from django.db import connections

from finops.ledger.which import ledger_name

SETTINGS = frozenset(
    {"ledger_source", "ledger_workload", "ledger_sharedkey", "ledger_target", "ledger_series"}
)
"""Tables of what is only a setting, or is only ever looked up."""
OTHERS = {"reports_reportevent": ("two_people",), "reports_waiver": ("second_person",)}

_SWITCHED_ON = """
SELECT relation.relname, trigger.tgname FROM pg_trigger trigger
JOIN pg_class relation ON relation.oid = trigger.tgrelid
WHERE NOT trigger.tgisinternal AND trigger.tgenabled IN ('O', 'A')
"""


def expected_guards() -> set[tuple[str, str]]:
    """Table and trigger of every guard."""
    tables = {
        model._meta.db_table
        for app in ("ledger", "reports", "trail")
        for model in apps.get_app_config(app).get_models()
    } - SETTINGS
    guards = {(table, "append_only") for table in tables}
    return guards | {(table, name) for table, names in OTHERS.items() for name in names}


def guards_off() -> list[tuple[str, str]]:
    """Table and trigger of each guard that is gone or switched off."""
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_SWITCHED_ON)
        on = set(cursor.fetchall())
    return sorted(expected_guards() - on)


def missing_guards() -> list[str]:
    """One sentence for each trigger that is gone or switched off; none when all are on."""
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute("SHOW session_replication_role")
        role = cursor.fetchone()[0]
    problems = [
        f"the trigger {name} of {table} is switched off or gone: its rows could be changed"
        for table, name in guards_off()
    ]
    if role == "replica":
        problems.append("triggers do not fire: session_replication_role is replica")
    return problems
