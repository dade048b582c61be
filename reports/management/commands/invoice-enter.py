"""`invoice-enter`: books an invoice or credit note of a vendor without an export (method §3.1)."""  # noqa: N999 - the command's name

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.operations.typed_invoices import detail_json
from finops.ledger.queries.documents import report
from finops.ledger.queries.tieout import invoice_details
from finops.sources.typed_invoice import NotUsable
from finops.sources.typed_invoice_file import place, read
from reports.operations.attaching import enter_invoice


class Command(Base):
    """Books the lines, keeps the paper and shows the invoice in its month's tie-out."""

    help = "Enter an invoice or a credit note, from a JSON file, with the paper it was read from."
    writes = True

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", metavar="INVOICE.json", help="what it says; see docs/sources.md"
        )
        parser.add_argument("--paper", required=True, metavar="FILE", help="the invoice itself")
        parser.add_argument("--by", default=None, metavar="USER", help="who enters it")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        file, by = options["file"], options["by"] or getpass.getuser()
        for name in (file, options["paper"]):  # a pipe or a device would be read without an end
            if not Path(name).is_file():
                raise CannotRun(f"{name}: there is no such file")
        try:
            invoice = read(Path(file).read_bytes())
            with Path(options["paper"]).open("rb") as paper:
                document = enter_invoice(
                    invoice, paper, Path(options["paper"]).name, by=by, at=timezone.now()
                )
        except OSError as error:
            raise CannotRun(f"{error.filename}: cannot be read ({error.strerror})") from None
        except NotUsable as error:
            raise CannotRun(f"{file}: {place(error)}: {error}") from None
        except ValueError as error:
            raise CannotRun(f"{file}: {error}") from None
        rows = [
            one
            for one in invoice_details(invoice.billing_period)
            if (one.row.issuer, one.row.invoice) == (invoice.issuer, invoice.invoice)
        ]
        fine = all(one.row.within is not False for one in rows)
        told = {"document": report(document, document.name)}
        return told | {"invoice_details": [detail_json(one) for one in rows], "ok": fine}, fine
