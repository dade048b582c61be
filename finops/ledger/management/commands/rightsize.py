"""`rightsize`: advice on each engine's share of GPU memory, from the last seven days (method §9)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.core.management.base import CommandParser

from finops.core.money import parse_decimal
from finops.core.period import parse_instant
from finops.ledger.cli import CannotRun, whole_number
from finops.ledger.cli import Command as Base
from finops.ledger.queries.rightsizing import last_window, rightsizing


class Command(Base):
    """Prints verdict, proposal and the money sentence of each engine."""

    help = "Advice on gpu_memory_utilization, by engine, from how the KV cache was used."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--to", metavar="T", help="end of the window (else the last reading)")
        parser.add_argument("--days", type=whole_number, default=7, help="length of the window")
        parser.add_argument("--workload", metavar="SLUG", help="only its engines")
        parser.add_argument("--setting", metavar="U", help="what another share would give")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if not 1 <= options["days"] <= 366:
            raise CannotRun(f"--days must be from 1 to 366, not {options['days']}")
        setting = _share(options["setting"])
        try:
            period = last_window(_instant(options["to"]), options["days"])
        except OverflowError:
            raise CannotRun(f"--to {options['to']}: the calendar has no such window") from None
        if period is None:
            return {"from": None, "to": None, "engines": []}, True
        rows = rightsizing(period, slug=options["workload"], setting=setting)
        return {"from": period.start, "to": period.end, "engines": rows}, True

    def render(self, result: dict[str, Any]) -> str:
        return "\n\n".join(map(_engine, result["engines"])) or "No engine was seen."


def _instant(text: str | None) -> datetime | None:
    try:
        return parse_instant(text) if text else None
    except ValueError as error:
        raise CannotRun(f"--to: {error}") from error


def _share(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        value = parse_decimal(text)
    except ValueError as error:
        raise CannotRun(f"--setting: {error}") from error
    if not 0 < value <= 1:
        raise CannotRun(f"--setting must be over 0 and at most 1, not {text}")
    return value


def _engine(row: dict[str, Any]) -> str:
    text = [
        f"{row['engine']} ({row['workload'] or 'no workload'}): {row['verdict']}",
        f"  {row['why']}",
    ]
    if row["told_by"]:
        added = "counts" if row["counts"] else "is not added up"
        text.append(f"  Told by {row['told_by']}, and again by another: read twice, it seems; this "
                    f"one {added} until a rule decides.")  # fmt: skip
    if row["proposal"]:
        one = row["proposal"]
        text.append(
            f"  Proposal: gpu_memory_utilization {row['setting']} → {one['utilization']}: "
            f"{one['kv_blocks']:,} blocks, p99 use {one['p99']}, {one['concurrency']} requests of "
            "the observed length."
        )
    if row["no_proposal"]:
        text.append(f"  {row['no_proposal']}")
    if row["money"]:
        text.append(f"  {row['money']}")
    if row["after_change"]:
        change = row["after_change"]
        text.append(f"  After the change at {change['at']}: p99 {change['predicted_p99']} predicted, "
                    f"{change['observed_p99']} observed.")  # fmt: skip
    return "\n".join(text)
