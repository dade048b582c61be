"""`change list | confirm | dismiss`: detected changes and what an engineer says of each (§10)."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from finops.core.changes import CONFIRMED, DISMISSED
from finops.ledger import cli
from finops.ledger.operations.changes import decide, found
from finops.ledger.queries.changes import proposal_value
from finops.ledger.verbs import instant, refusals, verb, who

VERDICTS = {"confirm": CONFIRMED, "dismiss": DISMISSED}


class Command(cli.Command):
    """Lists the changes of twelve weeks, or decides on one."""

    help = "List detected changes, confirm or dismiss one."
    writes = True

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|confirm|dismiss")
        listed = verb(verbs, "list", "the changes of twelve weeks, newest first", acts=False)
        listed.add_argument("--until", metavar="T", help="the end of the twelve weeks, else now")
        for name in VERDICTS:
            one = verb(verbs, name, f"{name} a change")
            one.add_argument("key", help="as `change list` prints it")
            one.add_argument("--note", default="")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        now = datetime.now(UTC)
        if options["verb"] in VERDICTS:
            with refusals():
                decide(options["key"], VERDICTS[options["verb"]], note=options["note"],
                       by=who(options), at=now)  # fmt: skip
        until = instant(options, "until") or now
        try:
            changes = found(until)
        except OverflowError:
            raise cli.CannotRun(
                f"--until {options['until']}: the calendar has no such weeks"
            ) from None
        return {"changes": [proposal_value(one) for one in changes], "ok": True}, True
