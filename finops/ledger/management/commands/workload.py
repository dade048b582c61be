"""`workload add | list | slo`: the model services that tokens and money are stated for."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from finops.ledger import cli
from finops.ledger.cli import whole_number
from finops.ledger.operations.objectives import set_objective
from finops.ledger.operations.workloads import PURPOSES, add_workload, workload_named
from finops.ledger.queries.service_levels import objective_rows
from finops.ledger.queries.workloads import workload_rows, workload_value
from finops.ledger.verbs import instant, refusals, verb, who

TEXTS = ("team", "cluster", "namespace")


class Command(cli.Command):
    """Adds a workload, lists them, or sets what one has to keep."""

    help = "Add a workload, list them, or set its service level objective."
    writes = True  # a workload belongs to the own ledger from its first day

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|slo")
        add = verb(verbs, "add", "add a workload")
        add.add_argument("slug", help="its name in rules and reports, like llama-70b")
        add.add_argument("--model", required=True)
        add.add_argument("--stack", required=True, help="vllm, sglang, … or legacy")
        add.add_argument("--purpose", default="inference", choices=PURPOSES)
        for name in TEXTS:
            add.add_argument(f"--{name}", default="")
        add.add_argument(
            "--kv-bytes-per-token", type=whole_number, help="KV bytes of one token on one GPU"
        )
        add.add_argument(
            "--max-model-len",
            type=whole_number,
            help="longest request in tokens, where engines do not tell",
        )
        add.add_argument(
            "--rate-cap-tokens-per-second",
            type=whole_number,
            metavar="N",
            help="fastest rise of one token counter of one engine, for upper bounds",
        )
        verb(verbs, "list", "list the workloads", acts=False)
        slo = verb(verbs, "slo", "set a service level objective; without a threshold, list them")
        slo.add_argument("slug")
        slo.add_argument("--first-token", metavar="S", help="seconds to the first token, 0.1 to 10")
        slo.add_argument("--inter-token", metavar="S", help="seconds between tokens, 0.01 to 1")
        slo.add_argument(
            "--target", default="0.99", metavar="SHARE", help="share in time, like 0.99 (default)"
        )
        slo.add_argument(
            "--from", dest="since", metavar="T", help="from a whole hour on; else for all hours"
        )
        slo.add_argument("--note", default="", help="why, or the document that says so")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["verb"] == "list":
            return {"workloads": workload_rows()}, True
        if options["verb"] == "slo":
            return self._slo(options), True
        names = (
            "model", "stack", "purpose", "kv_bytes_per_token", "max_model_len",
            "rate_cap_tokens_per_second", *TEXTS,
        )  # fmt: skip
        with refusals():
            workload = add_workload(
                options["slug"],
                by=who(options),
                at=datetime.now(UTC),
                **{name: options[name] for name in names},
            )
        return {"workload": workload_value(workload), "ok": True}, True

    def _slo(self, options: dict[str, Any]) -> dict[str, Any]:
        """Sets an objective where a threshold is given; gives all of the workload, newest first."""
        slug = options["slug"]
        with refusals():
            if options["first_token"] is not None or options["inter_token"] is not None:
                set_objective(
                    slug,
                    first_token_seconds=options["first_token"],
                    inter_token_seconds=options["inter_token"],
                    target=options["target"],
                    valid_from=instant(options, "since"),
                    note=options["note"],
                    by=who(options),
                    at=datetime.now(UTC),
                )
            workload_named(slug)
        return {"workload": slug, "objectives": objective_rows(slug), "ok": True}
