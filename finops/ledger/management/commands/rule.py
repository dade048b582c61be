"""`rule add | list | preview | retire`: which series and charges belong where (method §4)."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from finops.ledger import cli
from finops.ledger.cli import whole_number
from finops.ledger.operations.rules import (
    DEFAULT_ORDER,
    Draft,
    add_rule,
    draft,
    next_number,
    retire_rule,
)
from finops.ledger.operations.summing_again import sum_again, would_move
from finops.ledger.queries.allocation import rule_rows, rule_value
from finops.ledger.verbs import instant, refusals, verb, who


class Command(cli.Command):
    """Adds, previews, lists and retires rules; a preview shows what would move."""

    help = "Add, preview, list or retire allocation rules."
    writes = True  # rules belong to the own ledger from its first day

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|preview|retire")
        _draft(verb(verbs, "add", "add a rule, or a new version of one"))
        _draft(verb(verbs, "preview", "show what a rule would move"))
        verb(verbs, "list", "list the rules in force", acts=False)
        retire = verb(verbs, "retire", "take a rule out of force")
        retire.add_argument("number", type=whole_number)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        at = datetime.now(UTC)
        if options["verb"] == "list":
            return {"rules": rule_rows()}, True
        with refusals():
            if options["verb"] == "retire":
                row = retire_rule(options["number"], by=who(options), at=at)
                return {"rule": {"number": row.number, "version": row.version}, "ok": True}, True
            new = _drafted(options)
            number = options["replaces"] or next_number()
            if options["verb"] == "preview":
                return would_move(new.numbered(number, 0)) | {"ok": True}, True
            row = add_rule(new, by=who(options), at=at, number=options["replaces"])
        sum_again(by=who(options), at=datetime.now(UTC))
        return {"rule": rule_value(new.numbered(row.number, row.version)), "ok": True}, True


def _draft(parser: ArgumentParser) -> None:
    parser.add_argument("target", help="a workload, shared:KEY, or out-of-scope")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--series", metavar="CONDITIONS", help="'label=value,label=~regex'")
    which.add_argument("--charge", metavar="CONDITIONS", help="'column=value,tag:NAME=value'")
    parser.add_argument("--from", dest="start", metavar="T", help="valid from (else always)")
    parser.add_argument("--to", dest="end", metavar="T", help="valid until (else for good)")
    parser.add_argument(
        "--order", type=whole_number, default=DEFAULT_ORDER, help="lower is tried first"
    )
    parser.add_argument(
        "--replaces", type=whole_number, metavar="NUMBER", help="a new version of this rule"
    )


def _drafted(options: dict[str, Any]) -> Draft:
    return draft(
        options["target"],
        series=options["series"],
        charge=options["charge"],
        valid_from=instant(options, "start"),
        valid_to=instant(options, "end"),
        order=options["order"],
    )
