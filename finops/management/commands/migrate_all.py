"""`migrate_all`: brings the tables of the own and the sample's database up to date."""

from typing import Any

from finops.ledger import tables
from finops.ledger.cli import Sentences


class Command(Sentences):
    help = "Brings the tables of both databases up to date."

    def handle(self, *args: Any, **options: Any) -> None:
        if not tables.migrate_all(self.stdout.write):
            self.stdout.write("The tables are up to date.")
