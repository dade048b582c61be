"""`shared-key add | list`: the keys that shared charges are split by (method §4)."""  # noqa: N999 - the command's own name

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from finops.core.allocation import parse_shares
from finops.ledger import cli
from finops.ledger.operations.workloads import NotAccepted, add_shared_key
from finops.ledger.queries.allocation import shared_keys
from finops.ledger.verbs import refusals, verb, who


class Command(cli.Command):
    """Adds a key with fixed shares, or lists the keys; `tokens` and `gpu-hours` are built in."""

    help = "Add a key that shared charges are split by, or list the keys."
    writes = True  # keys belong to the own ledger from its first day

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list")
        add = verb(verbs, "add", "add a key with fixed shares")
        add.add_argument("name")
        add.add_argument("--shares", required=True, help="whole numbers: a=60,b=40")
        verb(verbs, "list", "list the keys", acts=False)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["verb"] == "list":
            return {"shared_keys": [_value(key) for key in shared_keys().values()]}, True
        with refusals():
            try:
                shares = parse_shares(options["shares"])
            except ValueError as error:
                raise NotAccepted(str(error)) from None
            add_shared_key(options["name"], shares, by=who(options), at=datetime.now(UTC))
        return {"shared_key": _value(shared_keys()[options["name"]]), "ok": True}, True


def _value(key: Any) -> dict[str, Any]:
    return {"name": key.name, "method": key.method, "shares": dict(key.shares)}
