"""Brings the tables of both databases up to date."""

from collections.abc import Callable

from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

# One number for "Headroom changes its tables", so that two processes do not do it at once.
ADVISORY_LOCK = 0x4EAD_0001


def pending(database: str) -> list[str]:
    """The migrations that the database still lacks, as "app.name"."""
    executor = MigrationExecutor(connections[database])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def migrate_all(say: Callable[[str], object] = lambda _: None) -> bool:
    """Migrates every database that lacks something; True when there was something to do."""
    changed = False
    for database in settings.DATABASES:
        if not pending(database):
            continue
        with connections[database].cursor() as cursor:
            cursor.execute("select pg_advisory_lock(%s)", [ADVISORY_LOCK])
            try:
                say(f"Bringing the tables of the {database} database up to date …")
                call_command("migrate", database=database, verbosity=0, interactive=False)
            finally:
                cursor.execute("select pg_advisory_unlock(%s)", [ADVISORY_LOCK])
        changed = True
    return changed
