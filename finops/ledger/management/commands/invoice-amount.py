"""`invoice-amount`: the amount an issuer printed on an invoice, or that a month is final."""  # noqa: N999 - the command's name

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.operations.invoices import set_invoice_amount
from finops.ledger.queries.invoices import invoice_tie_out


class Command(Base):
    """Adds the amount and shows the month's tie-out."""

    help = "Enter the amount printed on an invoice."
    writes = True

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("issuer")
        parser.add_argument("invoice", help="its number; - for lines that name no invoice")
        parser.add_argument("month", metavar="YYYY-MM")
        parser.add_argument("amount", help="plain number, such as 1234.56")
        parser.add_argument("currency")
        parser.add_argument("--by", default=None, help="who says so")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            set_invoice_amount(
                issuer=options["issuer"],
                invoice=options["invoice"].removeprefix("-"),
                billing_period=options["month"],
                amount=options["amount"],
                currency=options["currency"],
                by=options["by"] or getpass.getuser(),
                at=timezone.now(),
            )
        except ValueError as error:
            raise CannotRun(str(error)) from None
        rows = invoice_tie_out(options["month"])
        fine = all(row.within is not False for row in rows)
        return {"invoice": [row.as_json() for row in rows], "ok": fine}, fine
