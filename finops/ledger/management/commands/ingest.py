"""`ingest PATH…`: takes in invoices, readings, usage records and logs from files and URLs."""

from __future__ import annotations

import getpass
import re
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from finops.ledger import ingest_text
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.operations.ingest import ingest, is_fine
from finops.ledger.operations.inputs import NotFound, Unreadable, find
from finops.ledger.operations.memory_evidence import FORMATS, link_evidence
from finops.ledger.operations.parsing import unknown_name
from finops.ledger.operations.workloads import workload_named
from finops.ledger.verbs import refusals


class Command(Base):
    """Prints an account of each document; exit 1 when a document or a row was not taken."""

    help = "Take in invoice exports, Prometheus answers and usage records."
    writes = True

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="PATH", help="file, folder, glob or URL")
        parser.add_argument("--as", dest="format", help="the format, when content cannot tell")
        parser.add_argument("--source", default="files", help="name of the readings' source")
        parser.add_argument(
            "--workload", help="whose evidence logs and model configurations are (else by name)"
        )
        parser.add_argument("--by", default=None, help="who hands the documents over")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if not re.fullmatch(r"[-\w]{1,80}", options["source"]):
            raise CannotRun(f"--source: letters, digits, - and _ only, not {options['source']!r}")
        unknown = options["format"] and unknown_name(options["format"])
        if unknown:
            raise CannotRun(f"--as: {unknown}")
        found = find(options["paths"])
        if all(isinstance(one, NotFound) and not isinstance(one, Unreadable) for one in found):
            raise CannotRun("; ".join(str(one) for one in found))
        by, at = options["by"] or getpass.getuser(), timezone.now()
        if options["workload"]:
            with refusals():
                workload_named(options["workload"])
        documents = ingest(
            options["paths"],
            found=found,
            by=by,
            at=at,
            format=options["format"],
            source=options["source"],
            progress=self.progress,
        )
        for document in documents:
            if options["workload"] and document["format"] in FORMATS:
                link_evidence(document["sha256"], options["workload"], by=by, at=at)
        fine = is_fine(documents)
        return {"documents": documents, "ok": fine}, fine

    def render(self, result: dict[str, Any]) -> str:
        """A paragraph for each document."""
        return ingest_text.render(result["documents"])
