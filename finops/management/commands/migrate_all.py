"""`migrate_all`: brings the tables of the own and the sample's database up to date."""

from typing import Any

from django.core.management.base import BaseCommand

from finops.ledger import tables


class Command(BaseCommand):
    help = "Brings the tables of both databases up to date."

    def handle(self, *args: Any, **options: Any) -> None:
        if not tables.migrate_all(self.stdout.write):
            self.stdout.write("The tables are up to date.")
