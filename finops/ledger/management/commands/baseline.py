"""`baseline add | approve | refuse | withdraw | list`: the legacy stack's frozen cost (method §6)."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from finops.core.period import Period
from finops.ledger import cli
from finops.ledger.cli import whole_number
from finops.ledger.models import Baseline
from finops.ledger.operations.baselines import (
    BASES,
    QUALITIES,
    decide_baseline,
    declare_baseline,
    measure_baseline,
)
from finops.ledger.queries.baselines import (
    APPROVED,
    REFUSED,
    WITHDRAWN,
    baseline_row,
    baseline_rows,
    baseline_value,
)
from finops.ledger.verbs import instant, refusals, verb, who

DECISIONS = {
    "approve": "approve a baseline that another person registered",
    "refuse": "refuse a baseline, with a reason",
    "withdraw": "withdraw an approved baseline, with a reason; register a new one after it",
}
CLASS_OPTIONS = {"prompt": "prompt", "cached_prompt": "cached-prompt", "generation": "generation"}


class Command(cli.Command):
    """Adds a declared baseline (a price with its document) or a measured one (a period); another
    person approves it."""

    help = "Add a baseline, declared or measured, decide on one, or list them."
    writes = True  # baselines belong to the own ledger from its first day

    def arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(
            dest="verb", required=True, metavar="add|approve|refuse|withdraw|list"
        )
        add = verb(verbs, "add", "freeze a baseline")
        add.add_argument("slug", metavar="WORKLOAD", help="the workload it is compared with")
        add.add_argument("--per-million", metavar="P", help="declared: price per million tokens")
        add.add_argument("--currency", default="USD", help="declared: its currency")
        add.add_argument("--document", metavar="FILE", action="append", default=[],
                         help="declared: what says the price; may be repeated, and stand beside a "
                         "measured one")  # fmt: skip
        add.add_argument("--basis", default="processed", choices=BASES, help="declared")
        add.add_argument("--quality", default="measured", choices=QUALITIES, help="declared")
        for option in CLASS_OPTIONS.values():
            add.add_argument(f"--{option}-per-million", metavar="P", help="declared, where known")
        add.add_argument("--from", dest="start", metavar="T", help="measured: first hour")
        add.add_argument("--to", dest="end", metavar="T", help="measured: end")
        add.add_argument("--workload", dest="legacy", metavar="LEGACY", help="measured: of what")
        add.add_argument("--model", default="", help="declared: the model priced")
        add.add_argument("--tokenizer", default="")
        add.add_argument("--note", default="")
        add.add_argument("--approved-by", default="", metavar="USER")
        for name, told in DECISIONS.items():
            one = verb(verbs, name, told)
            one.add_argument(
                "number", type=whole_number, metavar="NUMBER", help="as `list` gives it"
            )
            one.add_argument("--text", default="", help="why")
        verb(verbs, "list", "list the baselines", acts=False)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["verb"] == "list":
            return {"baselines": baseline_rows(datetime.now(UTC))}, True
        if options["verb"] in DECISIONS:
            return self._decide(options), True
        with refusals():
            if options["legacy"]:
                row = self._measure(options)
            elif options["per_million"] and options["document"]:
                row = self._declare(options)
            else:
                raise cli.CannotRun(
                    "Give --per-million P --currency USD --document FILE for a declared baseline, or "
                    "--from T --to T --workload LEGACY for a measured one."
                )
        return self._answer(row.pk), True

    def _answer(self, number: int) -> dict[str, Any]:
        """The baseline as it stands now."""
        row = baseline_row(number)
        assert row is not None
        return {"baseline": baseline_value(row, datetime.now(UTC)), "ok": True}

    def _decide(self, options: dict[str, Any]) -> dict[str, Any]:
        verdict = {"approve": APPROVED, "refuse": REFUSED, "withdraw": WITHDRAWN}[options["verb"]]
        with refusals():
            decide_baseline(
                options["number"],
                verdict,
                text=options["text"],
                by=who(options),
                at=datetime.now(UTC),
            )
        return self._answer(options["number"])

    def _declare(self, options: dict[str, Any]) -> Baseline:
        given = {name: options[f"{name}_per_million"] for name in CLASS_OPTIONS}
        names = ("per_million", "currency", "basis", "quality", "model")
        return declare_baseline(
            options["slug"],
            document=Path(options["document"][0]),
            more=[Path(text) for text in options["document"][1:]],
            classes={name: price for name, price in given.items() if price},
            **{name: options[name] for name in names},
            **_common(options),
        )

    def _measure(self, options: dict[str, Any]) -> Baseline:
        start, end = instant(options, "start"), instant(options, "end")
        if start is None or end is None:
            raise cli.CannotRun("A measured baseline needs --from T and --to T.")
        if any((t.minute, t.second, t.microsecond) != (0, 0, 0) for t in (start, end)):
            raise cli.CannotRun("A measured baseline begins and ends at whole hours.")
        if end <= start:
            raise cli.CannotRun("A measured baseline must end after it begins.")
        return measure_baseline(
            options["slug"],
            legacy=options["legacy"],
            period=Period(start, end),
            documents=[Path(text) for text in options["document"]],
            **_common(options),
        )


def _common(options: dict[str, Any]) -> dict[str, Any]:
    names = ("tokenizer", "note", "approved_by")
    return {name: options[name] for name in names} | {"by": who(options), "at": datetime.now(UTC)}
