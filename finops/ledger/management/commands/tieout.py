"""`tieout --period YYYY-MM`: issued invoice amounts against the sums of their lines (method §4)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.period import month_of
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.operations.typed_invoices import detail_json
from finops.ledger.queries.invoices import invoice_tie_out
from finops.ledger.queries.money_totals import money_total
from finops.ledger.queries.tieout import invoice_details


class Command(Base):
    """Exit 1 when an invoice lies outside the tolerance."""

    help = "Compare issued invoice amounts with the sums of their lines."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--period", required=True, metavar="YYYY-MM", help="billing month")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            month = month_of(options["period"])
        except ValueError as error:
            raise CannotRun(str(error)) from None
        rows = invoice_tie_out(options["period"])
        fine = all(row.within is not False for row in rows)
        return {
            "period": options["period"],
            "invoice": [row.as_json() for row in rows],
            "invoice_details": [detail_json(one) for one in invoice_details(options["period"])],
            "invoiced": money_total(month, "invoiced").as_json(),
            "incurred": money_total(month).as_json(),
            "provisional": any(row.provisional for row in rows),
            "ok": fine,
        }, fine
