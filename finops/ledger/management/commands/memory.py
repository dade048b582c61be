"""`memory --from T --to T [--by KEY] [--hours]`: what GPU memory was reserved for, and what was in use."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.engine_start import gib
from finops.core.memory_table import LABELS
from finops.ledger.arguments import add_period, period_of
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.ledger.queries.memory import BY, memory_rows
from finops.ledger.queries.memory_by_hour import memory_hours


class Command(Base):
    """Prints a table that closes, with its signed remainder."""

    help = "GPU memory reserved and active, by GPU, engine or workload."

    def arguments(self, parser: CommandParser) -> None:
        add_period(parser)
        parser.add_argument("--by", choices=BY)
        parser.add_argument(
            "--hours", action="store_true", help="hour by hour too: of the fleet, or by workload"
        )

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        period = period_of(options)
        by = options["by"]
        if options["hours"] and by not in (None, "workload"):
            raise CannotRun("--hours goes with --by workload, or without --by")
        result: dict[str, Any] = {"from": period.start, "to": period.end}
        result["rows"] = memory_rows(period, by)
        if options["hours"] and by is None:
            result["hours"] = memory_hours(period)
        elif options["hours"]:
            for row in result["rows"]:
                row["hours"] = memory_hours(period, row["key"])
        return result, True

    def render(self, result: dict[str, Any]) -> str:
        return "\n\n".join(map(_table, result["rows"])) or "No readings of memory in this period."


def _table(row: dict[str, Any]) -> str:
    names = {**LABELS, "unattributed": "unattributed (activations, allocator cache)",
             "total": "device total"}  # fmt: skip
    count = "GPUs not known" if row["gpus"] is None else f"GPUs: {row['gpus']}"
    told = [f"job {at['job']} of {at['source']}" for at in (row["labels"],) if "job" in at]
    text = [f"{row['key']} ({', '.join([count, *told])})"]
    for name, label in names.items():
        value = row[f"{name}_bytes"]
        shown = _absent(row, name) if value is None else gib(value)
        text.append(f"  {label:<66}{shown:>16}")
    if row["used_bytes"] is not None:
        text.append(f"  {'what nvidia-smi shows (used)':<66}{gib(row['used_bytes']):>16}")
    text += [f"  {one['engine']}: {one['sentence']}" for one in row["engines"]]
    text += [f"  Note: {flag}" for flag in row["flags"]]
    return "\n".join(text)


def _absent(row: dict[str, Any], name: str) -> str:
    """Of a card that is measured, nobody may tell whose what is in use is."""
    return "not told" if name == "other" and row["used_bytes"] is not None else "not measured"
