"""`first_login`: prints the administrator's first-login link of a new installation."""

from typing import Any

from django.conf import settings

from finops import first_login
from finops.ledger.cli import Sentences


class Command(Sentences):
    help = "Prints the administrator's first-login link (works once, within a day)."

    def handle(self, *args: Any, **options: Any) -> None:
        path = first_login.path_for_owner()
        if path is None:
            self.stderr.write("Somebody can sign in already; ask an administrator.")
            return
        self.stdout.write(f"{settings.URL or f'http://127.0.0.1:{settings.PORT}'}{path}")
