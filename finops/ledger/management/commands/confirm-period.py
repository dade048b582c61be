"""`confirm-period`: a person confirms that an account's billing month is final (method §3.8)."""  # noqa: N999 - the command's name

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.operations.invoices import confirm_period


class Command(Base):
    """Adds the confirmation."""

    help = "Confirm that an account's billing month is final."
    writes = True

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("issuer")
        parser.add_argument("account")
        parser.add_argument("month", metavar="YYYY-MM")
        parser.add_argument("--reason", required=True)
        parser.add_argument("--by", default=None, help="who says so")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            row = confirm_period(
                issuer=options["issuer"],
                billing_account=options["account"],
                billing_period=options["month"],
                reason=options["reason"],
                by=options["by"] or getpass.getuser(),
                at=timezone.now(),
            )
        except ValueError as error:
            raise CannotRun(str(error)) from None
        return {
            "issuer": row.issuer,
            "billing_account": row.billing_account,
            "billing_period": row.billing_period,
            "confirmed_by": row.by,
            "ok": True,
        }, True
