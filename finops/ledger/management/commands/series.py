"""`series --from T --to T`: every counter series of a period, with its tokens and its workload."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.period import instant_of
from finops.ledger.arguments import add_period, period_of
from finops.ledger.cli import Command as Base
from finops.ledger.cli import known
from finops.ledger.queries.series import series_of


class Command(Base):
    """Lists the series of a period."""

    help = "The counter series of a period: tokens, restarts, coverage, workload."

    def arguments(self, parser: CommandParser) -> None:
        add_period(parser)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        rows = [
            {
                "series": row.name,
                "series_id": row.series_id,
                "metric": row.metric,
                "labels": row.labels,
                "source": row.source,
                "role": row.role,
                "workload": row.workload,
                "first": instant_of(row.first_ms),
                "last": instant_of(row.last_ms),
                "readings": row.readings,
                "tokens": row.tokens,
                "lower": row.lower,
                "upper": row.upper,
                "exact": row.exact,
                "restarts": row.restarts,
                "hidden_resets": row.hidden_resets,
                "coverage": row.coverage,
            }
            for row in series_of(period_of(options))
        ]
        return {"rows": rows}, True

    def render(self, result: dict[str, Any]) -> str:
        lines = [_HEAD, *(_line(row) for row in result["rows"])]
        return "\n".join(lines) if result["rows"] else "No counter series in this period."


_HEAD = f"{'tokens':>16} {'readings':>9} {'restarts':>8} {'hidden':>6} {'coverage':>8}  workload, series"


def _line(row: dict[str, Any]) -> str:
    numbers = f"{known(row['tokens']):>16} {row['readings']:>9,} {row['restarts']:>8} "
    numbers += f"{row['hidden_resets']:>6} {row['coverage']:>8}"
    bounds = "" if row["exact"] else f"  ≥ {row['lower']:,}, ≤ {known(row['upper'])}"
    return f"{numbers}{bounds}  {row['workload'] or '–'}, {row['series']}"
