"""`evidence list | link`: start-up logs and model configurations, and whose they are (§8.2, §8.3)."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from finops.ledger import cli
from finops.ledger.cli import whole_number
from finops.ledger.models import Document
from finops.ledger.operations.memory_evidence import FORMATS, link_evidence
from finops.ledger.queries.evidence import evidence_rows
from finops.ledger.verbs import refusals, verb, who


class Command(cli.Command):
    """Lists logs and configurations, or says of which workload (and pod) one is."""

    help = "List start-up logs and model configurations, or link one to a workload."
    writes = True

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|link")
        link = verb(verbs, "link", "say of which workload a log or configuration is")
        link.add_argument("document", help="its digest, or the beginning of it")
        link.add_argument("workload")
        link.add_argument("--pod", default="", help="only of the engine in this pod")
        link.add_argument("--tp", type=whole_number, help="GPUs of tensor parallelism")
        link.add_argument("--pp", type=whole_number, help="stages of pipeline parallelism")
        link.add_argument("--kv-dtype", default="")
        verb(verbs, "list", "list logs and configurations", acts=False)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["verb"] == "link":
            with refusals():
                link_evidence(
                    self._digest(options["document"]),
                    options["workload"],
                    by=who(options),
                    at=datetime.now(UTC),
                    pod=options["pod"],
                    tensor_parallel=options["tp"],
                    pipeline_parallel=options["pp"],
                    kv_dtype=options["kv_dtype"],
                )
        return {"evidence": evidence_rows(), "ok": True}, True

    def _digest(self, text: str) -> str:
        found = Document.objects.filter(pk__startswith=text.lower(), format__in=FORMATS)[:2]
        if not text or len(found) != 1:
            what = "several documents begin" if len(found) > 1 else "no log or configuration begins"
            raise cli.CannotRun(f"{what} with {text[:64]!r}")
        return found[0].pk
