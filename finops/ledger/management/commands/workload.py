"""`workload add | list`: the model services that tokens and money are stated for."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from finops.ledger import cli
from finops.ledger.operations.workloads import PURPOSES, add_workload
from finops.ledger.queries.workloads import workload_rows, workload_value
from finops.ledger.verbs import refusals, verb, who

TEXTS = ("team", "cluster", "namespace")


class Command(cli.Command):
    """Adds a workload, or lists them."""

    help = "Add a workload, or list them."
    writes = True  # a workload belongs to the own ledger from its first day

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list")
        add = verb(verbs, "add", "add a workload")
        add.add_argument("slug", help="its name in rules and reports, like llama-70b")
        add.add_argument("--model", required=True)
        add.add_argument("--stack", required=True, help="vllm, sglang, … or legacy")
        add.add_argument("--purpose", default="inference", choices=PURPOSES)
        for name in TEXTS:
            add.add_argument(f"--{name}", default="")
        add.add_argument("--kv-bytes-per-token", type=int, help="KV bytes of one token on one GPU")
        add.add_argument(
            "--max-model-len", type=int, help="longest request in tokens, where engines do not tell"
        )
        verb(verbs, "list", "list the workloads", acts=False)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["verb"] == "list":
            return {"workloads": workload_rows()}, True
        names = ("model", "stack", "purpose", "kv_bytes_per_token", "max_model_len", *TEXTS)
        with refusals():
            workload = add_workload(
                options["slug"],
                by=who(options),
                at=datetime.now(UTC),
                **{name: options[name] for name in names},
            )
        return {"workload": workload_value(workload), "ok": True}, True
