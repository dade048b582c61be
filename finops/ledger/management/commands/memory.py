"""`memory --from T --to T [--by KEY]`: what GPU memory was reserved for, and what was in use."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.engine_start import gib
from finops.core.memory_table import LABELS
from finops.ledger.arguments import add_period, period_of
from finops.ledger.cli import Command as Base
from finops.ledger.queries.memory import BY, memory_rows


class Command(Base):
    """Prints a table that closes, with its signed remainder."""

    help = "GPU memory reserved and active, by GPU, engine or workload."

    def arguments(self, parser: CommandParser) -> None:
        add_period(parser)
        parser.add_argument("--by", choices=BY)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        period = period_of(options)
        rows = memory_rows(period, options["by"])
        return {"from": period.start, "to": period.end, "rows": rows}, True

    def render(self, result: dict[str, Any]) -> str:
        return "\n\n".join(map(_table, result["rows"])) or "No readings of memory in this period."


def _table(row: dict[str, Any]) -> str:
    names = {**LABELS, "unattributed": "unattributed (activations, allocator cache)",
             "total": "device total"}  # fmt: skip
    count = "GPUs not known" if row["gpus"] is None else f"GPUs: {row['gpus']}"
    text = [f"{row['key']} ({count})"]
    for name, label in names.items():
        value = row[f"{name}_bytes"]
        shown = "not measured" if value is None else gib(value)
        text.append(f"  {label:<66}{shown:>16}")
    if row["used_bytes"] is not None:
        text.append(f"  {'what nvidia-smi shows (used)':<66}{gib(row['used_bytes']):>16}")
    text += [f"  {one['engine']}: {one['sentence']}" for one in row["engines"]]
    text += [f"  Note: {flag}" for flag in row["flags"]]
    return "\n".join(text)
