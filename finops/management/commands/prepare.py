"""`prepare`: what must be done once before the processes of the service start."""

import os
import time
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError
from psycopg import sql

from finops import schedule
from finops.ledger import tables
from finops.ledger.cli import Sentences
from finops.ledger.operations import documents, spool


class Command(Sentences):
    help = (
        "Makes the databases' tables and the schedule, and removes what killed processes left; "
        "may be run again at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._make_sample_database()
            tables.migrate_all(self.stdout.write)
        except (OperationalError, psycopg.Error) as error:
            raise CommandError(str(error).strip(), returncode=2) from error
        schedule.seed(settings.ORGANISATION_ZONE)
        spool.sweep()
        documents.sweep(time.time())

    def _make_sample_database(self) -> None:
        """The second database of the server; an image of PostgreSQL makes only the first."""
        url = os.environ.get("DATABASE_URL")
        if not url:
            return  # the embedded server has both
        name = str(settings.DATABASES["sample"]["NAME"])
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute("select 1 from pg_database where datname = %s", [name])
            if found.fetchone():
                return
            try:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            except psycopg.errors.InsufficientPrivilege as error:
                raise CommandError(
                    f"The database {name!r} is missing and this user may not make it. "
                    f'Let an administrator type: create database "{name}"',
                    returncode=2,
                ) from error
